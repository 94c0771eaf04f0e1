/* SPDX-License-Identifier: Apache-2.0
 *
 * Gather and scatter: every root, each algorithm of the all-to-all, with one count and with a list of them, some of
 * them zero, in place and not, in memory of the group and of the program; in the checking mode ranks that differ. Sends
 * and receives: around a ring both ways, many at a time under several tags, waited for in another order, large and
 * empty ones, beside a collective; ranks that differ; a receive from a rank that has closed its group.
 */
#include "tests/coll/exchanges.h"
#include "collectives/group/channel.h"
#include "halay_tools.h"
#include "tests/test.h"
#include <string.h>

enum { RANKS_MAX = 16, COUNT_MAX = 20011 };

struct run {
    struct halay_group *group;
    int rank, size;
    int32_t *in, *out; /* of COUNT_MAX a rank */
    size_t counts[RANKS_MAX], starts[RANKS_MAX + 1];
};

/* Element i of rank r's block, in the round with this number. */
static int32_t value(int r, size_t i, int round)
{
    return (int32_t)(r * 1000003 + (int)i * 7 + round);
}

static void fill(int32_t *data, const struct run *run, int r, int round)
{
    for (size_t i = 0; i < run->counts[r]; i++)
        data[i] = value(r, i, round);
}

static int holds(const int32_t *data, const struct run *run, int r, int round)
{
    for (size_t i = 0; i < run->counts[r]; i++)
        if (data[i] != value(r, i, round))
            return 0;
    return 1;
}

/* Does the call, once started. */
static enum halay_status finish(enum halay_status started, struct halay_coll **c)
{
    return started == HALAY_OK ? halay_coll_finish(*c) : started;
}

static void set_counts(struct run *run, size_t count, int is_list)
{
    for (int r = 0; r < run->size; r++) {
        run->counts[r] = is_list ? (size_t)(r % 3) * count / 2 : count;
        run->starts[r + 1] = run->starts[r] + run->counts[r];
    }
}

static void gather(struct run *run, int root, int is_list, int in_place, int round)
{
    struct halay_group *g = run->group;
    int is_root = run->rank == root;
    int32_t *in = is_root && in_place ? run->out + run->starts[run->rank] : run->in, *out = is_root ? run->out : NULL;

    memset(run->out, 0xff, run->starts[run->size] * sizeof *run->out);
    fill(in, run, run->rank, round);
    enum halay_status status = is_list ? halay_group_gatherv(g, in, out, run->counts, HALAY_I32, root)
                                       : halay_group_gather(g, in, out, run->counts[0], HALAY_I32, root);
    CHECK(status == HALAY_OK, "gather: %s", halay_status_string(status));
    for (int r = 0; is_root && r < run->size; r++)
        CHECK(holds(run->out + run->starts[r], run, r, round), "gather at %d of %d: block %d", root, run->size, r);
}

static void scatter(struct run *run, int root, int is_list, int in_place, int round)
{
    struct halay_group *g = run->group;
    int is_root = run->rank == root;
    int32_t *in = is_root ? run->in : NULL;
    int32_t *out = is_root && in_place ? run->in + run->starts[run->rank] : run->out;

    memset(run->out, 0xff, run->starts[run->size] * sizeof *run->out);
    for (int r = 0; is_root && r < run->size; r++)
        fill(run->in + run->starts[r], run, r, round);
    enum halay_status status = is_list ? halay_group_scatterv(g, in, out, run->counts, HALAY_I32, root)
                                       : halay_group_scatter(g, in, out, run->counts[0], HALAY_I32, root);
    CHECK(status == HALAY_OK, "scatter: %s", halay_status_string(status));
    CHECK(holds(out, run, run->rank, round), "scatter from %d of %d: rank %d", root, run->size, run->rank);
    for (int r = 0; is_root && r < run->size; r++)
        CHECK(holds(run->in + run->starts[r], run, r, round), "scatter from %d: input %d", root, r);
}

static void all_ways(struct run *run)
{
    static const size_t counts[] = { 0, 1, 3, 1000, COUNT_MAX };
    int round = 0;

    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        for (int way = 0; way < 4; way++) {
            int root = (int)((k + (size_t)way) % (size_t)run->size);
            set_counts(run, counts[k], way & 1);
            gather(run, root, way & 1, way >> 1, round++);
            scatter(run, root, way & 1, way >> 1, round++);
        }
}

static void each_algorithm(struct run *run)
{
    const char *name;

    all_ways(run);
    for (size_t i = 0; (name = halay_group_algorithm(run->group, "alltoall", i, NULL)); i++) {
        CHECK(halay_group_set_algorithm(run->group, "alltoall", name) == HALAY_OK);
        all_ways(run);
    }
    CHECK(halay_group_set_algorithm(run->group, "alltoall", "auto") == HALAY_OK);
}

static void wrong_arguments(struct run *run)
{
    struct halay_group *g = run->group;
    struct halay_coll *c = NULL;

    CHECK(halay_group_gather_start(NULL, run->in, run->out, 1, HALAY_I32, 0, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_gather_start(g, run->in, run->out, 1, HALAY_I32, run->size, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_gather_start(g, NULL, run->out, 1, HALAY_I32, 0, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_gather_start(g, run->in, NULL, 1, HALAY_I32, run->rank, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_scatter_start(g, run->in, run->out, SIZE_MAX / 2, HALAY_I32, 0, &c) == HALAY_ERR_ARGUMENT);
    if (run->size > 1)
        CHECK(halay_group_scatter_start(g, run->in, run->in + (run->rank ? 0 : 1), 2, HALAY_I32, run->rank, &c) ==
              HALAY_ERR_ARGUMENT);
    CHECK(!c);
}

static void expect(struct run *run, enum halay_status status, const char *text)
{
    char got[512];

    halay_group_last_error(run->group, got, sizeof got);
    CHECK(status == HALAY_ERR_MISMATCH && strstr(got, text), "rank %d: '%s' and '%s' instead of '%s'", run->rank,
          halay_status_string(status), got, text);
}

/* The last rank calls something else; all are told what, and the group goes on. */
static void differences(struct run *run)
{
    struct halay_group *g = run->group;
    struct halay_coll *c;
    int is_odd = run->rank == run->size - 1;

    set_counts(run, 4, 1);
    expect(run, finish(halay_group_gather_start(g, run->in, run->out, is_odd ? 3 : 4, HALAY_I32, 0, &c), &c),
           ", gather: rank");
    expect(run, finish(halay_group_gather_start(g, run->in, run->out, 4, HALAY_I32, is_odd, &c), &c), "has root 1");
    expect(run,
           finish(is_odd ? halay_group_gather_start(g, run->in, run->out, 4, HALAY_I32, 0, &c)
                         : halay_group_scatter_start(g, run->in, run->out, 4, HALAY_I32, 0, &c),
                  &c),
           " calls gather, rank 0 calls scatter");
    run->counts[1] += (size_t)is_odd;
    expect(run, finish(halay_group_scatterv_start(g, run->in, run->out, run->counts, 0, HALAY_I32, 0, &c), &c),
           "has counts[1] = ");
    set_counts(run, 5, 0);
    gather(run, 0, 0, 0, 77);
}

/* ---- send, receive ---- */

enum { MESSAGES = 6, TAGS = 3 };

static size_t message_length(int i)
{
    static const size_t lengths[MESSAGES] = { 1, 0, 500, COUNT_MAX / 2, 3, 4000 };

    return lengths[i];
}

/* Message i of a round goes to the next rank, and to the one before under the same tags, while a collective is under
 * way; the last started is waited for first. */
static void ring(struct run *run, int is_upwards)
{
    struct halay_group *g = run->group;
    int step = is_upwards ? 1 : run->size - 1, to = (run->rank + step) % run->size,
        from = (run->rank + run->size - step) % run->size;
    struct halay_coll *c[2 * MESSAGES], *barrier;
    size_t at[MESSAGES + 1] = { 0 };

    CHECK(halay_group_barrier_start(g, &barrier) == HALAY_OK);
    for (int i = 0; i < MESSAGES; i++) {
        size_t n = message_length(i);
        int tag = i % TAGS ? i % TAGS : HALAY_TAG_MAX;
        at[i + 1] = at[i] + n;
        for (size_t k = 0; k < n; k++)
            run->in[at[i] + k] = value(run->rank, k, i);
        memset(run->out + at[i], 0xff, n * sizeof *run->out);
        CHECK(halay_group_send_start(g, run->in + at[i], n, HALAY_I32, to, tag, &c[2 * i]) == HALAY_OK);
        CHECK(halay_group_receive_start(g, run->out + at[i], n, HALAY_I32, from, tag, &c[2 * i + 1]) == HALAY_OK);
    }
    for (int i = 2 * MESSAGES; i--;)
        CHECK(halay_coll_finish(c[i]) == HALAY_OK);
    for (int i = 0; i < MESSAGES; i++)
        for (size_t k = 0; k < message_length(i); k++)
            if (!CHECK(run->out[at[i] + k] == value(from, k, i), "message %d, element %zu", i, k))
                break;
    CHECK(halay_coll_finish(barrier) == HALAY_OK);
}

/* One rank after the other, by blocking calls. */
static void relay(struct run *run)
{
    int32_t token = run->rank;

    if (run->rank > 0)
        CHECK(halay_group_receive(run->group, &token, 1, HALAY_I32, run->rank - 1, 9) == HALAY_OK &&
              token == run->rank - 1);
    token = run->rank;
    if (run->rank < run->size - 1)
        CHECK(halay_group_send(run->group, &token, 1, HALAY_I32, run->rank + 1, 9) == HALAY_OK);
}

static void wrong_peers(struct run *run)
{
    struct halay_group *g = run->group;
    struct halay_coll *c = NULL;
    int other = run->rank ? 0 : 1;

    CHECK(halay_group_send_start(NULL, run->in, 1, HALAY_I32, 0, 0, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_send_start(g, run->in, 1, HALAY_I32, run->rank, 0, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_send_start(g, run->in, 1, HALAY_I32, run->size, 0, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_receive_start(g, run->in, 1, HALAY_I32, -1, 0, &c) == HALAY_ERR_ARGUMENT && !c);
    if (run->size < 2)
        return;
    CHECK(halay_group_send_start(g, run->in, 1, HALAY_I32, other, -1, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_send_start(g, run->in, 1, HALAY_I32, other, HALAY_TAG_MAX + 1, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_send_start(g, NULL, 1, HALAY_I32, other, 0, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_send_start(g, run->in, 1, (enum halay_dtype)99, other, 0, &c) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_send_start(g, run->in, 1, HALAY_I32, other, 0, NULL) == HALAY_ERR_ARGUMENT && !c);
}

/* In the checking mode: of three messages under one tag the second has another length there, the third another type. */
static void unlike_messages(struct run *run)
{
    struct halay_group *g = run->group;
    struct halay_coll *c[3];
    int is_receiver = run->rank == run->size - 1;

    if (run->rank && !is_receiver)
        return;
    for (int i = 0; i < 3; i++) {
        run->in[i] = 100 + i;
        run->out[2 * i] = -1;
        CHECK((is_receiver
                   ? halay_group_receive_start(g, run->out + 2 * i, i == 1 ? 2 : 1, i == 2 ? HALAY_F32 : HALAY_I32, 0,
                                               5, &c[i])
                   : halay_group_send_start(g, run->in + i, 1, HALAY_I32, run->size - 1, 5, &c[i])) == HALAY_OK);
    }
    CHECK(halay_coll_finish(c[0]) == HALAY_OK);
    expect(run, halay_coll_finish(c[2]),
           is_receiver ? "receives 1 of type f32, rank 0 sends 1 of type i32" : "receives 1 of type f32");
    CHECK(halay_coll_finish(c[1]) == HALAY_ERR_MISMATCH);
    CHECK(!is_receiver || (run->out[0] == 100 && run->out[2] == -1 && run->out[4] == -1));
    int32_t number = 7;
    CHECK((is_receiver ? halay_group_receive(g, &number, 1, HALAY_I32, 0, 5)
                       : halay_group_send(g, &number, 1, HALAY_I32, run->size - 1, 5)) == HALAY_OK &&
          number == 7);
}

/* In a group of its own: the last rank sends and closes it, its message arrives, a second one never comes. */
static void leaver(struct run *run)
{
    struct halay_group *group = NULL;
    int32_t number = 3;

    REQUIRE(halay_group_split(run->group, 0, 0, &group) == HALAY_OK);
    if (run->rank == run->size - 1)
        CHECK(halay_group_send(group, &number, 1, HALAY_I32, 0, 1) == HALAY_OK);
    if (run->rank == 0) {
        number = 0;
        CHECK(halay_group_receive(group, &number, 1, HALAY_I32, run->size - 1, 1) == HALAY_OK && number == 3);
        CHECK(halay_group_receive(group, &number, 1, HALAY_I32, run->size - 1, 1) == HALAY_ERR_PEER);
    }
    halay_group_close(group);
    CHECK(halay_group_barrier(run->group) == HALAY_OK);
}

static void messages(struct run *run)
{
    wrong_peers(run);
    if (run->size < 2)
        return;
    for (int i = 0; i < 4; i++)
        ring(run, i % 2);
    relay(run);
    if (run->group->is_checked)
        unlike_messages(run);
    if (run->size == 3)
        leaver(run);
}

int exchanges_run(struct halay_group *group)
{
    struct run run = { .group = group, .rank = halay_group_rank(group), .size = halay_group_size(group) };
    size_t bytes = (size_t)run.size * COUNT_MAX * sizeof(int32_t);
    void *shared[2];

    REQUIRE(run.size <= RANKS_MAX);
    for (int i = 0; i < 2; i++)
        REQUIRE(halay_group_alloc(group, bytes, &shared[i]) == HALAY_OK);
    run.in = shared[0];
    run.out = shared[1];
    each_algorithm(&run);
    run.out = malloc(bytes);
    REQUIRE(run.out);
    all_ways(&run);
    messages(&run);
    wrong_arguments(&run);
    if (group->is_checked)
        differences(&run);
    free(run.out);
    for (int i = 0; i < 2; i++)
        CHECK(halay_group_free(group, shared[i]) == HALAY_OK);
    return test_failed;
}
