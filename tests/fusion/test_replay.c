/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay through the engine over the fake transport: a steady step sends nothing, and whatever breaks it, results and
 * errors are those of negotiation. usage: test_replay [SEED]
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include "tests/fusion/steps.h"

enum { STEPS = 60, QUIET = 10 };

struct setting {
    uint64_t seed;
    int is_mixed;
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
    steps_open(&steps[run->rank], run->ctx, s->is_mixed);
}

/* A steady loop: after the capture no rank sends anything, unless the machine is so busy that one leaves the plan. */
static void body_steady(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    int quiet = 0, most = 0;

    open_steps(run);
    for (int n = 0; n < STEPS; n++) {
        uint64_t before = messages(run);
        if (n % 5 == 4)
            steps_run_results(s, n);
        else
            steps_run(s, n);
        quiet = messages(run) == before ? quiet + 1 : 0;
        most = quiet > most ? quiet : most;
        if (quiet == QUIET)
            CHECK(steps_have_plan(s), "no plan");
    }
    CHECK(most >= QUIET, "rank %d of %d sent nothing in %d steps at most", run->rank, s->size, most);
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

    for (int i = 0; i < 8; i++) {
        int size = 2 + i / 2;
        struct setting s = { .seed = random_next(&random), .is_mixed = i % 2, .degree = 2 + size % 2 };
        ranks_run(size, 0, &(struct rank_run){ .body = body_steady, .arg = &s, .configure = configure }, NULL, NULL);
    }
    for (int i = 0; i < 12; i++) {
        struct setting s = { .seed = random_next(&random),
                             .is_mixed = i / 6,
                             .steps = 300,
                             .rarely = 5,
                             .mode = (enum halay_deterministic)(i % 3),
                             .degree = 2 };
        printf("seed %llu mode %d%s\n", (unsigned long long)s.seed, (int)s.mode, s.is_mixed ? " mixed" : "");
        ranks_run(3 + i % 3, i / 3 % 2 ? random_next(&random) : 0,
                  &(struct rank_run){ .body = body_deviations, .arg = &s, .configure = configure }, NULL, NULL);
    }
    return test_end();
}
