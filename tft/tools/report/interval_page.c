/* SPDX-License-Identifier: Apache-2.0
 *
 * The report's section on intervals. The stream's owner checks its errors.
 */
#include "tft/tools/report/interval_page.h"
#include "base/number_text.h"
#include "tft/tools/report/chart.h"
#include "tft/tools/report/json_number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUANTILES_MAX = 16, POINTS_MAX = QUANTILES_MAX + 2 };

/* The share that a quantile's name promises: .1 for "p10". */
static double share_of(const char *name)
{
    return halay_strtod(name + 1, NULL) / 100;
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

struct curve {
    const double *x, *y;
    size_t n;
};

/* What is promised, a line from at_zero to 1, and what was seen: of a calibrated forecast (model is not empty) also
 * before it was. */
static void write_promise(FILE *f, const char *title, const char *x_label, double at_zero, const struct curve *seen,
                          const struct curve *model)
{
    const double ends[] = { 0, 1 }, promised[] = { at_zero, 1 };
    const struct tft_line lines[] = {
        { "promised", "truth", ends, promised, 2 },
        { model->n ? "calibrated" : "forecast", "model", seen->x, seen->y, seen->n },
        { model->n ? "as the model says" : NULL, "second", model->x, model->y, model->n },
    };

    tft_chart_write(f, &(struct tft_chart){ .title = title,
                                            .x_label = x_label,
                                            .width = 520,
                                            .height = 300,
                                            .lines = lines,
                                            .line_count = 3,
                                            .from_zero = 1 });
}

/* Observed over nominal shares; a forecast that keeps its promises lies on the diagonal. */
static void write_reliability(FILE *f, const json_t *scores, const json_t *before)
{
    const json_t *now = json_object_get(scores, "reliability"), *old = json_object_get(before, "reliability");
    double x[POINTS_MAX] = { 0 }, y[POINTS_MAX] = { 0 }, z[POINTS_MAX] = { 0 };
    const char *name;
    json_t *value;
    size_t n = 1;

    json_object_foreach((json_t *)now, name, value) {
        x[n] = share_of(name);
        y[n] = tft_json_number(value);
        z[n++] = tft_json_number_at(old, name);
    }
    x[n] = y[n] = z[n] = 1;
    n++;
    write_promise(f, "Share of values up to the quantile", "the quantile's share", 0, &(struct curve){ x, y, n },
                  &(struct curve){ x, z, before ? n : 0 });
}

/* A histogram as the outline of its bars: from the left end of each to its right. */
static size_t outline(const json_t *pit, double *x, double *y)
{
    const char *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach((json_t *)pit, name, value) {
        x[n] = share_of(name);
        y[n++] = tft_json_number(value);
        x[n] = share_of(strchr(name, '_') + 1);
        y[n++] = tft_json_number(value);
    }
    return n;
}

static void write_pit(FILE *f, const json_t *scores, const json_t *before)
{
    double x[2 * POINTS_MAX], y[2 * POINTS_MAX], old_x[2 * POINTS_MAX], old_y[2 * POINTS_MAX];
    size_t n = outline(json_object_get(scores, "pit"), x, y);
    size_t old = outline(json_object_get(before, "pit"), old_x, old_y);

    write_promise(f, "Values between the quantiles, relative to what is promised (PIT)",
                  "place in the forecast distribution", 1, &(struct curve){ x, y, n },
                  &(struct curve){ old_x, old_y, old });
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
        y[h] = tft_json_number_at(of, coverage);
        width[h] = tft_json_number_at(of, "width");
        line[h] = nominal;
    }
    if (x && n) {
        const struct tft_line covered[] = { { "promised", "truth", x, line, n }, { "observed", "model", x, y, n } };
        const struct tft_line widths[] = { { NULL, "model", x, width, n } };
        tft_chart_write(f, &(struct tft_chart){ .title = "Share of values inside the interval",
                                                .x_label = "steps ahead",
                                                .width = 520,
                                                .height = 280,
                                                .lines = covered,
                                                .line_count = 2 });
        tft_chart_write(f, &(struct tft_chart){ .title = "Width of the interval",
                                                .x_label = "steps ahead",
                                                .width = 520,
                                                .height = 280,
                                                .lines = widths,
                                                .line_count = 1,
                                                .from_zero = 1 });
    }
    free(x);
}

static void write_row(FILE *f, const char *name, const json_t *scores, const char *coverage)
{
    static const char *const keys[] = { "width", "interval_score", "wis", "crps" };

    halay_fprintf(f, "<tr><td>%s</td><td>%.1f %%</td>", name, 100 * tft_json_number_at(scores, coverage));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double value = tft_json_number_at(scores, keys[i]);
        if (isnan(value))
            fprintf(f, "<td>-</td>");
        else
            halay_fprintf(f, "<td>%.5g</td>", value);
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
    halay_fprintf(
        f,
        "<h2>Intervals</h2><p>The interval from the lowest to the highest quantile promises to hold %.3g %% of the "
        "values. WIS and CRPS are approximated by %zu quantiles.</p><div class=\"wide\" tabindex=\"0\"><table><tr>"
        "<th>forecast</th><th>holds</th><th>mean width</th><th>interval score</th><th>WIS</th><th>CRPS</th></tr>\n",
        100 * nominal, json_object_size(json_object_get(scores, "q_risk")));
    write_row(f, before ? "calibrated" : "Temporal Fusion Transformer", scores, coverage);
    if (before)
        write_row(f, "as the model says", before, coverage);
    fprintf(f, "</table></div><div class=\"pair\">\n");
    write_reliability(f, scores, before);
    write_pit(f, scores, before);
    write_horizons(f, scores, coverage);
    fprintf(f, "</div>\n");
}
