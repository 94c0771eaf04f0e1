/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV: one pass over zlib's stream (which reads plain files as they are), a state machine for quotes, a buffer for one
 * row.
 *
 * The row's text lies in one growing buffer; fields are offsets into it until the row is complete, pointers after.
 * zlib reports a truncated stream only by gzerror after the last byte: end_of_file checks it, so that no table is taken
 * for complete that is not. Cleanup: the object is zeroed first and close accepts it half-built.
 */
#include "tft/csv.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK = 1 << 16, COLUMNS_MAX = 4096 };
#define ROW_MAX ((size_t)1 << 20)

struct tft_csv {
    struct halay_log *log; /* borrowed */
    const char *path;      /* borrowed until close */
    gzFile file;           /* owned */
    char separator;
    unsigned char *chunk; /* owned: CHUNK bytes, those from `at` to `length` not yet read */
    size_t at, length;
    int drained;       /* nothing more to come from the file */
    size_t row, lines; /* row last read; line ends seen */
    char *text;        /* owned: the current row */
    size_t text_length, text_size;
    size_t *starts; /* owned: where each field of the row begins in text */
    size_t field_count;
    char **fields; /* owned */
    char **names;  /* owned, with what they point to */
    size_t column_count;
};

static enum halay_status fail(struct tft_csv *csv, const char *what)
{
    halay_error(csv->log, "file '%s', row %zu: %s", csv->path, csv->row, what);
    return HALAY_ERR_FORMAT;
}

/* After the last byte: was the stream whole? */
static enum halay_status check_end(struct tft_csv *csv, int got)
{
    int error;
    const char *text = gzerror(csv->file, &error);

    if (got == 0 && (error == Z_OK || error == Z_STREAM_END))
        return HALAY_OK;
    if (error == Z_ERRNO)
        halay_error(csv->log, "cannot read '%s': %s", csv->path, strerror(errno));
    else if (error == Z_BUF_ERROR)
        halay_error(csv->log, "file '%s' is truncated: its compressed data end too early", csv->path);
    else
        halay_error(csv->log, "file '%s' is damaged: %s", csv->path, text);
    return error == Z_ERRNO ? HALAY_ERR_SYSTEM : HALAY_ERR_FORMAT;
}

/* The next byte, or -1 at the end. */
static enum halay_status next_byte(struct tft_csv *csv, int *byte)
{
    if (csv->at == csv->length && !csv->drained) {
        int got = gzread(csv->file, csv->chunk, CHUNK);
        csv->at = 0;
        csv->length = got > 0 ? (size_t)got : 0;
        if (got < CHUNK) { /* a short read is the end, or an error that must not pass for one */
            enum halay_status status = check_end(csv, got > 0 ? 0 : got);
            if (status)
                return status;
            csv->drained = got <= 0;
        }
    }
    *byte = csv->at < csv->length ? csv->chunk[csv->at++] : -1;
    return HALAY_OK;
}

static enum halay_status put_char(struct tft_csv *csv, char c)
{
    if (csv->text_length == csv->text_size) {
        if (csv->text_size >= ROW_MAX)
            return fail(csv, "longer than 1 MiB (a quote that is not closed?)");
        char *more = realloc(csv->text, csv->text_size * 2);
        if (!more) {
            halay_error(csv->log, "no memory for a row of '%s'", csv->path);
            return HALAY_ERR_NO_MEMORY;
        }
        csv->text = more;
        csv->text_size *= 2;
    }
    csv->text[csv->text_length++] = c;
    return HALAY_OK;
}

static enum halay_status begin_field(struct tft_csv *csv)
{
    if (csv->field_count == COLUMNS_MAX)
        return fail(csv, "more than 4096 fields");
    csv->starts[csv->field_count++] = csv->text_length;
    return HALAY_OK;
}

/* What a byte does to a row that is being read. */
enum state { FIELD_BEGIN, PLAIN, QUOTED, QUOTE_SEEN };

/* Read the fields of one row into text. *any: 0 if the file had ended. */
static enum halay_status read_row(struct tft_csv *csv, int *any)
{
    enum state state = FIELD_BEGIN;
    enum halay_status status = HALAY_OK;

    csv->text_length = csv->field_count = 0;
    csv->row = csv->lines + 1;
    *any = 0;
    for (;;) {
        int c;
        status = next_byte(csv, &c);
        if (status)
            return status;
        if (c < 0 && state == QUOTED)
            return fail(csv, "a quote is not closed");
        if (c < 0 && !*any)
            return HALAY_OK;
        if (c == 0)
            return fail(csv, "a zero byte: not a text file");
        csv->lines += c == '\n' || (c < 0 && *any);
        if (!*any)
            status = begin_field(csv);
        *any = 1;
        if (state == QUOTED) {
            if (c == '"')
                state = QUOTE_SEEN;
            else
                status = put_char(csv, (char)c);
        } else if (state == QUOTE_SEEN && c == '"') {
            status = put_char(csv, '"');
            state = QUOTED;
        } else if (state == FIELD_BEGIN && c == '"') {
            state = QUOTED;
        } else if (c < 0 || c == '\n') {
            if (state == PLAIN && csv->text_length && csv->text[csv->text_length - 1] == '\r')
                csv->text_length--;
            return put_char(csv, 0);
        } else if (c == csv->separator) {
            status = put_char(csv, 0);
            if (!status)
                status = begin_field(csv);
            state = FIELD_BEGIN;
        } else if (state == QUOTE_SEEN) {
            if (c != '\r')
                return fail(csv, "text after a closing quote");
        } else {
            status = put_char(csv, (char)c);
            state = PLAIN;
        }
        if (status)
            return status;
    }
}

/* Read rows until one that is not empty. */
static enum halay_status read_filled_row(struct tft_csv *csv, int *any)
{
    do {
        enum halay_status status = read_row(csv, any);
        if (status)
            return status;
    } while (*any && csv->field_count == 1 && !csv->text[0]);
    for (size_t i = 0; i < csv->field_count; i++)
        csv->fields[i] = csv->text + csv->starts[i];
    return HALAY_OK;
}

static enum halay_status read_header(struct tft_csv *csv)
{
    int any;
    enum halay_status status = read_filled_row(csv, &any);

    if (status)
        return status;
    if (!any) {
        halay_error(csv->log, "file '%s' is empty: a header with the columns' names is missing", csv->path);
        return HALAY_ERR_FORMAT;
    }
    if (!strncmp(csv->fields[0], "\xef\xbb\xbf", 3))
        csv->fields[0] += 3;
    csv->names = calloc(csv->field_count, sizeof *csv->names);
    if (!csv->names)
        return HALAY_ERR_NO_MEMORY;
    csv->column_count = csv->field_count;
    for (size_t i = 0; i < csv->field_count; i++) {
        for (size_t j = 0; j < i; j++)
            if (!strcmp(csv->names[j], csv->fields[i])) {
                halay_error(csv->log, "file '%s': two columns have the name '%s'", csv->path, csv->names[j]);
                return HALAY_ERR_FORMAT;
            }
        csv->names[i] = strdup(csv->fields[i]);
        if (!csv->names[i])
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

/* zlib reads what is not compressed as it is; under a compressed file's name that is a file whose beginning is damaged.
 */
static enum halay_status check_kind(struct tft_csv *csv)
{
    size_t length = strlen(csv->path);

    if (length < 3 || strcmp(csv->path + length - 3, ".gz") || !gzdirect(csv->file))
        return HALAY_OK;
    halay_error(csv->log, "file '%s' is not gzip-compressed, as its name says, or is truncated", csv->path);
    return HALAY_ERR_FORMAT;
}

enum halay_status tft_csv_open(struct halay_log *log, const char *path, char separator, struct tft_csv **out)
{
    struct tft_csv *csv = calloc(1, sizeof *csv);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (!csv)
        goto err_say;
    *csv = (struct tft_csv){ .log = log, .path = path, .separator = separator, .text_size = 4096 };
    csv->chunk = malloc(CHUNK);
    csv->text = malloc(csv->text_size);
    csv->starts = malloc(COLUMNS_MAX * sizeof *csv->starts);
    csv->fields = malloc(COLUMNS_MAX * sizeof *csv->fields);
    if (!csv->chunk || !csv->text || !csv->starts || !csv->fields)
        goto err_say;
    csv->file = gzopen(path, "rbe");
    if (!csv->file) {
        halay_error(log, "cannot open '%s': %s", path, errno ? strerror(errno) : "no memory");
        status = HALAY_ERR_SYSTEM;
        goto err_close;
    }
    status = check_kind(csv);
    if (!status)
        status = read_header(csv);
    if (status == HALAY_ERR_NO_MEMORY)
        goto err_say;
    if (status)
        goto err_close;
    *out = csv;
    return HALAY_OK;

err_say:
    halay_error(log, "no memory to read '%s'", path);
err_close:
    tft_csv_close(csv);
    return status;
}

void tft_csv_close(struct tft_csv *csv)
{
    if (!csv)
        return;
    if (csv->file)
        gzclose_r(csv->file);
    for (size_t i = 0; csv->names && i < csv->column_count; i++)
        free(csv->names[i]);
    free(csv->names);
    free(csv->fields);
    free(csv->starts);
    free(csv->text);
    free(csv->chunk);
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

enum halay_status tft_csv_find_column(struct tft_csv *csv, const char *pattern, size_t *column)
{
    size_t matches = 0, found = 0;
    char list[512] = "";

    for (size_t i = 0; i < csv->column_count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s'%s'", i ? ", " : "", csv->names[i]);
        if (!strcmp(pattern, csv->names[i])) {
            *column = i;
            return HALAY_OK;
        }
        if (!fnmatch(pattern, csv->names[i], 0)) {
            matches++;
            found = i;
        }
    }
    if (matches == 1) {
        *column = found;
        return HALAY_OK;
    }
    halay_error(csv->log, "file '%s' has %s column '%s' (its columns: %s)", csv->path, matches ? "more than one" : "no",
                pattern, list);
    return HALAY_ERR_FORMAT;
}

enum halay_status tft_csv_next(struct tft_csv *csv, char ***fields, int *end)
{
    int any;
    enum halay_status status = read_filled_row(csv, &any);

    if (status)
        return status;
    if (any && csv->field_count != csv->column_count) {
        halay_error(csv->log, "file '%s', row %zu: %zu fields, the header has %zu", csv->path, csv->row,
                    csv->field_count, csv->column_count);
        return HALAY_ERR_FORMAT;
    }
    *fields = csv->fields;
    *end = !any;
    return HALAY_OK;
}
