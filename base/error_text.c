/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: one record a thread.
 */
#include "base/error_text.h"
#include "base/number_text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    struct halay_error_record noted;
    const struct halay_error_record *shown; /* borrowed while a log function runs */
    struct halay_error fields;              /* of what was asked for last */
    int is_new;                             /* noted, and no call has returned since */
    enum halay_status status;               /* that the call with this text returned */
    int is_muted;
} last;

/* Returns the number of bytes that must follow this first byte of a character; 0: one byte, or not a first byte. */
static size_t continuation_bytes(unsigned char first)
{
    return first < 0xc2 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 0;
}

/* Returns nonzero if a character is neither overlong nor half of a UTF-16 pair nor past the last one (Unicode 15, table
 * 3-7). */
static int is_proper(const unsigned char *c)
{
    return !((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
             (c[0] == 0xf4 && c[1] > 0x8f));
}

void halay_text_mend(char *text)
{
    const unsigned char *from = (const unsigned char *)text;
    unsigned char *to = (unsigned char *)text;

    while (*from) {
        const size_t wanted = continuation_bytes(*from);
        size_t found = 0;
        while (found < wanted && (from[1 + found] & 0xc0) == 0x80)
            found++;
        if (found < wanted) {
            from += 1 + found;
        } else if (wanted ? !is_proper(from) : *from >= 0x80) {
            *to++ = '?';
            from += 1 + found;
        } else {
            memmove(to, from, 1 + found);
            to += 1 + found;
            from += 1 + found;
        }
    }
    *to = '\0';
}

void halay_error_place_print(const struct halay_error_place *place, char *text, size_t size)
{
    char row[40] = "", column[300] = "";
    const char *const subject = place->subject ? place->subject : "";

    if (place->row)
        snprintf(row, sizeof row, "%srow %zu", *subject ? ", " : "", place->row);
    if (place->column)
        snprintf(column, sizeof column, "%scolumn '%.256s'", *subject || place->row ? ", " : "", place->column);
    snprintf(text, size, place->is_file ? "file '%.500s'%s%s" : "%.500s%s%s", subject, row, column);
}

void halay_error_record_set(struct halay_error_record *record, const struct halay_error_place *place, const char *text)
{
    snprintf(record->text, sizeof record->text, "%s", text);
    snprintf(record->subject, sizeof record->subject, "%s", place->subject ? place->subject : "");
    snprintf(record->column, sizeof record->column, "%s", place->column ? place->column : "");
    record->row = place->row;
    record->rank = place->rank;
    halay_text_mend(record->text);
    halay_text_mend(record->subject);
    halay_text_mend(record->column);
}

void halay_error_note(const struct halay_error_record *record)
{
    if (last.is_muted)
        return;
    last.noted = *record;
    last.is_new = 1;
}

static void note_text(const char *text)
{
    struct halay_error_record record;

    halay_error_record_set(&record, &HALAY_ERROR_NOWHERE, text);
    halay_error_note(&record);
}

const struct halay_error *halay_error_fields(void)
{
    const struct halay_error_record *of = last.shown ? last.shown : &last.noted;
    const int is_nothing = !last.shown && !last.status;

    last.fields = (struct halay_error){ .status = last.shown ? HALAY_OK : last.status,
                                        .subject = of->subject,
                                        .row = of->row,
                                        .column = of->column,
                                        .rank = is_nothing ? -1 : of->rank,
                                        .text = of->text };
    return &last.fields;
}

void halay_error_show(const struct halay_error_record *record)
{
    last.shown = record;
}

enum halay_status halay_returns(enum halay_status status)
{
    if (status == HALAY_OK || status == HALAY_IN_PROGRESS)
        return status;
    if (last.is_muted)
        return status;
    if (!last.is_new && status != last.status) /* of the same status: an inner call has set the text */
        note_text(halay_status_string(status));
    last.is_new = 0;
    last.status = status;
    return status;
}

enum halay_status halay_refuses(enum halay_status status, const char *format, ...)
{
    char text[HALAY_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    halay_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    note_text(text);
    return halay_returns(status);
}

int halay_error_mute(int is_muted)
{
    int before = last.is_muted;

    last.is_muted = is_muted;
    return before;
}

int halay_error_is_muted(void)
{
    return last.is_muted;
}

const char *halay_error_noted(void)
{
    return last.noted.text;
}
