/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV: one pass over the bytes that tft/core/data/csv.h provides, through one buffer that always contains a whole row.
 *
 * The end of a row is found first; then the row is cut into fields in place: separators become zero bytes, quoted
 * fields are moved together. A row without a quote, the common case, is found and cut by memchr. Cleanup: the object is
 * zeroed first and close accepts it partly initialised.
 */
#include "tft/core/data/csv.h"
#include "base/memory.h"
#include "base/number_text.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 4096 };
#define ROW_MAX ((size_t)1 << 20)

struct tft_csv {
    struct halay_log *log;    /* borrowed */
    const char *path;         /* borrowed until close */
    struct tft_inflate *file; /* owned */
    char separator;
    char *data;              /* owned: size + 1 bytes; those from `at` to `length` are not yet taken */
    size_t at, length, size; /* of them */
    int drained;             /* the file has no more bytes */
    size_t row, lines;       /* row last read; line ends seen */
    size_t field_count;
    char **fields; /* owned: (COLUMNS_MAX) */
    char **names;  /* owned, with what they point to */
    size_t column_count;
};

static enum halay_status bad_row(struct tft_csv *csv, const char *what)
{
    const struct halay_error_place place = { csv->path, csv->row, NULL, -1, 1 };

    return halay_fail_at(csv->log, &place, HALAY_ERR_FORMAT, "%s", what);
}

/* Moves unread bytes to the front, and reads more after them. */
static enum halay_status refill_buffer(struct tft_csv *csv)
{
    size_t kept = csv->length - csv->at;

    memmove(csv->data, csv->data + csv->at, kept);
    csv->at = 0;
    csv->length = kept;
    if (kept >= ROW_MAX)
        return bad_row(csv, "longer than 1 MiB (is a quote not closed?)");
    if (csv->size - kept < TFT_INFLATE_BLOCK) {
        char *more = realloc(csv->data, csv->size * 2 + 1);
        if (!more)
            return halay_no_memory(csv->log, "for a row of '%s'", csv->path);
        csv->data = more;
        csv->size *= 2;
    }
    size_t got;
    enum halay_status status = tft_inflate_read(csv->file, csv->data + kept, &got);
    csv->drained = !got;
    csv->length += got;
    return status;
}

/* Returns the length of a row with quotes; SIZE_MAX if its end has not been read yet. */
static size_t quoted_length(const struct tft_csv *csv, const char *row, size_t length, size_t *lines)
{
    enum { FIELD_BEGIN, PLAIN, QUOTED, QUOTE_SEEN } state = FIELD_BEGIN;

    *lines = 0;
    for (size_t i = 0; i < length; i++) {
        char c = row[i];
        *lines += c == '\n';
        if (state == QUOTED)
            state = c == '"' ? QUOTE_SEEN : QUOTED;
        else if (c == '\n')
            return i;
        else if (c == '"' && state != PLAIN)
            state = QUOTED;
        else
            state = c == csv->separator ? FIELD_BEGIN : PLAIN;
    }
    return SIZE_MAX;
}

/* Finds the length of the row that begins at `at`, without its line end; *taken includes it. *any: 0 if the file had
 * ended. */
static enum halay_status find_row_end(struct tft_csv *csv, size_t *length, size_t *taken, int *any)
{
    for (;;) {
        const char *row = csv->data + csv->at;
        size_t there = csv->length - csv->at, lines = 1;
        const char *end = memchr(row, '\n', there);
        size_t n = end ? (size_t)(end - row) : SIZE_MAX;

        if (memchr(row, '"', end ? n : there))
            n = quoted_length(csv, row, there, &lines);
        *any = there > 0;
        if (n != SIZE_MAX || (csv->drained && !there)) {
            *length = n == SIZE_MAX ? 0 : n;
            *taken = n == SIZE_MAX ? 0 : n + 1;
            csv->lines += *any ? lines : 0;
            return HALAY_OK;
        }
        if (csv->drained) { /* the last row has no line end */
            *length = *taken = there;
            csv->lines += 1;
            return HALAY_OK;
        }
        enum halay_status status = refill_buffer(csv);
        if (status)
            return status;
    }
}

/* Reads a quoted field, from after its opening quote: quotes are removed in place. *next is after its separator, or at
 * the row's end. */
static enum halay_status take_quoted(struct tft_csv *csv, char *field, char *end, char **next, int *more)
{
    char *to = field, *from = field;

    for (; from < end && !(*from == '"' && (from + 1 == end || from[1] != '"')); from++) {
        *to++ = *from;
        from += *from == '"';
    }
    if (from == end)
        return bad_row(csv, "a quote is not closed");
    from++;
    *to = 0;
    if (from < end && *from == '\r' && from + 1 == end)
        from++;
    if (from < end && *from != csv->separator)
        return bad_row(csv, "text after a closing quote");
    *more = from < end;
    *next = from < end ? from + 1 : end;
    return HALAY_OK;
}

/* Cuts a row into fields. */
static enum halay_status cut_row(struct tft_csv *csv, char *row, size_t length)
{
    char *end = row + length, *next = row;
    int more = 1;

    *end = 0; /* the line end, or the byte after the last */
    csv->field_count = 0;
    if (memchr(row, 0, length))
        return bad_row(csv, "a zero byte: not a text file");
    while (more) {
        char *field = next;
        if (csv->field_count == COLUMNS_MAX)
            return bad_row(csv, "more than 4096 fields");
        csv->fields[csv->field_count++] = field;
        if (*field == '"') {
            csv->fields[csv->field_count - 1]++;
            enum halay_status status = take_quoted(csv, field + 1, end, &next, &more);
            if (status)
                return status;
            continue;
        }
        char *separator = memchr(field, csv->separator, (size_t)(end - field));
        more = separator != NULL;
        if (separator) {
            *separator = 0;
            next = separator + 1;
        } else if (end > field && end[-1] == '\r') {
            end[-1] = 0;
        }
    }
    return HALAY_OK;
}

/* Reads rows until one that is not empty. */
static enum halay_status read_filled_row(struct tft_csv *csv, int *any)
{
    size_t length, taken;

    for (;;) {
        csv->row = csv->lines + 1;
        enum halay_status status = find_row_end(csv, &length, &taken, any);
        if (status || !*any)
            return status;
        char *text = csv->data + csv->at;
        csv->at += taken;
        if (!length || (length == 1 && *text == '\r'))
            continue;
        return cut_row(csv, text, length);
    }
}

static enum halay_status read_column_names(struct tft_csv *csv)
{
    int any = 0;
    enum halay_status status = refill_buffer(csv);

    if (!status) {
        csv->at = csv->length >= 3 && !memcmp(csv->data, "\xef\xbb\xbf", 3) ? 3 : 0;
        status = read_filled_row(csv, &any);
    }
    if (status)
        return status;
    if (!any)
        return halay_fail(csv->log, HALAY_ERR_FORMAT, "file '%s' is empty: a header with the columns' names is missing",
                          csv->path);
    csv->names = calloc(csv->field_count, sizeof *csv->names);
    if (!csv->names)
        return halay_no_memory(csv->log, "to read '%s'", csv->path);
    csv->column_count = csv->field_count;
    for (size_t i = 0; i < csv->field_count; i++) {
        if (strchr(csv->fields[i], '\r'))
            return bad_row(csv, "a column's name with a carriage return: lines end in LF or CRLF");
        for (size_t j = 0; j < i; j++)
            if (!strcmp(csv->names[j], csv->fields[i]))
                return halay_fail(csv->log, HALAY_ERR_FORMAT, "file '%s': two columns have the name '%s'", csv->path,
                                  csv->names[j]);
        csv->names[i] = strdup(csv->fields[i]);
        if (!csv->names[i])
            return halay_no_memory(csv->log, "to read '%s'", csv->path);
    }
    return HALAY_OK;
}

enum halay_status tft_csv_open(struct halay_log *log, const char *path, const char *text, size_t bytes, char separator,
                               struct tft_csv **out)
{
    struct tft_csv *csv = calloc(1, sizeof *csv);
    enum halay_status status;

    if (!csv)
        return halay_no_memory(log, "to read '%s'", path);
    *csv = (struct tft_csv){ .log = log, .path = path, .separator = separator, .size = 2 * TFT_INFLATE_BLOCK };
    csv->data = malloc(csv->size + 1);
    csv->fields = malloc(COLUMNS_MAX * sizeof *csv->fields);
    if (!csv->data || !csv->fields)
        status = halay_no_memory(log, "to read '%s'", path);
    else if (!(status = tft_inflate_open(log, path, text, bytes, &csv->file)))
        status = read_column_names(csv);
    if (status)
        tft_csv_close(csv);
    else
        *out = csv;
    return status;
}

void tft_csv_close(struct tft_csv *csv)
{
    if (!csv)
        return;
    tft_inflate_close(csv->file);
    for (size_t i = 0; csv->names && i < csv->column_count; i++)
        free(csv->names[i]);
    free(csv->names);
    free(csv->fields);
    free(csv->data);
    free(csv);
}

size_t tft_csv_columns(const struct tft_csv *csv)
{
    return csv->column_count;
}

const char *tft_csv_column_name(const struct tft_csv *csv, size_t column)
{
    return csv->names[column];
}

size_t tft_csv_row(const struct tft_csv *csv)
{
    return csv->row;
}

enum halay_status tft_csv_next(struct tft_csv *csv, char ***fields, int *end)
{
    int any;
    enum halay_status status = read_filled_row(csv, &any);

    if (status)
        return status;
    if (any && csv->field_count != csv->column_count) {
        const struct halay_error_place place = { csv->path, csv->row, NULL, -1, 1 };
        return halay_fail_at(csv->log, &place, HALAY_ERR_FORMAT, "%zu fields, the header has %zu", csv->field_count,
                             csv->column_count);
    }
    *fields = csv->fields;
    *end = !any;
    return HALAY_OK;
}

/* ---- numbers ---- */

/* Numbers: digits are collected in an integer. While that is below 2^53 and the power of ten at most 22, both are exact
 * doubles, so that one division or product is correctly rounded (Clinger 1990); everything else is parsed by strtod. */

/* Parses everything that is not short and plain. */
static int parse_slowly(const char *text, size_t length, char decimal, double *value)
{
    char copy[512], *end;

    if (length >= sizeof copy || strspn(text, decimal == ',' ? "+-,0123456789eE" : "+-.0123456789eE") < length)
        return 0;
    memcpy(copy, text, length);
    copy[length] = 0;
    for (size_t i = 0; i < length; i++)
        if (copy[i] == ',')
            copy[i] = '.';
    *value = halay_strtod(copy, &end);
    return length && !*end;
}

int tft_number_parse(const char *text, char decimal, double *value)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    uint64_t digits = 0;
    size_t n = 0, fraction = 0;

    while (*text == ' ')
        text++;
    const char *p = text + (*text == '-' || *text == '+');
    for (; *p >= '0' && *p <= '9' && n < 18; p++, n++)
        digits = digits * 10 + (uint64_t)(*p - '0');
    if (*p == decimal)
        for (p++; *p >= '0' && *p <= '9' && n < 18; p++, n++, fraction++)
            digits = digits * 10 + (uint64_t)(*p - '0');
    const char *end = p;
    while (*end == ' ')
        end++;
    if (*end || !n || digits >= (uint64_t)1 << 53) {
        size_t length = strlen(text);
        while (length && text[length - 1] == ' ')
            length--;
        return parse_slowly(text, length, decimal, value);
    }
    *value = (double)digits / powers[fraction];
    if (*text == '-')
        *value = -*value;
    return 1;
}

int tft_number_is_missing(const char *text)
{
    static const char *const words[] = { "",     "NA",     "NaN",     "nan",     "null",     "NULL", "None",
                                         "N/A",  "n/a",    "<NA>",    "#N/A",    "#N/A N/A", "#NA",  "-NaN",
                                         "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN" };
    size_t length;

    text += strspn(text, " ");
    for (length = strlen(text); length && text[length - 1] == ' ';)
        length--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && !memcmp(words[i], text, length))
            return 1;
    return 0;
}
