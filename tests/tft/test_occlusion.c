/* SPDX-License-Identifier: Apache-2.0
 *
 * A target that is taken away is hidden in the naive forecast that it is blended with, and in the season before that
 * its forecast is relative to; what is not taken away is not.
 */
#include "tests/tft/files.h"
#include "tft/core/run/blend.h"
#include <math.h>

enum { ROWS = 400, SEASON = 4, HORIZON = 2, ENCODER = 8, QUANTILES = 3, TARGET = 0, OTHER = 1 };

static const float level = 7;

/* A series that repeats, and rises. keys: of the target. */
static void make_data(const char *keys, struct tft_data *d)
{
    static char csv[ROWS * 16];
    char text[400], *at = csv + sprintf(csv, "t,y\n");
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;

    for (int t = 0; t < ROWS; t++)
        at += sprintf(at, "%d,%d\n", t, t % SEASON * 10 + t / SEASON);
    snprintf(text, sizeof text,
             "id: {from: filename, pattern: \"^(.*).csv\"}\ntime: {column: t, integer: true}\nseason: %d\n"
             "inputs:\n  y: {column: y, role: target%s}\n  s: {calendar: steps, role: known}\n"
             "window: {encoder: %d, horizon: %d}\nsplit: {train: \"< %d\", test: \"< %d\"}\n",
             SEASON, keys, ENCODER, HORIZON, ROWS - 10, ROWS);
    const char *path = write_text("rows.csv", csv);
    REQUIRE(!tft_schema_load(&test_log, write_text("s.yaml", text), &schema) &&
            !tft_table_read(&test_log, &schema, &path, 1, &table));
    REQUIRE(!tft_encoding_fit(&test_log, &schema, &table, &encoding) &&
            !tft_data_init(&test_log, &schema, &encoding, &table, d));
    tft_table_fini(&table);
}

static double scaled(const struct tft_data *d, size_t row)
{
    return (double)d->values[(row + 1) * d->real_count - 1];
}

/* A window's forecast of zeros, half of it the season before, without an input (SIZE_MAX: with all). */
static void blend_without(const struct tft_data *d, struct tft_blend *blend, const struct tft_window *w, size_t input,
                          float *p)
{
    float values[] = { level };
    int32_t codes[] = { 0 };
    const struct tft_occlusion occlusion = { .input = input, .values = values, .codes = codes };

    for (size_t i = 0; i < HORIZON * QUANTILES; i++)
        p[i] = 0;
    for (size_t h = 0; h < HORIZON; h++) {
        double *weights = tft_blend_weights_at(blend, 0, h);
        for (size_t k = 0; k <= blend->count; k++)
            weights[k] = !k || (blend->baselines[k - 1].kind == TFT_BASE_SEASON) ? .5 : 0;
    }
    REQUIRE(!tft_blend_apply(blend, d, w, input == SIZE_MAX ? NULL : &occlusion, p));
}

static void blends(void)
{
    static const struct tft_list quantiles = { QUANTILES, { .1, .5, .9 } };
    float all[HORIZON * QUANTILES], less[HORIZON * QUANTILES], none[HORIZON * QUANTILES];
    struct tft_windows windows;
    struct tft_blend blend;
    struct tft_data d;

    make_data(", blend: season", &d);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &windows));
    REQUIRE(!tft_blend_fit(&test_log, &windows, &quantiles, &blend));
    struct tft_window w = tft_windows_get(&windows, 100);
    blend_without(&d, &blend, &w, SIZE_MAX, all);
    blend_without(&d, &blend, &w, OTHER, less);
    blend_without(&d, &blend, &w, TARGET, none);
    for (size_t i = 0; i < HORIZON * QUANTILES; i++) {
        double naive = scaled(&d, w.origin + i / QUANTILES - SEASON), change = (double)all[i] - (double)none[i];
        CHECK(less[i] == all[i]);
        CHECK(fabs(change - .5 * (naive - (double)level)) < 1e-4, "%zu: %g and %g, naive %g", i, (double)all[i],
              (double)none[i], naive);
    }
    tft_blend_fini(&blend);
    tft_windows_fini(&windows);
    tft_data_fini(&d);
}

/* What undoes a scale stays when the target is taken from a batch. */
static void offsets_stay(const char *keys)
{
    real reals[(ENCODER + HORIZON) * 2] = { 0 }, targets[HORIZON] = { 0 }, offsets[HORIZON] = { 40, 50 },
                                     units[] = { 1 };
    size_t lengths[] = { ENCODER };
    struct tft_batch batch = {
        .B = 1, .reals = reals, .targets = targets, .offsets = offsets, .units = units, .lengths = lengths
    };
    float values[] = { level };
    int32_t codes[] = { 0 };
    const struct tft_occlusion occlusion = { .input = TARGET, .values = values, .codes = codes };
    struct tft_windows windows;
    struct tft_data d;

    make_data(keys, &d);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &windows));
    struct tft_window w = tft_windows_get(&windows, 100);
    tft_occlusion_apply(&occlusion, &d, &w, &batch, 0);
    CHECK(offsets[0] == 40 && offsets[1] == 50, "%s: %g and %g", keys, (double)offsets[0], (double)offsets[1]);
    tft_windows_fini(&windows);
    tft_data_fini(&d);
}

int main(void)
{
    begin_scratch();
    blends();
    offsets_stay("");
    offsets_stay(", per: window");
    end_scratch();
    return test_end();
}
