/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot collectives (collectives/shared/oneshot.h) in whatever order their ranks get on, over the fake transport.
 * Ranks are opened by threads and then driven by one: what one progress does is a step, and which rank makes the next
 * one is chosen here.
 *
 *   every order    of two ranks, for each sequence of four operations (three in slow builds) on one channel
 *   many orders    of three and four ranks, drawn, for longer sequences, with more than a slot holds among them
 *
 * Every rank that must have a result must have the right one, which another one's data in a slot too early or too
 * late would spoil, and there is always somebody who can get on until all are done.
 *
 * Orders are gone through depth first: a run makes the same choices as the one before but for the last one that has an
 * alternative left. A rank whose progress changes nothing waits, and is no alternative.
 */
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/shared/oneshot.h"
#include "halay_tools.h"
#include "tests/fake/fake.h"
#include "tests/test.h"
#include <pthread.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { LENGTH = 3 }; /* a slot is used again by the third */
#else
enum { LENGTH = 4 };
#endif
enum { RANKS_MAX = 4, LONG = 12, STEPS_MAX = 1000, SMALL = 3, LARGE = 3 * HALAY_ONESHOT_BYTES / 8, DRAWN = 300 };

enum kind {
    ALLREDUCE,
    BROADCAST_0,
    BROADCAST_1,
    REDUCE_0,
    REDUCE_1,
    KINDS,
    ALLGATHER = KINDS,
    ALLTOALL,
    REDUCE_SCATTER,
    ALL_KINDS
};

struct rank {
    struct halay_fake_hub *hub;
    int rank;
    struct halay_world *world;
    struct halay_group *group;
    struct halay_coll *coll; /* under way, or NULL */
    int next;                /* operation of the program */
    int64_t *in, *out;
};

struct job {
    int size;
    struct halay_fake_hub *hub;
    struct rank ranks[RANKS_MAX];
    const enum kind *program;
    int length;
    size_t large; /* bit k: operation k takes several turns */
    int64_t run;  /* makes every run's data its own */
};

static void *open_rank(void *arg)
{
    static const char *const operations[] = { "allreduce", "broadcast", "reduce",
                                              "allgather", "alltoall",  "reduce-scatter" };
    struct rank *r = arg;

    REQUIRE(halay_world_open_fake(r->hub, r->rank, &r->world) == HALAY_OK);
    REQUIRE(halay_group_create(r->world, &r->group) == HALAY_OK);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        REQUIRE(halay_group_set_algorithm(r->group, operations[i], "one-shot") == HALAY_OK);
    r->in = calloc(RANKS_MAX * LARGE, sizeof *r->in);
    r->out = calloc(RANKS_MAX * LARGE, sizeof *r->out);
    REQUIRE(r->in && r->out);
    return NULL;
}

static void *close_rank(void *arg)
{
    struct rank *r = arg;

    halay_group_close(r->group);
    halay_world_close(r->world);
    free(r->in);
    free(r->out);
    return NULL;
}

static void in_threads(struct job *job, void *(*what)(void *))
{
    pthread_t threads[RANKS_MAX];

    for (int r = 0; r < job->size; r++)
        REQUIRE(!pthread_create(&threads[r], NULL, what, &job->ranks[r]));
    for (int r = 0; r < job->size; r++)
        pthread_join(threads[r], NULL);
}

static void job_open(struct job *job, int size)
{
    *job = (struct job){ .size = size };
    REQUIRE(halay_fake_hub_create(size, &job->hub) == HALAY_OK);
    for (int r = 0; r < size; r++)
        job->ranks[r] = (struct rank){ .hub = job->hub, .rank = r };
    in_threads(job, open_rank);
}

static void job_close(struct job *job)
{
    in_threads(job, close_rank);
    halay_fake_hub_destroy(job->hub);
}

/* ---- one operation ---- */

static size_t count_of(const struct job *job, int k)
{
    return job->large >> k & 1 ? LARGE : SMALL;
}

/* What a rank gives as element i of operation k. */
static int64_t given(const struct job *job, int k, int rank, size_t i)
{
    return (job->run * LONG + k) * 1000003 + rank * 7919 + (int64_t)i;
}

static int64_t given_by_all(const struct job *job, int k, size_t i)
{
    int64_t sum = 0;

    for (int r = 0; r < job->size; r++)
        sum += given(job, k, r, i);
    return sum;
}

static void start(const struct job *job, struct rank *r)
{
    int k = r->next;
    enum kind kind = job->program[k];
    size_t n = count_of(job, k), all = n * (size_t)job->size;
    enum halay_status status = HALAY_ERR_ARGUMENT;

    for (size_t i = 0; i < all; i++) {
        r->in[i] = given(job, k, r->rank, i);
        r->out[i] = -1;
    }
    if (kind == ALLREDUCE)
        status = halay_group_allreduce_start(r->group, r->in, r->out, n, HALAY_I64, HALAY_SUM, &r->coll);
    else if (kind == BROADCAST_0 || kind == BROADCAST_1)
        status = halay_group_broadcast_start(r->group, r->rank == (kind == BROADCAST_1) ? r->in : r->out, n, HALAY_I64,
                                             kind == BROADCAST_1, &r->coll);
    else if (kind == REDUCE_0 || kind == REDUCE_1)
        status = halay_group_reduce_start(r->group, r->in, r->out, n, HALAY_I64, HALAY_SUM, kind == REDUCE_1, &r->coll);
    else if (kind == ALLGATHER)
        status = halay_group_allgather_start(r->group, r->in, r->out, n, HALAY_I64, &r->coll);
    else if (kind == ALLTOALL)
        status = halay_group_alltoall_start(r->group, r->in, r->out, n, HALAY_I64, &r->coll);
    else
        status = halay_group_reduce_scatter_start(r->group, r->in, r->out, n, HALAY_I64, HALAY_SUM, &r->coll);
    REQUIRE(status == HALAY_OK);
}

/* What element i of the result of operation k must be, where this rank has one. */
static int64_t expected(const struct job *job, int k, int rank, size_t i)
{
    size_t n = count_of(job, k), from = i / n, at = i % n;

    switch (job->program[k]) {
    case ALLREDUCE:
        return given_by_all(job, k, i);
    case BROADCAST_0:
    case BROADCAST_1:
        return rank == (job->program[k] == BROADCAST_1) ? -1 : given(job, k, job->program[k] == BROADCAST_1, i);
    case REDUCE_0:
    case REDUCE_1:
        return rank == (job->program[k] == REDUCE_1) ? given_by_all(job, k, i) : -1;
    case ALLGATHER:
        return given(job, k, (int)from, at);
    case ALLTOALL:
        return given(job, k, (int)from, (size_t)rank * n + at);
    default:
        return given_by_all(job, k, (size_t)rank * n + i);
    }
}

static void check(const struct job *job, const struct rank *r)
{
    enum kind kind = job->program[r->next];
    size_t n = count_of(job, r->next), wrong = 0;

    for (size_t i = 0; i < n * (kind == ALLGATHER || kind == ALLTOALL ? (size_t)job->size : 1); i++)
        wrong += r->out[i] != expected(job, r->next, r->rank, i);
    if (wrong)
        CHECK(!wrong, "%zu elements of operation %d, %d, rank %d of %d", wrong, r->next, kind, r->rank, job->size);
}

/* ---- one run ---- */

/* Nonzero if that rank got on. The next operation uses the same channel again. */
static int step(const struct job *job, struct rank *r)
{
    if (!r->coll) {
        if (r->next == job->length)
            return 0;
        start(job, r);
        return 1;
    }
    unsigned long before = halay_group_work(r->group);
    enum halay_status status = halay_coll_progress(r->coll);
    if (status == HALAY_IN_PROGRESS)
        return halay_group_work(r->group) != before;
    CHECK(status == HALAY_OK, "operation %d of rank %d", r->next, r->rank);
    halay_coll_end(r->coll);
    r->coll = NULL;
    halay_group_start_at(r->group, halay_group_next(r->group) + HALAY_CHANNELS - 1);
    check(job, r);
    r->next++;
    return 1;
}

/* The first rank from that one on that can get on has done so; -1: none. */
static int get_on(const struct job *job, int first)
{
    for (int r = first; r < job->size; r++)
        if (step(job, (struct rank *)&job->ranks[r]))
            return r;
    return -1;
}

static void begin(struct job *job)
{
    job->run++;
    for (int r = 0; r < job->size; r++)
        job->ranks[r].next = 0;
}

static int is_over(const struct job *job)
{
    for (int r = 0; r < job->size; r++)
        if (job->ranks[r].next < job->length)
            return 0;
    return 1;
}

/* Which rank made each step; `steps` of them are to be made again, the last one by that rank or one above it. */
struct order {
    int chosen[STEPS_MAX];
    int steps;
};

/* One run, to its end: the next one comes to the same channels. */
static void run(struct job *job, struct order *order)
{
    int depth, dead_end = 0; /* where no rank above those that were tried can get on */

    begin(job);
    for (depth = 0; !is_over(job); depth++) {
        REQUIRE(depth < STEPS_MAX);
        int first = depth < order->steps ? order->chosen[depth] : 0, rank = get_on(job, first);
        if (rank < 0 && first) {
            dead_end = depth + 1;
            order->chosen[depth] = job->size - 1;
            rank = get_on(job, 0);
        } else if (!dead_end) {
            order->chosen[depth] = rank;
        }
        REQUIRE(rank >= 0); /* else all wait for each other */
    }
    order->steps = dead_end ? dead_end : depth;
}

/* The next order, 0 after the last one. */
static int next_order(const struct job *job, struct order *order)
{
    while (order->steps && order->chosen[order->steps - 1] == job->size - 1)
        order->steps--;
    if (!order->steps)
        return 0;
    order->chosen[order->steps - 1]++;
    return 1;
}

static long every_order(struct job *job)
{
    static struct order order;
    long runs = 0;

    order.steps = 0;
    do {
        run(job, &order);
        runs++;
    } while (next_order(job, &order));
    return runs;
}

static uint32_t draw(uint32_t *random, uint32_t most)
{
    *random = *random * 1664525 + 1013904223;
    return (*random >> 16) % most;
}

static void drawn_order(struct job *job, uint32_t *random)
{
    begin(job);
    while (!is_over(job)) {
        int rank = get_on(job, (int)draw(random, (uint32_t)job->size));
        REQUIRE(rank >= 0 || get_on(job, 0) >= 0);
    }
}

static void two_ranks(void)
{
    enum kind program[LENGTH];
    struct job job;
    int programs = 1;
    long runs = 0;

    job_open(&job, 2);
    job.program = program;
    job.length = LENGTH;
    for (int k = 0; k < LENGTH; k++)
        programs *= KINDS;
    for (int number = 0; number < programs; number++) {
        for (int k = 0, left = number; k < LENGTH; k++, left /= KINDS)
            program[k] = (enum kind)(left % KINDS);
        runs += every_order(&job);
    }
    printf("two ranks: %d sequences of operations in %ld orders\n", programs, runs);
    CHECK(runs > programs);
    job_close(&job);
}

static void more_ranks(int size, uint32_t random)
{
    enum kind program[LONG];
    struct job job;

    job_open(&job, size);
    job.program = program;
    job.length = LONG;
    for (int i = 0; i < DRAWN; i++) {
        for (int k = 0; k < LONG; k++)
            program[k] = (enum kind)draw(&random, ALL_KINDS);
        job.large = draw(&random, 2) ? 1u << draw(&random, LONG) : 0;
        drawn_order(&job, &random);
    }
    CHECK(job.run == DRAWN);
    job_close(&job);
}

int main(void)
{
    two_ranks();
    more_ranks(3, 1);
    more_ranks(4, 2);
    return test_end();
}
