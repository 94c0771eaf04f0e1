/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of results: a cell's text follows from its value and its column's format.
 */
#include "tft/tools/report/result_table.h"
#include "base/number_text.h"
#include "base/output_file.h"
#include <stdlib.h>
#include <string.h>

enum { CELL_SIZE = 64 };

enum form { FORM_PRINT, FORM_CSV, FORM_PAGE, FORMS };

static const struct definition {
    const char *table, *key, *heading, *formats[FORMS];
} definitions[] = {
#define COLUMN(kind, table, key, heading, print, csv, page) { #kind "." #table, #key, heading, { print, csv, page } },
#include "tft/tools/report/columns.def"
#undef COLUMN
};
enum { DEFINITIONS = sizeof definitions / sizeof *definitions };

/* A column in one form: a member of rows, or of the group that this member is. */
struct column {
    const char *key, *member, *heading;
    int width, digits;
    char style;
};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b)
{
    const json_t *x = json_object_get(*(json_t *const *)a, "order"), *y = json_object_get(*(json_t *const *)b, "order");

    if (!json_is_number(x) || !json_is_number(y))
        return !json_is_number(x) - !json_is_number(y);
    return (json_number_value(x) > json_number_value(y)) - (json_number_value(x) < json_number_value(y));
}

void tft_rows_sort(json_t *rows)
{
    const size_t count = json_array_size(rows);
    json_t **sorted = calloc(count + 1, sizeof *sorted);

    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = json_incref(json_array_get(rows, i));
    if (sorted)
        qsort(sorted, count, sizeof *sorted, compare_rows);
    for (size_t i = 0; sorted && i < count; i++)
        json_array_set_new(rows, i, sorted[i]);
    free(sorted);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static struct column make_column(const struct definition *d, const char *member, enum form form)
{
    const char *heading = member && *d->heading == '*' ? member : d->heading, *name = member ? member : d->key;
    struct column c = { d->key, member, form == FORM_CSV ? name : heading, 0, 0, 0 };
    char *end;

    c.width = (int)strtol(d->formats[form], &end, 10);
    c.digits = *end == '.' ? (int)strtol(end + 1, &end, 10) : 0;
    c.style = *end;
    if (*end && end[1] == ':')
        c.heading = end + 2;
    if ((int)strlen(c.heading) > abs(c.width))
        c.width = (c.width < 0 ? -1 : 1) * (int)strlen(c.heading);
    return c;
}

/* Returns a table's columns; owned by the caller. The first row has the members of groups. */
static struct column *list_columns(const char *table, const json_t *rows, enum form form, size_t *count)
{
    json_t *first = json_array_get(rows, 0), *value;
    size_t size = DEFINITIONS;
    const char *key;

    json_object_foreach(first, key, value)
        size += json_object_size(value);
    struct column *columns = calloc(size, sizeof *columns);
    *count = 0;
    for (const struct definition *d = definitions; columns && d < definitions + DEFINITIONS; d++) {
        json_t *group = json_object_get(first, d->key);
        if (strcmp(d->table, table) || !*d->formats[form])
            continue;
        json_object_foreach(group, key, value)
            columns[(*count)++] = make_column(d, key, form);
        if (!json_is_object(group))
            columns[(*count)++] = make_column(d, NULL, form);
    }
    return columns;
}

static json_t *value_of(const json_t *row, const struct column *c)
{
    json_t *value = json_object_get(row, c->key);

    return c->member ? json_object_get(value, c->member) : value;
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* Writes a text, a number, or numbers with commas, as an option has them. */
static void write_word(const json_t *value, char *text, size_t size)
{
    const json_t *item;
    size_t i, at = 0;

    if (json_is_number(value))
        halay_snprintf(text, size, "%.6g", json_number_value(value));
    json_array_foreach(value, i, item) {
        int length = halay_snprintf(text + at, size - at, "%s%.6g", i ? "," : "", json_number_value(item));
        at = length < 0 || at + (size_t)length >= size ? size - 1 : at + (size_t)length;
    }
}

/* Returns a cell's text, which may be in the buffer; NULL: it has no value. */
static const char *format_cell(const json_t *row, const struct column *c, char buffer[CELL_SIZE])
{
    const json_t *value = value_of(row, c);
    const double number = json_number_value(value);

    *buffer = 0;
    if (json_is_string(value))
        return json_string_value(value);
    if (c->style == 'b')
        return json_is_true(value) ? "1" : "0";
    if (!value || json_is_null(value))
        return c->style == 's' || c->style == 'q' ? "" : NULL;
    if (c->style == 'f')
        halay_snprintf(buffer, CELL_SIZE, "%.*f", c->digits, number);
    else if (c->style == '%')
        halay_snprintf(buffer, CELL_SIZE, "%.*f", c->digits, 100 * number);
    else if (c->style == 'g')
        halay_snprintf(buffer, CELL_SIZE, "%.*g", c->digits, number);
    else
        write_word(value, buffer, CELL_SIZE);
    return buffer;
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

void tft_table_print(FILE *to, const char *table, const json_t *rows, size_t count_max)
{
    char buffer[CELL_SIZE];
    size_t count, headed = 0, i;
    const json_t *row;
    struct column *columns = list_columns(table, rows, FORM_PRINT, &count);

    for (size_t k = 0; k < count; k++)
        headed = *columns[k].heading ? k + 1 : headed;
    for (size_t k = 0; k < headed; k++)
        fprintf(to, "%s%*s%s", k ? " " : "", columns[k].width, columns[k].heading, k + 1 < headed ? "" : "\n");
    json_array_foreach(rows, i, row) {
        for (size_t k = 0; k < count && i < count_max; k++) {
            const char *text = format_cell(row, &columns[k], buffer);
            if (text || columns[k].style != 'n')
                fprintf(to, "%s%*s", k ? " " : "", columns[k].width, text ? text : "-");
        }
        fputs(i < count_max ? "\n" : "", to);
    }
    if (i > count_max)
        fprintf(to, "and %zu more\n", i - count_max);
    free(columns);
}

void tft_table_write_csv(FILE *to, const char *table, const json_t *rows)
{
    char buffer[CELL_SIZE];
    size_t count, i;
    const json_t *row;
    struct column *columns = list_columns(table, rows, FORM_CSV, &count);

    for (size_t k = 0; k < count; k++)
        fprintf(to, "%s%s", k ? "," : "", columns[k].heading);
    fputc('\n', to);
    json_array_foreach(rows, i, row) {
        for (size_t k = 0; k < count; k++) {
            const char *text = format_cell(row, &columns[k], buffer);
            fputs(k ? "," : "", to);
            (columns[k].style == 'q' ? halay_write_quoted : halay_write_field)(to, text ? text : "");
        }
        fputc('\n', to);
    }
    free(columns);
}

/* Returns a table: of values, or as on a page of texts. */
static json_t *make_table(const char *table, const json_t *rows, enum form form)
{
    json_t *names = json_array(), *lines = json_array();
    char buffer[CELL_SIZE];
    size_t count, i;
    const json_t *row;
    struct column *columns = list_columns(table, rows, form, &count);

    for (size_t k = 0; k < count; k++)
        json_array_append_new(names, json_string(columns[k].heading));
    json_array_foreach(rows, i, row) {
        json_t *line = json_array();
        for (size_t k = 0; k < count; k++)
            json_array_append_new(line, form == FORM_PAGE ? json_pack("s?", format_cell(row, &columns[k], buffer))
                                                          : json_pack("O?", value_of(row, &columns[k])));
        json_array_append_new(lines, line);
    }
    free(columns);
    return json_pack("{so so}", "columns", names, "rows", lines);
}

json_t *tft_table_json(const char *table, const json_t *rows)
{
    return make_table(table, rows, FORM_CSV);
}

json_t *tft_table_page(const char *table, const json_t *rows)
{
    return make_table(table, rows, FORM_PAGE);
}
