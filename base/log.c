/* SPDX-License-Identifier: Apache-2.0
 *
 * Log: formats a line once, keeps the newest error, passes the line to its owner's function or to standard error. An
 * error is also recorded for the call that fails (error_text.h).
 *
 * A line is written with one write call, so that lines of several ranks and threads do not mix.
 */
#include "base/log.h"
#include "base/error_text.h"
#include "base/number_text.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = { "error", "warning", "info", "debug" };

void halay_log_init(struct halay_log *log, enum halay_log_level level)
{
    *log = (struct halay_log){ .level = level, .rank = -1 };
    pthread_mutex_init(&log->lock, NULL);
}

void halay_log_fini(struct halay_log *log)
{
    pthread_mutex_destroy(&log->lock);
}

static void write_stderr(const char *line)
{
    char out[1152];
    int n = snprintf(out, sizeof out, "%s\n", line);
    size_t length = n < (int)sizeof out ? (size_t)n : sizeof out - 1;

    out[length - 1] = '\n';
    /* Nothing sensible can be done when standard error is closed. */
    if (write(STDERR_FILENO, out, length) < 0)
        return;
}

static void write_line(struct halay_log *log, enum halay_log_level level, const char *text)
{
    char line[1120];

    if (log->rank >= 0)
        snprintf(line, sizeof line, "halay[%d] %s: %s", log->rank, level_names[level], text);
    else
        snprintf(line, sizeof line, "halay %s: %s", level_names[level], text);
    if (log->write)
        log->write(log->arg, level, line);
    else
        write_stderr(line);
}

static void write_error(struct halay_log *log, const struct halay_error_place *place, const char *text)
{
    struct halay_error_record record;
    enum halay_log_level level = HALAY_LOG_ERROR;

    halay_error_record_set(&record, place, text);
    halay_error_note(&record);
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->last_error = record;
    pthread_mutex_unlock(&log->lock);
    if (!halay_error_is_muted() &&
        (level = halay_log_reported_level(log)) > log->level) /* the call that runs returns it */
        return;
    halay_error_show(&record);
    write_line(log, level, record.text);
    halay_error_show(NULL);
}

void halay_log_vwrite(struct halay_log *log, enum halay_log_level level, const char *format, va_list args)
{
    char text[HALAY_ERROR_TEXT_MAX];

    if (level != HALAY_LOG_ERROR && (!log || level > log->level))
        return;
    halay_vsnprintf(text, sizeof text, format, args);
    halay_text_mend(text);
    if (level == HALAY_LOG_ERROR)
        write_error(log, &HALAY_ERROR_NOWHERE, text);
    else
        write_line(log, level, text);
}

void halay_log_error_at(struct halay_log *log, const struct halay_error_place *place, const char *format, ...)
{
    char text[HALAY_ERROR_TEXT_MAX];
    va_list args;

    halay_error_place_print(place, text, sizeof text - 2);
    if (*text)
        strcat(text, ": ");
    const size_t used = strlen(text);
    va_start(args, format);
    halay_vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
    write_error(log, place, text);
}

void halay_log_write(struct halay_log *log, enum halay_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    halay_log_vwrite(log, level, format, args);
    va_end(args);
}

void halay_error_somewhere(struct halay_log *log, const char *format, ...)
{
    struct halay_log fallback;
    va_list args;

    halay_log_init(&fallback, HALAY_LOG_ERROR);
    va_start(args, format);
    halay_log_vwrite(log ? log : &fallback, HALAY_LOG_ERROR, format, args);
    va_end(args);
    halay_log_fini(&fallback);
}

enum halay_log_level halay_log_reported_level(struct halay_log *log)
{
    return log && atomic_load_explicit(&log->reports_errors, memory_order_relaxed) ? HALAY_LOG_INFO : HALAY_LOG_ERROR;
}

void halay_log_last_error(struct halay_log *log, char *text, size_t size)
{
    pthread_mutex_lock(&log->lock);
    snprintf(text, size, "%s", log->last_error.text);
    pthread_mutex_unlock(&log->lock);
    halay_text_mend(text);
}

void halay_log_copy_error(struct halay_log *log, struct halay_error_record *record)
{
    pthread_mutex_lock(&log->lock);
    *record = log->last_error;
    pthread_mutex_unlock(&log->lock);
}

enum halay_status halay_log_returns(struct halay_log *log, enum halay_status status)
{
    struct halay_error_record record;

    if (status) {
        halay_log_copy_error(log, &record);
        if (*record.text)
            halay_error_note(&record);
    }
    return halay_returns(status);
}
