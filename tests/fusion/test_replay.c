/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay through the engine over the fake transport: a steady step sends nothing, and whatever breaks it, results and
 * errors are those of negotiation. usage: test_replay [SEED]
 */
#include "fusion/replay/replay.h"
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"

enum { TENSORS = 20, ELEMENTS = 100, STEPS = 30 };

struct setting {
    uint64_t seed;
    enum halay_deterministic mode;
    int steps, rarely;
};

static void configure(struct halay_config *config, void *arg)
{
    const struct setting *s = arg;

    config->replay = 1;
    config->deterministic = s->mode;
}

struct step {
    struct rank_run *run;
    struct halay_tensor *tensors[TENSORS];
    float data[TENSORS][ELEMENTS];
};

static void open_step(struct rank_run *run, struct step *s)
{
    char name[32];

    s->run = run;
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof name, "gradient %d", i);
        struct halay_tensor_info info = { .struct_size = sizeof info,
                                          .name = name,
                                          .collective = HALAY_ALLREDUCE,
                                          .dtype = HALAY_F32,
                                          .reduction = HALAY_SUM,
                                          .shape = { ELEMENTS },
                                          .dimensions = 1,
                                          .in = s->data[i],
                                          .out = s->data[i] };
        REQUIRE(halay_register(run->ctx, &info, &s->tensors[i]) == HALAY_OK);
    }
}

static void fill_step(struct step *s, int number)
{
    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < ELEMENTS; k++)
            s->data[i][k] = (float)(number + i + k + s->run->rank);
}

static void check_step(const struct step *s, int number)
{
    int size = s->run->size;

    for (int i = 0; i < TENSORS; i++)
        for (int k = 0; k < ELEMENTS; k++)
            if (!CHECK(s->data[i][k] == (float)(size * (number + i + k) + size * (size - 1) / 2),
                       "step %d tensor %d: %g", number, i, (double)s->data[i][k]))
                return;
}

static uint64_t messages(const struct rank_run *run)
{
    return halay_messenger_sent(run->ctx->driven.negotiation.messenger);
}

static void submit(struct step *s, int i, struct halay_request **request)
{
    REQUIRE(halay_submit(s->tensors[i], NULL, NULL, request) == HALAY_OK);
}

static void finish(struct halay_request *request, int number, int i)
{
    CHECK(halay_wait(request, 10000) == HALAY_OK, "step %d tensor %d: %s", number, i, halay_request_text(request));
    halay_request_free(request);
}

static void run_step(struct step *s, int number)
{
    struct halay_request *requests[TENSORS];

    fill_step(s, number);
    for (int i = 0; i < TENSORS; i++)
        submit(s, i, &requests[i]);
    for (int i = 0; i < TENSORS; i++)
        finish(requests[i], number, i);
    check_step(s, number);
}

static struct step steps[RANKS_MAX];

/* A steady loop: after the capture no rank sends anything. */
static void body_steady(struct rank_run *run)
{
    struct step *s = &steps[run->rank];
    uint64_t before = 0;

    open_step(run, s);
    for (int n = 0; n < STEPS; n++) {
        if (n == 10)
            before = messages(run);
        if (n == STEPS - 1) {
            CHECK(messages(run) == before, "rank %d sent %d messages in %d steady steps", run->rank,
                  (int)(messages(run) - before), n - 10);
            CHECK(!halay_replay_is_off(&run->ctx->all), "no plan");
        }
        run_step(s, n);
    }
}

/* ---- deviations ---- */

/* Each rank has an order of its own. */
static void shuffle(struct random *random, int *order)
{
    for (int i = 0; i < TENSORS; i++)
        order[i] = i;
    for (int i = TENSORS - 1; i > 0; i--) {
        int k = (int)random_below(random, (uint64_t)i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}

static void deviate_order(struct step *s, int number, struct random *own)
{
    struct halay_request *requests[TENSORS];
    int order[TENSORS];

    fill_step(s, number);
    shuffle(own, order);
    for (int i = 0; i < TENSORS; i++)
        submit(s, order[i], &requests[order[i]]);
    shuffle(own, order);
    for (int i = 0; i < TENSORS; i++)
        finish(requests[order[i]], number, order[i]);
    check_step(s, number);
}

/* The ranks wait for each tensor before they submit the next one. */
static void deviate_one_by_one(struct step *s, int number)
{
    struct halay_request *request;

    fill_step(s, number);
    for (int i = 0; i < TENSORS; i++) {
        submit(s, i, &request);
        finish(request, number, i);
    }
    check_step(s, number);
}

/* A tensor that is in no plan, in the middle of the step. */
static void deviate_other(struct step *s, int number, struct random *own)
{
    struct halay_request *requests[TENSORS], *other;
    float data = (float)s->run->rank;
    int at = (int)random_below(own, TENSORS + 1), size = s->run->size;

    fill_step(s, number);
    for (int i = 0; i <= TENSORS; i++) {
        if (i == at) {
            struct halay_tensor_info info = { .struct_size = sizeof info,
                                              .name = "other",
                                              .collective = HALAY_ALLREDUCE,
                                              .dtype = HALAY_F32,
                                              .reduction = HALAY_SUM,
                                              .shape = { 1 },
                                              .dimensions = 1,
                                              .in = &data,
                                              .out = &data };
            REQUIRE(halay_submit_named(s->run->ctx, &info, NULL, NULL, &other) == HALAY_OK);
        }
        if (i < TENSORS)
            submit(s, i, &requests[i]);
    }
    if (random_below(own, 2)) {
        finish(other, number, -1);
        other = NULL;
    }
    for (int i = 0; i < TENSORS; i++)
        finish(requests[i], number, i);
    if (other)
        finish(other, number, -1);
    CHECK(data == (float)(size * (size - 1) / 2));
    check_step(s, number);
}

/* One tensor is left out on all ranks. */
static void deviate_fewer(struct step *s, int number, struct random *shared)
{
    struct halay_request *requests[TENSORS];
    int missing = (int)random_below(shared, TENSORS);

    fill_step(s, number);
    for (int i = 0; i < TENSORS; i++)
        if (i != missing)
            submit(s, i, &requests[i]);
    for (int i = 0; i < TENSORS; i++)
        if (i != missing)
            finish(requests[i], number, i);
    submit(s, missing, &requests[missing]);
    finish(requests[missing], number, missing);
    check_step(s, number);
}

/* One rank cancels a tensor that the others submit later: it ends alike everywhere. */
static void deviate_cancel(struct step *s, int number, struct random *shared)
{
    struct halay_request *requests[TENSORS];
    int which = (int)random_below(shared, TENSORS), who = (int)random_below(shared, (uint64_t)s->run->size);

    fill_step(s, number);
    for (int i = 0; i < TENSORS; i++) {
        submit(s, i, &requests[i]);
        if (i == which && who == s->run->rank)
            CHECK(halay_cancel(requests[i]) == HALAY_OK);
    }
    for (int i = 0; i < TENSORS; i++)
        if (i != which)
            finish(requests[i], number, i);
    enum halay_status status = halay_wait(requests[which], 10000);
    CHECK(status == HALAY_OK || status == HALAY_ERR_CANCELED, "%s", halay_status_string(status));
    halay_request_free(requests[which]);
}

/* A rank joins while the others have one more step. */
static void deviate_join(struct step *s, int number, struct random *shared)
{
    struct halay_request *requests[TENSORS];
    int who = (int)random_below(shared, (uint64_t)s->run->size), last;

    if (who != s->run->rank) {
        fill_step(s, number);
        for (int i = 0; i < TENSORS; i++)
            submit(s, i, &requests[i]);
        for (int i = 0; i < TENSORS; i++)
            finish(requests[i], number, i);
    }
    CHECK(halay_join(s->run->ctx, &last) == HALAY_OK);
}

static void body_deviations(struct rank_run *run)
{
    const struct setting *setting = run->arg;
    struct step *s = &steps[run->rank];
    struct random shared = { setting->seed }, own = { setting->seed * 7 + (uint64_t)run->rank };
    int plans = 0, was_off = 1;

    open_step(run, s);
    for (int n = 0; n < setting->steps; n++) {
        uint64_t kind = random_below(&shared, 6 * (uint64_t)setting->rarely);
        int is_off = halay_replay_is_off(&run->ctx->all);
        plans += was_off && !is_off;
        was_off = is_off;
        if (kind == 0)
            deviate_order(s, n, &own);
        else if (kind == 1)
            deviate_one_by_one(s, n);
        else if (kind == 2)
            deviate_other(s, n, &own);
        else if (kind == 3)
            deviate_fewer(s, n, &shared);
        else if (kind == 4)
            deviate_cancel(s, n, &shared);
        else if (kind == 5)
            deviate_join(s, n, &shared);
        else
            run_step(s, n);
    }
    if (run->rank == 0)
        printf("%d ranks, %d steps: %d plans\n", run->size, setting->steps, plans);
    CHECK(plans > 1);
}

int main(int argc, char **argv)
{
    struct random random = { random_seed(argc, argv) };

    for (int size = 2; size <= 4; size++) {
        struct setting s = { .seed = random_next(&random) };
        ranks_run(size, 0, &(struct rank_run){ .body = body_steady, .arg = &s, .configure = configure }, NULL, NULL);
    }
    for (int i = 0; i < 6; i++) {
        struct setting s = {
            .seed = random_next(&random), .steps = 300, .rarely = 5, .mode = (enum halay_deterministic)(i % 3)
        };
        printf("seed %llu mode %d\n", (unsigned long long)s.seed, (int)s.mode);
        ranks_run(2 + i % 3, i / 3 ? random_next(&random) : 0,
                  &(struct rank_run){ .body = body_deviations, .arg = &s, .configure = configure }, NULL, NULL);
    }
    return test_end();
}
