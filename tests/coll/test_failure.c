/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a group over the fake transport: a rank that dies, one that gives a collective up, one that leaves early,
 * one that times out, one that never calls; with shared memory and with messages only, for every algorithm. Nobody is
 * left waiting, all can name the rank, and the first cause stays. Until all ranks have entered, no input changes. A
 * rank that completes all the same has the right data, though the one that gives up writes over its buffers at once.
 */
#include "collectives/choose/algorithms.h"
#include "collectives/group/area.h"
#include "collectives/group/channel.h"
#include "collectives/schedule/coll.h"
#include "halay_tools.h"
#include "tests/coll/operation.h"
#include "tests/fake/fake.h"
#include "tests/test.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define HAS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER 1
#endif
#endif
#ifndef HAS_THREAD_SANITIZER
#define HAS_THREAD_SANITIZER 0
#endif

/* A vector is several chunks, by messages and in shared memory, and several slots. */
enum { RANKS = 4, VICTIM = 2, PART = HAS_THREAD_SANITIZER ? 20000 : 100000, COUNT = RANKS * PART };

enum what {
    DIES,     /* in the middle: before it has done its part */
    GIVES_UP, /* starts it, makes some progress, ends it */
    LEAVES,   /* does not start it: closes its group and world */
    WHATS
};

static const char *const what_names[WHATS] = { "dies", "gives up", "leaves" };

struct rank {
    struct halay_fake_hub *hub;
    int rank;
    enum what what;
    int progresses; /* before it gives up */
    const struct halay_algorithm *algorithm;
    enum halay_status status, later, again;
    int named;
    int is_wrong; /* completed, with other data than it should have */
};

static void swallow(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static void be_victim(struct rank *r, struct halay_group *group, float *data, float *all)
{
    struct halay_coll *c;

    if (r->what == DIES) {
        halay_fake_hub_kill(r->hub, VICTIM);
    } else if (r->what == GIVES_UP) {
        REQUIRE(operation_start(group, r->algorithm->operation, data, all, PART, VICTIM, &c) == HALAY_OK);
        for (int i = 0; i < r->progresses; i++)
            halay_coll_progress(c);
        r->again = halay_coll_progress(c);
        halay_coll_end(c);
        if (!HAS_THREAD_SANITIZER) /* others may be reading, and must notice: a race, on purpose */
            for (size_t i = 0; i < COUNT; i++)
                data[i] = all[i] = -1;
        r->status = halay_group_status(group, NULL);
    }
}

/* What the ranks give, and its sum: made once, since it is compared with after each run. */
static float given[RANKS][COUNT], sum[COUNT];

static void make_values(void)
{
    for (size_t i = 0; i < COUNT; i++)
        for (int r = 0; r < RANKS; r++) {
            given[r][i] = (float)(r * 1000 + (int)(i % 997) + 1);
            sum[i] += given[r][i];
        }
}

static int is_same(const float *a, const float *b, size_t count)
{
    return !memcmp(a, b, count * sizeof *a); /* all are integers above 0: equal ones have the same bits */
}

/* Right for what the operation of `algorithm` does over given? */
static int is_right(const struct halay_algorithm *algorithm, int rank, const float *data, const float *all)
{
    const size_t own = (size_t)rank * PART;

    switch (algorithm->operation) {
    case HALAY_COLL_ALLREDUCE:
        return is_same(data, sum, COUNT);
    case HALAY_COLL_REDUCE:
        return rank != 0 || is_same(all, sum, COUNT);
    case HALAY_COLL_REDUCE_SCATTER:
        return is_same(all, sum + own, PART);
    case HALAY_COLL_BROADCAST:
        return is_same(data, given[VICTIM], COUNT);
    case HALAY_COLL_ALLTOALL:
        for (size_t r = 0; r < RANKS; r++)
            if (!is_same(all + r * PART, given[r] + own, PART))
                return 0;
        return 1;
    case HALAY_COLL_ALLGATHER:
        for (size_t r = 0; r < RANKS; r++)
            if (!is_same(all + r * PART, given[r], PART))
                return 0;
        return 1;
    default:
        return 1;
    }
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct halay_world *world;
    struct halay_group *group;
    struct halay_coll *c = NULL;
    void *data, *all;

    REQUIRE(halay_world_open_fake(r->hub, r->rank, &world) == HALAY_OK);
    world->log->write = swallow;
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    REQUIRE(halay_group_alloc(group, COUNT * sizeof(float), &data) == HALAY_OK);
    REQUIRE(halay_group_alloc(group, COUNT * sizeof(float), &all) == HALAY_OK);
    memcpy(data, given[r->rank], sizeof given[r->rank]);
    REQUIRE(halay_group_set_algorithm(group, halay_coll_kind_name(r->algorithm->operation), r->algorithm->name) ==
            HALAY_OK);
    r->status = halay_group_barrier(group);
    if (r->rank == VICTIM) {
        be_victim(r, group, data, all);
    } else {
        if (r->status == HALAY_OK) /* who is slow may see the death in the barrier */
            r->status = operation_start(group, r->algorithm->operation, data, all, PART, VICTIM, &c);
        if (r->status == HALAY_OK)
            r->status = halay_coll_wait(c, -1);
        r->again = c ? halay_coll_progress(c) : r->status;
        r->is_wrong = c && r->status == HALAY_OK && !is_right(r->algorithm, r->rank, data, all);
        halay_coll_end(c);
        r->later = halay_group_barrier(group);
        halay_group_status(group, &r->named);
    }
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

/* Ranks that don't need the victim may complete (a broadcast's first children, a barrier's quick ones): they find out
 * at the next collective, which nobody can complete. */
static void run(const struct halay_algorithm *a, int is_shared, const int *node, enum what what, int progresses)
{
    const int all_share = is_shared && !node;
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    struct halay_fake_hub *hub;

    REQUIRE(halay_fake_hub_create(RANKS, &hub) == HALAY_OK);
    halay_fake_hub_set_shared(hub, is_shared);
    if (node)
        REQUIRE(halay_fake_hub_set_nodes(hub, node) == HALAY_OK);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){ .hub = hub, .rank = r, .what = what, .progresses = progresses, .algorithm = a };
        REQUIRE(!pthread_create(&threads[r], NULL, run_rank, &ranks[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < RANKS; r++) {
        const struct rank *x = &ranks[r];
        if (r == VICTIM) {
            CHECK(what != GIVES_UP || x->status == HALAY_ERR_CANCELED || x->again == HALAY_OK, "%s %s",
                  halay_coll_kind_name(a->operation), a->name);
            continue;
        }
        CHECK(!x->is_wrong, "rank %d: ok with wrong data, %s %s, rank %d %s after %d steps", r,
              halay_coll_kind_name(a->operation), a->name, VICTIM, what_names[what], progresses);
        CHECK(x->status == HALAY_OK || x->status == HALAY_ERR_PEER, "rank %d: '%s', %s %s, rank %d %s", r,
              halay_status_string(x->status), halay_coll_kind_name(a->operation), a->name, VICTIM, what_names[what]);
        CHECK(x->later == HALAY_ERR_PEER && x->again == x->status, "rank %d: later '%s', %s %s, rank %d %s", r,
              halay_status_string(x->later), halay_coll_kind_name(a->operation), a->name, VICTIM, what_names[what]);
        /* Over messages alone a rank can only see who stopped talking to it: perhaps one who gave up because of the
         * victim. */
        CHECK(x->named == VICTIM || (!all_share && x->named >= 0 && x->named != r),
              "rank %d names rank %d, %s %s, rank %d %s", r, x->named, halay_coll_kind_name(a->operation), a->name,
              VICTIM, what_names[what]);
    }
    halay_fake_hub_destroy(hub);
}

/* ---- a rank never enters: the inputs of the others stay intact ---- */

struct waiting {
    struct halay_fake_hub *hub;
    const struct halay_algorithm *algorithm;
    int rank;
    int *given_up; /* shared: ranks that have */
};

static enum halay_status start_in_place(struct halay_group *group, const struct waiting *r, float *data,
                                        struct halay_coll **c)
{
    float *own = data + (size_t)r->rank * PART;

    switch (r->algorithm->operation) {
    case HALAY_COLL_REDUCE:
        return halay_group_reduce_start(group, data, data, COUNT, HALAY_F32, HALAY_SUM, 0, c);
    case HALAY_COLL_REDUCE_SCATTER:
        return halay_group_reduce_scatter_start(group, data, own, PART, HALAY_F32, HALAY_SUM, c);
    case HALAY_COLL_ALLGATHER:
        return halay_group_allgather_start(group, own, data, PART, HALAY_F32, c);
    case HALAY_COLL_ALLTOALL:
        return halay_group_alltoall_start(group, data, data, PART, HALAY_F32, c);
    default:
        return operation_start(group, r->algorithm->operation, data, data, PART, 0, c);
    }
}

/* Is what this rank gave as it was? A broadcast has an input on its root only. */
static int is_intact(const struct waiting *r, const float *data)
{
    size_t own = (size_t)r->rank * PART;

    if (r->algorithm->operation == HALAY_COLL_ALLGATHER)
        return is_same(data + own, given[r->rank] + own, PART);
    return (r->algorithm->operation == HALAY_COLL_BROADCAST && r->rank) || is_same(data, given[r->rank], COUNT);
}

static void *wait_in_vain(void *arg)
{
    struct waiting *r = arg;
    struct halay_world *world;
    struct halay_group *group;
    struct halay_coll *c = NULL;
    void *data;

    REQUIRE(halay_world_open_fake(r->hub, r->rank, &world) == HALAY_OK);
    world->log->write = swallow;
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    REQUIRE(halay_group_alloc(group, COUNT * sizeof(float), &data) == HALAY_OK);
    memcpy(data, given[r->rank], sizeof given[r->rank]);
    REQUIRE(halay_group_set_algorithm(group, halay_coll_kind_name(r->algorithm->operation), r->algorithm->name) ==
            HALAY_OK);
    REQUIRE(halay_group_barrier(group) == HALAY_OK);
    if (r->rank != VICTIM) {
        enum halay_status status = start_in_place(group, r, data, &c);
        for (int i = 0; status == HALAY_OK && i < 300 && halay_coll_progress(c) == HALAY_IN_PROGRESS; i++)
            sched_yield(); /* to others that give something to this rank */
        halay_coll_end(c);
        CHECK(is_intact(r, data), "%s %s: the input of rank %d has changed",
              halay_coll_kind_name(r->algorithm->operation), r->algorithm->name, r->rank);
        __atomic_add_fetch(r->given_up, 1, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(r->given_up, __ATOMIC_ACQUIRE) < RANKS - 1)
        sched_yield();
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

static void stay_away(const struct halay_algorithm *a, int is_shared, const int *node)
{
    struct waiting ranks[RANKS];
    pthread_t threads[RANKS];
    struct halay_fake_hub *hub;
    int given_up = 0;

    REQUIRE(halay_fake_hub_create(RANKS, &hub) == HALAY_OK);
    halay_fake_hub_set_shared(hub, is_shared);
    if (node)
        REQUIRE(halay_fake_hub_set_nodes(hub, node) == HALAY_OK);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (struct waiting){ .hub = hub, .algorithm = a, .rank = r, .given_up = &given_up };
        REQUIRE(!pthread_create(&threads[r], NULL, wait_in_vain, &ranks[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    halay_fake_hub_destroy(hub);
}

/* A peer that does not come is no failure: the wait ends by its timeout, the collective is still under way. */
static void *late_rank(void *arg)
{
    struct rank *r = arg;
    struct halay_world *world;
    struct halay_group *group;
    struct halay_coll *c;

    REQUIRE(halay_world_open_fake(r->hub, r->rank, &world) == HALAY_OK);
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    if (r->rank == 0) {
        REQUIRE(halay_group_barrier_start(group, &c) == HALAY_OK);
        CHECK(halay_coll_wait(c, 20) == HALAY_ERR_TIMEOUT);
        CHECK(halay_coll_progress(c) == HALAY_IN_PROGRESS);
        __atomic_store_n(&r->named, 1, __ATOMIC_RELEASE);
        CHECK(halay_coll_wait(c, -1) == HALAY_OK);
        halay_coll_end(c);
    } else {
        while (!__atomic_load_n(&r[-1].named, __ATOMIC_ACQUIRE))
            ;
        CHECK(halay_group_barrier(group) == HALAY_OK);
    }
    CHECK(halay_group_barrier(group) == HALAY_OK);
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

static void time_out(int is_shared)
{
    struct rank ranks[2];
    pthread_t threads[2];
    struct halay_fake_hub *hub;

    REQUIRE(halay_fake_hub_create(2, &hub) == HALAY_OK);
    halay_fake_hub_set_shared(hub, is_shared);
    memset(ranks, 0, sizeof ranks);
    for (int r = 0; r < 2; r++) {
        ranks[r].hub = hub;
        ranks[r].rank = r;
    }
    for (int r = 0; r < 2; r++)
        REQUIRE(!pthread_create(&threads[r], NULL, late_rank, &ranks[r]));
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    halay_fake_hub_destroy(hub);
}

/* Ranks that disagree about the splits of an all-to-all: who sees it says so, the others lose their peer. */
static void *disagreeing_rank(void *arg)
{
    struct rank *r = arg;
    struct halay_world *world;
    struct halay_group *group;
    float in[RANKS * 8] = { 0 }, out[RANKS * 8];
    size_t counts[RANKS], in_counts[RANKS];

    REQUIRE(halay_world_open_fake(r->hub, r->rank, &world) == HALAY_OK);
    world->log->write = swallow;
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    for (int k = 0; k < RANKS; k++)
        in_counts[k] = counts[k] = 7;
    if (r->rank == VICTIM)
        in_counts[0] = 5;
    r->status = halay_group_alltoallv(group, in, in_counts, out, counts, HALAY_F32);
    r->later = halay_group_barrier(group);
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

static void disagree(int is_shared)
{
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    struct halay_fake_hub *hub;

    REQUIRE(halay_fake_hub_create(RANKS, &hub) == HALAY_OK);
    halay_fake_hub_set_shared(hub, is_shared);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){ .hub = hub, .rank = r };
        REQUIRE(!pthread_create(&threads[r], NULL, disagreeing_rank, &ranks[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    CHECK(ranks[0].status == HALAY_ERR_FORMAT, "'%s'", halay_status_string(ranks[0].status));
    for (int r = 1; r < RANKS; r++)
        CHECK(ranks[r].later == HALAY_ERR_PEER, "rank %d: '%s'", r, halay_status_string(ranks[r].later));
    halay_fake_hub_destroy(hub);
}

/* ---- a rank that does not call ---- */

enum { STALL_MS = 5, STALL_MOST_MS = 5000, TEXT = 512 };

/* What the ranks of a case share. */
struct stalling {
    struct halay_fake_hub *hub;
    const struct halay_algorithm *algorithm; /* NULL: a group of some ranks is made */
    int ranks, missing;
    int ends;                       /* the wait is given up; otherwise it is only reported */
    int stall_ms;                   /* after this time */
    int started, is_reported, over; /* atomic: ranks that have started it; rank 0 has its line; rank 0 is done */
    char text[TEXT];                /* that line */
    int named;                      /* by the group that has ended */
};

struct stalling_rank {
    struct stalling *of;
    int rank;
};

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    struct stalling *s = arg;

    if (level > HALAY_LOG_WARNING || __atomic_load_n(&s->is_reported, __ATOMIC_RELAXED) || !strstr(line, "stalled"))
        return;
    snprintf(s->text, TEXT, "%s", line);
    __atomic_store_n(&s->is_reported, 1, __ATOMIC_RELEASE);
}

static void await(const int *value, int least)
{
    while (__atomic_load_n(value, __ATOMIC_ACQUIRE) < least)
        sched_yield();
}

/* Rank 0 is the one whose limits count, and waits only once all others but the missing one have started. */
static enum halay_status call_it(struct stalling *s, struct halay_group *group, int rank, float *data, float *all)
{
    const int members[] = { 0, s->missing };
    struct halay_group *subset = NULL;
    struct halay_coll *c = NULL;

    if (!s->algorithm) {
        enum halay_status status = halay_group_subset(group, members, 2, &subset);
        halay_group_close(subset);
        return status;
    }
    if (rank == 0)
        await(&s->started, s->ranks - 2);
    enum halay_status status = operation_start(group, s->algorithm->operation, data, all, PART, s->missing, &c);
    __atomic_add_fetch(&s->started, 1, __ATOMIC_RELEASE);
    if (status == HALAY_OK)
        status = halay_coll_wait(c, -1);
    halay_coll_end(c);
    return status;
}

static void *stalling_rank(void *arg)
{
    struct stalling_rank *r = arg;
    struct stalling *s = r->of;
    struct halay_world *world;
    struct halay_group *group;
    enum halay_status status = HALAY_OK;
    void *data, *all;

    REQUIRE(halay_world_open_fake(s->hub, r->rank, &world) == HALAY_OK);
    world->log->write = r->rank ? swallow : keep_line;
    world->log->arg = s;
    world->config.stall_check_ms = r->rank || s->ends ? 0 : s->stall_ms;
    world->config.stall_shutdown_ms = r->rank || !s->ends ? 0 : s->stall_ms;
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    REQUIRE(halay_group_alloc(group, COUNT * sizeof(float), &data) == HALAY_OK);
    REQUIRE(halay_group_alloc(group, COUNT * sizeof(float), &all) == HALAY_OK);
    memcpy(data, given[r->rank], sizeof given[r->rank]);
    if (s->algorithm)
        REQUIRE(halay_group_set_algorithm(group, halay_coll_kind_name(s->algorithm->operation), s->algorithm->name) ==
                HALAY_OK);
    if (r->rank == s->missing)
        await(s->ends ? &s->over : &s->is_reported, 1);
    if (!s->ends || r->rank != s->missing)
        status = call_it(s, group, r->rank, data, all);
    CHECK(status == (s->ends && r->rank != s->missing ? HALAY_ERR_PEER : HALAY_OK), "rank %d: '%s', '%s'", r->rank,
          halay_status_string(status), s->text);
    if (r->rank == 0 && s->ends) {
        halay_group_status(group, &s->named);
        __atomic_store_n(&s->over, 1, __ATOMIC_RELEASE);
    }
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

static int stall_for(const struct halay_algorithm *a, int is_shared, int ends, int stall_ms)
{
    static const int layout[] = { 0, 0, 1 };
    const int has_nodes = a && a->flags & HALAY_ALGORITHM_NODES, ranks = has_nodes ? 3 : 2;
    struct stalling s = {
        .algorithm = a, .ranks = ranks, .missing = ranks - 1, .ends = ends, .stall_ms = stall_ms, .named = -1
    };
    struct stalling_rank each[3];
    pthread_t threads[3];
    char wanted[64];

    REQUIRE(halay_fake_hub_create(ranks, &s.hub) == HALAY_OK);
    halay_fake_hub_set_shared(s.hub, is_shared);
    if (has_nodes)
        REQUIRE(halay_fake_hub_set_nodes(s.hub, layout) == HALAY_OK);
    for (int r = 0; r < ranks; r++) {
        each[r] = (struct stalling_rank){ .of = &s, .rank = r };
        REQUIRE(!pthread_create(&threads[r], NULL, stalling_rank, &each[r]));
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    snprintf(wanted, sizeof wanted, ": waits for rank %d", s.missing);
    int is_right = strstr(s.text, wanted) && (!ends || s.named == s.missing);
    CHECK(is_right || stall_ms < STALL_MOST_MS, "names rank %d: '%s'", s.named, s.text);
    snprintf(wanted, sizeof wanted, a ? "%s number 0" : "a new group", a ? halay_coll_kind_name(a->operation) : "");
    CHECK(strstr(s.text, wanted) && (!a || strstr(s.text, a->name)), "'%s'", s.text);
    halay_fake_hub_destroy(s.hub);
    return is_right;
}

/* A third rank may have started and not come any further within the time: then once more with a longer one. */
static void stall(const struct halay_algorithm *a, int is_shared, int ends)
{
    for (int ms = STALL_MS; ms <= STALL_MOST_MS && !stall_for(a, is_shared, ends, ms); ms *= 10)
        ;
}

static void stall_all(int is_shared)
{
    for (int ends = 0; ends < 2; ends++) {
        for (size_t i = 0; i < halay_algorithm_count; i++)
            if (is_shared || !(halay_algorithms[i].flags & (HALAY_ALGORITHM_SHARED | HALAY_ALGORITHM_NODES)))
                stall(&halay_algorithms[i], is_shared, ends);
        stall(NULL, is_shared, ends);
    }
}

/* ---- a peer that is stopped while it writes here ---- */

enum { GROUPS = 8 };

struct writer {
    struct halay_fake_hub *hub;
    int rank;
    int *is_writing, *is_over, *warnings; /* atomic */
};

static void count_warnings(void *arg, enum halay_log_level level, const char *line)
{
    if (level == HALAY_LOG_WARNING && strstr(line, "may still write"))
        __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
}

/* Rank 1 stays in the middle of a write; rank 0 gives all groups up, one after the other. */
static void *run_writer(void *arg)
{
    struct writer *w = arg;
    const int members[] = { 0, 1 };
    struct halay_group *all, *groups[GROUPS];
    struct halay_world *world;
    struct halay_coll *c;
    static float data[2][PART];

    REQUIRE(halay_world_open_fake(w->hub, w->rank, &world) == HALAY_OK);
    world->log->write = w->rank ? swallow : count_warnings;
    world->log->arg = w->warnings;
    REQUIRE(halay_group_create(world, &all) == HALAY_OK);
    for (int g = 0; g < GROUPS; g++) {
        REQUIRE(halay_group_subset(all, members, 2, &groups[g]) == HALAY_OK);
        if (w->rank == 1)
            atomic_store(&groups[g]->channels[0].areas[1]->busy, 1);
    }
    if (w->rank == 1) {
        __atomic_store_n(w->is_writing, 1, __ATOMIC_RELEASE);
        await(w->is_over, 1);
        for (int g = 0; g < GROUPS; g++)
            atomic_store(&groups[g]->channels[0].areas[1]->busy, 0);
    } else {
        await(w->is_writing, 1);
        for (int g = 0; g < GROUPS; g++) {
            CHECK(halay_group_set_algorithm(groups[g], "allreduce", "two-shot") == HALAY_OK);
            CHECK(halay_group_allreduce_start(groups[g], data[0], data[1], PART, HALAY_F32, HALAY_SUM, &c) == HALAY_OK);
            halay_group_fail(groups[g], HALAY_ERR_PEER, 1);
            halay_coll_end(c);
        }
        __atomic_store_n(w->is_over, 1, __ATOMIC_RELEASE);
    }
    for (int g = 0; g < GROUPS; g++)
        halay_group_close(groups[g]);
    halay_group_close(all);
    halay_world_close(world);
    return NULL;
}

static void stop_writer(void)
{
    int is_writing = 0, is_over = 0, warnings = 0;
    struct halay_fake_hub *hub;
    struct writer each[2];
    pthread_t threads[2];

    REQUIRE(halay_fake_hub_create(2, &hub) == HALAY_OK);
    for (int r = 0; r < 2; r++) {
        each[r] = (struct writer){ hub, r, &is_writing, &is_over, &warnings };
        REQUIRE(!pthread_create(&threads[r], NULL, run_writer, &each[r]));
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    CHECK(warnings == 1, "%d groups were given the whole time", warnings);
    halay_fake_hub_destroy(hub);
}

/* ---- a peer that gives up rings once, perhaps before the others sleep ---- */

struct late_sleeper {
    struct halay_fake_hub *hub;
    int rank;
    int *has_ended; /* atomic: rank 1 has given up */
};

static int sleeps; /* of rank 0 */

static long count_sleep(struct halay_link *link)
{
    (void)link;
    sleeps++;
    return 0;
}

static void *sleep_late(void *arg)
{
    struct late_sleeper *l = arg;
    static struct halay_link_ops counting;
    struct halay_world *world;
    struct halay_group *group;
    float data[8] = { 0 };

    REQUIRE(halay_world_open_fake(l->hub, l->rank, &world) == HALAY_OK);
    world->log->write = swallow;
    world->config.spin_us = 0;
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    if (l->rank == 1) {
        halay_group_fail(group, HALAY_ERR_CANCELED, 1);
        __atomic_store_n(l->has_ended, 1, __ATOMIC_RELEASE);
    } else {
        await(l->has_ended, 1);
        counting = *world->data->ops;
        counting.arm = count_sleep;
        world->data->ops = &counting;
        CHECK(halay_group_set_algorithm(group, "allreduce", "one-shot") == HALAY_OK);
        CHECK(halay_group_allreduce(group, data, data, 8, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
        CHECK(sleeps == 0, "rank 1 had given up already");
    }
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

static void give_up_early(void)
{
    struct halay_fake_hub *hub;
    struct late_sleeper each[2];
    pthread_t threads[2];
    int has_ended = 0;

    REQUIRE(halay_fake_hub_create(2, &hub) == HALAY_OK);
    for (int r = 0; r < 2; r++) {
        each[r] = (struct late_sleeper){ hub, r, &has_ended };
        REQUIRE(!pthread_create(&threads[r], NULL, sleep_late, &each[r]));
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    halay_fake_hub_destroy(hub);
}

/* ---- a rank that leaves has done its part of a number, and not of a lower one ---- */

struct gap {
    struct halay_fake_hub *hub;
    int rank;
    int *has_left; /* atomic */
};

static void *leave_gap(void *arg)
{
    struct gap *g = arg;
    struct halay_world *world;
    struct halay_group *group;
    struct halay_coll *c = NULL;
    float data[8];

    REQUIRE(halay_world_open_fake(g->hub, g->rank, &world) == HALAY_OK);
    world->log->write = swallow;
    REQUIRE(halay_group_create(world, &group) == HALAY_OK);
    CHECK(halay_group_set_algorithm(group, "broadcast", "one-shot") == HALAY_OK);
    for (int i = 0; i < 8; i++)
        data[i] = g->rank == VICTIM ? 7 : 0;
    if (g->rank != VICTIM)
        await(g->has_left, 1);
    halay_group_start_at(group, 3);
    CHECK(halay_group_broadcast_start(group, data, 8, HALAY_F32, VICTIM, &c) == HALAY_OK);
    CHECK(halay_coll_wait(c, -1) == HALAY_OK && data[7] == 7, "rank %d", g->rank);
    halay_coll_end(c);
    if (g->rank == VICTIM) {
        halay_group_fail(group, HALAY_ERR_CANCELED, -1);
        __atomic_store_n(g->has_left, 1, __ATOMIC_RELEASE);
    } else {
        halay_group_check(group);
        CHECK(halay_group_failure(group, NULL) == HALAY_OK);
        halay_group_start_at(group, 2);
        CHECK(halay_group_broadcast(group, data, 8, HALAY_F32, VICTIM) == HALAY_ERR_PEER, "rank %d", g->rank);
    }
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

static void leave_gaps(void)
{
    struct halay_fake_hub *hub;
    struct gap each[RANKS];
    pthread_t threads[RANKS];
    int has_left = 0;

    REQUIRE(halay_fake_hub_create(RANKS, &hub) == HALAY_OK);
    for (int r = 0; r < RANKS; r++) {
        each[r] = (struct gap){ hub, r, &has_left };
        REQUIRE(!pthread_create(&threads[r], NULL, leave_gap, &each[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    halay_fake_hub_destroy(hub);
}

int main(void)
{
    static const int layouts[2][RANKS] = { { 0, 0, 1, 1 }, { 0, 1, 1, 1 } };
    static const int is_shared[] = { 1, 0 };

    make_values();
    stop_writer();
    give_up_early();
    leave_gaps();
    for (size_t k = 0; k < sizeof is_shared / sizeof *is_shared; k++) {
        for (size_t i = 0; i < halay_algorithm_count; i++)
            for (int w = 0; w < WHATS; w++)
                if ((is_shared[k] || !(halay_algorithms[i].flags & HALAY_ALGORITHM_SHARED)) &&
                    !(halay_algorithms[i].flags & HALAY_ALGORITHM_NODES))
                    for (int n = 0; n < (w == GIVES_UP ? 3 : 1); n++)
                        run(&halay_algorithms[i], is_shared[k], NULL, (enum what)w, n * n);
        for (const struct halay_algorithm *a = halay_algorithms; a < halay_algorithms + halay_algorithm_count; a++)
            if ((is_shared[k] || !(a->flags & HALAY_ALGORITHM_SHARED)) && !(a->flags & HALAY_ALGORITHM_NODES))
                stay_away(a, is_shared[k], NULL);
        time_out(is_shared[k]);
        disagree(is_shared[k]);
        stall_all(is_shared[k]);
    }
    for (size_t i = 0; i < halay_algorithm_count; i++)
        for (int w = 0; w < WHATS && halay_algorithms[i].flags & HALAY_ALGORITHM_NODES; w++)
            for (int n = 0; n < (w == GIVES_UP ? 4 : 1); n++)
                for (int l = 0; l < 2; l++)
                    run(&halay_algorithms[i], is_shared[0], layouts[l], (enum what)w, n * n * n);
    stay_away(halay_algorithm_find(HALAY_COLL_ALLREDUCE, "hierarchical"), is_shared[0], layouts[0]);
    return test_end();
}
