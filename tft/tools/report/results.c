/* SPDX-License-Identifier: Apache-2.0
 *
 * The forms of each kind of result, and the rows of its tables.
 *
 * A tuning is an object with "kind" ("tuning"), "tuning" (its folder), "data", "goal", "search", "space" (as given),
 * "seconds", "best" (a trial's number), "importance" (of each key, parts of 1), "cost", and "rows", each of which has
 * "trial", "state", "value" (the lowest), "share" (of its run), "rungs", "steps", "seconds", "keys", "exit_code".
 * "best", "importance", "cost", "value" and "exit_code" may be missing.
 */
#include "tft/tools/report/results.h"
#include "base/error_text.h"
#include "base/number_text.h"
#include "halay_tft.h"
#include "tft/tools/report/page.h"
#include "tft/tools/report/result_table.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS_PRINTED_MAX = 10, FARTHEST_PRINTED_MAX = 3 };

/* ---- tunings ----------------------------------------------------------------------------------------------------- */

/* Returns the trials by number. */
static json_t *trial_rows(const json_t *result)
{
    const char *goal = json_string_value(json_object_get(result, "goal"));
    json_t *rows = json_array(), *trial;
    size_t i;

    json_array_foreach(json_object_get(result, "rows"), i, trial) {
        json_t *row = json_copy(trial), *value = json_object_get(trial, "value");
        json_object_set(row, "order", value);
        json_object_set_new(row, "goal", json_pack("{sO?}", goal ? goal : "", value));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* Prints the trials in order of their value. */
static void print_tuning(FILE *to, const json_t *result)
{
    json_t *rows = trial_rows(result), *importance = json_object_get(result, "importance"), *share;
    const json_t *cost = json_object_get(result, "cost");
    const char *key;

    tft_rows_sort(rows);
    tft_table_print(to, "tuning.trials", rows, TRIALS_PRINTED_MAX);
    fputs(json_object_size(importance) ? "importance:" : "", to);
    json_object_foreach(importance, key, share)
        halay_fprintf(to, " %s %.0f %%", key, 100 * json_number_value(share));
    fputs(json_object_size(importance) ? "\n" : "", to);
    halay_fprintf(to, "%zu trials in %.0f s", json_array_size(rows),
                  json_number_value(json_object_get(result, "seconds")));
    if (json_is_number(cost))
        halay_fprintf(to, ", cost %.4g", json_number_value(cost));
    fprintf(to, "\n");
    json_decref(rows);
}

/* ---- explanations ------------------------------------------------------------------------------------------------ */

static const char *const parts[] = { "static", "past", "future" };
enum { PARTS = sizeof parts / sizeof *parts };

/* Adds the inputs of a part of the window, and what it costs to leave each out, if that was tried. */
static void add_inputs(json_t *rows, const json_t *result, const char *part)
{
    json_t *changes = json_object_get(json_object_get(result, "occlusion"), "inputs"), *input;
    const char *name;
    char title[32];

    snprintf(title, sizeof title, "%s inputs", part);
    json_object_foreach(json_object_get(json_object_get(result, "importance"), part), name, input) {
        json_t *row = json_pack("{ss ss s{ss+} sO*}", "part", part, "input", name, "label", title, "  ", name, "change",
                                json_object_get(json_object_get(changes, name), "change"));
        json_object_update(row, input);
        json_array_append_new(rows, row);
    }
}

static json_t *input_rows(const json_t *result)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < PARTS; i++)
        add_inputs(rows, result, parts[i]);
    return rows;
}

static json_t *occlusion_rows(const json_t *result)
{
    json_t *rows = json_array(), *input;
    const char *name;

    json_object_foreach(json_object_get(json_object_get(result, "occlusion"), "inputs"), name, input) {
        json_t *row = json_copy(input);
        json_object_set_new(row, "label", json_pack("s+", "  ", name));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *lag_rows(const json_t *result)
{
    json_t *rows = json_array(), *mean;
    size_t i;

    json_array_foreach(json_object_get(json_object_get(result, "attention"), "by_lag"), i, mean)
        json_array_append_new(rows, json_pack("{sI sO}", "lag", (json_int_t)i, "mean", mean));
    return rows;
}

static double peak_mean(const json_t *peaks, size_t i)
{
    return json_number_value(json_object_get(json_array_get(peaks, i), "mean"));
}

/* Decimals that tell each peak from the next in %, at most four. */
static int peak_digits(const json_t *peaks)
{
    int digits = 1;

    for (size_t i = 0; i + 1 < json_array_size(peaks); i++)
        while (digits < 4 && 100 * (peak_mean(peaks, i) - peak_mean(peaks, i + 1)) < pow(10, -digits))
            digits++;
    return digits;
}

static void print_peaks(FILE *to, const json_t *attention)
{
    const json_t *peaks = json_object_get(attention, "peaks");
    int digits = peak_digits(peaks);

    fprintf(to, "\nattention looks most");
    for (size_t i = 0; i < json_array_size(peaks); i++)
        halay_fprintf(to, "%s %lld steps back (%.*f %%)", i ? "," : "",
                      (long long)json_integer_value(json_object_get(json_array_get(peaks, i), "lag")), digits,
                      100 * peak_mean(peaks, i));
    fprintf(to, "%s\n", json_array_size(peaks) ? "" : " nowhere in particular");
}

static void print_occlusion(FILE *to, const json_t *result)
{
    const json_t *occlusion = json_object_get(result, "occlusion");
    const json_t *correlation = json_object_get(occlusion, "rank_correlation");
    const char *verdict = json_string_value(json_object_get(occlusion, "verdict"));
    json_t *rows = occlusion_rows(result);

    fprintf(to, "\n");
    tft_table_print(to, "explanation.occlusion", rows, SIZE_MAX);
    json_decref(rows);
    if (verdict && *verdict)
        halay_fprintf(to, "rank correlation of weights and changes, inputs over time: %.2f\n(%s)\n",
                      json_number_value(correlation), verdict);
    correlation = json_object_get(occlusion, "rank_correlation_static");
    if (json_is_number(correlation))
        halay_fprintf(to, "rank correlation of weights and changes, static inputs: %.2f\n",
                      json_number_value(correlation));
}

static void print_regimes(FILE *to, const json_t *regimes)
{
    const json_t *farthest = json_object_get(regimes, "farthest");

    halay_fprintf(to, "other regimes: %lld windows, whose attention is farther than %g from the mean\nfarthest:",
                  (long long)json_integer_value(json_object_get(regimes, "windows")),
                  json_number_value(json_object_get(regimes, "threshold")));
    for (size_t i = 0; i < json_array_size(farthest) && i < FARTHEST_PRINTED_MAX; i++) {
        const json_t *window = json_array_get(farthest, i);
        halay_fprintf(to, "%s %s %s (%.3f)", i ? "," : "", json_string_value(json_object_get(window, "entity")),
                      json_string_value(json_object_get(window, "origin")),
                      json_number_value(json_object_get(window, "distance")));
    }
    halay_fprintf(to, "; of all windows P50 %.3f, P90 %.3f\n",
                  json_number_value(json_object_get(json_object_get(regimes, "distance"), "p50")),
                  json_number_value(json_object_get(json_object_get(regimes, "distance"), "p90")));
}

static void print_explanation(FILE *to, const json_t *r)
{
    fprintf(to, "%s: %lld windows; weights in %%\n", json_string_value(json_object_get(r, "split")),
            (long long)json_integer_value(json_object_get(r, "windows")));
    for (size_t i = 0; i < PARTS; i++) {
        json_t *rows = json_array();
        add_inputs(rows, r, parts[i]);
        if (json_array_size(rows)) {
            fprintf(to, "\n");
            tft_table_print(to, "explanation.inputs", rows, SIZE_MAX);
        }
        json_decref(rows);
    }
    print_peaks(to, json_object_get(r, "attention"));
    print_regimes(to, json_object_get(r, "regimes"));
    if (json_is_object(json_object_get(r, "occlusion")))
        print_occlusion(to, r);
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

/* The tables of each kind, with what makes their rows; the first is that of its CSV. */
static const struct result_table {
    const char *kind, *table;
    json_t *(*rows)(const json_t *result);
} tables[] = {
    { "scores", "scores.all", tft_score_rows },          { "scores", "scores.q_risk", tft_q_risk_rows },
    { "backtest", "scores.all", tft_score_rows },        { "backtest", "scores.q_risk", tft_q_risk_rows },
    { "explanation", "explanation.inputs", input_rows }, { "explanation", "explanation.lags", lag_rows },
    { "tuning", "tuning.trials", trial_rows },           { "drift", "drift.statistics", tft_drift_rows },
};
enum { TABLES = sizeof tables / sizeof *tables };

/* Returns nonzero if a table is of a result's kind. */
static int is_of(const struct result_table *table, const json_t *result)
{
    const char *kind = json_string_value(json_object_get(result, "kind"));

    return kind && !strcmp(kind, table->kind);
}

/* Writes the CSV of a kind that has one. */
static void write_csv(FILE *to, const json_t *result)
{
    const struct result_table *found = tables;

    while (!is_of(found, result))
        found++;
    json_t *rows = found->rows(result);
    tft_table_write_csv(to, found->table, rows);
    json_decref(rows);
}

/* Returns all tables of a kind, by name, each as `make` makes it. */
static json_t *make_tables(const json_t *result, json_t *(*make)(const char *table, const json_t *rows))
{
    json_t *object = json_object();

    for (const struct result_table *t = tables; t < tables + TABLES; t++) {
        if (!is_of(t, result))
            continue;
        json_t *rows = t->rows(result);
        json_object_set_new(object, strchr(t->table, '.') + 1, make(t->table, rows));
        json_decref(rows);
    }
    return object;
}

static void write_tables(FILE *to, const json_t *result)
{
    json_t *object = make_tables(result, tft_table_json);

    json_dumpf(object, to, JSON_COMPACT);
    json_decref(object);
}

static void write_page(FILE *to, const json_t *result)
{
    json_t *with_tables = json_copy((json_t *)result);

    json_object_set_new(with_tables, "tables", make_tables(result, tft_table_page));
    tft_page_write(to, with_tables);
    json_decref(with_tables);
}

/* The function for each form of each kind; NULL: of all kinds that have tables. */
static const struct result_form {
    const char *kind, *form;
    void (*write)(FILE *to, const json_t *result);
} forms[] = {
    { NULL, "csv", write_csv },
    { NULL, "tables", write_tables },
    { "scores", "table", tft_scores_print },
    { "scores", "calibrated", tft_scores_print_calibrated },
    { "backtest", "table", tft_scores_print },
    { "explanation", "table", print_explanation },
    { "tuning", "table", print_tuning },
    { "tuning", "page", write_page },
    { "drift", "table", tft_drift_print },
    { "drift", "page", write_page },
    { "drift", "metrics", tft_drift_write_metrics },
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Returns NULL if results of this kind have no such form. */
static const struct result_form *find_form(const json_t *result, const char *form)
{
    const struct result_table *table = tables;

    while (table < tables + TABLES && !is_of(table, result))
        table++;
    for (const struct result_form *f = forms; table < tables + TABLES && f < forms + FORMS; f++)
        if (!strcmp(form, f->form) && (!f->kind || !strcmp(f->kind, table->kind)))
            return f;
    return NULL;
}

enum halay_status halay_tft_format(const char *json, const char *form, char **text)
{
    if (!json || !form || !text)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_tft_format: an argument is NULL");
    json_t *result = json_loads(json, 0, NULL);
    const struct result_form *found = find_form(result, form);
    char *made = NULL;
    size_t size;

    if (!found) {
        json_decref(result);
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_tft_format: scores, an explanation, a tuning or drift as "
                                                 "'table', 'csv' or 'tables', scores also as 'calibrated', a tuning "
                                                 "or drift as 'page', drift as 'metrics'");
    }
    FILE *to = open_memstream(&made, &size);
    if (to)
        found->write(to, result);
    json_decref(result);
    const int failed = !to || ferror(to);
    if ((to && fclose(to)) || failed) {
        free(made);
        return halay_refuses(HALAY_ERR_NO_MEMORY, "no memory for a table");
    }
    *text = made;
    return HALAY_OK;
}
