/* SPDX-License-Identifier: Apache-2.0
 *
 * Log: one line per event, to standard error or to a function of the owner's.
 *
 * Each context, group or program owns a struct halay_log and lends it to the objects that it creates; no log is global.
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
    /* Takes a finished line (without newline); NULL: standard error. Called with no lock held, from any thread. */
    void (*write)(void *arg, enum halay_log_level level, const char *line);
    void *arg; /* borrowed for as long as the log lives */
    /* The program shows the texts of errors itself: the error of a call or a request is logged at level info. Relaxed:
     * set once, lines of that moment may have either level. */
    _Atomic int reports_errors;
    pthread_mutex_t lock;
    struct halay_error_record last_error; /* the newest error, with an empty text before the first; guarded by lock */
};

void halay_log_init(struct halay_log *log, enum halay_log_level level);
void halay_log_fini(struct halay_log *log);

/* Writes one line if its level is wanted; an error is also kept as last_error. log may be NULL: nothing is written. */
void halay_log_write(struct halay_log *log, enum halay_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void halay_log_vwrite(struct halay_log *log, enum halay_log_level level, const char *format, va_list args);

/* Logs an error whose text begins with its place, unless that is empty: "PLACE: ...". */
void halay_log_error_at(struct halay_log *log, const struct halay_error_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Logs an error; without a log (its owner is missing) the line goes to standard error. */
void halay_error_somewhere(struct halay_log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the level of a line that repeats the error of a call or a request. */
enum halay_log_level halay_log_reported_level(struct halay_log *log);

/* Copies the newest error, with an empty text before the first. */
void halay_log_copy_error(struct halay_log *log, struct halay_error_record *record);

/* Ends a public call as halay_returns does, with the log's newest error, which another thread may have found. */
enum halay_status halay_log_returns(struct halay_log *log, enum halay_status status);

/* Copies the newest error's text, "" if none. */
void halay_log_last_error(struct halay_log *log, char *text, size_t size);

/* Log an error, and are the status: `return halay_fail(log, HALAY_ERR_FORMAT, "...")`. */
#define halay_fail(log, status, ...) (halay_error(log, __VA_ARGS__), (status))
#define halay_fail_at(log, place, status, ...) (halay_error_at(log, place, __VA_ARGS__), (status))
#define halay_fail_somewhere(log, status, ...) (halay_error_somewhere(log, __VA_ARGS__), (status))

#define halay_error(log, ...) halay_log_write(log, HALAY_LOG_ERROR, __VA_ARGS__)
#define halay_error_at(log, place, ...) halay_log_error_at(log, place, __VA_ARGS__)
#define halay_warning(log, ...) halay_log_write(log, HALAY_LOG_WARNING, __VA_ARGS__)
#define halay_info(log, ...) halay_log_write(log, HALAY_LOG_INFO, __VA_ARGS__)
#define halay_debug(log, ...) halay_log_write(log, HALAY_LOG_DEBUG, __VA_ARGS__)

#endif
