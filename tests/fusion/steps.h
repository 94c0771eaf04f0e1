/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of a training loop, the same registered tensors in each, with deviations that break a plan of replay: for
 * test_replay.c (threads over fake) and job.c (processes). Results are checked in every step. The tensors are all
 * all-reduces, or of every kind alternately.
 */
#ifndef HALAY_TEST_STEPS_H
#define HALAY_TEST_STEPS_H

#include "fusion/requests/context.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/tensor.h"
#include "halay.h"
#include "tests/fusion/random.h"
#include "tests/test.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { STEP_TENSORS = 26, STEP_ELEMENTS = 100, STEP_RANKS_MAX = 16, STEP_WAIT_MS = 60000 };

enum step_kind {
    STEP_ALLREDUCE,
    STEP_REDUCE_SCATTER,
    STEP_SPLIT_SCATTER, /* a reduce-scatter with splits */
    STEP_ALLGATHER,
    STEP_ALLGATHER_INSIDE, /* the rows are in the result already, at its end, where another rank's rows belong */
    STEP_ALLTOALL,
    STEP_GROUP,           /* of two tensors */
    STEP_MIXED_GROUP,     /* of a float and an integer tensor */
    STEP_ALLGATHER_EMPTY, /* some ranks have no rows */
    STEP_BROADCAST,
    STEP_REDUCE,
    STEP_GATHER,
    STEP_SCATTER,
    STEP_KINDS
};

struct steps {
    struct halay_context *ctx;
    int rank, size;
    int is_mixed;             /* tensors of every kind */
    int may_break, is_broken; /* a peer may be lost; it has been lost */
    struct halay_tensor *tensors[STEP_TENSORS];
    int is_complete[STEP_TENSORS]; /* this step's result has been checked */
    _Atomic int callbacks, lost;   /* callbacks that are still expected; requests that failed since a peer is lost */
    float data[STEP_TENSORS][STEP_ELEMENTS], result[STEP_TENSORS][STEP_ELEMENTS];
};

static inline enum step_kind steps_kind(const struct steps *s, int i)
{
    return s->is_mixed ? (enum step_kind)(i % STEP_KINDS) : STEP_ALLREDUCE;
}

static inline enum halay_collective steps_collective(const struct steps *s, int i)
{
    static const enum halay_collective collectives[] = { [STEP_REDUCE_SCATTER] = HALAY_REDUCE_SCATTER,
                                                         [STEP_SPLIT_SCATTER] = HALAY_REDUCE_SCATTER,
                                                         [STEP_ALLGATHER] = HALAY_ALLGATHER,
                                                         [STEP_ALLGATHER_INSIDE] = HALAY_ALLGATHER,
                                                         [STEP_ALLGATHER_EMPTY] = HALAY_ALLGATHER,
                                                         [STEP_ALLTOALL] = HALAY_ALLTOALL,
                                                         [STEP_BROADCAST] = HALAY_BROADCAST,
                                                         [STEP_REDUCE] = HALAY_REDUCE,
                                                         [STEP_GATHER] = HALAY_GATHER,
                                                         [STEP_SCATTER] = HALAY_SCATTER };

    return steps_kind(s, i) < sizeof collectives / sizeof *collectives ? collectives[steps_kind(s, i)]
                                                                       : HALAY_ALLREDUCE;
}

static inline int steps_root(const struct steps *s, int i)
{
    if (steps_kind(s, i) == STEP_BROADCAST)
        return 1; /* so that they share a bucket */
    return halay_collective_has_root((int)steps_collective(s, i)) ? i % s->size : 0;
}

/* Returns the elements that rank `from` sends to rank `to`; in a reduction each rank sends this number. */
static inline size_t steps_share(const struct steps *s, int i, int from, int to)
{
    int root = steps_root(s, i);

    switch (steps_kind(s, i)) {
    case STEP_REDUCE_SCATTER:
        return halay_scatter_rows(STEP_ELEMENTS, s->size, to, NULL);
    case STEP_SPLIT_SCATTER:
        return to ? 1 + (size_t)to % 3 : STEP_ELEMENTS / 2;
    case STEP_ALLGATHER:
    case STEP_ALLGATHER_INSIDE:
        return 1 + (size_t)from % 4;
    case STEP_ALLGATHER_EMPTY:
        return (size_t)from % 4;
    case STEP_ALLTOALL:
        return 1 + (size_t)(from + to) % 3;
    case STEP_BROADCAST:
        return from == root ? STEP_ELEMENTS : 0;
    case STEP_REDUCE:
        return to == root ? STEP_ELEMENTS : 0;
    case STEP_GATHER:
        return to == root ? 1 + (size_t)from % 4 : 0;
    case STEP_SCATTER:
        return from == root ? 1 + (size_t)to % 4 : 0;
    default:
        return STEP_ELEMENTS;
    }
}

/* Returns the elements that a rank sends to all ranks below another one. */
static inline size_t steps_given(const struct steps *s, int i, int from, int below)
{
    size_t count = 0;

    for (int r = 0; r < below; r++)
        count += steps_share(s, i, from, r);
    return count;
}

/* Returns the elements of this rank's result that are from ranks below that one. */
static inline size_t steps_taken(const struct steps *s, int i, int below)
{
    size_t count = 0;

    for (int r = 0; r < below; r++)
        count += steps_share(s, i, r, s->rank);
    return count;
}

static inline size_t steps_count(const struct steps *s, int i)
{
    if (halay_collective_reduces((int)steps_collective(s, i)))
        return steps_share(s, i, 0, s->rank);
    return steps_taken(s, i, s->size);
}

/* Returns the address of this rank's input. */
static inline float *steps_in(struct steps *s, int i)
{
    if (steps_kind(s, i) == STEP_ALLGATHER_INSIDE)
        return s->result[i] + steps_count(s, i) - steps_share(s, i, s->rank, 0);
    return s->data[i];
}

static inline float *steps_out(struct steps *s, int i)
{
    enum halay_collective collective = steps_collective(s, i);

    if ((collective == HALAY_REDUCE || collective == HALAY_GATHER) && s->rank != steps_root(s, i))
        return NULL;
    return collective == HALAY_ALLREDUCE || collective == HALAY_BROADCAST ? s->data[i] : s->result[i];
}

static inline size_t steps_rows(const struct steps *s, int i)
{
    switch (steps_collective(s, i)) {
    case HALAY_ALLGATHER:
        return steps_share(s, i, s->rank, 0);
    case HALAY_GATHER:
        return steps_share(s, i, s->rank, steps_root(s, i));
    case HALAY_ALLTOALL:
    case HALAY_SCATTER:
    case HALAY_REDUCE_SCATTER:
        return steps_given(s, i, s->rank, s->size);
    default:
        return STEP_ELEMENTS;
    }
}

/* A description, and the memory that it borrows. */
struct steps_info {
    char name[32];
    size_t splits[STEP_RANKS_MAX];
    struct halay_member members[2];
    struct halay_tensor_info info;
};

static inline void steps_describe(struct steps *s, int i, struct steps_info *d)
{
    enum step_kind kind = steps_kind(s, i);
    int is_split = kind == STEP_SPLIT_SCATTER || kind == STEP_ALLTOALL || kind == STEP_SCATTER;
    int is_group = kind == STEP_GROUP || kind == STEP_MIXED_GROUP;

    snprintf(d->name, sizeof d->name, s->is_mixed ? "mixed %d" : "gradient %d", i);
    for (int r = 0; r < s->size; r++)
        d->splits[r] = steps_share(s, i, s->rank, r);
    for (int m = 0; m < 2; m++)
        d->members[m] = (struct halay_member){ .out = s->data[i] + m * STEP_ELEMENTS / 2,
                                               .dtype = m && kind == STEP_MIXED_GROUP ? HALAY_I32 : HALAY_F32,
                                               .dimensions = 1,
                                               .shape = { STEP_ELEMENTS / 2 } };
    d->info = (struct halay_tensor_info){ .struct_size = sizeof d->info,
                                          .name = d->name,
                                          .collective = steps_collective(s, i),
                                          .dtype = HALAY_F32,
                                          .reduction = HALAY_SUM,
                                          .root = steps_root(s, i),
                                          .shape = { steps_rows(s, i) },
                                          .dimensions = 1,
                                          .in = steps_in(s, i),
                                          .out = steps_out(s, i),
                                          .out_bytes = sizeof s->result[i],
                                          .splits = is_split ? d->splits : NULL,
                                          .members = is_group ? d->members : NULL,
                                          .member_count = 2,
                                          .member_bytes = sizeof *d->members };
}

static inline void steps_open(struct steps *s, struct halay_context *ctx, int is_mixed)
{
    struct steps_info d;

    s->ctx = ctx;
    s->rank = halay_rank(ctx);
    s->size = halay_size(ctx);
    s->is_mixed = is_mixed;
    s->may_break = s->is_broken = 0;
    REQUIRE(s->size <= STEP_RANKS_MAX);
    for (int i = 0; i < STEP_TENSORS; i++) {
        steps_describe(s, i, &d);
        REQUIRE(halay_register(ctx, &d.info, &s->tensors[i]) == HALAY_OK);
    }
}

/* Returns nonzero if the element is an integer. */
static inline int steps_is_integer(const struct steps *s, int i, size_t k)
{
    return steps_kind(s, i) == STEP_MIXED_GROUP && k >= STEP_ELEMENTS / 2;
}

/* Returns an element of a rank's input. */
static inline int steps_value(int number, int i, size_t k, int rank)
{
    return number + i + (int)k + rank;
}

static inline void steps_fill(struct steps *s, int number)
{
    for (int i = 0; i < STEP_TENSORS; i++) {
        float *in = steps_in(s, i);
        size_t count = in == s->data[i] ? STEP_ELEMENTS : steps_rows(s, i);
        s->is_complete[i] = 0;
        for (size_t k = 0; k < count; k++) {
            int32_t value = steps_value(number, i, k, s->rank);
            if (steps_is_integer(s, i, k))
                memcpy(&in[k], &value, sizeof value);
            else
                in[k] = (float)value;
        }
    }
}

/* Returns the expected element k of this rank's result. */
static inline int steps_expected(const struct steps *s, int number, int i, size_t k)
{
    enum halay_collective collective = steps_collective(s, i);
    int from = 0;

    if (halay_collective_reduces((int)collective)) {
        k += collective == HALAY_REDUCE_SCATTER ? steps_given(s, i, 0, s->rank) : 0;
        return s->size * (number + i + (int)k) + s->size * (s->size - 1) / 2;
    }
    while (k >= steps_taken(s, i, from + 1))
        from++;
    k -= steps_taken(s, i, from);
    if (collective == HALAY_ALLTOALL || collective == HALAY_SCATTER)
        k += steps_given(s, i, from, s->rank);
    return steps_value(number, i, k, from);
}

/* Returns element k of this rank's result. */
static inline int32_t steps_result(struct steps *s, int i, size_t k)
{
    const float *at = &steps_out(s, i)[k];
    int32_t value;

    if (!steps_is_integer(s, i, k))
        return (int32_t)*at;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Checks the completed results, also in the step in which a peer is lost. */
static inline void steps_check(struct steps *s, int number)
{
    for (int i = 0; i < STEP_TENSORS; i++) {
        size_t count = s->is_complete[i] ? steps_count(s, i) : 0, k = 0;
        while (k < count && steps_result(s, i, k) == steps_expected(s, number, i, k))
            k++;
        CHECK(k == count, "step %d tensor %d, kind %d, element %zu: %d", number, i, (int)steps_kind(s, i), k,
              (int)steps_result(s, i, k));
    }
}

/* Returns nonzero if the call succeeded. Notes a lost peer where one may be lost. */
static inline int steps_is_ok(struct steps *s, enum halay_status status, int number, int i)
{
    if (s->may_break && status == HALAY_ERR_PEER) {
        s->is_broken = 1;
        return 0;
    }
    return CHECK(status == HALAY_OK, "step %d tensor %d: %s", number, i, halay_status_string(status));
}

static inline void steps_submit(struct steps *s, int number, int i, struct halay_request **request)
{
    if (!steps_is_ok(s, halay_submit(s->tensors[i], NULL, NULL, request), number, i))
        *request = NULL;
}

static inline int steps_finish(struct steps *s, struct halay_request *request, int number, int i)
{
    int is_ok = request && steps_is_ok(s, halay_wait(request, STEP_WAIT_MS), number, i);

    if (is_ok && i >= 0)
        s->is_complete[i] = 1;
    halay_request_free(request);
    return is_ok;
}

/* Counts requests that have succeeded. */
static inline void steps_ended(void *arg, enum halay_status status, const char *text)
{
    (void)text;
    atomic_fetch_add((_Atomic int *)arg, status == HALAY_OK);
}

/* An ordinary step: one by one, by one call, some with a callback. */
static inline void steps_run(struct steps *s, int number)
{
    struct halay_request *requests[STEP_TENSORS] = { NULL };
    enum { EACH = 4, CALLBACKS = (STEP_TENSORS + EACH - 1) / EACH };
    _Atomic int ended = 0;

    steps_fill(s, number);
    if (number % 3 == 1)
        steps_is_ok(s, halay_submit_many(s->tensors, STEP_TENSORS, NULL, NULL, requests), number, -1);
    for (int i = 0; i < STEP_TENSORS && number % 3 != 1; i++)
        if (number % 3 == 2 && i % EACH == 0)
            steps_is_ok(s, halay_submit(s->tensors[i], steps_ended, &ended, &requests[i]), number, i);
        else
            steps_submit(s, number, i, &requests[i]);
    for (int i = 0; i < STEP_TENSORS; i++)
        steps_finish(s, requests[i], number, i);
    CHECK(s->is_broken || number % 3 != 2 || ended == CALLBACKS, "step %d: %d callbacks", number, ended);
    steps_check(s, number);
}

/* ---- what a plan accepts ---- */

static inline int steps_has_own_size(const struct steps *s, int i)
{
    return halay_collective_goes_by_rows((int)steps_collective(s, i)) && steps_kind(s, i) != STEP_ALLGATHER_INSIDE;
}

/* Copies the result from the request. */
static inline void steps_take_result(struct steps *s, const struct halay_request *request, int number, int i)
{
    struct halay_result result = { .struct_size = sizeof result };
    size_t bytes = steps_count(s, i) * sizeof(float);

    if (CHECK(halay_request_result(request, &result) == HALAY_OK && result.bytes == bytes,
              "step %d tensor %d: %zu bytes, not %zu", number, i, result.bytes, bytes) &&
        bytes)
        memcpy(s->result[i], result.data, bytes);
}

/* Submits by name; results of varying size are in the request's memory. */
static inline void steps_run_results(struct steps *s, int number)
{
    struct halay_request *requests[STEP_TENSORS];
    struct steps_info d;

    steps_fill(s, number);
    for (int i = 0; i < STEP_TENSORS; i++) {
        steps_describe(s, i, &d);
        if (steps_has_own_size(s, i)) {
            d.info.out = NULL;
            d.info.out_bytes = 0;
        }
        if (!steps_is_ok(s, halay_submit_named(s->ctx, &d.info, NULL, NULL, &requests[i]), number, i))
            requests[i] = NULL;
    }
    for (int i = 0; i < STEP_TENSORS; i++) {
        if (requests[i] && steps_has_own_size(s, i) && steps_is_ok(s, halay_wait(requests[i], STEP_WAIT_MS), number, i))
            steps_take_result(s, requests[i], number, i);
        steps_finish(s, requests[i], number, i);
    }
    steps_check(s, number);
}

static inline void steps_call_back(void *arg, enum halay_status status, const char *text)
{
    struct steps *s = arg;

    CHECK(status == HALAY_OK || (s->may_break && status == HALAY_ERR_PEER), "%s", text);
    s->lost += status != HALAY_OK;
    s->callbacks--;
}

/* Submits a thread's part of a step: the tensors `first`, first + 2, ... */
struct steps_part {
    struct steps *s;
    int number, first;
    enum halay_status statuses[STEP_TENSORS];
    struct halay_request *requests[STEP_TENSORS]; /* of every third tensor; the others end by their callbacks */
};

static inline void *steps_submit_part(void *arg)
{
    struct steps_part *part = arg;
    struct steps *s = part->s;

    for (int i = part->first; i < STEP_TENSORS; i += 2) {
        part->requests[i] = NULL;
        part->statuses[i] = halay_submit(s->tensors[i], steps_call_back, s, i % 3 ? NULL : &part->requests[i]);
    }
    return NULL;
}

/* Two threads submit, with callbacks. */
static inline void steps_run_threads(struct steps *s, int number)
{
    struct steps_part parts[2] = { { .s = s, .number = number, .first = 0 }, { .s = s, .number = number, .first = 1 } };
    pthread_t thread;

    steps_fill(s, number);
    s->callbacks = STEP_TENSORS;
    s->lost = 0;
    REQUIRE(!pthread_create(&thread, NULL, steps_submit_part, &parts[1]));
    steps_submit_part(&parts[0]);
    pthread_join(thread, NULL);
    for (int i = 0; i < STEP_TENSORS; i++)
        if (!steps_is_ok(s, parts[i % 2].statuses[i], number, i)) {
            parts[i % 2].requests[i] = NULL;
            s->callbacks--;
        }
    for (int i = 0; i < STEP_TENSORS; i++)
        if (i % 3 == 0)
            steps_finish(s, parts[i % 2].requests[i], number, i);
    for (int ms = 0; s->callbacks && ms < STEP_WAIT_MS; ms++)
        poll(NULL, 0, 1);
    CHECK(!s->callbacks, "step %d: %d callbacks have not come", number, s->callbacks);
    s->is_broken |= s->lost != 0;
    for (int i = 0; i < STEP_TENSORS; i++)
        s->is_complete[i] = !s->is_broken;
    steps_check(s, number);
}

/* Returns nonzero if a plan is in force. Reads the plan without a lock, though another thread may drive. */
static inline int steps_have_plan(const struct steps *s)
{
    pthread_mutex_lock(&s->ctx->lock);
    int have_plan = s->tensors[0]->entry->planned != NULL;
    pthread_mutex_unlock(&s->ctx->lock);
    return have_plan;
}

/* ---- deviations ---- */

/* Each rank submits in an order of its own. */
static inline void steps_shuffle(struct random *random, int *order)
{
    for (int i = 0; i < STEP_TENSORS; i++)
        order[i] = i;
    for (int i = STEP_TENSORS - 1; i > 0; i--) {
        int k = (int)random_below(random, (size_t)i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}

static inline void steps_run_shuffled(struct steps *s, int number, struct random *own)
{
    struct halay_request *requests[STEP_TENSORS];
    int order[STEP_TENSORS];

    steps_fill(s, number);
    steps_shuffle(own, order);
    for (int i = 0; i < STEP_TENSORS; i++)
        steps_submit(s, number, order[i], &requests[order[i]]);
    steps_shuffle(own, order);
    for (int i = 0; i < STEP_TENSORS; i++)
        steps_finish(s, requests[order[i]], number, order[i]);
    steps_check(s, number);
}

/* The ranks wait for each tensor before they submit the next one. */
static inline void steps_run_one_by_one(struct steps *s, int number)
{
    struct halay_request *request;

    steps_fill(s, number);
    for (int i = 0; i < STEP_TENSORS; i++) {
        steps_submit(s, number, i, &request);
        steps_finish(s, request, number, i);
    }
    steps_check(s, number);
}

static inline struct halay_request *steps_submit_other(struct steps *s, int number, float *data)
{
    struct halay_request *request;
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "other",
                                      .collective = HALAY_ALLREDUCE,
                                      .dtype = HALAY_F32,
                                      .reduction = HALAY_SUM,
                                      .shape = { 1 },
                                      .dimensions = 1,
                                      .in = data,
                                      .out = data };

    return steps_is_ok(s, halay_submit_named(s->ctx, &info, NULL, NULL, &request), number, -1) ? request : NULL;
}

/* A tensor that is not in the plan is submitted at a random place of the step. */
static inline void steps_run_with_other(struct steps *s, int number, struct random *own)
{
    struct halay_request *requests[STEP_TENSORS], *other = NULL;
    float data = (float)s->rank;
    int at = (int)random_below(own, STEP_TENSORS + 1), is_first = (int)random_below(own, 2), is_ok = 0;

    steps_fill(s, number);
    for (int i = 0; i <= STEP_TENSORS; i++) {
        if (i == at)
            other = steps_submit_other(s, number, &data);
        if (i < STEP_TENSORS)
            steps_submit(s, number, i, &requests[i]);
    }
    if (is_first)
        is_ok = steps_finish(s, other, number, -1);
    for (int i = 0; i < STEP_TENSORS; i++)
        steps_finish(s, requests[i], number, i);
    if (!is_first)
        is_ok = steps_finish(s, other, number, -1);
    CHECK(!is_ok || data == (float)(s->size * (s->size - 1) / 2));
    steps_check(s, number);
}

/* One tensor is submitted after all others have ended, on all ranks. */
static inline void steps_run_without_one(struct steps *s, int number, struct random *shared)
{
    struct halay_request *requests[STEP_TENSORS];
    int missing = (int)random_below(shared, STEP_TENSORS);

    steps_fill(s, number);
    for (int i = 0; i < STEP_TENSORS; i++)
        if (i != missing)
            steps_submit(s, number, i, &requests[i]);
    for (int i = 0; i < STEP_TENSORS; i++)
        if (i != missing)
            steps_finish(s, requests[i], number, i);
    steps_submit(s, number, missing, &requests[missing]);
    steps_finish(s, requests[missing], number, missing);
    steps_check(s, number);
}

/* One rank cancels a tensor that the others submit, too: it ends in the same way on all ranks. */
static inline void steps_run_canceled(struct steps *s, int number, struct random *shared)
{
    struct halay_request *requests[STEP_TENSORS];
    int which = (int)random_below(shared, STEP_TENSORS), who = (int)random_below(shared, (size_t)s->size);

    steps_fill(s, number);
    for (int i = 0; i < STEP_TENSORS; i++) {
        steps_submit(s, number, i, &requests[i]);
        if (i == which && who == s->rank && requests[i])
            CHECK(halay_cancel(requests[i]) == HALAY_OK);
    }
    for (int i = 0; i < STEP_TENSORS; i++)
        if (i != which)
            steps_finish(s, requests[i], number, i);
    enum halay_status status = requests[which] ? halay_wait(requests[which], STEP_WAIT_MS) : HALAY_ERR_PEER;
    if (status != HALAY_ERR_CANCELED)
        steps_is_ok(s, status, number, which);
    halay_request_free(requests[which]);
    steps_check(s, number);
}

/* A rank joins while the others have one more step. */
static inline void steps_run_joined(struct steps *s, int number, struct random *shared)
{
    struct halay_request *requests[STEP_TENSORS];
    int who = (int)random_below(shared, (size_t)s->size), last;

    if (who != s->rank) {
        steps_fill(s, number);
        for (int i = 0; i < STEP_TENSORS; i++)
            if (steps_collective(s, i) == HALAY_ALLREDUCE) /* other operations are refused while a rank has joined */
                steps_submit(s, number, i, &requests[i]);
        for (int i = 0; i < STEP_TENSORS; i++)
            if (steps_collective(s, i) == HALAY_ALLREDUCE && steps_finish(s, requests[i], number, i))
                s->is_complete[i] = 0; /* a sum without that rank's part */
    }
    steps_is_ok(s, halay_join(s->ctx, &last), number, -1);
}

/* The two streams of random numbers of a rank: one that is the same on all ranks, and its own. */
struct steps_random {
    struct random shared, own;
};

static inline struct steps_random steps_seed(const struct steps *s, uint64_t seed)
{
    return (struct steps_random){ { seed }, { seed * 7 + (uint64_t)s->rank } };
}

/* Runs a step; one of `rarely` deviates. Every fourth of the others is submitted by two threads, and one by name. */
static inline void steps_run_any(struct steps *s, int number, int rarely, struct steps_random *random)
{
    size_t kind = random_below(&random->shared, 6 * (size_t)rarely);

    switch (kind) {
    case 0:
        steps_run_shuffled(s, number, &random->own);
        break;
    case 1:
        steps_run_one_by_one(s, number);
        break;
    case 2:
        steps_run_with_other(s, number, &random->own);
        break;
    case 3:
        steps_run_without_one(s, number, &random->shared);
        break;
    case 4:
        steps_run_canceled(s, number, &random->shared);
        break;
    case 5:
        steps_run_joined(s, number, &random->shared);
        break;
    default:
        if (kind % 4 == 0)
            steps_run_threads(s, number);
        else if (kind % 4 == 1)
            steps_run_results(s, number);
        else
            steps_run(s, number);
    }
}

/* Runs this number of steps, in which several plans are made and left. The same seed on all ranks. */
static inline void steps_run_all(struct steps *s, uint64_t seed, int count, int rarely)
{
    struct steps_random random = steps_seed(s, seed);
    int plans = 0, had_plan = 0;

    for (int n = 0; n < count; n++) {
        int has_plan = steps_have_plan(s);
        plans += has_plan && !had_plan;
        had_plan = has_plan;
        steps_run_any(s, n, rarely, &random);
    }
    if (s->rank == 0)
        printf("%d ranks, %d steps: %d plans\n", s->size, count, plans);
    CHECK(plans > 1);
}

#endif
