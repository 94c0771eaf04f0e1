/* SPDX-License-Identifier: Apache-2.0
 *
 * The bell (collectives/transport/bell.h).
 *
 *   model     every order of the steps of two sleepers, of whom the second takes the first one's role while it sleeps,
 *             two ringers of other processes with a message each, and one waker of this process; in both modes, with
 *             a store buffer for each ringer. Nothing times out here: a wake-up that is lost leaves a state in which
 *             nobody can go on, and a message that is not taken. With any part of the protocol left out there are such
 *             states, and they are found.
 *   events    the bell itself, in both modes: each ring and each wake ends the sleep of a thread.
 *   threads   many of them at once, of which one that is lost costs a second.
 *   unrung    how often what cannot ring is looked at.
 */
#include "base/clock.h"
#include "collectives/transport/bell.h"
#include "tests/test.h"
#include <poll.h>
#include <sched.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
enum { ROUNDS = 2000, HAS_MODEL = 0 }; /* one thread explores the model: the other phases do that */
#elif defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 2000, HAS_MODEL = 1 };
#else
enum { ROUNDS = 10000, HAS_MODEL = 1 };
#endif

/* ---- model ---- */

enum { SLEEPERS = 2, RINGERS = 2, MASK = HALAY_BELL_ASLEEP, ONE = MASK + 1 };

enum fault { NONE, NO_BARRIER, NO_COUNT, NO_CHECK, EMPTIED_BY_ANY, FAULTS };

/* What a sleeper does next. */
enum sleeper_at {
    ROB, /* the second one only: when the first one sleeps */
    ROBBED,
    ARM,
    BARRIER_0,
    BARRIER_1,
    LOOK_0,
    LOOK_1,
    NOTE,
    LOAD,
    ENTER, /* P1; futex: compare and block */
    CHECK_COUNT,
    BLOCKED,
    LEAVE, /* P4 */
    WAKE,
    DISARM,
    ENDED,
};

enum ringer_at { STORE, LOAD_WORD, EXCHANGE, RING, RUNG };
enum waker_at { TAKE_NOTE, COUNT, WAKE_ALL, WOKEN };

struct state {
    uint8_t word, event, sleepers;
    uint8_t holder, is_asleep, bell_wanted,
        owed; /* guarded by the engine's lock: one step each; owed: a bit a sleeper */
    struct {
        uint8_t at, token, seen, found, is_woken;
    } sleeper[SLEEPERS];
    struct {
        uint8_t at, left, bits;
        uint8_t is_buffered, is_stored; /* a message that no sleeper has seen */
    } ringer[RINGERS];
    uint8_t waker;
};

struct model {
    uint8_t mode;
    enum fault fault;
    struct state *states; /* owned: all that have been reached, in that order */
    uint32_t *index;      /* owned: hash table of 1 + their numbers; 0: free */
    size_t count, stuck;
};

enum { STATES = 1 << 20, ROOM = 2 * STATES };

static uint64_t hash_of(const struct state *s)
{
    const unsigned char *bytes = (const unsigned char *)s;
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

static void reach(struct model *m, const struct state *s)
{
    size_t i = hash_of(s) % ROOM;

    for (; m->index[i]; i = (i + 1) % ROOM)
        if (!memcmp(&m->states[m->index[i] - 1], s, sizeof *s))
            return;
    REQUIRE(m->count < STATES);
    m->states[m->count++] = *s;
    m->index[i] = (uint32_t)m->count;
}

static void flush(struct state *s, int r)
{
    s->ringer[r].is_stored |= s->ringer[r].is_buffered;
    s->ringer[r].is_buffered = 0;
}

static void wake_futex(struct state *s)
{
    for (int i = 0; i < SLEEPERS; i++)
        if (s->sleeper[i].at == BLOCKED)
            s->sleeper[i].is_woken = 1;
}

static void look(struct state *s, int i, int r)
{
    s->sleeper[i].found |= s->ringer[r].is_stored;
    s->ringer[r].is_stored = 0;
}

/* S5 in the two modes. 0: it cannot go on now. */
static int step_asleep(const struct model *m, struct state *s, int i)
{
    int is_poll = m->mode == HALAY_BELL_POLL;

    switch (s->sleeper[i].at) {
    case LOAD:
        s->sleeper[i].seen = s->word;
        s->sleeper[i].at = m->fault != NO_CHECK && (s->word & ~MASK) != s->sleeper[i].token ? WAKE : ENTER;
        return 1;
    case ENTER:
        s->sleepers = (uint8_t)(s->sleepers + is_poll);
        s->sleeper[i].at = is_poll ? CHECK_COUNT : s->word == s->sleeper[i].seen ? BLOCKED : WAKE;
        return 1;
    case CHECK_COUNT:
        s->sleeper[i].at = m->fault != NO_CHECK && (s->word & ~MASK) != s->sleeper[i].token ? LEAVE : BLOCKED;
        return 1;
    case BLOCKED:
        if (is_poll ? !s->event : !s->sleeper[i].is_woken)
            return 0;
        s->sleeper[i].is_woken = 0;
        s->sleeper[i].at = is_poll ? LEAVE : WAKE;
        return 1;
    default: /* LEAVE; whether this one saw the eventfd or not, it may have */
        s->sleepers--;
        if (!s->sleepers || m->fault == EMPTIED_BY_ANY)
            s->event = 0;
        s->sleeper[i].at = WAKE;
        return 1;
    }
}

/* The driver's part: fusion/engine/driver.c. */
static int step_sleeper(const struct model *m, struct state *s, int i)
{
    switch (s->sleeper[i].at) {
    case ROB:
        if (!s->is_asleep)
            return 0;
        s->is_asleep = 0;
        s->holder = (uint8_t)i;
        s->sleeper[i].at = DISARM;
        return 1;
    case ARM:
        s->word |= m->mode;
        s->sleeper[i].token = s->word & ~MASK;
        s->sleeper[i].at = m->fault == NO_BARRIER ? LOOK_0 : BARRIER_0;
        return 1;
    case BARRIER_0:
    case BARRIER_1:
        flush(s, s->sleeper[i].at - BARRIER_0);
        s->sleeper[i].at++;
        return 1;
    case LOOK_0:
        look(s, i, 0);
        s->sleeper[i].at = LOOK_1;
        return 1;
    case LOOK_1:
        look(s, i, 1);
        s->sleeper[i].at = s->sleeper[i].found ? DISARM : NOTE;
        s->sleeper[i].found = 0;
        return 1;
    case NOTE:
        s->is_asleep = s->bell_wanted = 1;
        s->sleeper[i].at = LOAD;
        return 1;
    case WAKE:
        s->owed &= (uint8_t) ~(1 << i);
        s->sleeper[i].at = s->holder == i ? DISARM : ENDED;
        s->sleeper[i].token = s->sleeper[i].seen = 0;
        s->is_asleep &= s->holder != i;
        return 1;
    case DISARM:
        s->word &= (uint8_t)~MASK;
        s->sleeper[i].at = ARM;
        return 1;
    case ENDED:
        return 0;
    default:
        return step_asleep(m, s, i);
    }
}

static int step_ringer(const struct model *m, struct state *s, int r)
{
    switch (s->ringer[r].at) {
    case STORE:
        if (!s->ringer[r].left)
            return 0;
        s->ringer[r].left--;
        s->ringer[r].is_buffered = 1;
        s->ringer[r].at = LOAD_WORD;
        return 1;
    case LOAD_WORD:
        s->ringer[r].at = s->word & MASK ? EXCHANGE : STORE;
        return 1;
    case EXCHANGE:
        flush(s, r);
        s->ringer[r].bits = s->word & MASK;
        s->ringer[r].at = s->ringer[r].bits ? RING : STORE;
        if (s->ringer[r].bits)
            s->word = (uint8_t)((s->word & ~MASK) + (m->fault == NO_COUNT ? 0 : ONE));
        return 1;
    default:
        if (s->ringer[r].bits & HALAY_BELL_FUTEX)
            wake_futex(s);
        if (s->ringer[r].bits & HALAY_BELL_POLL)
            s->event = 1;
        s->ringer[r].bits = 0;
        s->ringer[r].at = STORE;
        return 1;
    }
}

static int step_waker(const struct model *m, struct state *s)
{
    switch (s->waker) {
    case TAKE_NOTE:
        if (!s->bell_wanted)
            return 0;
        s->bell_wanted = 0;
        for (int i = 0; i < SLEEPERS; i++)
            if (s->sleeper[i].at >= LOAD && s->sleeper[i].at <= WAKE)
                s->owed |= (uint8_t)(1 << i);
        s->waker = COUNT;
        return 1;
    case COUNT:
        s->word = (uint8_t)(s->word + (m->fault == NO_COUNT ? 0 : ONE));
        s->waker = WAKE_ALL;
        return 1;
    case WAKE_ALL:
        if (m->mode == HALAY_BELL_POLL)
            s->event = 1;
        else
            wake_futex(s);
        s->waker = WOKEN;
        return 1;
    default:
        return 0;
    }
}

static int is_lost(const struct state *s)
{
    for (int r = 0; r < RINGERS; r++)
        if (s->ringer[r].is_stored)
            return 1;
    return s->owed != 0;
}

static void go_on(struct model *m, const struct state *s)
{
    int steps = 0;

    for (int i = 0; i < SLEEPERS; i++) {
        struct state next = *s;
        if (!step_sleeper(m, &next, i))
            continue;
        steps++;
        reach(m, &next);
    }
    for (int r = 0; r < RINGERS; r++) {
        struct state next = *s;
        if (step_ringer(m, &next, r)) {
            steps++;
            reach(m, &next);
        }
        next = *s;
        flush(&next, r);
        if (s->ringer[r].is_buffered) {
            steps++;
            reach(m, &next);
        }
    }
    struct state next = *s;
    if (step_waker(m, &next)) {
        steps++;
        reach(m, &next);
    }
    m->stuck += !steps && is_lost(s);
}

/* Returns how many states are stuck with a wake-up lost. */
static size_t explore(uint8_t mode, enum fault fault, size_t *count)
{
    struct model m = { .mode = mode, .fault = fault };
    struct state first;

    m.states = malloc(STATES * sizeof *m.states);
    m.index = calloc(ROOM, sizeof *m.index);
    REQUIRE(m.states && m.index);
    memset(&first, 0, sizeof first);
    first.sleeper[0].at = ARM;
    first.sleeper[1].at = ROB;
    for (int r = 0; r < RINGERS; r++)
        first.ringer[r].left = 1;
    reach(&m, &first);
    for (size_t i = 0; i < m.count && (!m.stuck || !fault); i++)
        go_on(&m, &m.states[i]);
    *count = m.count;
    free(m.states);
    free(m.index);
    return m.stuck;
}

static void check_model(uint8_t mode)
{
    static const char *const names[] = { "nothing", "the barrier", "the count", "the look at the count",
                                         "that the last one empties" };
    const char *name = mode == HALAY_BELL_POLL ? "poll" : "futex";

    for (enum fault fault = NONE; fault < FAULTS; fault++) {
        size_t count, stuck;
        if (mode == HALAY_BELL_FUTEX && fault >= EMPTIED_BY_ANY)
            continue;
        stuck = explore(mode, fault, &count);
        printf("%s without %s: %zu states, %zu stuck\n", name, names[fault], count, stuck);
        CHECK(!stuck == !fault, "%s without %s", name, names[fault]);
    }
}

/* ---- threads ---- */

/* Two ranks in one process, each with a thread that drives, and the first with one whose role was taken. */
struct rank {
    struct halay_bell bell;
    struct halay_bell_peer peer; /* the other rank's */
    _Atomic int given;           /* stored by the other one, which then notifies */
    struct rank *other;
    int has_barrier;
};

static void wait_for(struct rank *r, int round)
{
    while (atomic_load_explicit(&r->given, memory_order_acquire) < round) {
        uint32_t token = halay_bell_arm(&r->bell);
        if (atomic_load_explicit(&r->given, memory_order_acquire) < round)
            halay_bell_sleep(&r->bell, token, -1);
        halay_bell_disarm(&r->bell);
    }
}

static void *answer(void *arg)
{
    struct rank *r = arg;

    for (int round = 1; round <= ROUNDS; round++) {
        wait_for(r, round);
        atomic_store_explicit(&r->other->given, round, memory_order_release);
        halay_bell_notify(&r->peer, r->has_barrier);
    }
    return NULL;
}

static void *ask(void *arg)
{
    struct rank *r = arg;

    for (int round = 1; round <= ROUNDS; round++) {
        atomic_store_explicit(&r->other->given, round, memory_order_release);
        halay_bell_notify(&r->peer, r->has_barrier);
        wait_for(r, round);
    }
    return NULL;
}

static void open_pair(struct rank *pair, int polls, int has_barrier, int pipes[2][2])
{
    memset(pair, 0, 2 * sizeof *pair);
    for (int i = 0; i < 2; i++) {
        halay_bell_init(&pair[i].bell, NULL);
        halay_bell_place(&pair[i].bell, NULL, has_barrier);
        REQUIRE(!pipe(pipes[i]));
        if (polls)
            CHECK(halay_bell_watch(&pair[i].bell, pipes[i][0]) == HALAY_OK);
        pair[i].has_barrier = has_barrier;
        pair[i].other = &pair[1 - i];
    }
    for (int i = 0; i < 2; i++)
        pair[i].peer = (struct halay_bell_peer){ .word = pair[1 - i].bell.word, .event_fd = pair[1 - i].bell.event_fd };
}

static void close_pair(struct rank *pair, int pipes[2][2])
{
    for (int i = 0; i < 2; i++) {
        halay_bell_fini(&pair[i].bell);
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
}

/* Sleeps on whatever token there is, as a thread does that was robbed, until it is told to end. */
struct robbed {
    struct halay_bell *bell;
    _Atomic int sleeps, is_told;
};

static void *sleep_on(void *arg)
{
    struct robbed *r = arg;

    while (!atomic_load(&r->is_told)) {
        uint32_t token = halay_bell_arm(r->bell);
        atomic_fetch_add(&r->sleeps, 1);
        if (!atomic_load(&r->is_told))
            halay_bell_sleep(r->bell, token, -1);
    }
    return NULL;
}

/* ---- each event alone ---- */

/* A sleep that nothing ends lasts a second: SLEEPS of them are more than the time-out. */
enum { SLEEPS = 40, TIMEOUT_US = 20000000 };

struct sleeper {
    struct halay_bell *bell;
    _Atomic int tid, armed, slept; /* armed, slept: how often so far */
};

static void *sleep_often(void *arg)
{
    struct sleeper *s = arg;

    atomic_store(&s->tid, (int)syscall(SYS_gettid));
    for (int i = 1; i <= SLEEPS; i++) {
        uint32_t token = halay_bell_arm(s->bell);
        atomic_store(&s->armed, i);
        halay_bell_sleep(s->bell, token, -1);
        halay_bell_disarm(s->bell);
        atomic_store(&s->slept, i);
    }
    return NULL;
}

static int is_asleep(int tid)
{
    char path[64], line[128] = "", *end;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "r");
    REQUIRE(file && fgets(line, sizeof line, file));
    fclose(file);
    end = strrchr(line, ')');
    return end && end[1] == ' ' && end[2] == 'S';
}

/* A thread that is really asleep is woken by either of the two. */
static void check_sleeps(struct halay_bell *bell, const struct halay_bell_peer *peer)
{
    pthread_t thread;
    struct sleeper s = { .bell = bell };
    int64_t deadline_us = halay_now_us() + TIMEOUT_US;
    REQUIRE(!pthread_create(&thread, NULL, sleep_often, &s));
    for (int i = 0; i < SLEEPS; i++) {
        while (atomic_load(&s.armed) <= i || (atomic_load(&s.slept) <= i && !is_asleep(atomic_load(&s.tid))))
            sched_yield();
        if (i % 2)
            halay_bell_wake(bell);
        else
            halay_bell_ring(peer);
        while (atomic_load(&s.slept) <= i && halay_now_us() < deadline_us)
            sched_yield();
        if (!CHECK(atomic_load(&s.slept) > i, "%s %d ended no sleep", i % 2 ? "wake" : "ring", i))
            break;
    }
    while (atomic_load(&s.slept) < SLEEPS) { /* after a failure */
        halay_bell_wake(bell);
        sched_yield();
    }
    pthread_join(thread, NULL);
}

/* A ring and a wake: the token is no longer the bell's, and a sleep ends. */
static void check_events(int polls, int has_barrier)
{
    struct rank pair[2];
    int pipes[2][2];

    open_pair(pair, polls, has_barrier, pipes);
    struct halay_bell *bell = &pair[0].bell;
    struct halay_bell_peer *peer = &pair[1].peer;
    uint32_t token = halay_bell_arm(bell);
    halay_bell_ring(peer);
    CHECK(halay_bell_arm(bell) != token, "a ring");
    token = halay_bell_arm(bell);
    halay_bell_wake(bell);
    CHECK(halay_bell_arm(bell) != token, "a wake");
    if (polls) { /* else no later sleep would last */
        halay_bell_sleep(bell, halay_bell_arm(bell), -1);
        CHECK(poll(&(struct pollfd){ .fd = bell->event_fd, .events = POLLIN }, 1, 0) == 0, "the event was not taken");
    }
    halay_bell_disarm(bell);
    check_sleeps(bell, peer);
    close_pair(pair, pipes);
}

static void check_threads(int polls, int has_barrier)
{
    struct rank pair[2];
    int pipes[2][2];
    pthread_t threads[2];

    open_pair(pair, polls, has_barrier, pipes);
    REQUIRE(!pthread_create(&threads[0], NULL, ask, &pair[0]));
    REQUIRE(!pthread_create(&threads[1], NULL, answer, &pair[1]));
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK(pair[0].given == ROUNDS && pair[1].given == ROUNDS);

    for (int round = 0; round < ROUNDS / 10; round++) { /* one wake ends the sleeps of all threads */
        struct robbed robbed = { .bell = &pair[0].bell };
        for (int i = 0; i < 2; i++)
            REQUIRE(!pthread_create(&threads[i], NULL, sleep_on, &robbed));
        while (atomic_load(&robbed.sleeps) < round % 3)
            halay_relax();
        atomic_store(&robbed.is_told, 1);
        halay_bell_wake(&pair[0].bell);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
    }

    if (polls) { /* a descriptor ends a sleep, for as long as it is readable */
        REQUIRE(write(pipes[0][1], "x", 1) == 1);
        for (int i = 0; i < 3; i++)
            halay_bell_sleep(&pair[0].bell, halay_bell_arm(&pair[0].bell), -1);
        halay_bell_disarm(&pair[0].bell);
    }
    close_pair(pair, pipes);
}

/* What cannot ring is looked at in proportion: under 60 times in the first 10 ms, then 1,000 times a second. */
static void check_unrung(void)
{
    int looks = 0;

    CHECK(halay_unrung_sleep_us(0) == 0 && halay_unrung_sleep_us(HALAY_UNRUNG_AWAKE_US - 1) == 0);
    for (int64_t at = HALAY_UNRUNG_AWAKE_US; at < 10000; looks++) {
        long us = halay_unrung_sleep_us(at);
        CHECK(us >= HALAY_UNRUNG_MIN_US && us <= HALAY_UNRUNG_MAX_US, "%ld us", us);
        CHECK(us <= at / 8 || us == HALAY_UNRUNG_MIN_US, "%ld us after %lld", us, (long long)at);
        at += us;
    }
    CHECK(looks < 60, "%d looks", looks);
    CHECK(halay_unrung_sleep_us(8 * HALAY_UNRUNG_MAX_US) == HALAY_UNRUNG_MAX_US);
    CHECK(halay_unrung_sleep_us(INT64_MAX) == HALAY_UNRUNG_MAX_US);
}

int main(void)
{
    int can_barrier = halay_bell_register();

    check_unrung();
    if (HAS_MODEL) {
        check_model(HALAY_BELL_FUTEX);
        check_model(HALAY_BELL_POLL);
    }
    for (int polls = 0; polls < 2; polls++)
        for (int has_barrier = 0; has_barrier <= can_barrier; has_barrier++) {
            check_events(polls, has_barrier);
            if (!test_failed) /* which would last for hours */
                check_threads(polls, has_barrier);
        }
    return test_end();
}
