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

/* Returns the inputs of a part of the window. */
static json_t *input_rows(const json_t *result, const char *part)
{
    json_t *rows = json_array(), *input;
    const char *name;
    char title[32];

    snprintf(title, sizeof title, "%s inputs", part);
    json_object_foreach(json_object_get(json_object_get(result, "importance"), part), name, input) {
        json_t *row = json_copy(input);
        json_object_set_new(row, "label", json_pack("{s:s+}", title, "  ", name));
        json_array_append_new(rows, row);
    }
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
    static const char *const parts[] = { "static", "past", "future" };

    fprintf(to, "%s: %lld windows; weights in %%\n", json_string_value(json_object_get(r, "split")),
            (long long)json_integer_value(json_object_get(r, "windows")));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *rows = input_rows(r, parts[i]);
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
    { "scores", "scores.all", tft_score_rows },
    { "backtest", "scores.all", tft_score_rows },
    { "tuning", "tuning.trials", trial_rows },
    { "drift", "drift.statistics", tft_drift_rows },
};

static const char *kind_of(const json_t *result)
{
    const char *kind = json_string_value(json_object_get(result, "kind"));

    return kind ? kind : "";
}

/* Writes the CSV of a kind that has one. */
static void write_csv(FILE *to, const json_t *result)
{
    const struct result_table *found = tables;

    while (strcmp(found->kind, kind_of(result)))
        found++;
    json_t *rows = found->rows(result);
    tft_table_write_csv(to, found->table, rows);
    json_decref(rows);
}

/* The function for each form of each kind. */
static const struct result_form {
    const char *kind, *form;
    void (*write)(FILE *to, const json_t *result);
} forms[] = {
    { "scores", "table", tft_scores_print },
    { "scores", "csv", write_csv },
    { "scores", "calibrated", tft_scores_print_calibrated },
    { "backtest", "table", tft_scores_print },
    { "backtest", "csv", write_csv },
    { "explanation", "table", print_explanation },
    { "tuning", "table", print_tuning },
    { "tuning", "csv", write_csv },
    { "tuning", "page", tft_page_write },
    { "drift", "table", tft_drift_print },
    { "drift", "csv", write_csv },
    { "drift", "page", tft_page_write },
    { "drift", "metrics", tft_drift_write_metrics },
};

/* Returns NULL if results of this kind have no such form. */
static const struct result_form *find_form(const json_t *result, const char *form)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(kind_of(result), forms[i].kind) && !strcmp(form, forms[i].form))
            return &forms[i];
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
        return halay_refuses(
            HALAY_ERR_ARGUMENT,
            "halay_tft_format: scores as 'table', 'csv' or 'calibrated', an "
            "explanation as 'table', a backtest as 'table' or 'csv', a tuning or drift as 'table', 'csv' or 'page', "
            "drift as 'metrics', too");
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
