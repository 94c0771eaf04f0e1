/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's role (fusion/engine/role.h), its rules alone. First each state with each event. Then all interleavings
 * of the background thread, two program threads that submit a tensor and wait for it, one that submits and does not
 * wait, and a peer, whose message ends a tensor, as they use the role in fusion/engine/driver.c. Time-outs never happen
 * here. There are never two drivers, and all tensors end in every interleaving: no wake is lost.
 */
#include "fusion/engine/role.h"
#include "tests/test.h"
#include <stdint.h>
#include <string.h>

/* ---- each state with each event ---- */

static int is_awake(struct halay_role r)
{
    return r.driver == HALAY_ROLE_THREAD || r.driver == HALAY_ROLE_WAITER;
}

static int may_happen(struct halay_role r, enum halay_role_event event)
{
    switch (event) {
    case HALAY_ROLE_WORK:
        return 1;
    case HALAY_ROLE_TAKES_THREAD:
        return r.driver == HALAY_ROLE_FREE && r.thread == HALAY_ROLE_AWAKE;
    case HALAY_ROLE_TAKES_WAITER:
        return halay_role_may_take(r);
    case HALAY_ROLE_GIVES:
    case HALAY_ROLE_SLEEPS:
    case HALAY_ROLE_STAYS:
        return is_awake(r);
    case HALAY_ROLE_WAKES_THREAD:
        return r.thread == HALAY_ROLE_ON_BELL;
    case HALAY_ROLE_WAKES_WAITER:
        return r.driver == HALAY_ROLE_WAITER_ASLEEP;
    case HALAY_ROLE_PARKS:
        return r.thread == HALAY_ROLE_AWAKE && r.driver != HALAY_ROLE_THREAD;
    default:
        return r.thread == HALAY_ROLE_PARKED || (r.thread == HALAY_ROLE_AWAKE && r.driver != HALAY_ROLE_THREAD);
    }
}

/* The thread has the role while it drives, and waits on the bell while it sleeps with the role. */
static int is_possible(struct halay_role r)
{
    return (r.driver != HALAY_ROLE_THREAD || r.thread == HALAY_ROLE_AWAKE) &&
           (r.driver != HALAY_ROLE_THREAD_ASLEEP || r.thread == HALAY_ROLE_ON_BELL);
}

static void check_work(struct halay_role r, struct halay_role_step s)
{
    int wakes = s.action == HALAY_ROLE_RING || s.action == HALAY_ROLE_SIGNAL;

    CHECK(s.role.driver == r.driver, "work moves the role");
    CHECK(!is_awake(r) || (s.role.has_news && !wakes), "a driver that is awake misses an event");
    CHECK(is_awake(r) || !halay_role_thread_sleeps(s.role) || r.driver != HALAY_ROLE_FREE, "the thread sleeps on");
    CHECK(is_awake(r) || r.driver == HALAY_ROLE_FREE || !s.role.needs_bell, "the driver sleeps on");
    CHECK(s.action != HALAY_ROLE_RING || r.needs_bell, "rings for no sleeper");
    CHECK(s.action != HALAY_ROLE_SIGNAL || r.thread == HALAY_ROLE_PARKED, "signals no sleeper");
    CHECK(halay_role_next(s.role, HALAY_ROLE_WORK).action == HALAY_ROLE_NOTHING, "wakes twice");
}

static int is_waiters(struct halay_role role)
{
    return role.driver == HALAY_ROLE_WAITER || role.driver == HALAY_ROLE_WAITER_ASLEEP;
}

static void check_event(struct halay_role r, enum halay_role_event event)
{
    struct halay_role_step s = halay_role_next(r, event);
    int takes = event == HALAY_ROLE_TAKES_THREAD || event == HALAY_ROLE_TAKES_WAITER;

    CHECK(is_possible(s.role) && s.role.driver < HALAY_ROLE_DRIVERS && s.role.thread < HALAY_ROLE_THREADS, "%d", event);
    if (event == HALAY_ROLE_WORK)
        check_work(r, s);
    if (takes)
        CHECK(is_awake(s.role) && !s.role.has_news && (s.action == HALAY_ROLE_DISARM) == (r.driver != HALAY_ROLE_FREE),
              "taken wrongly");
    if (event == HALAY_ROLE_SLEEPS)
        CHECK(r.has_news ? s.action == HALAY_ROLE_LOOK && s.role.driver == r.driver : s.role.needs_bell,
              "falls asleep on news, or without the bell");
    if (event == HALAY_ROLE_WAKES_THREAD)
        CHECK((s.action == HALAY_ROLE_LOST) == (r.driver != HALAY_ROLE_THREAD_ASLEEP), "loses the role, or keeps it");
    if (is_waiters(r) && event != HALAY_ROLE_GIVES)
        CHECK(is_waiters(s.role), "a waiter's role is taken");
    if (event != HALAY_ROLE_SLEEPS)
        CHECK(s.role.needs_bell <= r.needs_bell, "the bell is needed by no sleeper");
}

static void check_all_states(void)
{
    for (int i = 0; i < HALAY_ROLE_DRIVERS * HALAY_ROLE_THREADS * 4; i++) {
        struct halay_role r = { .driver = (unsigned char)(i / 4 % HALAY_ROLE_DRIVERS),
                                .thread = (unsigned char)(i / 4 / HALAY_ROLE_DRIVERS),
                                .needs_bell = i & 1,
                                .has_news = i >> 1 & 1 };
        for (int event = 0; is_possible(r) && event < HALAY_ROLE_EVENTS; event++)
            if (may_happen(r, (enum halay_role_event)event))
                check_event(r, (enum halay_role_event)event);
    }
}

/* ---- all orders ---- */

enum { THREAD, FIRST, SECOND, CALLER, AGENTS }; /* the background thread; those that wait; the one that does not */
enum { TENSORS = AGENTS };                      /* each agent's own tensor; the thread has none */
enum tensor { NONE, QUEUED, SENT, ARRIVED, ENDED };

/* The place in the code of an agent. From UNARM to SLEEP, and in GIVE, it has the role. */
enum where { TOP, SUBMIT, WAKE, WAIT, COND, UNARM, DRIVE, ARM, LOOK, SLEEP, BELL, GIVE, PARKED, END };

struct state {
    struct halay_role role;
    unsigned char at[AGENTS];
    unsigned char wake[AGENTS];      /* the enum halay_role_action that WAKE performs */
    unsigned char has_ended[AGENTS]; /* its step has ended tensors, and waiters have not been woken */
    unsigned char token[AGENTS];     /* the bell has not been rung since */
    unsigned char is_signaled[AGENTS];
    unsigned char tensor[TENSORS];
    unsigned char waiters, is_armed, is_wake_deferred, peer_rings;
};

static int is_driving(const struct state *s, int agent)
{
    return (s->at[agent] >= UNARM && s->at[agent] <= SLEEP) || s->at[agent] == GIVE;
}

static int has_work(const struct state *s)
{
    for (int i = FIRST; i < TENSORS; i++)
        if (s->tensor[i] != NONE && s->tensor[i] != ENDED)
            return 1;
    return 0;
}

static enum halay_role_action pass(struct state *s, enum halay_role_event event)
{
    struct halay_role_step step = halay_role_next(s->role, event);

    CHECK(may_happen(s->role, event), "event %d", event);
    s->role = step.role;
    if (event == HALAY_ROLE_WORK || event == HALAY_ROLE_TAKES_THREAD || event == HALAY_ROLE_TAKES_WAITER)
        s->is_wake_deferred = 0;
    return step.action;
}

static void ring_bell(struct state *s)
{
    memset(s->token, 0, sizeof s->token);
    s->is_armed = 0;
}

static void do_wake(struct state *s, enum halay_role_action action)
{
    if (action == HALAY_ROLE_RING)
        ring_bell(s);
    if (action == HALAY_ROLE_SIGNAL && s->at[THREAD] == PARKED)
        s->is_signaled[THREAD] = 1;
}

static void wake_waiters(struct state *s)
{
    for (int i = FIRST; i < AGENTS; i++)
        s->is_signaled[i] |= s->at[i] == COND;
}

/* Makes a step of the engine. Returns nonzero if it did something. */
static int make_step(struct state *s, int agent)
{
    int did = 0;

    for (int i = FIRST; i < TENSORS; i++)
        if (s->tensor[i] == QUEUED) {
            s->tensor[i] = SENT;
            did = 1;
        } else if (s->tensor[i] == ARRIVED) {
            s->tensor[i] = ENDED;
            did = s->has_ended[agent] = 1;
        }
    return did;
}

/* The background thread, with the lock held. */
static void thread_goes_on(struct state *s)
{
    if (s->role.driver == HALAY_ROLE_FREE && !s->waiters && has_work(s) && !s->is_wake_deferred) {
        s->at[THREAD] = pass(s, HALAY_ROLE_TAKES_THREAD) == HALAY_ROLE_DISARM ? UNARM : DRIVE;
        return;
    }
    pass(s, HALAY_ROLE_PARKS);
    s->is_signaled[THREAD] = 0;
    s->at[THREAD] = PARKED;
}

/* pass_on_locked of driver.c and its caller: continues at END, or at WAKE. choice: the waiter that is signaled. */
static void pass_on(struct state *s, int agent, enum where next, int choice)
{
    s->at[agent] = (unsigned char)next;
    if (s->role.driver != HALAY_ROLE_FREE)
        return;
    if (!s->waiters && has_work(s)) {
        s->wake[agent] = (unsigned char)pass(s, HALAY_ROLE_WORK);
        s->at[agent] = WAKE;
    }
    for (int i = choice ? SECOND : FIRST; i < CALLER && s->waiters; i++)
        if (s->at[i] == COND && !s->is_signaled[i]) {
            s->is_signaled[i] = 1;
            return;
        }
    if (s->waiters)
        wake_waiters(s);
}

/* The loop of halay_driver_wait, with the lock held. */
static void waiter_goes_on(struct state *s, int agent, int choice)
{
    if (s->tensor[agent] == ENDED) {
        pass_on(s, agent, END, choice);
        return;
    }
    if (halay_role_may_take(s->role)) {
        s->at[agent] = pass(s, HALAY_ROLE_TAKES_WAITER) == HALAY_ROLE_DISARM ? UNARM : DRIVE;
        return;
    }
    s->waiters++;
    s->is_signaled[agent] = 0;
    s->at[agent] = COND;
    do_wake(s, pass(s, HALAY_ROLE_WORK));
}

/* A submission: it wakes a thread or, if a wait follows, defers the wake. */
static void submit_tensor(struct state *s, int agent, int choice)
{
    s->tensor[agent] = QUEUED;
    if (agent != CALLER && choice == 1 && halay_role_may_take(s->role)) {
        s->is_wake_deferred = 1;
        s->at[agent] = WAIT;
    } else {
        s->wake[agent] = (unsigned char)pass(s, HALAY_ROLE_WORK);
        s->at[agent] = WAKE;
    }
}

static void fall_asleep(struct state *s, int agent)
{
    int stays = agent == THREAD && s->waiters;

    if (stays)
        pass(s, HALAY_ROLE_STAYS);
    if (!stays && pass(s, HALAY_ROLE_SLEEPS) != HALAY_ROLE_LOOK) {
        s->at[agent] = BELL;
        return;
    }
    s->is_armed = 0;
    s->at[agent] = DRIVE;
}

static void come_back(struct state *s, int agent)
{
    if (pass(s, agent == THREAD ? HALAY_ROLE_WAKES_THREAD : HALAY_ROLE_WAKES_WAITER) == HALAY_ROLE_LOST) {
        s->at[agent] = TOP;
        return;
    }
    s->is_armed = 0;
    s->at[agent] = DRIVE;
}

/* After a step that did nothing. */
static void is_idle(struct state *s, int agent)
{
    s->at[agent] = agent == THREAD && s->waiters ? GIVE : ARM;
}

/* Returns nonzero if the agent can continue. It waits in END; in COND, PARKED and BELL until it is woken. */
static int can_move(const struct state *s, int agent)
{
    switch (s->at[agent]) {
    case COND:
    case PARKED:
        return s->is_signaled[agent];
    case BELL:
        return !s->token[agent];
    default:
        return s->at[agent] != END;
    }
}

/* The driver's actions between two moments at which other agents can act. */
static void drive_engine(struct state *s, int agent)
{
    int is_done = agent != THREAD && s->tensor[agent] == ENDED;

    switch (s->at[agent]) {
    case UNARM:
        s->is_armed = 0;
        s->at[agent] = DRIVE;
        break;
    case DRIVE:
        if (make_step(s, agent))
            break;
        if (is_done)
            s->at[agent] = GIVE;
        else
            is_idle(s, agent);
        break;
    case ARM:
        s->is_armed = s->token[agent] = 1;
        s->at[agent] = LOOK;
        break;
    default: /* LOOK */
        s->at[agent] = make_step(s, agent) || is_done ? UNARM : SLEEP;
    }
}

/* The driver releases the role. */
static void give_role(struct state *s, int agent, int choice)
{
    pass(s, HALAY_ROLE_GIVES);
    if (agent == THREAD && s->waiters)
        wake_waiters(s);
    if (agent == THREAD)
        thread_goes_on(s);
    else
        waiter_goes_on(s, agent, choice);
}

/* The places where the agent sleeps, or is about to. */
static void agent_rest(struct state *s, int agent, int choice)
{
    switch (s->at[agent]) {
    case PARKED:
        pass(s, HALAY_ROLE_UNPARKS);
        thread_goes_on(s);
        break;
    case COND:
        s->waiters--;
        waiter_goes_on(s, agent, choice);
        break;
    case SLEEP:
        fall_asleep(s, agent);
        break;
    default: /* BELL */
        come_back(s, agent);
    }
}

static void agent_move(struct state *s, int agent, int choice)
{
    int where = s->at[agent];

    if (s->has_ended[agent]) { /* the end of its step */
        s->has_ended[agent] = 0;
        wake_waiters(s);
    } else if (where == TOP) {
        thread_goes_on(s);
    } else if (where == SUBMIT) {
        submit_tensor(s, agent, choice);
    } else if (where == GIVE) {
        give_role(s, agent, choice);
    } else if (where == WAKE) {
        do_wake(s, (enum halay_role_action)s->wake[agent]);
        s->wake[agent] = HALAY_ROLE_NOTHING;
        s->at[agent] = agent == CALLER || s->tensor[agent] == ENDED ? END : WAIT;
    } else if (where == WAIT) {
        waiter_goes_on(s, agent, choice);
    } else if (where == PARKED || where == COND || where == SLEEP || where == BELL) {
        agent_rest(s, agent, choice);
    } else {
        drive_engine(s, agent);
    }
}

/* The peer stores a message, and then rings. Returns nonzero if it could. */
static int peer_moves(struct state *s, int tensor)
{
    if (tensor == THREAD) {
        if (!s->peer_rings)
            return 0;
        if (s->is_armed)
            ring_bell(s);
        s->peer_rings = 0;
        return 1;
    }
    if (s->peer_rings || s->tensor[tensor] != SENT)
        return 0;
    s->tensor[tensor] = ARRIVED;
    s->peer_rings = 1;
    return 1;
}

/* ---- the states reached ---- */

enum { STATES = 1 << 21 };
static struct state *states;
static uint32_t *slots; /* [2 STATES], 1 + a number */
static size_t state_count;

static void reach_state(const struct state *s)
{
    const unsigned char *bytes = (const unsigned char *)s;
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < sizeof *s; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    size_t at = (size_t)(hash ^ hash >> 29) % (2 * (size_t)STATES);
    for (; slots[at]; at = (at + 1) % (2 * (size_t)STATES))
        if (!memcmp(&states[slots[at] - 1], s, sizeof *s))
            return;
    REQUIRE(state_count < STATES);
    states[state_count] = *s;
    slots[at] = (uint32_t)++state_count;
}

static void check_state(const struct state *s, int is_last)
{
    int drivers = 0;

    for (int i = 0; i < AGENTS; i++)
        drivers += is_driving(s, i);
    if (drivers != is_awake(s->role))
        CHECK(0, "%d drivers, role %d", drivers, s->role.driver);
    for (int i = FIRST; i < TENSORS && is_last; i++)
        CHECK(s->at[i] == END && s->tensor[i] == ENDED, "agent %d is at %d, its tensor %d, role %d %d", i, s->at[i],
              s->tensor[i], s->role.driver, s->role.thread);
}

static void explore_states(void)
{
    enum { CHOICES = 2 };
    struct state first = { .at = { TOP, SUBMIT, SUBMIT, SUBMIT } };

    reach_state(&first);
    for (size_t n = 0; n < state_count && !test_failed; n++) {
        int moves = 0;
        for (int agent = 0; agent < AGENTS; agent++) {
            struct state next = states[n];
            for (int choice = 0; choice < CHOICES && can_move(&states[n], agent); choice++, moves++) {
                next = states[n];
                agent_move(&next, agent, choice);
                reach_state(&next);
            }
            next = states[n];
            if (peer_moves(&next, agent)) {
                moves++;
                reach_state(&next);
            }
        }
        check_state(&states[n], !moves);
    }
    printf("%zu states\n", state_count);
}

int main(void)
{
    states = calloc(STATES, sizeof *states);
    slots = calloc(2 * (size_t)STATES, sizeof *slots);
    REQUIRE(states && slots);
    check_all_states();
    explore_states();
    free(states);
    free(slots);
    return test_end();
}
