/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts: the last season again for any horizon, and the line through the first and the last value, with the
 * quantiles of what they missed by in training; and the error that scales MASE (Hyndman and Koehler 2006): all worked
 * out again from the numbers of the table.
 */
#include "tests/tft/files.h"
#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"
#include "tft/core/score/forecast_scores.h"
#include "tft/core/score/naive.h"
#include <math.h>

enum { ROWS = 90, TRAIN = 60, SEASON = 4, HORIZON = 10 };

static double value(int entity, int t)
{
    return entity == 2 ? t % SEASON : 10 * entity + t % SEASON + (double)(t * 7919 % 13) / 8;
}

/* Rows of entity 1 begin later; some of entity 0 are missing, two of them a season apart. Entity 2 comes round exactly,
 * entity 3 is too short for a season. */
static int has_row(int entity, int t)
{
    return t >= (entity == 1 ? 3 : 0) && (entity != 3 || t >= TRAIN - 3) &&
           !(entity == 0 && (t == 50 || t == 62 || t == 66));
}

static void make_data(const char *season, struct tft_data *d)
{
    char text[500], csv[ROWS * 4 * 32], *at = csv + sprintf(csv, "id,t,y\n");
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;

    for (int e = 0; e < 4; e++)
        for (int t = 0; t < ROWS; t++)
            at += has_row(e, t) ? sprintf(at, "%d,%d,%g\n", e, t, value(e, t)) : 0;
    snprintf(text, sizeof text,
             "id: {column: id}\ntime: {column: t, integer: true}\n%s"
             "inputs:\n  y: {column: y, role: target, fill: {constant: 7}}\n  s: {calendar: steps, role: known}\n"
             "window: {encoder: 2, horizon: %d}\nsplit: {train: \"< %d\", test: \"< %d\"}\n",
             season, HORIZON, TRAIN, ROWS);
    const char *path = write_text("rows.csv", csv);
    REQUIRE(!tft_schema_load(&test_log, write_text("s.yaml", text), &schema) &&
            !tft_table_read(&test_log, &schema, &path, 1, &table));
    REQUIRE(!tft_encoding_fit(&test_log, &schema, &table, &encoding) &&
            !tft_data_init(&test_log, &schema, &encoding, &table, d));
    tft_table_fini(&table);
}

static int first_of(int entity)
{
    static const int firsts[] = { 0, 3, 0, TRAIN - 3 };

    return entity < 4 ? firsts[entity] : 0;
}

/* The row so many seasons before that was measured; -1: none. */
static int row_before(int entity, int t, int lag, int season)
{
    for (t -= lag; t >= first_of(entity); t -= season)
        if (has_row(entity, t))
            return t;
    return -1;
}

/* What is forecast of an entity's row from `lag` steps before; season 0: drift. 0: nothing. */
static int forecast_of(int entity, int t, int lag, int season, double *y)
{
    int last = row_before(entity, t, lag, season ? season : 1), first = first_of(entity);

    if (last < 0 || (!season && last <= first))
        return 0;
    *y = value(entity, last);
    if (!season)
        *y += (*y - value(entity, first)) / (last - first) * (t - last);
    return 1;
}

static int ascending(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

/* The quantile of an entity's residuals against `lag` before, of the steps that `phase` (-1: all) of a season `phases`
 * long has. */
static double quantile(int entity, int lag, int season, int phase, int phases, double q, int *count)
{
    double residuals[ROWS], y;
    int n = 0;

    for (int t = first_of(entity); t < TRAIN; t++)
        if (has_row(entity, t) && (phase < 0 || (t - first_of(entity)) % phases == phase) &&
            forecast_of(entity, t, lag, season, &y))
            residuals[n++] = value(entity, t) - y;
    qsort(residuals, (size_t)n, sizeof *residuals, ascending);
    *count = n;
    double k = q * (n - 1);
    int below = (int)k, above = below + 1 < n ? below + 1 : below;
    return n ? residuals[below] + (residuals[above] - residuals[below]) * (k - below) : 0;
}

static void check_forecasts(const struct tft_data *d, int season, int phases)
{
    static const double quantiles[] = { 0.9, 0.1, 0.5 };
    struct tft_naive naive;
    double p[3], plain, y;
    int step = season ? season : 1;

    REQUIRE(!tft_naive_init(&test_log, d, 0, (size_t)season, quantiles, 3, &naive));
    for (int e = 0; e < 4; e++)
        for (int origin = TRAIN; origin + HORIZON <= ROWS; origin += 7)
            for (int h = 0; h < HORIZON; h++) {
                int first = first_of(e), lag = (h / step + 1) * step, n,
                    is_known = forecast_of(e, origin + h, lag, season, &y);
                int has = tft_naive_forecast(&naive, (size_t)e, d->entities[e].first + (size_t)(origin - first),
                                             (size_t)h, p, &plain);
                CHECK(has == is_known);
                for (int q = 0; has && q < 3; q++) {
                    double missed = quantile(e, lag, season, (origin + h - first) % phases, phases, quantiles[q], &n);
                    if (n < 10)
                        missed = quantile(e, lag, season, -1, phases, quantiles[q], &n);
                    CHECK(fabs(plain - y) < 1e-12 && fabs(p[q] - plain - missed) < 1e-12,
                          "%d from %d, %d ahead: %g, %g", e, origin, h, p[q] - plain, missed);
                }
            }
    tft_naive_fini(&naive);
}

static void check_seasons(const struct tft_schema *s, size_t count, size_t first, size_t last)
{
    size_t seasons[TFT_NAIVE_MAX], n = tft_naive_seasons(s, seasons);

    CHECK(n == count && seasons[0] == first && seasons[n - 2] == last && seasons[n - 1] == TFT_NAIVE_DRIFT,
          "%zu: %zu ... %zu, %zu", n, seasons[0], seasons[n - 2], seasons[n - 1]);
}

static void forecasts(void)
{
    struct tft_data d;

    make_data("season: [4, 8, 30]\n", &d);
    check_forecasts(&d, 4, 4); /* three seasons ahead */
    check_forecasts(&d, 8, 4);
    check_forecasts(&d, 30, 4);
    check_forecasts(&d, 1, 1);
    check_forecasts(&d, TFT_NAIVE_DRIFT, 1);
    check_seasons(&d.schema, 5, 4, 1);
    tft_data_fini(&d);
    make_data("", &d); /* whole numbers: the last value */
    CHECK(d.schema.season_count == 1 && d.schema.seasons[0] == 1);
    check_forecasts(&d, 1, 1);
    check_seasons(&d.schema, 2, 1, 1);
    tft_data_fini(&d);
    make_data("season: 12\n", &d); /* less than ten residuals a phase */
    check_forecasts(&d, 12, 12);
    tft_data_fini(&d);
}

/* The mean change over `lag` rows of the entity's rows before t, both measured; 0: none. */
static double change_before(int entity, int t, int lag)
{
    double sum = 0;
    int n = 0;

    for (int i = first_of(entity) + lag; i < t; i++)
        if (has_row(entity, i) && has_row(entity, i - lag)) {
            sum += fabs(value(entity, i) - value(entity, i - lag));
            n++;
        }
    return n ? sum / n : 0;
}

/* The unit of MASE: the rows before each origin, in whatever order windows come; entity 3 has fewer than a season
 * before its first origins, and is measured by one step there. */
static void scales(void)
{
    static const int origins[] = { 60, 61, 75, 64, 80 };
    struct tft_data d;
    struct tft_seasonal_error error;

    make_data("season: 4\n", &d);
    REQUIRE(!tft_seasonal_error_init(&test_log, &d, &error));
    for (int round = 0; round < 2; round++)
        for (int e = 0; e < 4; e++)
            for (int k = 0; k < 5; k++) {
                int t = origins[k], rows = t - first_of(e);
                struct tft_window w = { (size_t)e, d.entities[e].first + (size_t)rows, 2 };
                double got = tft_seasonal_error_before(&error, &w)[0],
                       want = change_before(e, t, rows > SEASON ? SEASON : 1);
                CHECK(fabs(got - want) < 1e-12, "%d before %d: %g, not %g", e, t, got, want);
            }
    CHECK(change_before(2, 60, SEASON) <= 0 && error.sums[0].found, "entity 2 comes round, which is not nothing");
    struct tft_window first = { 3, d.entities[3].first, 0 };
    CHECK(tft_seasonal_error_before(&error, &first)[0] <= 0, "no row before");
    tft_seasonal_error_fini(&error);
    tft_data_fini(&d);
}

static int is_called(const char *season, size_t horizon, const char *title)
{
    char text[64];

    tft_naive_title(season, horizon, text, sizeof text);
    return !strcmp(text, title);
}

/* A long horizon of many entities: what is put in order is bounded, though not below what quantiles need. */
static void limits(void)
{
    static const double median[] = { 0.5 };
    struct tft_entity *entities = calloc(3000, sizeof *entities);
    struct tft_data d = { .entities = entities, .entity_count = 3000 };
    struct tft_naive naive;

    d.schema.seasons[0] = 24;
    d.schema.season_count = 1;
    d.schema.target_count = 1;
    for (size_t horizon = 24; horizon <= 720; horizon *= 30)
        for (size_t season = 0; season <= 24; season += season ? 23 : 1) { /* drift, the last value, a day */
            d.schema.horizon = horizon;
            REQUIRE(!tft_naive_init(&test_log, &d, 0, season, median, 1, &naive));
            size_t groups = d.entity_count * naive.ahead * naive.phases;
            CHECK(naive.residuals_max >= 100 &&
                      (naive.residuals_max == 100 || groups * naive.residuals_max <= 20000000),
                  "%zu of %zu: %zu", horizon, season, naive.residuals_max);
            tft_naive_fini(&naive);
        }
    free(entities);
}

/* Better by less than 1 % is no better; nothing is better than no error at all. */
static int wins(double q_risk, double naive)
{
    return tft_naive_wins(q_risk, &(struct tft_naive_best){ 1, 0, naive });
}

int main(void)
{
    begin_scratch();
    forecasts();
    scales();
    limits();
    CHECK(is_called("24", 24, "value of 24 steps before") && is_called("24", 25, "last 24 steps repeated"));
    CHECK(is_called("1", 1, "value of 1 step before") && is_called("1", 2, "last value repeated"));
    CHECK(is_called("drift", 2, "last value and drift"));
    CHECK(wins(.1, .1) && wins(.1, .1005) && !wins(.1, .102) && wins(.1, 0) && !wins(0, 0) && !wins(.1, INFINITY));
    end_scratch();
    return test_end();
}
