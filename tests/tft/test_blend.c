/* SPDX-License-Identifier: Apache-2.0
 *
 * What a blend takes from training: errors of naive forecasts, from windows that are spread over the whole of it.
 */
#include "tests/tft/files.h"
#include "tft/data/htd.h"
#include "tft/run/blend.h"
#include <math.h>

enum { ROWS = 7900, SEASON = 4, HORIZON = 2 };

/* Each value is one more than a season before; in the second half, three more. */
static int rise(int t)
{
    return t < ROWS / 2 ? 1 : 3;
}

static void make_data(struct tft_data *d)
{
    static char csv[ROWS * 16];
    static int y[ROWS];
    char text[400], *at = csv + sprintf(csv, "t,y\n");
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;

    for (int t = 0; t < ROWS; t++) {
        y[t] = t < SEASON ? t : y[t - SEASON] + rise(t);
        at += sprintf(at, "%d,%d\n", t, y[t]);
    }
    snprintf(text, sizeof text,
             "id: {from: filename, pattern: \"^(.*).csv\"}\ntime: {column: t, integer: true}\nseason: %d\n"
             "inputs:\n  y: {column: y, role: target, blend: season}\n  s: {calendar: steps, role: known}\n"
             "window: {encoder: 8, horizon: %d}\nsplit: {train: \"< %d\", test: \"< %d\"}\n",
             SEASON, HORIZON, ROWS - 10, ROWS);
    const char *path = write_text("rows.csv", csv);
    REQUIRE(!tft_schema_load(&test_log, write_text("s.yaml", text), &schema) &&
            !tft_table_read(&test_log, &schema, &path, 1, &table));
    REQUIRE(!tft_encoding_fit(&test_log, &schema, &table, &encoding) &&
            !tft_data_init(&test_log, &schema, &encoding, &table, d));
    tft_table_fini(&table);
}

int main(void)
{
    static const struct tft_list quantiles = { 3, { .1, .4, .6 } };
    struct tft_windows windows;
    struct tft_blend blend;
    struct tft_data d;

    begin_scratch();
    make_data(&d);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &windows));
    CHECK(windows.count > 7000, "%zu windows: more than are taken, and less than twice as many", windows.count);
    REQUIRE(!tft_blend_fit(&test_log, &windows, &quantiles, &blend));
    for (size_t h = 0; h < HORIZON; h++) {
        const double *errors = blend.errors + h * 3;
        double unit = 1 / errors[0];
        CHECK(errors[0] > 0 && fabs(errors[1] * unit - 1) < 1e-3 && fabs(errors[2] * unit - 3) < 1e-3,
              "%zu ahead: %g %g %g", h, errors[0], errors[1], errors[2]);
    }
    tft_blend_fini(&blend);
    tft_windows_fini(&windows);
    tft_data_fini(&d);
    end_scratch();
    return test_end();
}
