/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift: its statistics in order of their value as a part of their threshold.
 */
#include "base/number_text.h"
#include "tft/tools/report/result_table.h"
#include "tft/tools/report/results.h"
#include <math.h>
#include <string.h>

enum { PRINTED_MAX = 12, TEXT_SIZE = 160 };

static const char *const families[] = { "inputs", "errors" };
enum { FAMILIES = sizeof families / sizeof *families };

static const char *text_at(const json_t *object, const char *key, const char *absent)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : absent;
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static json_t *label_row(const json_t *row)
{
    const char *entity = text_at(row, "entity", "all entities"), *input = text_at(row, "input", NULL);
    const char *statistic = text_at(row, "statistic", "");

    return input ? json_sprintf("%s of %s, %s", input, entity, statistic) : json_sprintf("%s of %s", statistic, entity);
}

/* Writes the meaning of its value. */
static void explain_row(const json_t *row, char text[TEXT_SIZE])
{
    const char *statistic = text_at(row, "statistic", "");
    double reference = number_at(row, "reference"), recent = number_at(row, "recent");

    snprintf(text, TEXT_SIZE, " ");
    if (!strcmp(statistic, "loss"))
        halay_snprintf(text, TEXT_SIZE, " %.4g times that of the validation span", number_at(row, "value"));
    else if (!strcmp(statistic, "coverage") || !strcmp(statistic, "missing"))
        halay_snprintf(text, TEXT_SIZE, " %.1f %%, before %.1f %%", 100 * recent, 100 * reference);
}

static json_t *statistic_row(const json_t *statistic)
{
    const double ratio = number_at(statistic, "value") / number_at(statistic, "threshold");
    json_t *row = json_copy((json_t *)statistic);
    char change[TEXT_SIZE];

    explain_row(statistic, change);
    json_object_set_new(row, "order", isnan(ratio) ? json_null() : json_real(-ratio));
    json_object_set_new(row, "ratio", isnan(ratio) ? json_null() : json_real(ratio));
    json_object_set_new(row, "label", label_row(statistic));
    json_object_set_new(row, "state", json_string(json_is_true(json_object_get(row, "drifted")) ? "drifted" : ""));
    json_object_set_new(row, "change", json_string(change));
    return row;
}

json_t *tft_drift_rows(const json_t *result)
{
    json_t *rows = json_array(), *statistic;
    size_t i;

    for (int f = 0; f < FAMILIES; f++)
        json_array_foreach(json_object_get(json_object_get(result, families[f]), "rows"), i, statistic)
            json_array_append_new(rows, statistic_row(statistic));
    tft_rows_sort(rows);
    return rows;
}

static size_t count_drifted(const json_t *rows)
{
    const json_t *row;
    size_t i, n = 0;

    json_array_foreach(rows, i, row)
        n += json_is_true(json_object_get(row, "drifted"));
    return n;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Writes the rate of false alarms that the thresholds keep. */
static void explain_thresholds(const json_t *family, char text[TEXT_SIZE])
{
    double rate = number_at(family, "rate"), blocks = number_at(family, "blocks");

    if (isnan(rate))
        snprintf(text, TEXT_SIZE, "no stretch of the past to compare with: only a psi of 0.25 counts");
    else
        halay_snprintf(text, TEXT_SIZE, "false alarms in %.3g %% of such spans, %s %.0f stretches of the past%s",
                       100 * rate, json_is_true(json_object_get(family, "extrapolated")) ? "extrapolated from" : "by",
                       blocks, json_is_true(json_object_get(family, "seasonal")) ? " in their seasons" : "");
}

void tft_drift_print(FILE *to, const json_t *result)
{
    json_t *rows = tft_drift_rows(result);
    char text[TEXT_SIZE];

    tft_table_print(to, "drift.statistics", rows, PRINTED_MAX);
    for (int f = 0; f < FAMILIES; f++) {
        const json_t *family = json_object_get(result, families[f]);
        if (!json_is_object(family))
            continue;
        explain_thresholds(family, text);
        fprintf(to, "%s: %s\n", families[f], text);
    }
    if (!json_is_object(json_object_get(result, "errors")))
        fprintf(to, "errors: not compared: no measured targets of the validation span, or of the recent rows\n");
    fprintf(to, "%s to %s: ", text_at(result, "since", ""), text_at(result, "until", ""));
    if (json_is_true(json_object_get(result, "drifted")))
        fprintf(to, "%zu of %zu statistics have drifted\n", count_drifted(rows), json_array_size(rows));
    else
        fprintf(to, "no drift in %zu statistics\n", json_array_size(rows));
    json_decref(rows);
}

/* ---- gauges ------------------------------------------------------------------------------------------------------ */

/* A label's value, with what the format wants escaped. */
static void write_label(FILE *to, const char *name, const char *text)
{
    fprintf(to, "%s=\"", name);
    for (; *text; text++)
        if (*text == '\\' || *text == '"')
            fprintf(to, "\\%c", *text);
        else if (*text == '\n')
            fprintf(to, "\\n");
        else
            fputc(*text, to);
    fputc('"', to);
}

static void write_gauges(FILE *to, const json_t *rows, const char *name, const char *help, const char *key)
{
    static const char *const labels[] = { "entity", "input", "statistic" };
    const json_t *row;
    size_t i;

    fprintf(to, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
    json_array_foreach(rows, i, row) {
        if (isnan(number_at(row, key)))
            continue;
        fprintf(to, "%s{", name);
        for (size_t k = 0; k < sizeof labels / sizeof *labels; k++) {
            fputs(k ? "," : "", to);
            write_label(to, labels[k], text_at(row, labels[k], ""));
        }
        halay_fprintf(to, "} %.9g\n", number_at(row, key));
    }
}

void tft_drift_write_metrics(FILE *to, const json_t *result)
{
    json_t *rows = tft_drift_rows(result);

    fprintf(to, "# HELP halay_tft_drift_found How many statistics have drifted.\n# TYPE halay_tft_drift_found gauge\n");
    fprintf(to, "halay_tft_drift_found %zu\n", count_drifted(rows));
    write_gauges(to, rows, "halay_tft_drift_value", "How far recent rows are from those of the training.", "value");
    write_gauges(to, rows, "halay_tft_drift_threshold", "From where on that is drift.", "threshold");
    json_decref(rows);
}
