/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift's forms. Statistics are in order of how far they went, as a part of their threshold.
 */
#include "tft/tools/report/drift_forms.h"
#include "base/number_text.h"
#include "tft/tools/report/chart.h"
#include "tft/tools/report/json_number.h"
#include "tft/tools/report/page.h"
#include <stdlib.h>
#include <string.h>

enum { PRINTED_MOST = 12, DRAWN_MOST = 6, ROWS_ON_PAGE = 60, LABEL_MOST = 160 };

static const char *const families[] = { "inputs", "errors" };
enum { FAMILIES = sizeof families / sizeof *families };

static const char *text_at(const json_t *object, const char *key, const char *absent)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : absent;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* How far a statistic went: as a part of its threshold. */
static double extent(const json_t *row)
{
    return tft_json_number_at(row, "value") / tft_json_number_at(row, "threshold");
}

static int compare_rows(const void *a, const void *b)
{
    double x = extent(*(const json_t *const *)a), y = extent(*(const json_t *const *)b);

    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x < y) - (x > y);
}

/* All rows, the farthest first; owned by the caller. */
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

/* ---- what is said ------------------------------------------------------------------------------------------------ */

static void label_row(const json_t *row, char label[LABEL_MOST])
{
    const char *entity = text_at(row, "entity", "all entities"), *input = text_at(row, "input", NULL);
    const char *statistic = text_at(row, "statistic", "");

    if (input)
        snprintf(label, LABEL_MOST, "%.60s of %.60s, %s", input, entity, statistic);
    else
        snprintf(label, LABEL_MOST, "%s of %.60s", statistic, entity);
}

/* What its value means. */
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

/* What the thresholds promise. */
static void promise(const json_t *family, char text[LABEL_MOST])
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
        promise(family, text);
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

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* Lines of the stretches of the past that follow one another: more than `step` apart, another line begins. */
static size_t split_stretches(const double *x, const double *y, size_t n, double step, struct tft_line *lines)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (i == 0 || x[i] - x[i - 1] > step)
            lines[count++] = (struct tft_line){ count ? NULL : "stretches of the past", "model", x + i, y + i, 0 };
        lines[count - 1].count++;
    }
    return count;
}

/* How far blocks of the past went, and the recent span. */
static void draw_course(FILE *f, const json_t *result, const json_t *family, const char *title)
{
    const json_t *course = json_object_get(family, "course");
    double year = tft_json_number_at(result, "year"), step = INFINITY;
    size_t n = json_array_size(course);
    double *x = calloc(3 * n + 1, sizeof *x), *y = x ? x + n : NULL, *one = x ? y + n : NULL;
    struct tft_line *lines = calloc(n + 2, sizeof *lines);

    for (size_t i = 0; x && i < n; i++) {
        x[i] = tft_json_number(json_array_get(json_array_get(course, i), 0));
        x[i] = year > 0 ? 12 * x[i] / year : x[i];
        y[i] = tft_json_number(json_array_get(json_array_get(course, i), 1));
        one[i] = 1;
        if (i && i + 1 < n)
            step = fmin(step, x[i] - x[i - 1]);
    }
    if (x && lines && n > 1) {
        size_t count = split_stretches(x, y, n - 1, 1.5 * step, lines);
        lines[count++] = (struct tft_line){ "threshold", "second", x, one, n };
        lines[count++] = (struct tft_line){ "recent", "naive", x + n - 1, y + n - 1, 1 };
        tft_chart_write(f, &(struct tft_chart){ .title = title,
                                                .x_label = year > 0 ? "month" : "time",
                                                .x_kind = year > 0 ? TFT_X_MONTHS : TFT_X_REAL,
                                                .y_label = "largest statistic, as a part of its threshold",
                                                .width = 1040,
                                                .height = 260,
                                                .lines = lines,
                                                .line_count = count,
                                                .from_zero = 1 });
    }
    free(lines);
    free(x);
}

static void write_group(FILE *f, const json_t *group, const json_t *before)
{
    if (json_is_string(group))
        tft_html_text(f, json_string_value(group));
    else if (json_is_number(group))
        halay_fprintf(f, "up to %.5g", json_number_value(group));
    else
        halay_fprintf(f, "above %.5g", tft_json_number(before));
}

/* A distribution then and now, as a table of bars. */
static void write_distribution(FILE *f, const json_t *row)
{
    const json_t *groups = json_object_get(row, "groups");
    const json_t *then = json_object_get(row, "reference"), *now = json_object_get(row, "recent");
    char label[LABEL_MOST];

    label_row(row, label);
    fprintf(f, "<h3>");
    tft_html_text(f, label);
    fprintf(f, "</h3><div class=\"wide\" "
               "tabindex=\"0\"><table><tr><th>value</th><th>then</th><td></td><th>now</th><td></td></tr>\n");
    for (size_t k = 0; k < json_array_size(groups); k++) {
        double a = 100 * tft_json_number(json_array_get(then, k)), b = 100 * tft_json_number(json_array_get(now, k));
        fprintf(f, "<tr><td>");
        write_group(f, json_array_get(groups, k), json_array_get(groups, k ? k - 1 : 0));
        halay_fprintf(f, "</td><td>%.1f %%</td><td class=\"bar\"><i style=\"width:%.1f%%\"></i></td>", a, a);
        halay_fprintf(f, "<td>%.1f %%</td><td class=\"bar\"><i style=\"width:%.1f%%\"></i></td></tr>\n", b, b);
    }
    fprintf(f, "</table></div>\n");
}

/* Of the inputs that went farthest, each once. */
static void write_distributions(FILE *f, const json_t *const *rows, size_t count)
{
    const json_t *shown[DRAWN_MOST];
    size_t n = 0;

    for (size_t i = 0; i < count && n < DRAWN_MOST; i++) {
        int is_new = json_is_array(json_object_get(rows[i], "groups"));
        for (size_t k = 0; k < n; k++)
            is_new &= json_object_get(rows[i], "entity") == NULL ||
                      !json_equal(json_object_get(rows[i], "entity"), json_object_get(shown[k], "entity")) ||
                      !json_equal(json_object_get(rows[i], "input"), json_object_get(shown[k], "input"));
        if (!is_new || (n && !json_is_true(json_object_get(rows[i], "drifted"))))
            continue;
        write_distribution(f, rows[i]);
        shown[n++] = rows[i];
    }
}

static void write_table(FILE *f, const json_t *const *rows, size_t count)
{
    char label[LABEL_MOST], text[LABEL_MOST];

    fprintf(f, "<div class=\"wide\" "
               "tabindex=\"0\"><table><tr><th>statistic</th><th>value</th><th>threshold</th>"
               "<th>value / threshold</th><td></td><th>change</th></tr>\n");
    for (size_t i = 0; i < count && i < ROWS_ON_PAGE; i++) {
        double threshold = tft_json_number_at(rows[i], "threshold");
        int drifted = json_is_true(json_object_get(rows[i], "drifted"));
        label_row(rows[i], label);
        explain_row(rows[i], text);
        fprintf(f, "<tr%s><td>", drifted ? " class=\"best\"" : "");
        tft_html_text(f, label);
        halay_fprintf(f, "</td><td>%.4f</td>", tft_json_number_at(rows[i], "value"));
        if (isnan(threshold))
            fprintf(f, "<td>-</td><td>-</td>");
        else
            halay_fprintf(f, "<td>%.4f</td><td>%.2f</td>", threshold, tft_json_number_at(rows[i], "value") / threshold);
        fprintf(f, "<td>%s</td><td>", drifted ? "drifted" : "");
        tft_html_text(f, text);
        fprintf(f, "</td></tr>\n");
    }
    fprintf(f, "</table></div>\n");
    if (count > ROWS_ON_PAGE)
        fprintf(f, "<p>And %zu more, all of them farther from their thresholds.</p>\n", count - ROWS_ON_PAGE);
}

void tft_drift_write_page(FILE *f, const json_t *result)
{
    size_t count;
    const json_t **rows = sort_rows(result, &count);
    const json_t *inputs = json_object_get(result, "inputs"), *errors = json_object_get(result, "errors");
    char text[LABEL_MOST];

    tft_page_begin(f, "halay-tft drift");
    fprintf(f, "<h1>%s</h1><p>", json_is_true(json_object_get(result, "drifted")) ? "Drift" : "No drift");
    tft_html_text(f, text_at(result, "since", ""));
    fprintf(f, " to ");
    tft_html_text(f, text_at(result, "until", ""));
    fprintf(f, ": %zu of %zu statistics have drifted.</p>\n", count_drifted(rows, count), count);
    draw_course(f, result, inputs, "Inputs");
    promise(inputs, text);
    fprintf(f, "<p>%s.</p>\n", text);
    if (json_is_object(errors)) {
        draw_course(f, result, errors, "Errors and coverage of forecasts");
        promise(errors, text);
        fprintf(f, "<p>%s.</p>\n", text);
    }
    fprintf(f, "<h2>What went farthest</h2>\n");
    write_table(f, rows, count);
    fprintf(f, "<p>ks: the largest difference of the cumulative shares; psi: the population stability index; missing: "
               "the share of targets that were not measured; loss: the mean quantile loss, as a part of that of the "
               "validation span; coverage: how far the share of values inside the outer quantiles is from what it "
               "was.</p>\n<h2>Then and now</h2>\n");
    write_distributions(f, rows, count);
    tft_page_end(f);
    free(rows);
}
