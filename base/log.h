/* SPDX-License-Identifier: Apache-2.0
 *
 * Log: one line per event, to standard error or to a function of the owner's.
 *
 * There is no process-wide log: each context, group or program owns a struct halay_log and lends it to what it creates.
 * Text is lower case without a final stop, error first, the subject in quotes. A line looks like
 *     halay[2] error: tensor 'w': rank 3 has shape [160,4], rank 0 has [160,8]
 * where 2 is the rank, absent while it is not known.
 */
#ifndef HALAY_BASE_LOG_H
#define HALAY_BASE_LOG_H

#include "base/error_text.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

struct halay_log {
    enum halay_log_level level; /* lines above it are dropped; set once before use */
    int rank;                   /* -1 while unknown; set once, before other threads log */
    /* Where a finished line (without newline) goes; NULL: standard error. Called with no lock held, from any thread. */
    void (*write)(void *arg, enum halay_log_level level, const char *line);
    void *arg; /* borrowed for as long as the log lives */
    /* The program shows the texts of errors itself: what a call returns, or a request ends with, is logged at level
     * info. Relaxed: set once, lines of that moment may be of either kind. */
    _Atomic int is_told;
    pthread_mutex_t lock;
    struct halay_error_record last_error; /* the newest error; its text is "" if there is none; guarded by lock */
};

void halay_log_init(struct halay_log *log, enum halay_log_level level);
void halay_log_fini(struct halay_log *log);

/* Writes one line if its level is wanted; an error is also kept as last_error. log may be NULL: nothing is written. */
void halay_log_write(struct halay_log *log, enum halay_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void halay_log_vwrite(struct halay_log *log, enum halay_log_level level, const char *format, va_list args);

/* An error at a place, which begins its text, if there is one: "PLACE: ...". */
void halay_log_error_at(struct halay_log *log, const struct halay_error_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Does so, and returns the status. */
enum halay_status halay_fail_at(struct halay_log *log, const struct halay_error_place *place, enum halay_status status,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* An error where there may be no log, since what has one is missing: without it the line goes to standard error. */
void halay_error_somewhere(struct halay_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The level of what requests end with, and the log says besides. */
enum halay_log_level halay_log_told_level(struct halay_log *log);

/* Copies the newest error; its text is "" if there is none. */
void halay_log_copy_error(struct halay_log *log, struct halay_error_record *record);

/* A call returns, like halay_returns, with the log's newest error, which another thread may have found. Returns
 * status. */
enum halay_status halay_log_returns(struct halay_log *log, enum halay_status status);

/* Copies the newest error's text, "" if none. */
void halay_log_last_error(struct halay_log *log, char *text, size_t size);

/* Logs an error and returns the status: `return halay_fail(log, HALAY_ERR_FORMAT, "...")`. */
enum halay_status halay_fail(struct halay_log *log, enum halay_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define halay_error(log, ...) halay_log_write(log, HALAY_LOG_ERROR, __VA_ARGS__)
#define halay_error_at(log, place, ...) halay_log_error_at(log, place, __VA_ARGS__)
#define halay_warning(log, ...) halay_log_write(log, HALAY_LOG_WARNING, __VA_ARGS__)
#define halay_info(log, ...) halay_log_write(log, HALAY_LOG_INFO, __VA_ARGS__)
#define halay_debug(log, ...) halay_log_write(log, HALAY_LOG_DEBUG, __VA_ARGS__)

#endif
