/* SPDX-License-Identifier: Apache-2.0
 *
 * A missing number is not drawn; a picture for which there is no memory is left out.
 */
#include "tft/tools/report/attention_page.h"
#include "base/number_text.h"
#include "tft/tools/report/chart.h"
#include "tft/tools/report/json_number.h"
#include <stdlib.h>

enum { CURVES = 4, HEADS_DRAWN = 8, REGIMES_DRAWN = 40 };

static const char *const styles[CURVES] = { "model", "naive", "second", "truth" };

/* ---- persistent patterns ---- */

/* Mean attention of each step of the horizon, by lag. */
static void write_map(FILE *f, const struct tft_explanation *e)
{
    const struct tft_weight_reader *r = &e->reader;
    double *values = calloc(r->D * r->T, sizeof *values);

    for (size_t i = 0; values && i < r->D * r->T; i++) {
        size_t h = i / r->T, lag = i % r->T;
        values[i] = lag <= r->E + h ? tft_weight_sums_attention(&e->sums, r->heads, h, r->E + h - lag) : NAN;
    }
    if (values)
        tft_chart_write(f, &(struct tft_chart){ .title = "Attention by horizon and lag (the stronger, the more)",
                                                .x_label = "steps back from the step that is forecast",
                                                .y_label = "steps ahead",
                                                .width = 1040,
                                                .height = 320,
                                                .heat = { r->D, r->T, values } });
    free(values);
}

/* By lag: the mean, and what the horizon's first step sees. */
static void write_lags(FILE *f, const struct tft_explanation *e, const json_t *attention)
{
    const json_t *first = json_array_get(json_object_get(attention, "by_horizon"), 0);
    size_t T = e->reader.T, seen = e->reader.E + 1;
    double *x = calloc(5 * T, sizeof *x), *mean = x + T, *low = mean + T, *middle = low + T, *high = middle + T;

    if (!x)
        return;
    tft_json_list(json_object_get(attention, "by_lag"), mean, T);
    for (size_t lag = 0; lag < T; lag++) {
        x[lag] = (double)lag;
        low[lag] = tft_json_number(json_array_get(json_object_get(first, "p10"), seen - 1 - lag));
        middle[lag] = tft_json_number(json_array_get(json_object_get(first, "p50"), seen - 1 - lag));
        high[lag] = tft_json_number(json_array_get(json_object_get(first, "p90"), seen - 1 - lag));
    }
    const struct tft_line all = { NULL, "model", x, mean, T }, next = { "P50", "model", x, middle, seen };
    tft_chart_write(f, &(struct tft_chart){ .title = "Attention by lag, mean over the horizon",
                                            .x_label = "steps back from the step that is forecast",
                                            .width = 520,
                                            .height = 280,
                                            .lines = &all,
                                            .line_count = 1,
                                            .from_zero = 1 });
    tft_chart_write(f, &(struct tft_chart){ .title = "Attention by lag, one step ahead",
                                            .x_label = "steps back from the step that is forecast",
                                            .width = 520,
                                            .height = 280,
                                            .lines = &next,
                                            .line_count = 1,
                                            .band_label = "P10-P90",
                                            .band_x = x,
                                            .band_low = low,
                                            .band_high = high,
                                            .band_count = seen,
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
        tft_json_list(mean, y, json_array_size(mean));
        snprintf(labels[k], sizeof labels[k], "step %lld",
                 (long long)json_integer_value(json_object_get(row, "horizon")));
        lines[k] = (struct tft_line){ labels[k], styles[k], x, y, json_array_size(mean) };
    }
    if (x)
        tft_chart_write(f, &(struct tft_chart){ .title = "Attention from steps of the horizon",
                                                .x_label = "steps from the forecast's origin",
                                                .width = 520,
                                                .height = 260,
                                                .lines = lines,
                                                .line_count = count,
                                                .has_mark = 1,
                                                .from_zero = 1 });
    free(x);
}

/* A panel for each head, by lag. */
static void write_heads(FILE *f, const struct tft_explanation *e, const json_t *attention)
{
    size_t T = e->reader.T, heads = e->reader.heads;
    double *x = calloc(2 * T, sizeof *x), *y = x + T;
    char title[64];

    for (size_t t = 0; x && t < T; t++)
        x[t] = (double)t;
    for (size_t head = 0; x && heads > 1 && head < heads && head < HEADS_DRAWN; head++) {
        const struct tft_line line = { NULL, "model", x, y, T };
        tft_json_list(json_array_get(json_object_get(attention, "by_head"), head), y, T);
        snprintf(title, sizeof title, "Head %zu of %zu, attention by lag", head + 1, heads);
        tft_chart_write(f, &(struct tft_chart){ .title = title,
                                                .x_label = "steps back from the step that is forecast",
                                                .width = 520,
                                                .height = 260,
                                                .lines = &line,
                                                .line_count = 1,
                                                .from_zero = 1 });
    }
    free(x);
}

void tft_attention_write(FILE *f, const struct tft_explanation *e, const json_t *json)
{
    const json_t *attention = json_object_get(json, "attention");

    fprintf(f, "<h3>Where attention looks</h3>\n");
    write_map(f, e);
    fprintf(f, "<div class=\"pair\">\n");
    write_lags(f, e, attention);
    write_horizons(f, e, attention);
    write_heads(f, e, attention);
    fprintf(f, "</div>\n");
}

/* ---- regimes ---- */

/* When a series' first and last windows are. */
static void name_span(const struct tft_explanation *e, size_t entity, char *text, size_t size)
{
    const struct tft_data *d = &e->inference->data;
    char from[40], to[40];
    struct tft_window first = tft_windows_get(&e->windows, tft_windows_before(&e->windows, entity));
    struct tft_window last = tft_windows_get(&e->windows, tft_windows_before(&e->windows, entity + 1) - 1);

    tft_schema_print_time(&d->schema, tft_data_time(d, entity, first.origin - 1), from, sizeof from);
    tft_schema_print_time(&d->schema, tft_data_time(d, entity, last.origin - 1), to, sizeof to);
    snprintf(text, size, "windows from %.16s to %.16s", from, to);
}

/* The series, over it the stretches of other regimes, and a ring where attention is farthest from the usual. */
static void write_target(FILE *f, const struct tft_explanation *e, const struct tft_explained_series *s,
                         const double *x, const char *span)
{
    struct tft_line lines[2 + REGIMES_DRAWN] = { { "mean of the horizon", "truth", x, s->values, s->count } };
    const struct tft_window *farthest = &s->farthest.window;
    size_t drawn = 1, at = 0;

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
    while (at < s->count &&
           tft_windows_get(&e->windows, tft_windows_before(&e->windows, s->entity) + at).origin != farthest->origin)
        at++;
    if (s->farthest.has_window && at < s->count)
        lines[drawn++] = (struct tft_line){ "farthest", "second", x + at, s->values + at, 1 };
    tft_chart_write(f, &(struct tft_chart){ .title = e->inference->data.entities[s->entity].id,
                                            .x_label = span,
                                            .width = 520,
                                            .height = 240,
                                            .lines = lines,
                                            .line_count = drawn });
}

static void write_distances(FILE *f, const struct tft_explanation *e, const struct tft_explained_series *s,
                            const double *x, const char *span)
{
    const double ends[] = { 1, (double)s->count }, level[] = { e->request->distance, e->request->distance };
    const struct tft_line distances[] = { { "distance", "model", x, s->distances, s->count },
                                          { "another regime from here", "naive", ends, level, 2 } };

    tft_chart_write(f, &(struct tft_chart){ .title = "Distance of attention from its mean",
                                            .x_label = span,
                                            .width = 520,
                                            .height = 200,
                                            .lines = distances,
                                            .line_count = 2,
                                            .from_zero = 1 });
}

/* By lag: of the window that is farthest, and what is usual. */
static void write_farthest(FILE *f, const struct tft_explanation *e, const struct tft_single *single)
{
    const struct tft_data *d = &e->inference->data;
    size_t T = e->reader.T;
    double *x = calloc(3 * T, sizeof *x), *own = x + T, *usual = own + T;
    char moment[40], title[100], label[40];

    for (size_t lag = 0; x && lag < T; lag++) {
        x[lag] = (double)lag;
        own[lag] = (double)single->numbers[e->layout.lags + lag];
        usual[lag] = (double)single->usual[lag];
    }
    tft_schema_print_time(&d->schema, tft_data_time(d, single->window.entity, single->window.origin - 1), moment,
                          sizeof moment);
    snprintf(title, sizeof title, "Attention of the farthest window, %.16s", moment);
    halay_snprintf(label, sizeof label, "this window (%.3f)", single->value);
    const struct tft_line lines[] = { { label, "second", x, own, T }, { "usual", "model", x, usual, T } };
    if (x)
        tft_chart_write(f, &(struct tft_chart){ .title = title,
                                                .x_label = "steps back from the step that is forecast",
                                                .width = 520,
                                                .height = 466, /* of the two beside it */
                                                .lines = lines,
                                                .line_count = 2,
                                                .from_zero = 1 });
    free(x);
}

static void write_series(FILE *f, const struct tft_explanation *e, const struct tft_explained_series *s)
{
    double *x = calloc(s->count + 1, sizeof *x);
    char span[120];

    for (size_t i = 0; x && i < s->count; i++)
        x[i] = (double)i + 1;
    if (x && s->count > 1) {
        name_span(e, s->entity, span, sizeof span);
        fprintf(f, "<div class=\"pair\"><div>\n");
        write_target(f, e, s, x, span);
        write_distances(f, e, s, x, span);
        fprintf(f, "</div><div>\n");
        if (s->farthest.has_window)
            write_farthest(f, e, &s->farthest);
        fprintf(f, "</div></div>\n");
    }
    free(x);
}

/* The windows that are farthest, whether or not they are another regime. */
static void write_list(FILE *f, const json_t *farthest)
{
    fprintf(f, "<div class=\"wide\" tabindex=\"0\"><table><tr><th>farthest "
               "windows</th><th>origin</th><th>distance</th><th>nearer "
               "ones</th><th>another regime</th></tr>\n");
    for (size_t i = 0; i < json_array_size(farthest); i++) {
        const json_t *window = json_array_get(farthest, i);
        fprintf(f, "<tr><td>");
        tft_html_text(f, json_string_value(json_object_get(window, "entity")));
        halay_fprintf(f, "</td><td>%s</td><td>%.3f</td><td>%.2f %%</td><td>%s</td></tr>\n",
                      json_string_value(json_object_get(window, "origin")), tft_json_number_at(window, "distance"),
                      100 * tft_json_number_at(window, "nearer"),
                      json_is_true(json_object_get(window, "regime")) ? "yes" : "no");
    }
    fprintf(f, "</table></div>\n");
}

void tft_regimes_write(FILE *f, const struct tft_explanation *e, const json_t *json)
{
    const json_t *regimes = json_object_get(json, "regimes"), *distance = json_object_get(regimes, "distance");

    halay_fprintf(
        f,
        "<h3>Regimes</h3><p>%lld of %zu windows look elsewhere than usual: the distance of their attention from "
        "their entity's mean is above %g (0: the same, 1: nothing in common). Of all windows it is %.3f in the "
        "median and %.3f at P90. The farthest windows are listed whether or not they are above.</p>\n",
        (long long)json_integer_value(json_object_get(regimes, "windows")), e->windows.count, e->request->distance,
        tft_json_number_at(distance, "p50"), tft_json_number_at(distance, "p90"));
    write_list(f, json_object_get(regimes, "farthest"));
    for (size_t k = 0; k < e->series_count; k++)
        write_series(f, e, &e->series[k]);
}
