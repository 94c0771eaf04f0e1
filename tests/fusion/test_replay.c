/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay through the engine over the fake transport: a steady step sends nothing, and whatever breaks it, results and
 * errors are those of negotiation. usage: test_replay [SEED]
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include "tests/fusion/steps.h"

enum { STEPS = 30 };

struct setting {
    uint64_t seed;
    enum halay_deterministic mode;
    int steps, rarely;
    int degree; /* of the tree along which ranks leave a plan */
};

static void configure(struct halay_config *config, void *arg)
{
    const struct setting *s = arg;

    config->replay = 1;
    config->deterministic = s->mode;
}

static uint64_t messages(const struct rank_run *run)
{
    return halay_messenger_sent(run->ctx->driven.negotiation.messenger);
}

static struct steps steps[RANKS_MAX];

static void open_steps(struct rank_run *run)
{
    const struct setting *s = run->arg;

    run->ctx->driven.negotiation.degree = s->degree; /* no plan begins before all have submitted */
    steps_open(&steps[run->rank], run->ctx);
}

/* A steady loop: after the capture no rank sends anything. */
static void body_steady(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    uint64_t before = 0;

    open_steps(run);
    for (int n = 0; n < STEPS; n++) {
        if (n == 10)
            before = messages(run);
        if (n == STEPS - 1) {
            CHECK(messages(run) == before, "rank %d sent %d messages in %d steady steps", run->rank,
                  (int)(messages(run) - before), n - 10);
            CHECK(steps_have_plan(s), "no plan");
        }
        steps_run(s, n);
    }
}

static void body_deviations(struct rank_run *run)
{
    const struct setting *setting = run->arg;

    open_steps(run);
    steps_run_all(&steps[run->rank], setting->seed, setting->steps, setting->rarely);
}

int main(int argc, char **argv)
{
    struct random random = { random_seed(argc, argv) };

    for (int size = 2; size <= 5; size++) {
        struct setting s = { .seed = random_next(&random), .degree = 2 + size % 2 };
        ranks_run(size, 0, &(struct rank_run){ .body = body_steady, .arg = &s, .configure = configure }, NULL, NULL);
    }
    for (int i = 0; i < 6; i++) {
        struct setting s = { .seed = random_next(&random),
                             .steps = 300,
                             .rarely = 5,
                             .mode = (enum halay_deterministic)(i % 3),
                             .degree = 2 };
        printf("seed %llu mode %d\n", (unsigned long long)s.seed, (int)s.mode);
        ranks_run(3 + i % 3, i / 3 ? random_next(&random) : 0,
                  &(struct rank_run){ .body = body_deviations, .arg = &s, .configure = configure }, NULL, NULL);
    }
    return test_end();
}
