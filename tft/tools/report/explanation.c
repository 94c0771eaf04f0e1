/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation's pictures. A missing number is not drawn.
 */
#include "tft/tools/report/explanation.h"
#include "base/number_text.h"
#include "tft/tools/report/attention_page.h"
#include "tft/tools/report/chart.h"
#include "tft/tools/report/forecast_chart.h"
#include "tft/tools/report/json_number.h"
#include <math.h>
#include <stdlib.h>

enum { CURVES = 4, INPUTS_SHOWN = 8, ENTITIES_SHOWN = 12 };

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
            "<div class=\"wide\" "
            "tabindex=\"0\"><table><tr><th>%s</th><td></td><th>mean</th><th>p10</th><th>p50</th><th>p90</th>"
            "</tr>\n",
            title);
    json_object_foreach((json_t *)inputs, name, input) {
        fprintf(f, "<tr><td>");
        tft_html_text(f, name);
        halay_fprintf(f, "</td><td class=\"bar\"><i style=\"width:%.1f%%\"></i></td>",
                      100 * tft_json_number_at(input, "mean"));
        halay_fprintf(f, "<td>%.1f %%</td><td>%.1f %%</td><td>%.1f %%</td><td>%.1f %%</td></tr>\n",
                      100 * tft_json_number_at(input, "mean"), 100 * tft_json_number_at(input, "p10"),
                      100 * tft_json_number_at(input, "p50"), 100 * tft_json_number_at(input, "p90"));
    }
    fprintf(f, "</table></div>\n");
}

static void write_occlusion(FILE *f, const json_t *occlusion)
{
    double correlation = tft_json_number_at(occlusion, "rank_correlation");
    char verdict[400];
    const char *name;
    json_t *input;

    if (!json_is_object(occlusion))
        return;
    fprintf(f,
            "<h3>Without each input</h3><p>All windows forecast again with the input's median in its place: how much "
            "the median's q-risk rises. Where this and the weights disagree, believe this.");
    tft_explanation_verdict(occlusion, verdict, sizeof verdict);
    if (*verdict) {
        halay_fprintf(f, " Their rank correlation is %.2f: ", correlation);
        tft_html_text(f, verdict);
        fprintf(f, ".");
    }
    fprintf(f, "</p><div class=\"wide\" tabindex=\"0\"><table><tr><th>input</th><th>weight</th><th>q-risk</th></tr>\n");
    json_object_foreach(json_object_get(occlusion, "inputs"), name, input) {
        fprintf(f, "<tr><td>");
        tft_html_text(f, name);
        halay_fprintf(f, "</td><td>%.1f %%</td><td>%+.1f %%</td></tr>\n", 100 * tft_json_number_at(input, "weight"),
                      100 * tft_json_number_at(input, "change"));
    }
    fprintf(f, "</table></div>\n");
}

/* Past weights of each entity: mean, P10 to P90. */
static void write_entities(FILE *f, const json_t *json)
{
    const json_t *entities = json_object_get(json, "by_entity");
    const json_t *past = json_object_get(json_object_get(json, "importance"), "past");
    const char *id, *name;
    json_t *entity, *input;
    size_t shown = 0;

    if (json_object_size(entities) < 2 || json_object_size(past) > INPUTS_SHOWN)
        return;
    fprintf(f, "<h3>By entity</h3><p>Mean weights of past inputs in %%, with P10 to P90 of the entity's windows.</p>"
               "<div class=\"wide\" tabindex=\"0\"><table><tr><th>entity</th>");
    json_object_foreach((json_t *)past, name, input) {
        fprintf(f, "<th>");
        tft_html_text(f, name);
        fprintf(f, "</th>");
    }
    fprintf(f, "</tr>\n");
    json_object_foreach((json_t *)entities, id, entity) {
        if (shown++ == ENTITIES_SHOWN)
            break;
        fprintf(f, "<tr><td>");
        tft_html_text(f, id);
        fprintf(f, "</td>");
        json_object_foreach(json_object_get(entity, "past"), name, input)
            halay_fprintf(f, "<td>%.1f (%.1f to %.1f)</td>", 100 * tft_json_number_at(input, "mean"),
                          100 * tft_json_number_at(input, "p10"), 100 * tft_json_number_at(input, "p90"));
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</table></div>\n");
    if (json_object_size(entities) > ENTITIES_SHOWN)
        fprintf(f, "<p>The first %d of %zu; the JSON has all.</p>\n", ENTITIES_SHOWN, json_object_size(entities));
}

/* ---- charts ---- */

/* The input of a part that weighs most among those below `least`, which becomes its weight; NULL: there is none. */
static const char *next_input(const json_t *json, const char *part, double *least)
{
    const char *name, *best = NULL;
    json_t *input;
    double most = -1;

    json_object_foreach(json_object_get(json_object_get(json, "importance"), part), name, input) {
        double mean = tft_json_number_at(input, "mean");
        if (mean < *least && mean > most) {
            most = mean;
            best = name;
        }
    }
    *least = most;
    return best;
}

/* A past input's mean or percentile in each part of the time. */
static void take_periods(const json_t *periods, const char *name, const char *key, double *values)
{
    for (size_t i = 0; i < json_array_size(periods); i++)
        values[i] = tft_json_number_at(json_object_get(json_object_get(json_array_get(periods, i), "past"), name), key);
}

/* Past weights through the split: of the four inputs that weigh most, and the spread of the first of them. */
static void write_over_time(FILE *f, const json_t *json)
{
    const json_t *periods = json_object_get(json, "over_time"), *first = json_array_get(periods, 0);
    const json_t *last = json_array_get(periods, json_array_size(periods) - 1);
    size_t n = json_array_size(periods), drawn = 0;
    double *x = calloc((CURVES + 3) * n + 1, sizeof *x), *low = x + n, *high = low + n, least = INFINITY;
    struct tft_line lines[CURVES];
    char label[160];
    const char *name;

    for (size_t i = 0; x && i < n; i++)
        x[i] = (double)i + 1;
    while (x && drawn < CURVES && (name = next_input(json, "past", &least))) {
        double *y = high + (drawn + 1) * n;
        take_periods(periods, name, "mean", y);
        if (!drawn) {
            take_periods(periods, name, "p10", low);
            take_periods(periods, name, "p90", high);
        }
        lines[drawn] = (struct tft_line){ name, styles[drawn], x, y, n };
        drawn++;
    }
    snprintf(label, sizeof label, "parts of the time from %.32s to %.32s",
             json_string_value(json_object_get(first, "from")), json_string_value(json_object_get(last, "from")));
    if (x && n > 1)
        tft_chart_write(f, &(struct tft_chart){ .title = "Weights of past inputs over time",
                                                .x_label = label,
                                                .width = 520,
                                                .height = 260,
                                                .lines = lines,
                                                .line_count = drawn,
                                                .band_label = "P10-P90",
                                                .band_x = x,
                                                .band_low = low,
                                                .band_high = high,
                                                .band_count = drawn ? n : 0,
                                                .from_zero = 1 });
    free(x);
}

/* Future weights by horizon: of the inputs that weigh most, the mean and its percentiles. */
static void write_by_horizon(FILE *f, const struct tft_explanation *e, const json_t *json)
{
    const json_t *inputs = json_object_get(json_object_get(json, "by_step"), "future");
    size_t D = e->reader.D, drawn = 0;
    double *x = calloc(4 * D, sizeof *x), *mean = x + D, *low = mean + D, *high = low + D, least = INFINITY;
    const char *name;
    char title[120];

    for (size_t h = 0; x && h < D; h++)
        x[h] = (double)h + 1;
    while (x && D > 1 && json_object_size(inputs) > 1 && drawn++ < CURVES &&
           (name = next_input(json, "future", &least))) {
        const json_t *input = json_object_get(inputs, name);
        tft_json_list(json_object_get(input, "mean"), mean, D);
        tft_json_list(json_object_get(input, "p10"), low, D);
        tft_json_list(json_object_get(input, "p90"), high, D);
        const struct tft_line line = { "mean", "model", x, mean, D };
        snprintf(title, sizeof title, "Weight of %.80s by horizon", name);
        tft_chart_write(f, &(struct tft_chart){ .title = title,
                                                .x_label = "steps ahead",
                                                .width = 520,
                                                .height = 260,
                                                .lines = &line,
                                                .line_count = 1,
                                                .band_label = "P10-P90",
                                                .band_x = x,
                                                .band_low = low,
                                                .band_high = high,
                                                .band_count = D,
                                                .from_zero = 1 });
    }
    free(x);
}

/* ---- single forecasts ---- */

/* What it weighed in a part of the window, beside what is usual. */
static void write_weights(FILE *f, const json_t *single, const json_t *importance, const char *part)
{
    const json_t *inputs = json_object_get(single, part), *usual = json_object_get(importance, part);
    const char *name;
    json_t *weight;

    if (json_object_size(inputs) < 2) /* one has nobody to share with */
        return;
    fprintf(f,
            "<div class=\"wide\" tabindex=\"0\"><table><tr><th>%s input</th><th>weight</th><th>all windows</th></tr>\n",
            part);
    json_object_foreach((json_t *)inputs, name, weight) {
        fprintf(f, "<tr><td>");
        tft_html_text(f, name);
        halay_fprintf(f, "</td><td>%.1f %%</td><td>%.1f %%</td></tr>\n", 100 * tft_json_number(weight),
                      100 * tft_json_number_at(json_object_get(usual, name), "mean"));
    }
    fprintf(f, "</table></div>\n");
}

/* The forecast over what came, its attention to each step below it, and what it weighed. */
static void write_single(FILE *f, const struct tft_explanation *e, const struct tft_single *single, const json_t *json,
                         const json_t *importance)
{
    struct tft_forecast_chart chart = { 0 };
    size_t n = single->window.length + e->reader.D;
    double *places = calloc(n, sizeof *places);

    for (size_t i = 0; places && i < n; i++)
        places[i] = (double)single->numbers[e->layout.places + e->reader.T - n + i];
    enum halay_status status =
        tft_forecast_chart_init(&e->inference->data, &e->inference->run.config.quantiles, &single->window,
                                single->numbers, 0, single->window.length, &chart);
    halay_fprintf(
        f,
        "<div><p><b>The %s forecast</b>: mean absolute error %.4g; distance of its attention from the usual %.3f</p>\n",
        json_string_value(json_object_get(json, "which")), tft_json_number_at(json, "mae"),
        tft_json_number_at(json, "distance"));
    if (!status && places)
        tft_forecast_chart_write(f, &chart, places, "attention");
    write_weights(f, json, importance, "static");
    write_weights(f, json, importance, "past");
    write_weights(f, json, importance, "future");
    fprintf(f, "</div>\n");
    tft_forecast_chart_fini(&chart);
    free(places);
}

static void write_singles(FILE *f, const struct tft_explanation *e, const json_t *json)
{
    const struct tft_single *const singles[] = { &e->asked, &e->worst, &e->best };
    const json_t *forecasts = json_object_get(json, "forecasts");
    size_t at = 0;

    if (!json_array_size(forecasts))
        return;
    fprintf(f,
            "<h3>Why this forecast</h3><p>What single forecasts weighed, and how much attention went to each step "
            "of their windows, mean over the horizon. Worst and best are by the mean absolute error of the median, in "
            "units of the target's scale.</p><div class=\"pair\">\n");
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        if (singles[i]->has_window)
            write_single(f, e, singles[i], json_array_get(forecasts, at++), json_object_get(json, "importance"));
    fprintf(f, "</div>\n");
}

void tft_explanation_write(FILE *f, const struct tft_explanation *e, const json_t *json)
{
    const json_t *importance = json_object_get(json, "importance");

    fprintf(f,
            "<h2>What the forecasts rely on</h2><p>Weights of variable selection in %zu windows of the %s split. They "
            "add up to 1 at each step.</p>\n",
            e->windows.count, tft_split_names[e->request->windows.split]);
    write_inputs(f, importance, "static", "static input");
    write_inputs(f, importance, "past", "past input");
    write_inputs(f, importance, "future", "future input");
    write_occlusion(f, json_object_get(json, "occlusion"));
    write_entities(f, json);
    fprintf(f, "<h3>Over time and by horizon</h3><div class=\"pair\">\n");
    write_over_time(f, json);
    write_by_horizon(f, e, json);
    fprintf(f, "</div>\n");
    tft_attention_write(f, e, json);
    tft_regimes_write(f, e, json);
    write_singles(f, e, json);
}
