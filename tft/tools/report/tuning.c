/* SPDX-License-Identifier: Apache-2.0
 *
 * Tunings: trials in order of their value in the table, of their number in CSV.
 */
#include "tft/tools/report/tuning.h"
#include "base/number_text.h"
#include "tft/tools/report/json_number.h"
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

/* Writes a cell in quotes, since a list has commas. */
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
