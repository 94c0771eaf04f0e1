/* SPDX-License-Identifier: Apache-2.0
 *
 * The text form of drift. Statistics are in order of their value as a part of their threshold.
 */
#include "tft/tools/report/drift_forms.h"
#include "base/number_text.h"
#include "tft/tools/report/json_number.h"
#include <stdlib.h>
#include <string.h>

enum { PRINTED_MOST = 12, LABEL_MOST = 160 };

static const char *const families[] = { "inputs", "errors" };
enum { FAMILIES = sizeof families / sizeof *families };

static const char *text_at(const json_t *object, const char *key, const char *absent)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : absent;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Returns a statistic as a part of its threshold. */
static double extent_of(const json_t *row)
{
    return tft_json_number_at(row, "value") / tft_json_number_at(row, "threshold");
}

static int compare_rows(const void *a, const void *b)
{
    double x = extent_of(*(const json_t *const *)a), y = extent_of(*(const json_t *const *)b);

    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x < y) - (x > y);
}

/* Returns all rows, the largest first; owned by the caller. */
static const json_t **sort_rows(const json_t *result, size_t *count)
{
    const json_t *rows[FAMILIES], **sorted, *row;
    size_t i, n = 0;

    for (int f = 0; f < FAMILIES; f++)
        n += json_array_size(rows[f] = json_object_get(json_object_get(result, families[f]), "rows"));
    sorted = calloc(n + 1, sizeof *sorted);
    *count = 0;
    for (int f = 0; f < FAMILIES && sorted; f++)
        json_array_foreach(rows[f], i, row)
            sorted[(*count)++] = row;
    if (sorted)
        qsort(sorted, *count, sizeof *sorted, compare_rows);
    return sorted;
}

static size_t count_drifted(const json_t *const *rows, size_t count)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += json_is_true(json_object_get(rows[i], "drifted"));
    return n;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static void label_row(const json_t *row, char label[LABEL_MOST])
{
    const char *entity = text_at(row, "entity", "all entities"), *input = text_at(row, "input", NULL);
    const char *statistic = text_at(row, "statistic", "");

    if (input)
        snprintf(label, LABEL_MOST, "%.60s of %.60s, %s", input, entity, statistic);
    else
        snprintf(label, LABEL_MOST, "%s of %.60s", statistic, entity);
}

/* Writes the meaning of its value. */
static void explain_row(const json_t *row, char text[LABEL_MOST])
{
    const char *statistic = text_at(row, "statistic", "");
    double reference = tft_json_number_at(row, "reference"), recent = tft_json_number_at(row, "recent");

    *text = 0;
    if (!strcmp(statistic, "loss"))
        halay_snprintf(text, LABEL_MOST, "%.4g times that of the validation span", tft_json_number_at(row, "value"));
    else if (!strcmp(statistic, "coverage") || !strcmp(statistic, "missing"))
        halay_snprintf(text, LABEL_MOST, "%.1f %%, before %.1f %%", 100 * recent, 100 * reference);
}

/* Writes the rate of false alarms that the thresholds keep. */
static void explain_thresholds(const json_t *family, char text[LABEL_MOST])
{
    double rate = tft_json_number_at(family, "rate"), blocks = tft_json_number_at(family, "blocks");

    if (isnan(rate))
        snprintf(text, LABEL_MOST, "no stretch of the past to compare with: only a psi of 0.25 counts");
    else
        halay_snprintf(text, LABEL_MOST, "false alarms in %.3g %% of such spans, %s %.0f stretches of the past%s",
                       100 * rate, json_is_true(json_object_get(family, "extrapolated")) ? "extrapolated from" : "by",
                       blocks, json_is_true(json_object_get(family, "seasonal")) ? " in their seasons" : "");
}

static void print_row(FILE *to, const json_t *row)
{
    char label[LABEL_MOST], text[LABEL_MOST];
    double threshold = tft_json_number_at(row, "threshold");

    label_row(row, label);
    explain_row(row, text);
    halay_fprintf(to, "%-7s %-40s %9.4f", json_is_true(json_object_get(row, "drifted")) ? "drifted" : "", label,
                  tft_json_number_at(row, "value"));
    if (isnan(threshold))
        fprintf(to, "         -  %s\n", text);
    else
        halay_fprintf(to, " %9.4f  %s\n", threshold, text);
}

void tft_drift_print(FILE *to, const json_t *result)
{
    size_t count;
    const json_t **rows = sort_rows(result, &count);
    char text[LABEL_MOST];

    fprintf(to, "%-48s %9s %9s\n", "", "value", "threshold");
    for (size_t i = 0; i < count && i < PRINTED_MOST; i++)
        print_row(to, rows[i]);
    if (count > PRINTED_MOST)
        fprintf(to, "and %zu more\n", count - PRINTED_MOST);
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
        fprintf(to, "%zu of %zu statistics have drifted\n", count_drifted(rows, count), count);
    else
        fprintf(to, "no drift in %zu statistics\n", count);
    free(rows);
}

/* A text in quotes. */
static void write_csv_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++)
        fprintf(to, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', to);
}

void tft_drift_write_csv(FILE *to, const json_t *result)
{
    size_t count;
    const json_t **rows = sort_rows(result, &count);

    fprintf(to, "entity,input,statistic,value,threshold,drifted\n");
    for (size_t i = 0; i < count; i++) {
        double threshold = tft_json_number_at(rows[i], "threshold");
        write_csv_text(to, text_at(rows[i], "entity", ""));
        fputc(',', to);
        write_csv_text(to, text_at(rows[i], "input", ""));
        halay_fprintf(to, ",%s,%.9g,", text_at(rows[i], "statistic", ""), tft_json_number_at(rows[i], "value"));
        if (!isnan(threshold))
            halay_fprintf(to, "%.9g", threshold);
        fprintf(to, ",%d\n", json_is_true(json_object_get(rows[i], "drifted")));
    }
    free(rows);
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

static void write_gauges(FILE *to, const json_t *const *rows, size_t count, const char *name, const char *help,
                         const char *key)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
    for (size_t i = 0; i < count; i++) {
        double value = tft_json_number_at(rows[i], key);
        if (isnan(value))
            continue;
        fprintf(to, "%s{", name);
        write_label(to, "entity", text_at(rows[i], "entity", ""));
        fputc(',', to);
        write_label(to, "input", text_at(rows[i], "input", ""));
        fputc(',', to);
        write_label(to, "statistic", text_at(rows[i], "statistic", ""));
        halay_fprintf(to, "} %.9g\n", value);
    }
}

void tft_drift_write_metrics(FILE *to, const json_t *result)
{
    size_t count;
    const json_t **rows = sort_rows(result, &count);

    fprintf(to, "# HELP halay_tft_drift_found How many statistics have drifted.\n# TYPE halay_tft_drift_found gauge\n");
    fprintf(to, "halay_tft_drift_found %zu\n", count_drifted(rows, count));
    write_gauges(to, rows, count, "halay_tft_drift_value", "How far recent rows are from those of the training.",
                 "value");
    write_gauges(to, rows, count, "halay_tft_drift_threshold", "From where on that is drift.", "threshold");
    free(rows);
}
