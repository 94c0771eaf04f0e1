/* SPDX-License-Identifier: Apache-2.0
 *
 * What a blend takes from training: the season of its naive forecasts, and their errors, from windows that are spread
 * over the whole of it, and over all places in the season.
 */
#include "tests/tft/files.h"
#include "tft/data/htd.h"
#include "tft/run/blend.h"
#include <math.h>

/* Four times as many windows as are taken, each fourth of which is at the same place in the season. */
enum { ROWS = 16019, WINDOWS = 16000, SEASON = 4, HORIZON = 2 };

/* How much more each value is than a season before: in the second half two more than in the first, in the second half
 * of the season one more. */
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

/* A run's description keeps it. Of one that names no season, it is the schema's first. */
static void check_file(const struct tft_blend *blend, const struct tft_data *d)
{
    json_t *json = tft_blend_json(blend);
    struct tft_blend again;

    REQUIRE(json && !tft_blend_read(json, &d->schema, 1, 3, &again));
    CHECK(again.seasons[0] == SEASON && again.seasons[1] == 1 && again.units[1] == blend->units[1] &&
          again.errors[7] == blend->errors[7]);
    tft_blend_fini(&again);
    json_object_del(json, "seasons");
    REQUIRE(!tft_blend_read(json, &d->schema, 1, 3, &again));
    CHECK(again.seasons[0] == SEASON && again.seasons[1] == SEASON);
    tft_blend_fini(&again);
    json_object_set_new(json, "seasons", json_pack("[ii]", 4, 0));
    CHECK(tft_blend_read(json, &d->schema, 1, 3, &again) == HALAY_ERR_FORMAT && !again.errors);
    json_decref(json);
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

int main(void)
{
    static const struct tft_list quantiles = { 3, { .1, .4, .6 } };
    struct tft_windows windows;
    struct tft_blend blend;
    struct tft_data d;

    begin_scratch();
    check_spread();
    make_data(&d);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &windows));
    CHECK(windows.count == WINDOWS, "%zu windows", windows.count);
    REQUIRE(!tft_blend_fit(&test_log, &windows, &quantiles, &blend));
    for (size_t h = 0; h < HORIZON; h++) {
        const double *errors = blend.errors + h * 3;
        double unit = 1 / errors[0];
        CHECK(errors[0] > 0 && fabs(errors[1] * unit - 2) < 1e-3 && fabs(errors[2] * unit - 3) < 1e-3,
              "%zu ahead: %g %g %g", h, errors[0], errors[1], errors[2]);
    }
    CHECK(blend.seasons[0] == SEASON && blend.seasons[1] == 1, "seasons %zu %zu", blend.seasons[0], blend.seasons[1]);
    check_file(&blend, &d);
    tft_blend_fini(&blend);
    tft_windows_fini(&windows);
    tft_data_fini(&d);
    end_scratch();
    return test_end();
}
