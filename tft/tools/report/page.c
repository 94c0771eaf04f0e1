/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages: the template with a result's numbers in it, as tables and as JSON.
 *
 * Tables follow from the JSON's form alone. First each list becomes an object whose keys count from 1, unless it is a
 * short one of plain values, which is a cell. Of an object, plain members share a table of two columns; long series of
 * plain values are columns of one table; an object whose members have the same keys is a table with a row for each; any
 * other is a section of its own. What memory is short for is left out.
 */
#include "tft/tools/report/page.h"
#include "base/number_text.h"
#include <stdlib.h>
#include <string.h>

enum { CELL_MAX = 12, ROWS_MAX = 200, DEPTH_MAX = 3 }; /* numbers in a cell, rows in a table, objects within a row */

/* The template's lines, which end with NULL; made from page.html. */
extern const char *const tft_page_lines[];

static void write_text(FILE *f, const char *text)
{
    for (; *text; text++)
        if (strchr("&<>\"", *text))
            fprintf(f, "&#%d;", *text);
        else
            fputc(*text, f);
}

/* ---- forms of values --------------------------------------------------------------------------------------------- */

/* Returns nonzero if a value is plain, or a short list of plain values. */
static int is_cell(const json_t *value)
{
    const json_t *item;
    size_t i;

    if (json_is_object(value) || json_array_size(value) > CELL_MAX)
        return 0;
    json_array_foreach(value, i, item)
        if (json_is_object(item) || json_is_array(item))
            return 0;
    return 1;
}

/* Returns the value without lists but short ones, as a new reference. */
static json_t *without_lists(json_t *value)
{
    json_t *object = is_cell(value) ? NULL : json_object(), *member;
    const char *key;
    char number[24];
    size_t i;

    if (is_cell(value))
        return json_incref(value);
    json_object_foreach(value, key, member)
        json_object_set_new(object, key, without_lists(member));
    json_array_foreach(value, i, member) {
        snprintf(number, sizeof number, "%zu", i + 1);
        json_object_set_new(object, number, without_lists(member));
    }
    return object;
}

/* Returns nonzero if an object was a long list of plain values. */
static int is_series(json_t *value)
{
    const char *key;
    json_t *member;

    json_object_foreach(value, key, member)
        if (!is_cell(member))
            return 0;
    return json_object_size(value) > CELL_MAX && json_object_get(value, "1");
}

/* Returns nonzero if a value fits into a row: cells, and objects of cells down to a depth. */
static int is_row(json_t *value, int depth)
{
    const char *key;
    json_t *member;

    if (is_cell(value) || depth == 0 || is_series(value))
        return is_cell(value);
    json_object_foreach(value, key, member)
        if (!is_row(member, depth - 1))
            return 0;
    return 1;
}

/* Returns the member with the most keys if all members are rows with keys of that; otherwise NULL. */
static json_t *widest_row(json_t *object)
{
    json_t *widest = NULL, *row, *member;
    const char *name, *key;

    json_object_foreach(object, name, row)
        if (!widest || json_object_size(row) > json_object_size(widest))
            widest = row;
    json_object_foreach(object, name, row) {
        if (is_cell(row) || !is_row(row, DEPTH_MAX))
            return NULL;
        json_object_foreach(row, key, member)
            if (!json_object_get(widest, key))
                return NULL;
    }
    return widest;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void write_value(FILE *f, const json_t *value)
{
    const json_t *item;
    size_t i;

    if (json_is_string(value))
        write_text(f, json_string_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "yes" : "no", f);
    else if (json_is_number(value))
        halay_fprintf(f, "%.6g", json_number_value(value));
    else if (!json_array_size(value))
        fputc('-', f);
    json_array_foreach(value, i, item) {
        fputs(i ? ", " : "", f);
        write_value(f, item);
    }
}

static void write_cell(FILE *f, const json_t *value)
{
    const int is_long = json_string_length(value) > 40 || json_array_size(value) > 3;

    fputs(is_long ? "<td class=\"long\">" : "<td>", f);
    write_value(f, value);
    fputs("</td>", f);
}

static void write_heading(FILE *f, const char *tag, const char *prefix, const char *name)
{
    fprintf(f, "<%s>", tag);
    write_text(f, prefix);
    write_text(f, name);
    fprintf(f, "</%s>", tag);
}

static void table_begin(FILE *f)
{
    fputs("<div class=\"table\" tabindex=\"0\"><table>", f);
}

/* Ends a table; of count rows, no more than ROWS_MAX are in it. */
static void table_end(FILE *f, size_t count)
{
    fputs("</table></div>\n", f);
    if (count > ROWS_MAX)
        fprintf(f, "<p>The first %d of %zu.</p>\n", ROWS_MAX, count);
}

/* Writes the headings of a row's cells; or where there is a row, its cells in the order of the widest one. */
static void write_row(FILE *f, json_t *widest, json_t *row, const char *prefix, int is_head)
{
    char path[200];
    const char *key;
    json_t *member;

    json_object_foreach(widest, key, member) {
        json_t *own = json_object_get(row, key);
        if (is_cell(member) && is_head)
            write_heading(f, "th", prefix, key);
        else if (is_cell(member))
            write_cell(f, own);
        if (is_cell(member))
            continue;
        snprintf(path, sizeof path, "%s%s ", prefix, key);
        write_row(f, member, own, path, is_head);
    }
}

static void write_rows(FILE *f, json_t *object, json_t *widest)
{
    const char *name;
    json_t *row;
    size_t i = 0;

    table_begin(f);
    fputs("<tr><td></td>", f);
    write_row(f, widest, NULL, "", 1);
    fputs("</tr>\n", f);
    json_object_foreach(object, name, row) {
        if (i++ == ROWS_MAX)
            break;
        fputs("<tr>", f);
        write_heading(f, "td", "", name);
        write_row(f, widest, row, "", 0);
        fputs("</tr>\n", f);
    }
    table_end(f, json_object_size(object));
}

/* Writes an object's plain members, and those of objects in it, below each other. */
static void write_members(FILE *f, json_t *object, const char *prefix)
{
    char path[200];
    const char *key;
    json_t *member;

    json_object_foreach(object, key, member) {
        if (!is_row(member, 1))
            continue;
        snprintf(path, sizeof path, "%s ", key);
        if (json_is_object(member)) {
            write_members(f, member, path);
            continue;
        }
        fputs("<tr>", f);
        write_heading(f, "td", prefix, key);
        write_cell(f, member);
        fputs("</tr>\n", f);
    }
}

/* Writes an object's series side by side. */
static void write_series(FILE *f, json_t *object)
{
    const char *key;
    json_t *member;
    size_t longest = 0;
    char number[24];

    table_begin(f);
    fputs("<tr><td></td>", f);
    json_object_foreach(object, key, member)
        if (is_series(member)) {
            write_heading(f, "th", "", key);
            longest = json_object_size(member) > longest ? json_object_size(member) : longest;
        }
    fputs("</tr>\n", f);
    for (size_t i = 1; i <= longest && i <= ROWS_MAX; i++) {
        snprintf(number, sizeof number, "%zu", i);
        fprintf(f, "<tr><td>%s</td>", number);
        json_object_foreach(object, key, member)
            if (is_series(member))
                write_cell(f, json_object_get(member, number));
        fputs("</tr>\n", f);
    }
    table_end(f, longest);
}

static void write_object(FILE *f, json_t *object, int level)
{
    int plain = 0, series = 0;
    char tag[] = "h2";
    const char *key;
    json_t *member;

    tag[1] = (char)('0' + level);
    json_object_foreach(object, key, member) {
        plain += is_row(member, 1);
        series += is_series(member);
    }
    if (plain) {
        table_begin(f);
        write_members(f, object, "");
        table_end(f, 0);
    }
    if (series)
        write_series(f, object);
    json_object_foreach(object, key, member) {
        json_t *widest = widest_row(member);
        if (is_row(member, 1) || is_series(member))
            continue;
        write_heading(f, tag, "", key);
        if (widest)
            write_rows(f, member, widest);
        else
            write_object(f, member, level < 4 ? level + 1 : 4);
    }
}

/* ---- the template's fields --------------------------------------------------------------------------------------- */

static void write_title(FILE *f, const json_t *result)
{
    fputs("halay-tft: ", f);
    write_value(f, json_object_get(result, "kind"));
}

static void write_tables(FILE *f, const json_t *result)
{
    json_t *object = without_lists((json_t *)result);

    json_object_del(object, "tables");
    write_object(f, object, 2);
    json_decref(object);
}

/* Nothing in the JSON may end the element that it is in. */
static int write_escaped(const char *text, size_t size, void *file)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] == '<')
            fputs("\\u003c", file);
        else
            fputc(text[i], file);
    return 0;
}

static void write_data(FILE *f, const json_t *result)
{
    json_dump_callback(result, write_escaped, f, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

static const struct field {
    const char *mark;
    void (*write)(FILE *f, const json_t *result);
} fields[] = { { "@title@", write_title }, { "@tables@", write_tables }, { "@data@", write_data } };

void tft_page_write(FILE *file, const json_t *result)
{
    for (const char *const *line = tft_page_lines; *line; line++) {
        const struct field *found = NULL;
        const char *at = NULL;
        for (size_t i = 0; i < sizeof fields / sizeof *fields && !at; i++)
            if ((at = strstr(*line, fields[i].mark)))
                found = &fields[i];
        fprintf(file, "%.*s", at ? (int)(at - *line) : -1, *line);
        if (found) {
            found->write(file, result);
            fputs(at + strlen(found->mark), file);
        }
    }
}
