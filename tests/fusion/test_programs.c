/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs through the engine over the fake transport, with random delays; and the deterministic modes: the same
 * bits for every order of arrival. TEST_BRIEF=1: half of the programs, and the bits of three ranks only.
 * usage: test_programs [SEED]
 */
#include "tests/fusion/program.h"
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include <string.h>

struct setting {
    uint64_t seed, order_seed;
    enum halay_deterministic mode;
    size_t threshold;
    const char *algorithm;
    int alone;
    _Atomic uint64_t hash; /* of rank 0's results; those of every rank must be equal */
    _Atomic uint64_t differing;
};

static void configure(struct halay_config *config, void *arg)
{
    struct setting *s = arg;

    config->deterministic = s->mode;
    config->fusion_threshold = s->threshold;
    free(config->allreduce_algorithm);
    config->allreduce_algorithm = strdup(s->algorithm);
}

static void body_random(struct rank_run *run)
{
    struct setting *s = run->arg;

    CHECK(program_run(run->ctx, s->seed, 4) == 0);
}

static void body_bits(struct rank_run *run)
{
    struct setting *s = run->arg;
    uint64_t hash = program_bits(run->ctx, s->seed, s->order_seed, s->alone), none = 0;

    CHECK(hash != 0);
    if (!atomic_compare_exchange_strong(&s->hash, &none, hash) && none != hash)
        s->differing++;
}

static uint64_t bits(int size, struct setting s, uint64_t delay)
{
    ranks_run(size, delay, &(struct rank_run){ .body = body_bits, .arg = &s, .configure = configure }, NULL, NULL);
    CHECK(!s.differing, "the ranks have different bits");
    return s.hash;
}

static void check_deterministic(struct random *random, enum halay_deterministic mode, int size)
{
    struct setting s = {
        .seed = random_next(random), .mode = mode, .threshold = 20000, .algorithm = "auto", .order_seed = 1
    };
    uint64_t first = bits(size, s, 0);

    for (int k = 0; k < 4; k++) {
        s.order_seed = random_next(random);
        s.alone = k == 2;
        s.threshold = k == 1 ? 0 : 20000;
        CHECK(bits(size, s, random_next(random)) == first, "mode %d: order and fusion change bits (seed %llu)",
              (int)mode, (unsigned long long)s.seed);
    }
}

/* Runs two programs, with two ranks or more. */
static void make_nodes(struct halay_fake_hub *hub)
{
    static const int nodes[] = { 0, 1, 1, 0 };

    REQUIRE(halay_fake_hub_set_nodes(hub, nodes) == HALAY_OK);
}

int main(int argc, char **argv)
{
    static const size_t thresholds[] = { 0, 4096, 100000, 64 << 20 };
    struct random random = { random_seed(argc, argv) };

    for (int i = 0, programs = test_is_brief() ? 12 : 24; i < programs; i++) {
        struct setting s = { .seed = random_next(&random),
                             .mode = (enum halay_deterministic)random_below(&random, 3),
                             .threshold = thresholds[random_below(&random, 4)],
                             .algorithm = "auto" };
        int size = 1 + (int)random_below(&random, 4);
        uint64_t delay = random_below(&random, 2) ? random_next(&random) : 0;
        int failed = test_failed, has_nodes = i % 3 == 0;
        ranks_run(size, delay, &(struct rank_run){ .body = body_random, .arg = &s, .configure = configure },
                  has_nodes ? make_nodes : NULL, NULL);
        if (test_failed > failed)
            printf("that was program %d: %d ranks%s, mode %d, threshold %zu, delay %d\n", i, size,
                   has_nodes ? " on two nodes" : "", (int)s.mode, s.threshold, delay != 0);
    }
    for (int size = 2; size <= 4; size++)
        if (size == 3 || !test_is_brief())
            for (enum halay_deterministic mode = HALAY_DETERMINISTIC_RUN; mode <= HALAY_DETERMINISTIC_RANKS; mode++)
                check_deterministic(&random, mode, size);
    return test_end();
}
