/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of the last error that a call returned on this thread: what halay_error_text gives.
 *
 * The finder of a cause notes the text; the log does so for each line at level error (log.c). A call of the public
 * headers that may fail without such a line returns through halay_returns or halay_refuses. Who drives the engine for
 * others mutes the thread meanwhile: their errors are not those of the call.
 *
 * The text is kept for each thread, the library's only state outside its objects.
 */
#ifndef HALAY_BASE_ERROR_TEXT_H
#define HALAY_BASE_ERROR_TEXT_H

#include "halay_types.h"

/* Makes text UTF-8 again that quotes what may be cut, or is something else: a character that is cut goes, and a byte
 * that begins none becomes a question mark. Never longer than before. */
void halay_text_mend(char *text);

/* Why the call that runs on this thread will fail. */
void halay_error_note(const char *text);

/* A call returns. If status is an error and nobody noted a text, it is the status's meaning. Returns status. */
enum halay_status halay_returns(enum halay_status status);

/* The same with this text, whatever was noted; nothing is logged. */
enum halay_status halay_refuses(enum halay_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* From now on nothing is noted (or something is again). Returns what was so before. */
int halay_error_mute(int is_muted);

/* Whether it is so now. */
int halay_error_is_muted(void);

/* This thread's text; never NULL. */
const char *halay_error_noted(void);

#endif
