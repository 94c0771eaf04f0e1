/* SPDX-License-Identifier: Apache-2.0
 *
 * The checking mode: the last rank calls something else than the others, in every way there is. Every rank gets the
 * status and a text with the ranks and both values, nobody's data have changed, and the group goes on. Then overlapping
 * groups with everything in flight at once, where some calls differ and others don't.
 */
#include "tests/coll/checking.h"
#include "collectives/group/channel.h"
#include "halay_tools.h"
#include "tests/test.h"
#include <string.h>

enum { RANKS_MAX = 16, COUNT = 64, MOST = RANKS_MAX * COUNT, FLIGHTS = 3 };

struct run {
    struct halay_group *group;
    int rank, size, odd; /* odd: this is the rank that differs */
    float in[MOST], out[MOST];
};

static void fill(struct run *run)
{
    for (int i = 0; i < MOST; i++) {
        run->in[i] = (float)(run->rank + i);
        run->out[i] = -1;
    }
}

static int is_untouched(const struct run *run)
{
    for (int i = 0; i < MOST; i++)
        if (run->in[i] != (float)(run->rank + i) || run->out[i] != -1)
            return 0;
    return 1;
}

static void goes_on(struct run *run, const char *what)
{
    float sum = (float)run->rank;

    CHECK(halay_group_allreduce(run->group, &sum, &sum, 1, HALAY_F32, HALAY_SUM) == HALAY_OK &&
              sum == (float)(run->size * (run->size - 1) / 2),
          "rank %d goes on after '%s'", run->rank, what);
}

/* text: what the line says behind the number of the collective. */
static void expect(struct run *run, enum halay_status status, const char *text)
{
    char got[512];

    halay_group_last_error(run->group, got, sizeof got);
    CHECK(status == HALAY_ERR_MISMATCH && strstr(got, text), "rank %d of %d: '%s' and '%s' instead of '%s'", run->rank,
          run->size, halay_status_string(status), got, text);
    CHECK(is_untouched(run), "rank %d of %d: data after '%s'", run->rank, run->size, text);
    goes_on(run, text);
}

/* `format` is given the number of the odd rank. */
#define EXPECT(run, status, ...)                    \
    do {                                            \
        char text_[256];                            \
        snprintf(text_, sizeof text_, __VA_ARGS__); \
        expect(run, status, text_);                 \
    } while (0)

static void whole_calls(struct run *run)
{
    struct halay_group *g = run->group;
    int last = run->size - 1;

    EXPECT(run,
           run->odd ? halay_group_barrier(g) : halay_group_allreduce(g, run->in, run->out, 5, HALAY_F32, HALAY_SUM),
           ": rank %d calls barrier, rank 0 calls allreduce", last);
    EXPECT(run,
           run->odd ? halay_group_alltoall(g, run->in, run->out, 5, HALAY_F32)
                    : halay_group_allgather(g, run->in, run->out, 5, HALAY_F32),
           ": rank %d calls alltoall, rank 0 calls allgather", last);
    EXPECT(run,
           run->odd ? halay_group_reduce(g, run->in, run->out, 5, HALAY_F32, HALAY_SUM, 0)
                    : halay_group_reduce_scatter(g, run->in, run->out, 5, HALAY_F32, HALAY_SUM),
           ": rank %d calls reduce, rank 0 calls reduce_scatter", last);
}

static void types_and_reductions(struct run *run)
{
    struct halay_group *g = run->group;
    int last = run->size - 1;

    EXPECT(run, halay_group_allreduce(g, run->in, run->out, 5, run->odd ? HALAY_I32 : HALAY_F32, HALAY_SUM),
           ", allreduce: rank %d has type i32, rank 0 has type f32", last);
    EXPECT(run, halay_group_broadcast(g, run->in, 5, run->odd ? HALAY_BF16 : HALAY_F16, 0),
           ", broadcast: rank %d has type bf16, rank 0 has type f16", last);
    EXPECT(run, halay_group_reduce(g, run->in, run->out, 5, HALAY_F32, run->odd ? HALAY_MIN : HALAY_AVERAGE, last),
           ", reduce: rank %d has reduction min, rank 0 has reduction average", last);
    EXPECT(run, halay_group_allreduce(g, run->in, run->out, 5, HALAY_F32, run->odd ? HALAY_ADASUM : HALAY_MAX),
           ", allreduce: rank %d has reduction adasum, rank 0 has reduction max", last);
}

/* Nothing on one side, a lot on the other: the rank that has nothing to move must not be done at once. */
static void counts_and_roots(struct run *run)
{
    struct halay_group *g = run->group;
    int last = run->size - 1;

    EXPECT(run, halay_group_allreduce(g, run->in, run->out, run->odd ? 0 : MOST, HALAY_F32, HALAY_SUM),
           ", allreduce: rank %d has count 0, rank 0 has count %d", last, MOST);
    EXPECT(run, halay_group_allgather(g, run->in, run->out, run->odd ? 6 : 5, HALAY_F32),
           ", allgather: rank %d has count 6, rank 0 has count 5", last);
    EXPECT(run, halay_group_reduce_scatter(g, run->in, run->out, run->odd ? 6 : 5, HALAY_F32, HALAY_SUM),
           ", reduce_scatter: rank %d has count 6, rank 0 has count 5", last);
    EXPECT(run, halay_group_alltoall(g, run->in, run->out, run->odd ? 6 : 5, HALAY_F32),
           ", alltoall: rank %d has count 6, rank 0 has count 5", last);
    EXPECT(run, halay_group_broadcast(g, run->in, 5, HALAY_F32, run->odd ? last : 0),
           ", broadcast: rank %d has root %d, rank 0 has root 0", last, last);
    EXPECT(run, halay_group_reduce(g, run->in, run->out, 5, HALAY_F32, HALAY_SUM, run->odd ? 0 : last),
           ", reduce: rank %d has root 0, rank 0 has root %d", last, last);
}

static void lists_of_counts(struct run *run)
{
    struct halay_group *g = run->group;
    int last = run->size - 1;
    size_t counts[RANKS_MAX];

    for (int r = 0; r < run->size; r++)
        counts[r] = (size_t)r + 1;
    if (run->odd) {
        counts[last - 1]++; /* and one more, which is not the first */
        counts[last] += 2;
    }
    EXPECT(run, halay_group_allgatherv(g, run->in, run->out, counts, HALAY_F32),
           ", allgatherv: rank %d has counts[%d] = %d, rank 0 has %d", last, last - 1, last + 1, last);
    EXPECT(run, halay_group_reduce_scatterv(g, run->in, run->out, counts, HALAY_F32, HALAY_SUM),
           ", reduce_scatterv: rank %d has counts[%d] = %d, rank 0 has %d", last, last - 1, last + 1, last);
    EXPECT(run, halay_group_allreduce_adasum(g, run->in, run->out, counts, (size_t)run->size, HALAY_F32),
           ", allreduce_adasum: rank %d has counts[%d] = %d, rank 0 has %d", last, last - 1, last + 1, last);
}

static void lists_of_tensors(struct run *run)
{
    struct halay_group *g = run->group;
    int last = run->size - 1;
    size_t counts[] = { 7, 0, 3 }, even[RANKS_MAX];

    EXPECT(run, halay_group_allreduce_adasum(g, run->in, run->out, counts, run->odd ? 2 : 3, HALAY_F32),
           ", allreduce_adasum: rank %d has count 2, rank 0 has count 3", last);
    counts[1] += (size_t)run->odd;
    counts[0] -= (size_t)run->odd; /* the same sum */
    EXPECT(run, halay_group_allreduce_adasum(g, run->in, run->out, counts, 3, HALAY_F32),
           ", allreduce_adasum: rank %d has counts[0] = 6, rank 0 has 7", last);
    for (int r = 0; r < run->size; r++)
        even[r] = 5;
    EXPECT(run,
           run->odd ? halay_group_allgatherv(g, run->in, run->out, even, HALAY_F32)
                    : halay_group_allgather(g, run->in, run->out, 5, HALAY_F32),
           ": rank %d calls allgatherv, rank 0 calls allgather", last);
}

/* Only two ranks can know of it, and only rank 0 of both. */
static void splits(struct run *run)
{
    struct halay_group *g = run->group;
    int last = run->size - 1, to = run->size > 2 ? 1 : 0;
    size_t in[RANKS_MAX], out[RANKS_MAX];

    for (int r = 0; r < run->size; r++)
        in[r] = out[r] = 3;
    in[to] += (size_t)run->odd;
    EXPECT(run, halay_group_alltoallv(g, run->in, in, run->out, out, HALAY_F32),
           ", alltoallv: rank %d has 4 elements for rank %d, which expects 3", last, to);
    in[to] = 3;
    out[to] -= (size_t)(run->odd * 3);
    EXPECT(run, halay_group_alltoallv(g, run->in, in, run->out, out, HALAY_F32),
           ", alltoallv: rank %d has 3 elements for rank %d, which expects 0", to, last);
}

/* What all ranks have to set alike. */
static void settings(struct run *run)
{
    struct halay_group *g = run->group;
    int last = run->size - 1;

    CHECK(halay_group_set_algorithm(g, "allgather", run->odd ? "bruck" : "ring") == HALAY_OK);
    EXPECT(run, halay_group_allgather(g, run->in, run->out, 5, HALAY_F32),
           ", allgather: rank %d has algorithm bruck, rank 0 has algorithm ring", last);
    CHECK(halay_group_set_algorithm(g, "allgather", "auto") == HALAY_OK);
    size_t before = g->world->config.chunk_bytes;
    CHECK(halay_group_set_segment(g, 16384) == HALAY_OK);
    goes_on(run, "segments");
    if (run->odd)
        CHECK(halay_group_set_segment(g, 8192) == HALAY_OK);
    enum halay_status status = halay_group_allgather(g, run->in, run->out, 5, HALAY_F32);
    CHECK(halay_group_set_segment(g, before) == HALAY_OK);
    EXPECT(run, status, ", allgather: rank %d has chunks of 8192 bytes, rank 0 has chunks of 16384 bytes", last);
    before = g->world->config.slot_bytes;
    halay_group_set_slot(g, run->odd ? 8192 : 16384);
    status = halay_group_allgather(g, run->in, run->out, 5, HALAY_F32);
    halay_group_set_slot(g, before);
    EXPECT(run, status, ", allgather: rank %d has slots of 8192 bytes, rank 0 has slots of 16384 bytes", last);
}

/* ---- {0,1}, {1,2}, {2,0} ---- */

struct flight {
    struct halay_group *group; /* NULL: not a member */
    struct halay_coll *c[FLIGHTS];
    float data[FLIGHTS];
};

/* The second of three in flight differs. */
static void flight_start(struct flight *f, int pair)
{
    int member = halay_group_rank(f->group);

    for (int k = 0; k < FLIGHTS; k++) {
        f->data[k] = (float)(member + pair);
        CHECK(halay_group_allreduce_start(f->group, &f->data[k], &f->data[k], 1, HALAY_F32,
                                          k == 1 && member ? HALAY_MAX : HALAY_SUM, &f->c[k]) == HALAY_OK);
    }
}

static void flight_finish(struct flight *f, int pair)
{
    int member = halay_group_rank(f->group);

    for (int k = 0; k < FLIGHTS; k++) {
        enum halay_status status = halay_coll_wait(f->c[k], -1);
        CHECK(status == (k == 1 ? HALAY_ERR_MISMATCH : HALAY_OK) && halay_coll_progress(f->c[k]) == status, "%s",
              halay_status_string(status));
        CHECK(f->data[k] == (float)(k == 1 ? member + pair : 2 * pair + 1), "pair %d, %d: %g", pair, k,
              (double)f->data[k]);
        halay_coll_end(f->c[k]);
    }
}

/* Each rank waits for another pair first, around in a circle. */
static void overlapping(struct run *run)
{
    struct flight flights[3] = { { 0 } };

    if (run->size < 3)
        return;
    for (int p = 0; p < 3; p++) {
        int ranks[2] = { p, (p + 1) % 3 };
        CHECK(halay_group_subset(run->group, ranks, 2, &flights[p].group) == HALAY_OK);
    }
    for (int round = 0; round < 4 && run->rank < 3; round++) {
        int first = run->rank, second = (run->rank + 2) % 3;
        flight_start(&flights[second], second);
        flight_start(&flights[first], first);
        flight_finish(&flights[first], first);
        flight_finish(&flights[second], second);
    }
    for (int p = 0; p < 3; p++)
        halay_group_close(flights[p].group);
}

int checking_run(struct halay_group *group)
{
    static const struct run zero;
    struct run *run = malloc(sizeof *run);

    REQUIRE(run && halay_group_size(group) <= RANKS_MAX);
    *run = zero;
    run->group = group;
    run->rank = halay_group_rank(group);
    run->size = halay_group_size(group);
    run->odd = run->rank == run->size - 1;
    fill(run);
    if (run->size > 1) {
        whole_calls(run);
        types_and_reductions(run);
        counts_and_roots(run);
        lists_of_counts(run);
        lists_of_tensors(run);
        splits(run);
        settings(run);
        overlapping(run);
    }
    free(run);
    return test_failed;
}
