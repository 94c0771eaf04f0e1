/* SPDX-License-Identifier: Apache-2.0
 *
 * The report's section on intervals. The stream's owner checks its errors.
 */
#include "tft/report/interval_page.h"
#include "tft/report/chart.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUANTILES_MAX = 16, POINTS_MAX = QUANTILES_MAX + 2 };

static double number_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The share that a quantile's name promises: .1 for "p10". */
static double share_of(const char *name)
{
    return strtod(name + 1, NULL) / 100;
}

/* The key of the coverage: "coverage_p10_p90". */
static const char *coverage_key(const json_t *scores)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)scores, key, value)
        if (!strncmp(key, "coverage_", 9))
            return key;
    return "";
}

/* What that interval promises. */
static double nominal_of(const char *coverage)
{
    const char *high = strrchr(coverage, '_'), *low = strchr(coverage, '_');

    return low && high > low ? share_of(high + 1) - share_of(low + 1) : NAN;
}

/* Observed over nominal shares; a forecast that keeps its promises lies on the diagonal. */
static void write_reliability(FILE *f, const json_t *scores, const json_t *before)
{
    const json_t *now = json_object_get(scores, "reliability"), *old = json_object_get(before, "reliability");
    double x[POINTS_MAX] = { 0 }, y[POINTS_MAX] = { 0 }, z[POINTS_MAX] = { 0 };
    static const double ends[] = { 0, 1 };
    const char *name;
    json_t *value;
    size_t n = 1;

    json_object_foreach((json_t *)now, name, value) {
        x[n] = share_of(name);
        y[n] = number_of(value);
        z[n++] = number_of(json_object_get(old, name));
    }
    x[n] = y[n] = z[n] = 1;
    n++;
    const struct tft_line lines[] = { { "promised", "truth", ends, ends, 2 },
                                      { before ? "calibrated" : "forecast", "model", x, y, n },
                                      { before ? "as the model says" : NULL, "second", x, z, before ? n : 0 } };
    fprintf(f, "<figure>\n");
    tft_chart_write(f, &(struct tft_chart){ .title = "Share of values up to the quantile",
                                            .x_label = "the quantile's share",
                                            .width = 520,
                                            .height = 300,
                                            .lines = lines,
                                            .line_count = 3,
                                            .from_zero = 1 });
    fprintf(f, "</figure>\n");
}

/* A histogram as the outline of its bars: from the left end of each to its right. */
static size_t outline(const json_t *pit, double *x, double *y)
{
    const char *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach((json_t *)pit, name, value) {
        x[n] = share_of(name);
        y[n++] = number_of(value);
        x[n] = share_of(strchr(name, '_') + 1);
        y[n++] = number_of(value);
    }
    return n;
}

static void write_pit(FILE *f, const json_t *scores, const json_t *before)
{
    static const double ends[] = { 0, 1 }, one[] = { 1, 1 };
    double x[2 * POINTS_MAX], y[2 * POINTS_MAX], old_x[2 * POINTS_MAX], old_y[2 * POINTS_MAX];
    size_t n = outline(json_object_get(scores, "pit"), x, y);
    size_t old = outline(json_object_get(before, "pit"), old_x, old_y);
    const struct tft_line lines[] = { { "promised", "truth", ends, one, 2 },
                                      { before ? "calibrated" : "forecast", "model", x, y, n },
                                      { before ? "as the model says" : NULL, "second", old_x, old_y, old } };

    fprintf(f, "<figure>\n");
    tft_chart_write(f, &(struct tft_chart){ .title = "Values between the quantiles, relative to what is promised (PIT)",
                                            .x_label = "place in the forecast distribution",
                                            .width = 520,
                                            .height = 300,
                                            .lines = lines,
                                            .line_count = 3,
                                            .from_zero = 1 });
    fprintf(f, "</figure>\n");
}

static void write_horizons(FILE *f, const json_t *scores, const char *coverage)
{
    const json_t *horizons = json_object_get(scores, "by_horizon");
    size_t n = json_array_size(horizons);
    double nominal = nominal_of(coverage), *x = calloc(4 * n + 1, sizeof *x), *y = x + n, *line = y + n,
           *width = line + n;

    for (size_t h = 0; x && h < n; h++) {
        const json_t *of = json_array_get(horizons, h);
        x[h] = (double)h + 1;
        y[h] = number_of(json_object_get(of, coverage));
        width[h] = number_of(json_object_get(of, "width"));
        line[h] = nominal;
    }
    if (x && n) {
        const struct tft_line covered[] = { { "promised", "truth", x, line, n }, { "observed", "model", x, y, n } };
        const struct tft_line widths[] = { { NULL, "model", x, width, n } };
        fprintf(f, "<figure>\n");
        tft_chart_write(f, &(struct tft_chart){ .title = "Share of values inside the interval",
                                                .x_label = "steps ahead",
                                                .width = 520,
                                                .height = 280,
                                                .lines = covered,
                                                .line_count = 2 });
        fprintf(f, "</figure><figure>\n");
        tft_chart_write(f, &(struct tft_chart){ .title = "Width of the interval",
                                                .x_label = "steps ahead",
                                                .width = 520,
                                                .height = 280,
                                                .lines = widths,
                                                .line_count = 1,
                                                .from_zero = 1 });
        fprintf(f, "</figure>\n");
    }
    free(x);
}

static void write_row(FILE *f, const char *name, const json_t *scores, const char *coverage)
{
    static const char *const keys[] = { "width", "interval_score", "wis", "crps" };

    fprintf(f, "<tr><td>%s</td><td>%.1f %%</td>", name, 100 * number_of(json_object_get(scores, coverage)));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double value = number_of(json_object_get(scores, keys[i]));
        if (isnan(value))
            fprintf(f, "<td>-</td>");
        else
            fprintf(f, "<td>%.5g</td>", value);
    }
    fprintf(f, "</tr>\n");
}

void tft_interval_page_write(FILE *f, const json_t *scores)
{
    const json_t *before = json_object_get(scores, "uncalibrated");
    const char *coverage = coverage_key(scores);
    double nominal = nominal_of(coverage);

    if (!json_integer_value(json_object_get(scores, "values")) || !(nominal > 0))
        return;
    fprintf(f,
            "<h2>Intervals</h2><p>The interval from the lowest to the highest quantile promises to hold %.3g %% of the "
            "values.</p><div class=\"wide\"><table><tr><th>forecast</th><th>holds</th><th>mean width</th><th>interval "
            "score</th><th>WIS</th><th>CRPS</th></tr>\n",
            100 * nominal);
    write_row(f, before ? "calibrated" : "Temporal Fusion Transformer", scores, coverage);
    if (before)
        write_row(f, "as the model says", before, coverage);
    fprintf(f, "</table></div><div class=\"pair\">\n");
    write_reliability(f, scores, before);
    write_pit(f, scores, before);
    write_horizons(f, scores, coverage);
    fprintf(f, "</div>\n");
}
