/* SPDX-License-Identifier: Apache-2.0
 *
 * Tunings: trials in order of their value in the table, of their number in CSV.
 */
#include "tft/tools/report/tuning.h"
#include "base/number_text.h"
#include "tft/tools/report/chart.h"
#include "tft/tools/report/coordinates.h"
#include "tft/tools/report/json_number.h"
#include "tft/tools/report/page.h"
#include <stdlib.h>
#include <string.h>

enum { PRINTED_MOST = 10, CELL_MOST = 64 };

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b)
{
    double x = tft_json_number_at(*(const json_t *const *)a, "value");
    double y = tft_json_number_at(*(const json_t *const *)b, "value");

    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

/* The rows, best first; owned by the caller. */
static const json_t **sort_rows(const json_t *rows)
{
    const json_t **sorted = calloc(json_array_size(rows) + 1, sizeof *sorted), *row;
    size_t i;

    json_array_foreach(rows, i, row)
        if (sorted)
            sorted[i] = row;
    if (sorted)
        qsort(sorted, json_array_size(rows), sizeof *sorted, compare_rows);
    return sorted;
}

/* ---- table and CSV ----------------------------------------------------------------------------------------------- */

static int width_of(const char *key)
{
    return (int)strlen(key) > 9 ? (int)strlen(key) : 9;
}

static void print_row(FILE *to, const json_t *row, const json_t *space)
{
    const char *key;
    const json_t *values;
    char cell[CELL_MOST];

    halay_fprintf(to, "%5.0f %-8s", tft_json_number_at(row, "trial"), text_at(row, "state"));
    if (isnan(tft_json_number_at(row, "value")))
        fprintf(to, "          -");
    else
        halay_fprintf(to, " %10.6g", tft_json_number_at(row, "value"));
    halay_fprintf(to, " %7.0f", tft_json_number_at(row, "steps"));
    json_object_foreach((json_t *)space, key, values) {
        tft_json_word(json_object_get(json_object_get(row, "keys"), key), cell, sizeof cell);
        fprintf(to, " %*s", width_of(key), cell);
    }
    fprintf(to, "\n");
}

void tft_tuning_print(FILE *to, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"), *space = json_object_get(result, "space"), *value;
    const json_t **sorted = sort_rows(rows);
    const char *key;
    size_t count = json_array_size(rows);

    fprintf(to, "trial state    %10s   steps", text_at(result, "goal"));
    json_object_foreach((json_t *)space, key, value)
        fprintf(to, " %*s", width_of(key), key);
    fprintf(to, "\n");
    for (size_t i = 0; sorted && i < count && i < PRINTED_MOST; i++)
        print_row(to, sorted[i], space);
    if (count > PRINTED_MOST)
        fprintf(to, "and %zu more\n", count - PRINTED_MOST);
    if (json_object_size(json_object_get(result, "importance")))
        fprintf(to, "importance:");
    json_object_foreach(json_object_get(result, "importance"), key, value)
        halay_fprintf(to, " %s %.0f %%", key, 100 * tft_json_number(value));
    if (json_object_size(json_object_get(result, "importance")))
        fprintf(to, "\n");
    halay_fprintf(to, "%zu trials in %.0f s", count, tft_json_number_at(result, "seconds"));
    if (!isnan(tft_json_number_at(result, "cost")))
        halay_fprintf(to, ", cost %.4g", tft_json_number_at(result, "cost"));
    fprintf(to, "\n");
    free(sorted);
}

/* In quotes: a list has commas. */
static void write_csv_cell(FILE *to, const json_t *value)
{
    char cell[CELL_MOST];

    tft_json_word(value, cell, sizeof cell);
    fprintf(to, strchr(cell, ',') ? ",\"%s\"" : ",%s", cell);
}

void tft_tuning_write_csv(FILE *to, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"), *space = json_object_get(result, "space"), *row, *values;
    const char *key;
    size_t i;

    fprintf(to, "trial,state,%s,share,steps,seconds", text_at(result, "goal"));
    json_object_foreach((json_t *)space, key, values)
        fprintf(to, ",%s", key);
    fprintf(to, "\n");
    json_array_foreach(rows, i, row) {
        halay_fprintf(to, "%.0f,%s,", tft_json_number_at(row, "trial"), text_at(row, "state"));
        if (!isnan(tft_json_number_at(row, "value")))
            halay_fprintf(to, "%.9g", tft_json_number_at(row, "value"));
        halay_fprintf(to, ",%.4g,%.0f,%.2f", tft_json_number_at(row, "share"), tft_json_number_at(row, "steps"),
                      tft_json_number_at(row, "seconds"));
        json_object_foreach((json_t *)space, key, values)
            write_csv_cell(to, json_object_get(json_object_get(row, "keys"), key));
        fprintf(to, "\n");
    }
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static size_t count_of(const json_t *rows, const char *state)
{
    const json_t *row;
    size_t i, n = 0;

    json_array_foreach(rows, i, row)
        n += !strcmp(text_at(row, "state"), state);
    return n;
}

static void write_card(FILE *f, double value, const char *format, const char *label)
{
    fprintf(f, "<div class=\"card\"><b>");
    halay_fprintf(f, format, value);
    fprintf(f, "</b><span>");
    tft_html_text(f, label);
    fprintf(f, "</span></div>\n");
}

static void write_cards(FILE *f, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows");
    const json_t *best = json_array_get(rows, (size_t)json_integer_value(json_object_get(result, "best")));
    char label[64];

    fprintf(f, "<div class=\"cards\">\n");
    if (json_object_get(result, "best")) {
        halay_snprintf(label, sizeof label, "lowest %.32s, of trial %.0f", text_at(result, "goal"),
                       tft_json_number_at(best, "trial"));
        write_card(f, tft_json_number_at(best, "value"), "%.5g", label);
    }
    write_card(f, (double)json_array_size(rows), "%.0f", "trials");
    write_card(f, (double)count_of(rows, "stopped"), "%.0f", "stopped early");
    if (count_of(rows, "failed"))
        write_card(f, (double)count_of(rows, "failed"), "%.0f", "failed");
    write_card(f, tft_json_number_at(result, "seconds") / 60, "%.1f", "minutes");
    if (!isnan(tft_json_number_at(result, "cost")))
        write_card(f, tft_json_number_at(result, "cost"), "%.4g", "cost");
    fprintf(f, "</div>\n");
}

static void write_importance(FILE *f, const json_t *importance)
{
    const char *key;
    const json_t *value;

    if (!json_object_size(importance))
        return;
    fprintf(f, "<h2>What makes the best trials different</h2><div class=\"wide\" "
               "tabindex=\"0\"><table><tr><th>key</th><td></td>"
               "<th>importance</th></tr>\n");
    json_object_foreach((json_t *)importance, key, value) {
        fprintf(f, "<tr><td>");
        tft_html_text(f, key);
        halay_fprintf(f, "</td><td class=\"bar\"><i style=\"width:%.1f%%\"></i></td><td>%.0f %%</td></tr>\n",
                      100 * tft_json_number(value), 100 * tft_json_number(value));
    }
    fprintf(f,
            "</table></div><p>How far the values of the best quarter lie from those of all trials, key by key; parts "
            "of 100 %%. The search itself prefers good values, so that a key which it settled early seems to matter "
            "less.</p>\n");
}

/* The lowest value after each trial, and each trial's own. */
static void draw_course(FILE *f, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"), *row;
    size_t n = json_array_size(rows), i;
    double *x = calloc(2 * n + 1, sizeof *x), *y = x ? x + n : NULL, lowest = NAN;

    json_array_foreach(rows, i, row) {
        double value = tft_json_number_at(row, "value");
        if (!x)
            break;
        if (!(lowest <= value) && !isnan(value))
            lowest = value;
        x[i] = (double)i;
        y[i] = lowest;
    }
    const struct tft_line line = { "lowest so far", "model", x, y, x ? n : 0 };
    tft_chart_write(f, &(struct tft_chart){ .title = "What the search found",
                                            .x_label = "trial",
                                            .x_kind = TFT_X_WHOLE,
                                            .y_label = text_at(result, "goal"),
                                            .width = 1040,
                                            .height = 260,
                                            .lines = &line,
                                            .line_count = 1 });
    free(x);
}

static void write_table(FILE *f, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"), *space = json_object_get(result, "space"), *value;
    const json_t **sorted = sort_rows(rows);
    char cell[CELL_MOST];
    const char *key;

    fprintf(f, "<div class=\"wide\" tabindex=\"0\"><table><tr><th>trial</th><th>");
    tft_html_text(f, text_at(result, "goal"));
    fprintf(f, "</th><th>ended</th><th>steps</th><th>seconds</th>");
    json_object_foreach((json_t *)space, key, value) {
        fprintf(f, "<th>");
        tft_html_text(f, key);
        fprintf(f, "</th>");
    }
    fprintf(f, "</tr>\n");
    for (size_t i = 0; sorted && i < json_array_size(rows); i++) {
        double number = tft_json_number_at(sorted[i], "value");
        halay_fprintf(f, "<tr%s><td>%.0f</td>", i == 0 && !isnan(number) ? " class=\"best\"" : "",
                      tft_json_number_at(sorted[i], "trial"));
        halay_fprintf(f, isnan(number) ? "<td>-</td>" : "<td>%.5g</td>", number);
        halay_fprintf(f, "<td>%s</td><td>%.0f</td><td>%.1f</td>", text_at(sorted[i], "state"),
                      tft_json_number_at(sorted[i], "steps"), tft_json_number_at(sorted[i], "seconds"));
        json_object_foreach((json_t *)space, key, value) {
            tft_json_word(json_object_get(json_object_get(sorted[i], "keys"), key), cell, sizeof cell);
            fprintf(f, "<td>");
            tft_html_text(f, cell);
            fprintf(f, "</td>");
        }
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</table></div>\n");
    free(sorted);
}

void tft_tuning_write_page(FILE *f, const json_t *result)
{
    tft_page_begin(f, "halay-tft tune");
    fprintf(f, "<h1>Configurations tried</h1><p>Trainings of ");
    tft_html_text(f, text_at(result, "data"));
    fprintf(f, "; search: ");
    tft_html_text(f, text_at(result, "search"));
    fprintf(f, ".</p>\n");
    write_cards(f, result);
    tft_coordinates_write(f, result);
    fprintf(f, "<p>A line is a trial, from its values to what it came to: strong the best one, coloured the best "
               "quarter, thin the others. Trials that were stopped have what they had by then.</p>\n");
    draw_course(f, result);
    write_importance(f, json_object_get(result, "importance"));
    fprintf(f, "<h2>All trials</h2>\n");
    write_table(f, result);
    tft_page_end(f);
}
