/* SPDX-License-Identifier: Apache-2.0
 *
 * Report: the page about a run. The stream's owner checks its errors.
 */
#include "tft/tools/report/report.h"
#include "base/number_text.h"
#include "tft/core/score/naive.h"
#include "tft/tools/report/chart.h"
#include "tft/tools/report/interval_page.h"
#include "tft/tools/report/json_number.h"
#include "tft/tools/report/page.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* A table's cell; a dash if there is no number. */
static void cell(FILE *f, double value, int digits)
{
    if (isnan(value))
        fprintf(f, "<td>-</td>");
    else
        halay_fprintf(f, "<td>%.*f</td>", digits, value);
}

static void card(FILE *f, const char *value, const char *label)
{
    fprintf(f, "<div class=\"card\"><b>");
    tft_html_text(f, value);
    fprintf(f, "</b><span>");
    tft_html_text(f, label);
    fprintf(f, "</span></div>\n");
}

/* The name of the quantile nearest to 0.5 among the keys of a q_risk object. */
static const char *median_name(const json_t *q_risk)
{
    const char *key, *best = "p50";
    json_t *value;
    double nearest = INFINITY;

    json_object_foreach((json_t *)q_risk, key, value)
        if (key[0] == 'p' && json_is_number(value) && fabs(halay_strtod(key + 1, NULL) - 50) < nearest) {
            nearest = fabs(halay_strtod(key + 1, NULL) - 50);
            best = key;
        }
    return best;
}

/* The key of the best naive forecasts; NULL if there are none. */
static const char *best_naive(const json_t *scores)
{
    return json_string_value(json_object_get(json_object_get(scores, "best_naive"), "forecast"));
}

/* The title of naive forecasts, of this number of steps. */
static void title_of(const json_t *scores, const char *key, char *title, size_t size)
{
    tft_naive_title(key, json_array_size(json_object_get(scores, "by_horizon")), title, size);
}

/* How the median's q-risk compares with that of the best naive forecasts. */
static void write_naive_card(FILE *f, const json_t *scores, double q_risk)
{
    double best = tft_json_number_at(json_object_get(scores, "best_naive"), "q_risk");
    char value[64], title[64], label[120];

    if (!best_naive(scores) || isnan(q_risk) || !(best > 0))
        return;
    title_of(scores, best_naive(scores), title, sizeof title);
    halay_snprintf(value, sizeof value, "%+.1f %%", 100 * (q_risk / best - 1));
    snprintf(label, sizeof label, "against the best naive forecast, %s", title);
    card(f, value, label);
}

static void write_cards(FILE *f, const struct tft_report *r)
{
    const json_t *last = json_array_get(r->metrics, json_array_size(r->metrics) - 1);
    const json_t *q_risk = json_object_get(r->scores, "q_risk");
    const char *median = median_name(q_risk);
    char value[64], label[96];

    fprintf(f, "<div class=\"cards\">\n");
    if (!isnan(tft_json_number_at(q_risk, median))) {
        halay_snprintf(value, sizeof value, "%.4f", tft_json_number_at(q_risk, median));
        snprintf(label, sizeof label, "%.16s q-risk on the %.16s split", median, text_at(r->scores, "split"));
        card(f, value, label);
    }
    write_naive_card(f, r->scores, tft_json_number_at(q_risk, median));
    if (last) {
        halay_snprintf(value, sizeof value, "%.0f", tft_json_number_at(last, "step"));
        card(f, value, "training steps");
        halay_snprintf(value, sizeof value, "%.0f s", tft_json_number_at(last, "seconds"));
        card(f, value, "of training");
        halay_snprintf(value, sizeof value, "%.0f", tft_json_number_at(last, "samples_per_second"));
        card(f, value, "samples per second");
    }
    fprintf(f, "</div>\n");
}

/* Column of numbers from the metrics' lines. */
static double *column(const json_t *metrics, const char *key, const char *inner)
{
    size_t n = json_array_size(metrics);
    double *values = calloc(n + 1, sizeof *values);

    for (size_t i = 0; values && i < n; i++) {
        const json_t *line = json_array_get(metrics, i);
        values[i] = inner ? tft_json_number_at(json_object_get(line, key), inner) : tft_json_number_at(line, key);
    }
    return values;
}

static void write_losses(FILE *f, const struct tft_report *r)
{
    size_t n = json_array_size(r->metrics);
    const char *median = median_name(json_object_get(json_array_get(r->metrics, 0), "valid_q_risk"));
    double *step = column(r->metrics, "step", NULL), *train = column(r->metrics, "train_loss", NULL);
    double *valid = column(r->metrics, "valid_loss", NULL), *risk = column(r->metrics, "valid_q_risk", median);

    if (step && train && valid && risk && n) {
        const struct tft_line losses[] = { { "training", "second", step, train, n },
                                           { "validation", "model", step, valid, n } };
        const struct tft_line risks[] = { { median, "model", step, risk, n } };
        fprintf(f, "<h2>Training</h2><div class=\"pair\">\n");
        tft_chart_write(
            f, &(struct tft_chart){
                   .title = "Loss", .x_label = "step", .width = 520, .height = 280, .lines = losses, .line_count = 2 });
        tft_chart_write(f, &(struct tft_chart){ .title = "Validation q-risk",
                                                .x_label = "step",
                                                .width = 520,
                                                .height = 280,
                                                .lines = risks,
                                                .line_count = 1 });
        fprintf(f, "</div>\n");
    }
    free(step);
    free(train);
    free(valid);
    free(risk);
}

static void write_risk_row(FILE *f, const char *name, const json_t *names, const json_t *q_risk, int best)
{
    const char *key;
    json_t *value;

    fprintf(f, "<tr%s><td>", best ? " class=\"best\"" : "");
    tft_html_text(f, name);
    fprintf(f, "</td>");
    json_object_foreach((json_t *)names, key, value)
        cell(f, tft_json_number_at(q_risk, key), 4);
    fprintf(f, "</tr>\n");
}

static void write_risks(FILE *f, const json_t *scores)
{
    const json_t *q_risk = json_object_get(scores, "q_risk"), *naive = json_object_get(scores, "naive");
    const char *key;
    json_t *value;
    const char *warning = json_string_value(json_object_get(scores, "no_better_than_naive"));
    char name[96];

    fprintf(f, "<div class=\"wide\" tabindex=\"0\"><table><tr><th>forecast</th>");
    json_object_foreach((json_t *)q_risk, key, value)
        fprintf(f, "<th>%s</th>", key);
    fprintf(f, "</tr>\n");
    write_risk_row(f, "Temporal Fusion Transformer", q_risk, q_risk, 1);
    json_object_foreach((json_t *)naive, key, value) {
        if (!json_integer_value(json_object_get(value, "values")))
            continue;
        title_of(scores, key, name, sizeof name);
        write_risk_row(f, name, q_risk, value, 0);
        snprintf(name + strlen(name), sizeof name - strlen(name), ", plain");
        write_risk_row(f, name, q_risk, json_object_get(value, "plain"), 0);
    }
    fprintf(f, "</table></div>\n");
    if (warning)
        fprintf(f, "<p><b>Warning:</b> %s.</p>\n", warning);
}

static void write_entities(FILE *f, const json_t *scores)
{
    const json_t *entities = json_object_get(scores, "by_entity");
    const char *median = median_name(json_object_get(scores, "q_risk")), *key, *word;
    json_t *value, *number;
    size_t shown = 0;

    fprintf(f,
            "<h2>By entity</h2><div "
            "class=\"wide\"><table><tr><th>entity</th><th>values</th><th>%s</th><th>MAE</th><th>MASE</th><th>coverage</"
            "th></tr>\n",
            median);
    json_object_foreach((json_t *)entities, key, value) {
        double coverage = NAN;
        if (shown++ == 50)
            break;
        json_object_foreach(value, word, number)
            if (!strncmp(word, "coverage", 8) && json_is_number(number))
                coverage = json_number_value(number);
        fprintf(f, "<tr><td>");
        tft_html_text(f, key);
        halay_fprintf(f, "</td><td>%.0f</td>", tft_json_number_at(value, "values"));
        cell(f, tft_json_number_at(json_object_get(value, "q_risk"), median), 4);
        halay_fprintf(f, "<td>%.5g</td>", tft_json_number_at(value, "mae"));
        cell(f, tft_json_number_at(value, "mase"), 3);
        if (isnan(coverage))
            cell(f, coverage, 1);
        else
            halay_fprintf(f, "<td>%.1f %%</td>", 100 * coverage);
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</table></div>\n");
    if (json_object_size(entities) > 50)
        fprintf(f, "<p>The first 50 of %zu.</p>\n", json_object_size(entities));
}

static void write_horizons(FILE *f, const json_t *scores)
{
    const json_t *horizons = json_object_get(scores, "by_horizon"), *naive = json_object_get(scores, "naive");
    const char *median = median_name(json_object_get(scores, "q_risk"));
    const char *best = best_naive(scores);
    const json_t *of_best = json_object_get(json_object_get(naive, best), "by_horizon");
    size_t n = json_array_size(horizons);
    double *x = calloc(3 * n + 1, sizeof *x), *y = x + n, *z = y + n;
    char title[64], naive_title[64] = "";

    if (!x || !n) {
        free(x);
        return;
    }
    for (size_t h = 0; h < n; h++) {
        x[h] = (double)h + 1;
        y[h] = tft_json_number_at(json_object_get(json_array_get(horizons, h), "q_risk"), median);
        z[h] = tft_json_number(json_array_get(of_best, h));
    }
    if (best)
        title_of(scores, best, naive_title, sizeof naive_title);
    const struct tft_line lines[] = { { "TFT", "model", x, y, n }, { best ? naive_title : NULL, "naive", x, z, n } };
    snprintf(title, sizeof title, "q-risk %.16s by horizon", median);
    fprintf(f, "<h2>By horizon</h2>\n");
    tft_chart_write(f, &(struct tft_chart){ .title = title,
                                            .x_label = "steps ahead",
                                            .width = 1040,
                                            .height = 300,
                                            .lines = lines,
                                            .line_count = 2,
                                            .from_zero = 1 });
    free(x);
}

static void write_forecasts(FILE *f, const struct tft_report *r)
{
    if (!r->forecast_count)
        return;
    fprintf(f, "<h2>Forecasts</h2><p>The model's forecasts (line and band) over the actual values (truth), which "
               "it had not seen right of the dashed line.</p><div class=\"pair\">\n");
    for (size_t i = 0; i < r->forecast_count; i++)
        tft_forecast_chart_write(f, &r->forecasts[i], NULL, NULL);
    fprintf(f, "</div>\n");
}

static void write_config(FILE *f, const struct tft_report *r)
{
    const char *key;
    json_t *value;

    fprintf(f, "<h2>Configuration</h2><div class=\"wide\" tabindex=\"0\"><table><tr><th>key</th><th>value</th></tr>\n");
    json_object_foreach(json_object_get(r->run, "config"), key, value) {
        char *text = json_is_string(value) ? strdup(json_string_value(value))
                                           : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        fprintf(f, "<tr><td>%s</td><td>", key);
        tft_html_text(f, text ? text : "");
        fprintf(f, "</td></tr>\n");
        free(text);
    }
    fprintf(f, "</table></div>\n");
}

/* Each of several targets has a section under its name. */
static void write_each(FILE *f, const struct tft_report *r, void (*write)(FILE *f, const json_t *scores))
{
    const json_t *targets = json_object_get(r->scores, "targets");
    const char *name;
    json_t *scores;

    if (!targets)
        write(f, r->scores);
    json_object_foreach((json_t *)targets, name, scores) {
        fprintf(f, "<h3>");
        tft_html_text(f, name);
        fprintf(f, "</h3>\n");
        write(f, scores);
    }
}

static void write_all_risks(FILE *f, const struct tft_report *r)
{
    fprintf(f,
            "<h2>q-risk on the %s split</h2><p>2 &times; sum of quantile losses / sum of |y|, in the target's unit; "
            "lower is better. "
            "The naive forecasts have the quantiles of their own training residuals added.</p>",
            text_at(r->scores, "split"));
    write_each(f, r, write_risks);
}

void tft_report_write(FILE *f, const struct tft_report *r)
{
    const json_t *schema = json_object_get(r->run, "schema");

    tft_page_begin(f, "halay-tft report");
    fprintf(f, "<h1>");
    tft_html_text(f, text_at(schema, "name")[0] ? text_at(schema, "name") : "data");
    fprintf(f, "</h1><p>Temporal Fusion Transformer trained by halay ");
    tft_html_text(f, text_at(r->run, "halay"));
    fprintf(f, "</p>\n");
    write_cards(f, r);
    if (r->scores)
        write_all_risks(f, r);
    write_forecasts(f, r);
    write_losses(f, r);
    if (r->scores) {
        write_each(f, r, tft_interval_page_write);
        write_each(f, r, write_horizons);
        write_each(f, r, write_entities);
    }
    if (r->explained)
        tft_explanation_write(f, r->explanation, r->explained);
    if (r->metrics) /* a page about the run, not the explanation alone */
        write_config(f, r);
    tft_page_end(f);
}
