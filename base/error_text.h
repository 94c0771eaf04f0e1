/* SPDX-License-Identifier: Apache-2.0
 *
 * The last error that a call returned on this thread, for halay_error_text and halay_last_error.
 *
 * The function that finds a cause records the error; the log does so for each line at level error (log.c). A call of
 * the public headers that may fail without such a line returns through halay_returns or halay_refuses. A thread that
 * drives the engine for others is muted meanwhile: their errors are not those of its call.
 *
 * The error is kept for each thread, the library's only state outside its objects.
 */
#ifndef HALAY_BASE_ERROR_TEXT_H
#define HALAY_BASE_ERROR_TEXT_H

#include "halay_types.h"

/* Makes text valid UTF-8: removes a character that was cut, and replaces a byte that cannot begin one by a question
 * mark. The text never grows. */
void halay_text_mend(char *text);

/* The place of an error. */
struct halay_error_place {
    const char *subject; /* the table's or file's name; NULL: none */
    size_t row;          /* from 1; 0: none */
    const char *column;  /* NULL: none */
    int rank;            /* -1: none */
    int is_file;         /* texts write "file 'NAME'" in place of NAME */
};
#define HALAY_ERROR_OF_RANK(of) ((struct halay_error_place){ .rank = (of) })
#define HALAY_ERROR_NOWHERE HALAY_ERROR_OF_RANK(-1)

/* Writes "file 'x.csv', row 7, column 'load'"; HALAY_ERROR_PLACE_MAX bytes hold it. */
enum { HALAY_ERROR_PLACE_MAX = 840 };
void halay_error_place_print(const struct halay_error_place *place, char *text, size_t size);

/* An error: the fields of struct halay_error. */
enum { HALAY_ERROR_SUBJECT_MAX = 512 };
struct halay_error_record {
    char text[HALAY_ERROR_TEXT_MAX], subject[HALAY_ERROR_SUBJECT_MAX], column[256]; /* in UTF-8 */
    size_t row;
    int rank;
};
void halay_error_record_set(struct halay_error_record *record, const struct halay_error_place *place, const char *text);

/* Records why the call that runs on this thread will fail. */
void halay_error_note(const struct halay_error_record *record);

/* Returns the thread's error as the public fields. */
const struct halay_error *halay_error_fields(void);
/* Makes halay_error_fields return this record, while a log function runs; NULL ends it. */
void halay_error_show(const struct halay_error_record *record);

/* Ends a public call. If status is an error without a recorded text, the text is the status's. Returns status. */
enum halay_status halay_returns(enum halay_status status);

/* Ends a public call with this text, in place of any recorded one; nothing is logged. */
enum halay_status halay_refuses(enum halay_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Stops recording on this thread, or resumes it. Returns the state before. */
int halay_error_mute(int is_muted);

/* Returns nonzero while recording is stopped. */
int halay_error_is_muted(void);

/* Returns this thread's text; never NULL. */
const char *halay_error_noted(void);

#endif
