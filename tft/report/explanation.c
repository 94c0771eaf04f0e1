/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation's pictures. A missing number is not drawn.
 */
#include "tft/report/explanation.h"
#include "tft/report/chart.h"
#include "tft/report/json_number.h"
#include <math.h>
#include <stdlib.h>

enum { CURVES = 4, REGIMES_DRAWN = 40 };

static const char *const styles[CURVES] = { "model", "naive", "second", "truth" };

/* ---- inputs ---- */

static void write_inputs(FILE *f, const json_t *importance, const char *part, const char *title)
{
    const json_t *inputs = json_object_get(importance, part);
    const char *name;
    json_t *input;

    if (!json_object_size(inputs))
        return;
    fprintf(f,
            "<div class=\"wide\"><table><tr><th>%s</th><th></th><th>mean</th><th>p10</th><th>p50</th><th>p90</th>"
            "</tr>\n",
            title);
    json_object_foreach((json_t *)inputs, name, input) {
        fprintf(f, "<tr><td>");
        tft_html_text(f, name);
        fprintf(f, "</td><td class=\"bar\"><i style=\"width:%.1f%%\"></i></td>",
                100 * tft_json_number_at(input, "mean"));
        fprintf(f, "<td>%.1f %%</td><td>%.1f %%</td><td>%.1f %%</td><td>%.1f %%</td></tr>\n",
                100 * tft_json_number_at(input, "mean"), 100 * tft_json_number_at(input, "p10"),
                100 * tft_json_number_at(input, "p50"), 100 * tft_json_number_at(input, "p90"));
    }
    fprintf(f, "</table></div>\n");
}

static void write_occlusion(FILE *f, const json_t *occlusion)
{
    double correlation = tft_json_number_at(occlusion, "rank_correlation");
    const char *name;
    json_t *input;

    if (!json_is_object(occlusion))
        return;
    fprintf(f,
            "<h3>Without each input</h3><p>All windows forecast again with the input's median in its place: how much "
            "the median's q-risk rises. Where this and the weights disagree, believe this.");
    if (!isnan(correlation))
        fprintf(f, " Their rank correlation is %.2f.", correlation);
    fprintf(f, "</p><div class=\"wide\"><table><tr><th>input</th><th>weight</th><th>q-risk</th></tr>\n");
    json_object_foreach(json_object_get(occlusion, "inputs"), name, input) {
        fprintf(f, "<tr><td>");
        tft_html_text(f, name);
        fprintf(f, "</td><td>%.1f %%</td><td>%+.1f %%</td></tr>\n", 100 * tft_json_number_at(input, "weight"),
                100 * tft_json_number_at(input, "change"));
    }
    fprintf(f, "</table></div>\n");
}

/* ---- charts ---- */

/* Past weights through the split: of the four inputs that weigh most. */
static void write_over_time(FILE *f, const json_t *json)
{
    const json_t *periods = json_object_get(json, "over_time"), *first = json_array_get(periods, 0);
    const json_t *last = json_array_get(periods, json_array_size(periods) - 1);
    size_t n = json_array_size(periods), drawn = 0;
    double *x = calloc((CURVES + 1) * n + 1, sizeof *x), least = INFINITY;
    struct tft_line lines[CURVES];
    char label[160];

    for (size_t i = 0; x && i < n; i++)
        x[i] = (double)i + 1;
    for (; x && drawn < CURVES; drawn++) { /* the next lighter one */
        const json_t *past = json_object_get(json_object_get(json, "importance"), "past");
        const char *name, *best = NULL;
        json_t *input;
        double most = -1, *y = x + (drawn + 1) * n;
        json_object_foreach((json_t *)past, name, input) {
            double mean = tft_json_number_at(input, "mean");
            if (mean < least && mean > most) {
                most = mean;
                best = name;
            }
        }
        if (!best)
            break;
        least = most;
        for (size_t i = 0; i < n; i++)
            y[i] =
                tft_json_number_at(json_object_get(json_object_get(json_array_get(periods, i), "past"), best), "mean");
        lines[drawn] = (struct tft_line){ best, styles[drawn], x, y, n };
    }
    snprintf(label, sizeof label, "parts of the time from %.32s to %.32s",
             json_string_value(json_object_get(first, "from")), json_string_value(json_object_get(last, "from")));
    if (x && n > 1)
        tft_chart_write(f, &(struct tft_chart){ .title = "Weights of past inputs over time",
                                                .x_label = label,
                                                .width = 520,
                                                .height = 280,
                                                .lines = lines,
                                                .line_count = drawn,
                                                .from_zero = 1 });
    free(x);
}

static void write_lags(FILE *f, const json_t *attention)
{
    const json_t *mean = json_object_get(attention, "by_lag"), *next = json_object_get(attention, "next_step");
    const json_t *p10 = json_object_get(next, "p10"), *p90 = json_object_get(next, "p90");
    size_t n = json_array_size(mean), m = json_array_size(p10);
    double *x = calloc(2 * n + 2 * m + 1, sizeof *x), *y = x + n, *low = y + n, *high = low + m;

    if (!x)
        return;
    for (size_t i = 0; i < n; i++) {
        x[i] = (double)i;
        y[i] = tft_json_number(json_array_get(mean, i));
    }
    for (size_t i = 0; i < m; i++) {
        low[i] = tft_json_number(json_array_get(p10, i));
        high[i] = tft_json_number(json_array_get(p90, i));
    }
    const struct tft_line line = { "mean", "model", x, y, n };
    tft_chart_write(f, &(struct tft_chart){ .title = "Attention by lag",
                                            .x_label = "steps back from the step that is forecast",
                                            .width = 520,
                                            .height = 280,
                                            .lines = &line,
                                            .line_count = 1,
                                            .band_label = "next step, P10-P90",
                                            .band_x = x,
                                            .band_low = low,
                                            .band_high = high,
                                            .band_count = m,
                                            .from_zero = 1 });
    free(x);
}

/* Attention to the window's steps, from a few steps of the horizon. */
static void write_horizons(FILE *f, const struct tft_explanation *e, const json_t *attention)
{
    const json_t *horizons = json_object_get(attention, "by_horizon");
    size_t shown = json_array_size(horizons), count = shown < CURVES ? shown : CURVES, T = e->reader.T;
    double *x = calloc(T * (CURVES + 1), sizeof *x);
    struct tft_line lines[CURVES];
    char labels[CURVES][32];

    for (size_t t = 0; x && t < T; t++)
        x[t] = (double)t - (double)e->reader.E + 1;
    for (size_t k = 0; x && k < count; k++) {
        const json_t *row = json_array_get(horizons, count > 1 ? k * (shown - 1) / (count - 1) : 0);
        const json_t *mean = json_object_get(row, "mean");
        double *y = x + (k + 1) * T;
        for (size_t t = 0; t < json_array_size(mean); t++)
            y[t] = tft_json_number(json_array_get(mean, t));
        snprintf(labels[k], sizeof labels[k], "step %lld",
                 (long long)json_integer_value(json_object_get(row, "horizon")));
        lines[k] = (struct tft_line){ labels[k], styles[k], x, y, json_array_size(mean) };
    }
    if (x)
        tft_chart_write(f, &(struct tft_chart){ .title = "Attention from steps of the horizon",
                                                .x_label = "steps from the forecast's origin",
                                                .width = 520,
                                                .height = 280,
                                                .lines = lines,
                                                .line_count = count,
                                                .has_mark = 1,
                                                .from_zero = 1 });
    free(x);
}

/* ---- regimes ---- */

/* The series, and over it the stretches of other regimes. */
static void write_series(FILE *f, const struct tft_explanation *e, const struct tft_explained_series *s, double *x)
{
    struct tft_line lines[1 + REGIMES_DRAWN] = { { "mean of the horizon", "truth", x, s->values, s->count } };
    const char *id = e->inference->data.entities[s->entity].id;
    size_t drawn = 1;
    char title[128];

    for (size_t i = 0, from = 0; i < s->count && drawn <= REGIMES_DRAWN; i++) {
        if (i == 0 || s->distances[i - 1] <= e->request->distance)
            from = i > 0 ? i - 1 : 0; /* from the window before, so that a single one is a stroke */
        if (s->distances[i] > e->request->distance &&
            (i + 1 == s->count || s->distances[i + 1] <= e->request->distance)) {
            lines[drawn] = (struct tft_line){ drawn == 1 ? "other regime" : NULL, "naive", x + from, s->values + from,
                                              i + 1 - from };
            drawn++;
        }
    }
    snprintf(title, sizeof title, "%.60s", id);
    tft_chart_write(
        f, &(struct tft_chart){
               .title = title, .x_label = "window", .width = 520, .height = 260, .lines = lines, .line_count = drawn });
    const double ends[] = { 1, (double)s->count }, level[] = { e->request->distance, e->request->distance };
    const struct tft_line distances[] = { { "distance", "model", x, s->distances, s->count },
                                          { "another regime from here", "naive", ends, level, 2 } };
    snprintf(title, sizeof title, "%.60s, distance of attention from its mean", id);
    tft_chart_write(f, &(struct tft_chart){ .title = title,
                                            .x_label = "window",
                                            .width = 520,
                                            .height = 260,
                                            .lines = distances,
                                            .line_count = 2,
                                            .from_zero = 1 });
}

static void write_regimes(FILE *f, const struct tft_explanation *e, const json_t *json)
{
    const json_t *regimes = json_object_get(json, "regimes");

    fprintf(f,
            "<h3>Regimes</h3><p>%lld of %zu windows look elsewhere than usual: the distance of their attention from "
            "their entity's mean is above %g (0: the same, 1: nothing in common).</p><div class=\"pair\">\n",
            (long long)json_integer_value(json_object_get(regimes, "windows")), e->windows.count, e->request->distance);
    for (size_t k = 0; k < e->series_count; k++) {
        const struct tft_explained_series *s = &e->series[k];
        double *x = calloc(s->count + 1, sizeof *x);
        for (size_t i = 0; x && i < s->count; i++)
            x[i] = (double)i + 1;
        if (x && s->count > 1)
            write_series(f, e, s, x);
        free(x);
    }
    fprintf(f, "</div>\n");
}

void tft_explanation_write(FILE *f, const struct tft_explanation *e, const json_t *json)
{
    const json_t *importance = json_object_get(json, "importance"), *attention = json_object_get(json, "attention");

    fprintf(f,
            "<h2>What the forecasts rely on</h2><p>Weights of variable selection in %zu windows of the %s split. They "
            "add up to 1 at each step.</p>\n",
            e->windows.count, tft_split_names[e->request->windows.split]);
    write_inputs(f, importance, "static", "static input");
    write_inputs(f, importance, "past", "past input");
    write_inputs(f, importance, "future", "future input");
    write_occlusion(f, json_object_get(json, "occlusion"));
    fprintf(f, "<h3>Over time, and where attention looks</h3><div class=\"pair\">\n");
    write_over_time(f, json);
    write_lags(f, attention);
    write_horizons(f, e, attention);
    fprintf(f, "</div>\n");
    write_regimes(f, e, json);
}
