/* SPDX-License-Identifier: Apache-2.0
 *
 * Baselines, each beside its formula; and what a blend takes from training: their errors, from windows that are spread
 * over the whole of it, and over all places in the season.
 */
#include "tests/tft/files.h"
#include "tft/core/data/data.h"
#include "tft/core/run/blend.h"
#include "tft/core/score/forecast_scores.h"
#include <math.h>

/* Eight times as many windows as are taken, each fourth of which is at the same place in the season. */
enum { ROWS = 16019, WINDOWS = 16000, SEASON = 4, HORIZON = 2 };

/* How much more each value is than a season before: in the second half two more than in the first, in the second half
 * of the season one more. In units of the past these are 1 and 2 of 1.5, then 3 and 4 of 3.5. */
static int rise(int t)
{
    return 1 + (t % SEASON >= SEASON / 2) + (t < ROWS / 2 ? 0 : 2);
}

/* And a walk, which knows no season: a step up or down, from the numbers of a generator. */
static int step_of(uint64_t *x)
{
    *x = *x * 16807 % 2147483647;
    return *x % 1000 < 500 ? 1 : -1;
}

static void make_data(struct tft_data *d)
{
    static char csv[ROWS * 24];
    static int y[ROWS], z[ROWS];
    char text[500], *at = csv + sprintf(csv, "t,y,z\n");
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;
    uint64_t x = 7;

    for (int t = 0; t < ROWS; t++) {
        y[t] = t < SEASON ? t : y[t - SEASON] + rise(t);
        z[t] = t ? z[t - 1] + step_of(&x) : 0;
        at += sprintf(at, "%d,%d,%d\n", t, y[t], z[t]);
    }
    snprintf(text, sizeof text,
             "id: {from: filename, pattern: \"^(.*).csv\"}\ntime: {column: t, integer: true}\nseason: [%d, 20]\n"
             "inputs:\n  y: {column: y, role: target, blend: season}\n  z: {column: z, role: target, blend: season}\n"
             "  s: {calendar: steps, role: known}\n"
             "window: {encoder: 8, horizon: %d}\nsplit: {train: \"< %d\", test: \"< %d\"}\n",
             SEASON, HORIZON, ROWS - 10, ROWS);
    const char *path = write_text("rows.csv", csv);
    REQUIRE(!tft_schema_load(&test_log, write_text("s.yaml", text), &schema) &&
            !tft_table_read(&test_log, &schema, &path, 1, &table));
    REQUIRE(!tft_encoding_fit(&test_log, &schema, &table, &encoding) &&
            !tft_data_init(&test_log, &schema, &encoding, &table, d));
    tft_table_fini(&table);
}

static size_t find(const struct tft_blend *blend, enum tft_baseline_kind kind, size_t season)
{
    for (size_t k = 0; k < blend->count; k++)
        if (blend->baselines[k].kind == kind && blend->baselines[k].season == season)
            return k;
    REQUIRE(0);
    return 0;
}

/* A run's description keeps it, and the file of the best weights those of the blend. One of another version does not
 * fit. */
static void check_file(const struct tft_blend *blend, const struct tft_data *d)
{
    json_t *json = tft_blend_json(blend);
    char *text = tft_blend_weights_text(blend);
    struct tft_blend again;

    REQUIRE(json && text && !tft_blend_read(json, &d->schema, 3, &again));
    CHECK(again.count == blend->count && again.weights[0] == .5 && again.errors[7] == blend->errors[7]);
    again.weights[0] = 0;
    CHECK(!tft_blend_weights_read(NULL, &again) && again.weights[0] == 0);
    CHECK(!tft_blend_weights_read(text, &again) && again.weights[0] == .5);
    CHECK(tft_blend_weights_read("[1]", &again) == HALAY_ERR_FORMAT &&
          tft_blend_weights_read("0.5", &again) == HALAY_ERR_FORMAT);
    tft_blend_fini(&again);
    json_object_set_new(json, "baselines", json_pack("[ss]", "last value", "season of 5"));
    CHECK(tft_blend_read(json, &d->schema, 3, &again) == HALAY_ERR_FORMAT && !again.errors);
    json_object_del(json, "baselines");
    CHECK(tft_blend_read(json, &d->schema, 3, &again) == HALAY_ERR_FORMAT && !again.errors);
    json_decref(json);
    free(text);
}

/* Before validation chooses: half of the model, half of the best baseline, and sums of 1. */
static void check_weights(const struct tft_blend *blend)
{
    for (size_t o = 0; o < 2; o++)
        for (size_t h = 0; h < HORIZON; h++) {
            const double *weights = tft_blend_weights_at(blend, o, h);
            size_t halves = 0;
            for (size_t k = 0; k <= blend->count; k++)
                halves += weights[k] == .5;
            CHECK(halves == 2 && weights[0] == .5, "%zu: %zu halves, %g of the model", o, halves, weights[0]);
        }
}

/* ---- baselines ---- */

/* Straight from the formulas, with alpha one step at a time. */
static double theta_by_hand(const double *x, int n, double alpha, int h, double *errors)
{
    double level = x[0], sx = 0, sxy = 0;

    *errors = 0;
    for (int t = 1; t < n; t++) {
        *errors += (x[t] - level) * (x[t] - level);
        level = alpha * x[t] + (1 - alpha) * level;
    }
    for (int t = 0; t < n; t++) {
        sx += (t - (n - 1) / 2.) * (t - (n - 1) / 2.);
        sxy += (t - (n - 1) / 2.) * x[t];
    }
    return level + sxy / sx / 2 * (h - 1 + (1 - pow(1 - alpha, n)) / alpha);
}

static void check_theta(void)
{
    static const double alphas[] = { .02, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .99 };
    double x[40], to[5], errors, lowest = INFINITY, best = 0;
    uint64_t state = 3;

    for (int t = 0; t < 40; t++)
        x[t] = .3 * t + 2 * step_of(&state) + (t ? .5 * x[t - 1] : 0);
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        (void)theta_by_hand(x, 40, alphas[a], 1, &errors);
        best = errors < lowest ? alphas[a] : best;
        lowest = fmin(errors, lowest);
    }
    tft_theta_forecast(x, 40, 5, to);
    for (int h = 1; h <= 5; h++)
        CHECK(fabs(to[h - 1] - theta_by_hand(x, 40, best, h, &errors)) < 1e-9, "theta, %d: %g", h, to[h - 1]);
    tft_theta_forecast(x, 1, 5, to);
    CHECK(to[0] == x[0] && to[4] == x[0]);
}

/* A line stays a line whose slope is damped; one value stays. Any grid's best is exact there: the errors are 0. */
static void check_damped(void)
{
    double x[20], to[3], one = 7;

    for (int t = 0; t < 20; t++)
        x[t] = 100 + 2 * t;
    tft_damped_trend_forecast(x, 20, 3, to);
    CHECK(to[0] > 138 + 1 && to[0] <= 140 + .01 && to[1] > to[0] && to[1] - to[0] < to[0] - 138 + .01 &&
              to[2] - to[1] < to[1] - to[0],
          "damped %g %g %g", to[0], to[1], to[2]);
    tft_damped_trend_forecast(&one, 1, 3, to);
    CHECK(fabs(to[0] - 7) < 1e-9 && fabs(to[2] - 7) < 1e-9);
}

/* A trend with a season of 4, whose distances come out; noise has none, nor has what is shorter than two of them. */
static void check_seasonal(void)
{
    static const double season[] = { 3, -1, 0, -2 };
    double x[60], index[5];
    uint64_t state = 11;

    for (int t = 0; t < 60; t++)
        x[t] = .5 * t + season[t % 4];
    REQUIRE(tft_seasonal_fit(x, 60, 4, index));
    for (size_t p = 0; p < 4; p++)
        CHECK(fabs(index[p] - season[p]) < 1e-9, "phase %zu: %g", p, index[p]);
    CHECK(!tft_seasonal_fit(x, 9, 4, index) && index[0] == 0);
    for (int t = 0; t < 60; t++)
        x[t] = step_of(&state);
    CHECK(!tft_seasonal_fit(x, 60, 5, index) && index[0] == 0);
}

static double forecast_of(const struct tft_data *d, size_t origin, enum tft_baseline_kind kind, size_t h)
{
    const struct tft_baseline baseline = { kind, SEASON };
    const struct tft_window w = { 0, origin, 8 };
    struct halay_region memory = { 0 };
    struct tft_history history;
    double to[6];

    tft_history_init(&d->schema, &memory, &history);
    REQUIRE(!memory.failed && !tft_history_read(&history, d, &w, 0));
    tft_baseline_forecast(&baseline, &history, 6, to);
    halay_region_fini(&memory);
    return to[h];
}

/* Each by hand, early in the series; what is not measured is not there. */
static void check_baselines(struct tft_data *d)
{
    uint8_t *present = (uint8_t *)(uintptr_t)d->present; /* this test's own memory */
    double a = tft_data_forecast_target(d, 0, 0), b = tft_data_forecast_target(d, 19, 0);

#define NEAR(found, right) CHECK(fabs((found) - (right)) < 1e-6, "%s: %g, not %g", #found, found, right)
    NEAR(forecast_of(d, 20, TFT_BASE_LAST, 5), b);
    NEAR(forecast_of(d, 20, TFT_BASE_SEASON, 5), tft_data_forecast_target(d, 17, 0));
    double sum = 0;
    for (size_t t = 1; t < 20; t += SEASON)
        sum += tft_data_forecast_target(d, t, 0) / 5;
    NEAR(forecast_of(d, 20, TFT_BASE_MEAN, 1), sum);
    NEAR(forecast_of(d, 20, TFT_BASE_DRIFT, 2), b + 3 * (b - a) / 19);
    CHECK(isnan(forecast_of(d, 0, TFT_BASE_LAST, 0)) && isnan(forecast_of(d, 2, TFT_BASE_SEASON, 1)) &&
          isfinite(forecast_of(d, 1, TFT_BASE_THETA, 0)) && isfinite(forecast_of(d, 1, TFT_BASE_DAMPED, 3)));
    for (enum tft_baseline_kind kind = TFT_BASE_DRIFT; kind <= TFT_BASE_DAMPED; kind++) { /* from six values on */
        NEAR(forecast_of(d, 5, kind, 5), tft_data_forecast_target(d, 4, 0));
        CHECK(fabs(forecast_of(d, 6, kind, 5) - tft_data_forecast_target(d, 5, 0)) > 1e-6, "no trend by %d", (int)kind);
    }
    double theta = forecast_of(d, 20, TFT_BASE_THETA, 0);
    present[2 * 17] = present[2 * 19] = 0;
    NEAR(forecast_of(d, 20, TFT_BASE_LAST, 0), tft_data_forecast_target(d, 18, 0));
    NEAR(forecast_of(d, 20, TFT_BASE_SEASON, 5), tft_data_forecast_target(d, 13, 0));
    CHECK(fabs(forecast_of(d, 20, TFT_BASE_THETA, 0) - theta) < .1 && isfinite(theta));
    present[2 * 17] = present[2 * 19] = 1;
#undef NEAR
}

/* One of each stratum, each hour as often; all if there are no more. */
static void check_spread(void)
{
    enum { COUNT = 4000, DAY = 24 };
    size_t of_hour[DAY] = { 0 }, others = 0;

    for (size_t i = 0; i < COUNT; i++) {
        size_t number = tft_spread(i, COUNT, COUNT * DAY), uneven = tft_spread(i, COUNT, COUNT + 7);
        of_hour[number % DAY]++;
        others += number / DAY != i || uneven < i * (COUNT + 7) / COUNT || uneven >= (i + 1) * (COUNT + 7) / COUNT ||
                  tft_spread(i, COUNT, COUNT) != i;
    }
    CHECK(!others, "%zu are not in their stratum", others);
    for (size_t hour = 0; hour < DAY; hour++)
        CHECK(of_hour[hour] > COUNT / DAY / 2 && of_hour[hour] < COUNT / DAY * 2, "hour %zu %zu times", hour,
              of_hour[hour]);
}

/* However long the horizon: enough to choose by, and no more than memory holds. */
static void check_choice(void)
{
    struct tft_blend blend = { .horizon = 24, .targets = 1, .quantile_count = 3, .count = 6 };

    CHECK(tft_blend_choice_windows(&blend, 1000) == 1000 && tft_blend_choice_windows(&blend, 1000000) < 20000);
    for (blend.horizon = 1; blend.horizon <= 1000000; blend.horizon *= 10) {
        size_t kept = tft_blend_choice_windows(&blend, 1000);
        double of_window = 9. * (double)blend.horizon;
        CHECK(kept == 20 || (kept > 20 && (double)kept * of_window <= 4e6), "horizon %zu: %zu windows", blend.horizon,
              kept);
        CHECK(tft_blend_choice_windows(&blend, 7) == 7);
    }
}

int main(void)
{
    static const struct tft_list quantiles = { 3, { .1, .4, .6 } };
    struct tft_windows windows;
    struct tft_blend blend;
    struct tft_data d;

    begin_scratch();
    check_spread();
    check_choice();
    check_theta();
    check_damped();
    check_seasonal();
    make_data(&d);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &windows));
    CHECK(windows.count == WINDOWS, "%zu windows", windows.count);
    REQUIRE(!tft_blend_fit(&test_log, &windows, &quantiles, &blend));
    size_t season = find(&blend, TFT_BASE_SEASON, SEASON);
    for (size_t h = 0; h < HORIZON; h++) {
        const double *errors = blend.errors + (season * HORIZON + h) * 3;
        CHECK(fabs(errors[0] - 1 / 1.5) < .01 && fabs(errors[1] - 3 / 3.5) < .01 && fabs(errors[2] - 4 / 3.5) < .01,
              "%zu ahead: %g %g %g", h, errors[0], errors[1], errors[2]);
    }
    check_weights(&blend);
    check_file(&blend, &d);
    check_baselines(&d);
    tft_blend_fini(&blend);
    tft_windows_fini(&windows);
    tft_data_fini(&d);
    end_scratch();
    return test_end();
}
