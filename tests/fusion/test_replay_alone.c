/* SPDX-License-Identifier: Apache-2.0
 *
 * Small all-reduces that are submitted one by one, with replay: their results, and that leaving a plan has the same
 * outcome on all ranks: a rank changes the tensor, withdraws its submission, joins, leaves or dies; all agree anew.
 * Over the fake transport, with delays. usage: test_replay_alone [SEED]
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include <sched.h>
#include <stdlib.h>

enum { COUNT = 900, NAMES = 5, ROUNDS = 40, PHASES = 12, CAPTURED = 6 };

static _Atomic int replayed; /* rounds that began with a plan in force, since the ranks started */
static _Atomic int finished; /* ranks */

static float value(int rank, int round, size_t i)
{
    return (float)((i * 5 + (size_t)rank * 3 + (size_t)round) % 23);
}

static void note_plan(const struct rank_run *run, const char *name)
{
    size_t length = strlen(name);

    pthread_mutex_lock(&run->ctx->lock);
    const struct halay_entry *e = (const struct halay_entry *)halay_table_find(&run->ctx->all.names, name, length,
                                                                               halay_table_hash(name, length));
    replayed += e && e->planned;
    pthread_mutex_unlock(&run->ctx->lock);
}

/* Makes one all-reduce of a name on the ranks below `present`. */
static void reduce(struct rank_run *run, const char *name, int round, int present)
{
    static const enum halay_reduction ops[] = { HALAY_SUM, HALAY_SUM, HALAY_SUM, HALAY_MAX };
    enum halay_reduction op = ops[name[1] % 4];
    float in[COUNT], out[COUNT];
    size_t wrong = 0;

    note_plan(run, name);
    for (size_t i = 0; i < COUNT; i++)
        in[i] = value(run->rank, round, i);
    CHECK(halay_allreduce(run->ctx, name, in, out, COUNT, HALAY_F32, op) == HALAY_OK);
    for (size_t i = 0; i < COUNT; i++) {
        float want = 0;
        for (int r = 0; r < present; r++) {
            float v = value(r, round, i);
            want = op == HALAY_MAX ? (v > want ? v : want) : want + v;
        }
        wrong += out[i] < want || out[i] > want;
    }
    CHECK(!wrong, "rank %d, '%s', round %d: %zu of %d are wrong", run->rank, name, round, wrong, COUNT);
}

static void body_rounds(struct rank_run *run)
{
    for (int round = 0; round < ROUNDS; round++)
        reduce(run, "t0", round, run->size);

    /* All ranks submit a different signature. */
    float data[2000] = { 1 };
    static const size_t counts[] = { 700, 700, 2000, 2000, 10 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        data[0] = 1;
        CHECK(halay_allreduce(run->ctx, "t0", NULL, data, counts[i], HALAY_F32, HALAY_SUM) == HALAY_OK);
        CHECK(data[0] == (float)run->size);
        reduce(run, "t0", (int)i, run->size);
    }
}

/* Each rank, one after the other, submits a different signature. */
static void body_mismatch(struct rank_run *run)
{
    float data[10] = { 0 };

    for (int phase = 0; phase < PHASES; phase++) {
        for (int round = 0; round < CAPTURED + phase % 4; round++)
            reduce(run, "t0", round, run->size);
        int odd = phase % run->size;
        size_t count = run->rank == odd ? 9 : 10;
        CHECK(halay_allreduce(run->ctx, "t0", NULL, data, count, HALAY_F32, HALAY_SUM) == HALAY_ERR_MISMATCH);
    }
}

/* Ranks join one after the other, the last ones first, while the others continue. */
static void body_join(struct rank_run *run)
{
    int last;

    for (int phase = 0; phase < PHASES; phase++) {
        for (int round = 0; round < CAPTURED + phase % 3; round++)
            reduce(run, "t0", round, run->size);
        for (int present = run->size - 1; present > run->rank; present--)
            for (int round = 0; round < phase % 4; round++)
                reduce(run, "t0", round, present);
        CHECK(halay_join(run->ctx, &last) == HALAY_OK);
    }
}

/* Some names in another order on each rank, several in flight. */
static void body_orders(struct rank_run *run)
{
    struct random random = { *(uint64_t *)run->arg * 31 + (uint64_t)run->rank };
    static const char *const names[NAMES] = { "t0", "t1", "t2", "t3", "t4" };

    for (int round = 0; round < CAPTURED; round++)
        for (int n = 0; n < NAMES; n++)
            reduce(run, names[n], round, run->size);
    for (int round = 0; round < ROUNDS; round++) {
        float data[NAMES][COUNT];
        struct halay_request *requests[NAMES];
        size_t order[NAMES];
        for (size_t n = 0; n < NAMES; n++) {
            size_t at = random_below(&random, n + 1);
            order[n] = order[at];
            order[at] = n;
            for (size_t i = 0; i < COUNT; i++)
                data[n][i] = value(run->rank, round, i);
        }
        for (size_t i = 0; i < NAMES; i++) {
            size_t n = order[i];
            CHECK(halay_allreduce_async(run->ctx, names[n], NULL, data[n], COUNT, HALAY_F32,
                                        names[n][1] % 4 == 3 ? HALAY_MAX : HALAY_SUM, &requests[n]) == HALAY_OK);
        }
        for (size_t n = 0; n < NAMES; n++) {
            CHECK(halay_wait(requests[n], -1) == HALAY_OK);
            halay_request_free(requests[n]);
            float want = 0;
            for (int r = 0; r < run->size; r++) {
                float v = value(r, round, 7);
                want = names[n][1] % 4 == 3 ? (v > want ? v : want) : want + v;
            }
            CHECK(data[n][7] >= want && data[n][7] <= want, "'%s', round %d", names[n], round);
        }
    }
}

/* A rank leaves while the others wait for it, during a round and after one in which it took part. */
static void body_leave(struct rank_run *run)
{
    int leaver = *(int *)run->arg;
    float data[COUNT] = { 0 };
    char text[100], left[40];

    for (int round = 0; round < 2 * CAPTURED; round++)
        reduce(run, "t0", round, run->size);
    if (run->rank == leaver)
        return;
    CHECK(halay_allreduce(run->ctx, "t0", NULL, data, COUNT, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    snprintf(left, sizeof left, "rank %d has left", leaver);
    CHECK(halay_context_status(run->ctx, text, sizeof text) == HALAY_ERR_PEER && !strcmp(text, left), "'%s'", text);
}

/* A rank dies when all ranks have seen the end of their rounds. */
static void body_die(struct rank_run *run)
{
    int who = *(int *)run->arg;
    float data[COUNT] = { 0 };

    for (int round = 0; round < 2 * CAPTURED; round++)
        reduce(run, "t0", round, run->size);
    finished++;
    if (run->rank == who) {
        while (finished < run->size)
            sched_yield();
        halay_fake_hub_kill(run->hub, who);
        return;
    }
    CHECK(halay_allreduce(run->ctx, "t0", NULL, data, COUNT, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
}

/* One rank withdraws its submission before the others submit: their submissions get the same error. */
static void body_time_out(struct rank_run *run)
{
    float data = 0, go = 0;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "t0", .dimensions = 1, .shape = { 1 }, .out = &data
    };

    for (int phase = 0; phase < PHASES; phase++) {
        struct halay_request *request;
        int is_first = run->rank == phase % run->size;
        for (int round = 0; round < CAPTURED; round++)
            reduce(run, "t0", round, run->size);
        info.timeout_ms = is_first ? 20 : 0;
        if (!is_first)
            CHECK(halay_allreduce(run->ctx, "go", NULL, &go, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
        CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
        CHECK(halay_wait(request, -1) == HALAY_ERR_TIMEOUT);
        halay_request_free(request);
        if (is_first)
            CHECK(halay_allreduce(run->ctx, "go", NULL, &go, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    }
}

static void configure(struct halay_config *config, void *arg)
{
    (void)arg;
    config->replay = 1;
}

static void check(int size, uint64_t seed, void (*body)(struct rank_run *run), void *arg, const char *expected)
{
    replayed = finished = 0;
    ranks_run(size, seed, &(struct rank_run){ .configure = configure, .body = body, .arg = arg, .expected = expected },
              NULL, NULL);
    CHECK(replayed, "no round of %d ranks was replayed", size);
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 2, 3, 4 };
    uint64_t seed = random_seed(argc, argv);

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            int size = sizes[s];
            check(size, delay * 11, body_rounds, NULL, NULL);
            check(size, delay * 12, body_mismatch, NULL, "t0");
            check(size, delay * 13, body_join, NULL, NULL);
            check(size, delay * 14, body_orders, &seed, NULL);
            check(size, delay * 16, body_time_out, NULL, "t0");
            for (int who = 0; who < size; who += size - 1) {
                check(size, delay * 15, body_leave, &who, "has left");
                check(size, 0, body_die, &who, "");
            }
        }
    return test_end();
}
