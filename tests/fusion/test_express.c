/* SPDX-License-Identifier: Apache-2.0
 *
 * Small all-reduces that come alone: their results, and that the ways out of a round (somebody means something else,
 * agrees anew, joins, leaves) keep the ranks' counts of rounds alike. Over the fake transport, whose messages may be
 * late.
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include <stdlib.h>

enum { COUNT = 900, NAMES = 5, ROUNDS = 40, PHASES = 12 };

static float value(int rank, int round, size_t i)
{
    return (float)((i * 5 + (size_t)rank * 3 + (size_t)round) % 23);
}

/* One all-reduce of a name over the ranks below `present`. */
static void reduce(struct rank_run *run, const char *name, int round, int present)
{
    static const enum halay_reduction ops[] = { HALAY_SUM, HALAY_SUM, HALAY_SUM, HALAY_MAX };
    enum halay_reduction op = ops[name[1] % 4];
    float in[COUNT], out[COUNT];
    size_t wrong = 0;

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

/* The ranks' rounds of this name that have ended since it was enrolled; -1: it is not. Not while it is in flight. */
static int64_t rounds_of(struct rank_run *run, const char *name)
{
    size_t length = strlen(name);
    int64_t rounds = -1;

    pthread_mutex_lock(&run->ctx->lock);
    const struct halay_entry *e = (const struct halay_entry *)halay_table_find(&run->ctx->all.names, name, length,
                                                                               halay_table_hash(name, length));
    if (e && e->enrolment.pair)
        rounds = (int64_t)e->enrolment.round;
    pthread_mutex_unlock(&run->ctx->lock);
    return rounds;
}

static void body_rounds(struct rank_run *run)
{
    for (int round = 0; round < ROUNDS; round++)
        reduce(run, "t0", round, run->size);
    CHECK(rounds_of(run, "t0") == ROUNDS - 2, "%lld rounds", (long long)rounds_of(run, "t0"));
    float large[2000] = { 0 };
    for (int round = 0; round < 4; round++)
        CHECK(halay_allreduce(run->ctx, "large", NULL, large, 2000, HALAY_F32, HALAY_SUM) == HALAY_OK);
    CHECK(rounds_of(run, "large") < 0, "it does not fit");

    /* All mean something else, which fits as well, then not, then fits again. */
    float data[2000] = { 1 };
    static const size_t counts[] = { 700, 700, 2000, 2000, 10 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        data[0] = 1;
        CHECK(halay_allreduce(run->ctx, "t0", NULL, data, counts[i], HALAY_F32, HALAY_SUM) == HALAY_OK);
        CHECK(data[0] == (float)run->size);
        reduce(run, "t0", (int)i, run->size);
    }
}

/* Each rank in turn means something else. */
static void body_mismatch(struct rank_run *run)
{
    float data[10] = { 0 };

    for (int phase = 0; phase < PHASES; phase++) {
        for (int round = 0; round < phase % 4; round++)
            reduce(run, "t0", round, run->size);
        int odd = phase % run->size;
        size_t count = run->rank == odd ? 9 : 10;
        CHECK(halay_allreduce(run->ctx, "t0", NULL, data, count, HALAY_F32, HALAY_SUM) == HALAY_ERR_MISMATCH);
    }
    CHECK(rounds_of(run, "t0") > 0);
}

/* Ranks join one after the other, the last ones first, while the others go on. */
static void body_join(struct rank_run *run)
{
    int last;

    for (int phase = 0; phase < PHASES; phase++) {
        for (int round = 0; round < 1 + phase % 3; round++)
            reduce(run, "t0", round, run->size);
        for (int present = run->size - 1; present > run->rank; present--)
            for (int round = 0; round < phase % 4; round++)
                reduce(run, "t0", round, present);
        CHECK(halay_join(run->ctx, &last) == HALAY_OK);
    }
    CHECK(rounds_of(run, "t0") > 0);
}

/* Some names in another order on each rank, several in flight. */
static void body_orders(struct rank_run *run)
{
    struct random random = { *(uint64_t *)run->arg * 31 + (uint64_t)run->rank };
    static const char *const names[NAMES] = { "t0", "t1", "t2", "t3", "t4" };

    for (int round = 0; round < 3; round++)
        for (int n = 0; n < NAMES; n++)
            reduce(run, names[n], round, run->size);
    for (int n = 0; n < NAMES; n++)
        CHECK(rounds_of(run, names[n]) >= 0, "all are enrolled");
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

/* A rank goes while the others wait for it, in a round and after one that it has taken part in. */
static void body_leave(struct rank_run *run)
{
    int leaver = *(int *)run->arg;
    float data[COUNT] = { 0 };
    char text[100], left[40];

    for (int round = 0; round < 5; round++)
        reduce(run, "t0", round, run->size);
    if (run->rank == leaver)
        return;
    CHECK(halay_allreduce(run->ctx, "t0", NULL, data, COUNT, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    snprintf(left, sizeof left, "rank %d has left", leaver);
    CHECK(halay_context_status(run->ctx, text, sizeof text) == HALAY_ERR_PEER && !strcmp(text, left), "'%s'", text);
}

static void body_die(struct rank_run *run)
{
    int who = *(int *)run->arg;
    float data[COUNT] = { 0 };

    for (int round = 0; round < 5; round++)
        reduce(run, "t0", round, run->size);
    if (run->rank == who) {
        halay_fake_hub_kill(run->hub, who);
        return;
    }
    CHECK(halay_allreduce(run->ctx, "t0", NULL, data, COUNT, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
}

/* A plan would take the tensors. */
static void configure(struct halay_config *config, void *arg)
{
    (void)arg;
    config->replay = 0;
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 2, 3, 4 };
    uint64_t seed = random_seed(argc, argv);

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t delay = 0; delay < 2; delay++) {
            int size = sizes[s];
            ranks_run(size, delay * 11, &(struct rank_run){ .configure = configure, .body = body_rounds }, NULL, NULL);
            ranks_run(size, delay * 12,
                      &(struct rank_run){ .configure = configure, .body = body_mismatch, .expected = "t0" }, NULL,
                      NULL);
            ranks_run(size, delay * 13, &(struct rank_run){ .configure = configure, .body = body_join }, NULL, NULL);
            ranks_run(size, delay * 14, &(struct rank_run){ .configure = configure, .body = body_orders, .arg = &seed },
                      NULL, NULL);
            for (int who = 0; who < size; who += size - 1) {
                ranks_run(size, delay * 15,
                          &(struct rank_run){
                              .configure = configure, .body = body_leave, .arg = &who, .expected = "has left" },
                          NULL, NULL);
                ranks_run(size, 0,
                          &(struct rank_run){ .configure = configure, .body = body_die, .arg = &who, .expected = "" },
                          NULL, NULL);
            }
        }
    return test_end();
}
