/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores, learning rate, length of a run and sampler against numbers worked out by hand, and what a shuffle must hold.
 */
#include "tests/test.h"
#include "tft/core/run/run_length.h"
#include "tft/core/score/scores.h"
#include "tft/core/train/trainer.h"
#include <math.h>
#include <string.h>

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b) + 1);
}

static double at(const json_t *object, const char *a, const char *b)
{
    const json_t *inner = json_object_get(object, a);
    return json_number_value(b ? json_object_get(inner, b) : inner);
}

static void losses(void)
{
    char name[32];

    CHECK(near(tft_quantile_loss(10, 8, 0.9), 1.8) && near(tft_quantile_loss(8, 10, 0.9), 0.2) &&
          tft_quantile_loss(3, 3, 0.5) == 0);
    tft_quantile_name(0.1, name, sizeof name);
    CHECK(!strcmp(name, "p10"));
    tft_quantile_name(0.025, name, sizeof name);
    CHECK(!strcmp(name, "p2.5"));
    tft_quantile_name(0.999999, name, sizeof name);
    CHECK(!strcmp(name, "p99.9999"));
    tft_quantile_name(1e-6, name, sizeof name);
    CHECK(!strcmp(name, "p0.0001"));
    tft_quantile_name(0.99, name, sizeof name);
    CHECK(!strcmp(name, "p99"), "%s", name);
}

/* Two entities, horizon 2: y = 10, 20 | 40, -30; forecasts by hand. */
static void sums(void)
{
    static const double quantiles[] = { 0.1, 0.5, 0.9 };
    static const double y[] = { 10, 20, 40, -30 };
    static const double p[][3] = { { 8, 9, 12 }, { 18, 24, 22 }, { 30, 36, 39 }, { -40, -30, -20 } };
    static const char *const ids[] = { "a", "b" };
    struct tft_scores *s = tft_scores_create(NULL, 1, quantiles, 3, 2, 2);

    REQUIRE(s);
    for (size_t i = 0; i < 4; i++)
        tft_scores_add(s, i / 2, i % 2, y[i], p[i], i < 2 ? 2 : 4);
    json_t *j = tft_scores_json(s, ids);
    REQUIRE(j);
    /* p10: .1*2 + .1*2 + .1*10 + .1*10 = 2.4; sum |y| = 100 */
    CHECK(near(at(j, "q_risk", "p10"), 2 * 2.4 / 100), "%g", at(j, "q_risk", "p10"));
    CHECK(near(at(j, "q_risk", "p50"), 2 * 0.5 * (1 + 4 + 4 + 0) / 100));
    CHECK(near(at(j, "q_risk", "p90"), 2 * (0.1 * 2 + 0.1 * 2 + 0.9 * 1 + 0.1 * 10) / 100));
    /* horizon 1: |10 - 9| + |40 - 36| over 50; horizon 2: 4 over 50 */
    CHECK(near(at(j, "q_risk_by_horizon_mean", "p50"), (5.0 / 50 + 4.0 / 50) / 2));
    CHECK(near(at(j, "mae", NULL), 9.0 / 4) && near(at(j, "rmse", NULL), sqrt(33.0 / 4)));
    CHECK(near(at(j, "smape", NULL), (2.0 * 1 / 19 + 2.0 * 4 / 44 + 2.0 * 4 / 76) / 4));
    CHECK(near(at(j, "mase", NULL), (1.0 / 2 + 4.0 / 2 + 4.0 / 4) / 4));
    CHECK(near(at(j, "wql", NULL), (at(j, "q_risk", "p10") + at(j, "q_risk", "p50") + at(j, "q_risk", "p90")) / 3));
    CHECK(near(at(j, "coverage_p10_p90", NULL), 0.75) && near(at(j, "crossing", NULL), 0.25));
    /* the outer interval: widths 4, 4, 9, 20, and the 40 lies 1 above the third */
    CHECK(near(at(j, "width", NULL), (4 + 4 + 9 + 20) / 4.0));
    CHECK(near(at(j, "interval_score", NULL), (4 + 4 + 9 + 20 + 2 / 0.2 * 1) / 4), "%g", at(j, "interval_score", NULL));
    CHECK(near(at(j, "wis", NULL), (9 / 2.0 + 0.1 * (4 + 4 + 9 + 20 + 10)) / 1.5 / 4), "%g", at(j, "wis", NULL));
    CHECK(near(at(j, "crps", NULL), 2 * (0.3 * 2.4 + 0.4 * 4.5 + 0.3 * 2.3) / 4), "%g", at(j, "crps", NULL));
    CHECK(near(at(j, "reliability", "p10"), 0) && near(at(j, "reliability", "p50"), 0.5) &&
          near(at(j, "reliability", "p90"), 0.75));
    CHECK(near(at(j, "pit", "p0_p10"), 0) && near(at(j, "pit", "p10_p50"), 0.5 / 0.4) &&
          near(at(j, "pit", "p50_p90"), 0.25 / 0.4) && near(at(j, "pit", "p90_p100"), 0.25 / 0.1));
    CHECK(near(at(json_object_get(json_object_get(j, "by_entity"), "b"), "q_risk", "p50"), 4.0 / 70));
    CHECK(json_array_size(json_object_get(j, "by_horizon")) == 2);
    json_decref(j);
    free(s);
}

/* Quantiles that are no intervals have no interval's scores; parts of [0, 1] still add up to a CRPS. */
static void lopsided(void)
{
    static const double quantiles[] = { 0.25, 0.5, 0.9 }, even[] = { 0.1, 0.9 }, losses[] = { 1, 2, 4 };

    CHECK(isnan(tft_interval_score(quantiles, 3, losses)) && isnan(tft_weighted_interval_score(quantiles, 3, losses)));
    CHECK(near(tft_crps(quantiles, 3, losses), 2 * (0.375 * 1 + 0.325 * 2 + 0.3 * 4)));
    CHECK(tft_interval_partner(quantiles, 3, 1) == TFT_NO_PARTNER && tft_interval_partner(even, 2, 1) == 0);
    CHECK(near(tft_weighted_interval_score(even, 2, losses), 3));
}

static int is_null(const json_t *object, const char *key)
{
    return json_is_null(json_object_get(object, key));
}

/* What no value says is null and not the best score there is; an entity without a naive error is left out of its
 * mean. */
static void nothing(void)
{
    static const double quantiles[] = { 0.5 };
    static const char *const ids[] = { "a", "b" };
    struct tft_scores *s = tft_scores_create(NULL, 1, quantiles, 1, 2, 2);

    REQUIRE(s);
    json_t *none = tft_scores_json(s, ids);
    REQUIRE(none);
    CHECK(is_null(none, "mae") && is_null(none, "rmse") && is_null(none, "mase") && is_null(none, "wql"));
    CHECK(is_null(json_object_get(none, "q_risk"), "p50"));
    tft_scores_add(s, 0, 0, 10, (const double[]){ 8 }, 4);
    tft_scores_add(s, 1, 0, 10, (const double[]){ 8 }, 0);
    json_t *j = tft_scores_json(s, ids);
    REQUIRE(j);
    CHECK(near(at(j, "mase", NULL), 0.5), "%g", at(j, "mase", NULL));
    const json_t *entities = json_object_get(j, "by_entity");
    CHECK(near(at(entities, "a", "mase"), 0.5) && is_null(json_object_get(entities, "b"), "mase"));
    json_t *mean = tft_scores_mean_json((json_t *[]){ none, j }, 2);
    CHECK(near(at(mean, "mase", NULL), 0.5) && near(at(mean, "q_risk", "p50"), 0.2));
    CHECK(json_integer_value(json_object_get(mean, "values")) == 2);
    json_decref(mean);
    json_decref(none);
    json_decref(j);
    free(s);
}

/* MASE is a mean over series, however many values each has; of a series, or a step of the horizon, one over values. */
static void series(void)
{
    static const double quantiles[] = { 0.5 };
    static const char *const ids[] = { "a", "b", "c" };
    struct tft_scores *s = tft_scores_create(NULL, 1, quantiles, 1, 1, 3);

    REQUIRE(s);
    for (int i = 0; i < 3; i++)
        tft_scores_add(s, 0, 0, 10, (const double[]){ 8 }, 1 + i); /* 2, 1, 2/3 */
    tft_scores_add(s, 1, 0, 10, (const double[]){ 9 }, 0.1);
    tft_scores_add(s, 2, 0, 10, (const double[]){ 0 }, 0);
    json_t *j = tft_scores_json(s, ids);
    REQUIRE(j);
    double a = (2 + 1 + 2.0 / 3) / 3, b = 10;
    CHECK(near(at(json_object_get(j, "by_entity"), "a", "mase"), a));
    CHECK(near(at(j, "mase", NULL), (a + b) / 2), "%g", at(j, "mase", NULL));
    CHECK(near(at(json_array_get(json_object_get(j, "by_horizon"), 0), "mase", NULL), (3 * a + b) / 4));
    json_decref(j);
    free(s);
}

/* A ratio to a sum of nothing but zeros is no number, and no reason to call a horizon perfect. */
static void zeros(void)
{
    static const double quantiles[] = { 0.5 };
    static const char *const ids[] = { "a" };
    struct tft_scores *s = tft_scores_create(NULL, 1, quantiles, 1, 2, 1);

    REQUIRE(s);
    tft_scores_add(s, 0, 0, 0, (const double[]){ 3 }, 1);
    json_t *j = tft_scores_json(s, ids);
    REQUIRE(j);
    CHECK(is_null(json_object_get(j, "q_risk"), "p50") && is_null(j, "wql") && near(at(j, "mae", NULL), 3));
    CHECK(is_null(json_object_get(j, "q_risk_by_horizon_mean"), "p50"));
    json_decref(j);
    tft_scores_add(s, 0, 1, 10, (const double[]){ 8 }, 1);
    j = tft_scores_json(s, ids);
    REQUIRE(j);
    CHECK(near(at(j, "q_risk_by_horizon_mean", "p50"), 0.2), "%g", at(j, "q_risk_by_horizon_mean", "p50"));
    json_decref(j);
    free(s);
}

static void schedule(void)
{
    CHECK(tft_learning_rate_at(TFT_LR_CONSTANT, 2, 7, 100) == 2);
    CHECK(near(tft_learning_rate_at(TFT_LR_WARMUP, 2, 0, 100), 2.0 / 5) &&
          tft_learning_rate_at(TFT_LR_WARMUP, 2, 4, 100) == 2 && tft_learning_rate_at(TFT_LR_WARMUP, 2, 99, 100) == 2);
    CHECK(near(tft_learning_rate_at(TFT_LR_COSINE, 2, 0, 100), 2.0 / 5) &&
          tft_learning_rate_at(TFT_LR_COSINE, 2, 4, 100) == 2);
    CHECK(near(tft_learning_rate_at(TFT_LR_COSINE, 2, 52, 100), 1.0), "%g",
          tft_learning_rate_at(TFT_LR_COSINE, 2, 52, 100));
    double last = tft_learning_rate_at(TFT_LR_COSINE, 2, 99, 100);
    CHECK(last >= 0 && last < 0.01, "%g", last);
    CHECK(tft_learning_rate_at(TFT_LR_COSINE, 2, 1000, 100) < 1e-12);
}

/*
 * A run that is over when it says so, with this clock: seconds of a step by its number. It is stopped and goes on after
 * step `resumed` (0: never), from what is kept. slowed: of all steps after an eighth of the time.
 */
struct run {
    struct tft_limits limits;
    double first, step_seconds, slowed,
        pause; /* first: what the first step takes more; pause: an evaluation's, after each 100 steps */
    uint64_t resumed;
    double resumed_limit;
    /* what came of it */
    struct tft_run_length length;
    struct tft_moment end;
    double highest, last; /* rates */
};

static void make_run(struct run *r)
{
    r->length = (struct tft_run_length){ 0 };
    r->end = (struct tft_moment){ 0 };
    r->highest = 0;
    int falls = 0;
    while (!tft_run_length_is_over(&r->limits, &r->length, &r->end)) {
        double before = falls ? r->last : 1;
        r->last = tft_run_length_rate(&r->limits, &r->length, &r->end, 1);
        CHECK(r->last <= before || r->limits.schedule != TFT_LR_COSINE, "step %d: %g after %g", (int)r->end.step,
              r->last, before);
        falls = r->length.steps && r->end.step > r->length.steps / 10 && !r->resumed;
        r->highest = fmax(r->highest, r->last);
        r->end.step++;
        r->end.seconds += (r->end.step == 1 ? r->first : 0) +
                          r->step_seconds * (r->end.seconds > 0.125 * r->limits.seconds ? r->slowed : 1) +
                          (r->end.step % 100 ? 0 : r->pause);
        tft_run_length_fix(&r->limits, &r->end, &r->length);
        if (r->resumed && r->end.step == r->resumed) {
            r->limits.seconds = r->resumed_limit;
            tft_run_length_resume(&r->limits, &r->length);
        }
    }
}

/* Whichever limit ends a run, its rate has risen to the highest and fallen to nothing. */
static void limits(void)
{
    struct run steady = { .limits = { TFT_LR_COSINE, 1000000, 100, 0 }, .step_seconds = 0.1, .slowed = 1 };
    make_run(&steady);
    CHECK(steady.length.steps >= 949 && steady.length.steps <= 951 && steady.end.step == steady.length.steps,
          "planned %d, ended after %d", (int)steady.length.steps, (int)steady.end.step);
    CHECK(steady.highest > 0.99 && steady.last < 1e-4 && steady.end.seconds < 100, "%g %g %g", steady.highest,
          steady.last, steady.end.seconds);

    const struct tft_limits by_time = { TFT_LR_COSINE, TFT_STEPS_UNLIMITED, 100, 0 };
    struct tft_run_length unknown = { 0 }; /* the first steps count, and the most that can be given are a limit */
    CHECK(tft_run_length_rate(&by_time, &unknown, &(struct tft_moment){ 0 }, 1) > 1e-3);
    CHECK(TFT_STEPS_UNLIMITED > 1000000000);
    CHECK(tft_run_length_is_short(120, 32) && !tft_run_length_is_short(240, 32) && !tft_run_length_is_short(3, 16));

    struct run shorter = steady; /* a part of the time is for what follows */
    shorter.limits.reserved = 20;
    make_run(&shorter);
    CHECK(shorter.length.steps >= 759 && shorter.length.steps <= 761 && shorter.last < 1e-4, "planned %d, to %g",
          (int)shorter.length.steps, shorter.last);
    shorter.slowed = 3;
    make_run(&shorter);
    CHECK(shorter.end.seconds <= 80 + 0.5 && shorter.last < 1e-2, "%g s, to %g", shorter.end.seconds, shorter.last);

    struct run again = steady; /* stopped and gone on: the same number, the same rates */
    again.resumed = 300;
    again.resumed_limit = 100;
    make_run(&again);
    CHECK(again.length.steps == steady.length.steps && again.last == steady.last && again.end.step == steady.end.step);
    again.resumed_limit = 200; /* with twice the time: twice the steps */
    again.limits.seconds = 100;
    again.highest = 0;
    make_run(&again);
    CHECK(again.length.steps + 1 >= 2 * steady.length.steps && again.length.steps <= 2 * steady.length.steps + 1 &&
          again.end.step == again.length.steps && again.last < 1e-4);

    static const double slower[] = { 0.3, 1.04, 1.5, 2, 10 };
    for (size_t i = 0; i < sizeof slower / sizeof *slower; i++) {
        struct run r = {
            .limits = { TFT_LR_COSINE, 1000000, 100, 0 }, .step_seconds = 0.01, .slowed = slower[i], .pause = 0.2
        };
        make_run(&r);
        CHECK(r.highest > 0.99 && r.last < 1e-3, "%g times as slow: from %g to %g", slower[i], r.highest, r.last);
        CHECK(r.end.seconds <= 100 + 0.5, "%g times as slow: %g s", slower[i], r.end.seconds);
    }
}

/* A slow beginning, few steps, a limit of steps, and other schedules. */
static void limits_of_other_runs(void)
{
    struct run cold = { .limits = { TFT_LR_COSINE, 1000000, 100, 0 }, .first = 20, .step_seconds = 0.1, .slowed = 1 };
    make_run(&cold); /* a first step that takes a fifth of the time says nothing of the others */
    CHECK(cold.length.steps >= 745 && cold.length.steps <= 755 && cold.end.step == cold.length.steps &&
              cold.highest > 0.99 && cold.last < 1e-4,
          "planned %d, ended after %d, from %g to %g", (int)cold.length.steps, (int)cold.end.step, cold.highest,
          cold.last);
    struct run few = { .limits = { TFT_LR_COSINE, 1000000, 100, 0 }, .step_seconds = 8, .slowed = 1 };
    make_run(&few); /* twelve steps of the time */
    CHECK(few.end.step >= 11 && few.end.step <= 13 && few.last < 0.05, "%d steps, %g", (int)few.end.step, few.last);
    struct run by_steps = { .limits = { TFT_LR_COSINE, 400, 100, 0 }, .step_seconds = 0.1, .slowed = 1 };
    make_run(&by_steps);
    CHECK(by_steps.end.step == 400 && by_steps.highest > 0.99 && by_steps.last < 1e-4);
    by_steps.limits.seconds = 0; /* no limit of time: nothing is planned */
    make_run(&by_steps);
    CHECK(by_steps.end.step == 400 && by_steps.last < 1e-4 && !by_steps.length.steps);
    struct run warm = { .limits = { TFT_LR_WARMUP, 1000000, 100, 0 }, .step_seconds = 0.1, .slowed = 1 };
    make_run(&warm);
    CHECK(warm.highest == 1 && warm.last == 1 && warm.end.step == warm.length.steps);
    struct run constant = { .limits = { TFT_LR_CONSTANT, 1000000, 100, 0 }, .step_seconds = 0.1, .slowed = 1 };
    make_run(&constant);
    CHECK(constant.last == 1 && constant.end.step == constant.length.steps);
    CHECK(tft_run_length_part(&constant.limits, &constant.length) == 50 &&
          !tft_run_length_part(&constant.limits, &(struct tft_run_length){ 0 }));
    CHECK(tft_run_length_part(&(struct tft_limits){ TFT_LR_CONSTANT, 4000, 0, 0 }, &(struct tft_run_length){ 0 }) ==
          200);
    CHECK(tft_run_length_suited(10, 64) == 500 && tft_run_length_suited(64000, 64) == 8000 &&
          tft_run_length_suited(10000000, 64) == 10000);
    CHECK(tft_run_length_members(30, 1024, 64) == 3 && tft_run_length_members(29, 1024, 64) == 1 &&
          tft_run_length_members(599, 1025, 64) == 1 && tft_run_length_members(600, 1025, 64) == 2);
}

/* Every window once; the same for the same seed and epoch, another order for another; no order preferred. */
static void sampler(void)
{
    enum { N = 1000 };
    static uint64_t a[N], b[N], seen[N];
    int fixed = 0, differ = 0;

    tft_sampler_draw(1, 0, N, N, a);
    for (size_t i = 0; i < N; i++) {
        REQUIRE(a[i] < N);
        seen[a[i]]++;
        fixed += a[i] == i;
    }
    for (size_t i = 0; i < N; i++)
        differ += seen[i] != 1;
    CHECK(!differ && fixed < 20, "%d in their place", fixed);
    tft_sampler_draw(1, 0, N, 100, b);
    CHECK(!memcmp(a, b, 100 * sizeof *a));
    tft_sampler_draw(1, 1, N, N, b);
    CHECK(memcmp(a, b, sizeof a));
    tft_sampler_draw(2, 0, N, N, b);
    CHECK(memcmp(a, b, sizeof a));
    static size_t first[6];
    for (uint32_t epoch = 0; epoch < 6000; epoch++) {
        tft_sampler_draw(7, epoch, 6, 1, b);
        first[b[0]]++;
    }
    for (int i = 0; i < 6; i++)
        CHECK(first[i] > 850 && first[i] < 1150, "%zu", first[i]); /* 1,000 plus or minus 5 deviations */
    tft_sampler_draw(1, 0, 1, 1, b);
    CHECK(b[0] == 0);
}

/* Losses that fall fastest at 1e-3, are lowest at 1e-2 or so, and explode after it. */
static void rate_finder(void)
{
    double rates[TFT_RATE_FINDER_STEPS], losses[TFT_RATE_FINDER_STEPS];

    for (size_t i = 0; i < TFT_RATE_FINDER_STEPS; i++) {
        double x = -6 + 6.0 * (double)i / (TFT_RATE_FINDER_STEPS - 1);
        rates[i] = pow(10, x);
        losses[i] = 1 - 0.8 / (1 + exp(-6 * (x + 3))) + (x > -1 ? pow(10, 3 * (x + 1)) : 0);
    }
    double rate = tft_learning_rate_suggest(TFT_LOSS_QUANTILES, rates, losses, TFT_RATE_FINDER_STEPS);
    CHECK(rate > 5e-4 && rate < 1e-2, "%g", rate);
    losses[70] = NAN; /* what comes after it does not count */
    CHECK(tft_learning_rate_suggest(TFT_LOSS_QUANTILES, rates, losses, TFT_RATE_FINDER_STEPS) ==
          tft_learning_rate_suggest(TFT_LOSS_QUANTILES, rates, losses, 70));
    for (size_t i = 0; i < TFT_RATE_FINDER_STEPS; i++)
        losses[i] = 1 + (double)i;
    CHECK(tft_learning_rate_suggest(TFT_LOSS_QUANTILES, rates, losses, TFT_RATE_FINDER_STEPS) == 0, "it never falls");
    CHECK(tft_learning_rate_suggest(TFT_LOSS_QUANTILES, rates, losses, 0) == 0 &&
          tft_learning_rate_suggest(TFT_LOSS_QUANTILES, rates, losses, 1) == 0);
}

int main(void)
{
    losses();
    sums();
    lopsided();
    nothing();
    series();
    zeros();
    schedule();
    limits();
    limits_of_other_runs();
    sampler();
    rate_finder();
    return test_end();
}
