/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions, and the beginning and end of every call.
 */
#include "base/config.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

void tft_session_enter(struct halay_tft *t)
{
    pthread_mutex_lock(&t->log.lock);
    *t->log.last_error.text = '\0';
    pthread_mutex_unlock(&t->log.lock);
}

enum halay_status tft_session_leave(struct halay_tft *t, enum halay_status status)
{
    return halay_log_returns(&t->log, status);
}

enum halay_status tft_session_leave_stopped(struct halay_tft *t, enum halay_status status)
{
    t->stopped = tft_stop_asked(&t->stop);
    if (t->stopped)
        tft_stop_ask(&t->stop, 0);
    if (status == HALAY_ERR_CANCELED && t->stopped)
        return halay_refuses(status, "the session was asked to stop");
    return tft_session_leave(t, status);
}

enum halay_status tft_session_refuse_null(const char *call, const char *what)
{
    return halay_refuses(HALAY_ERR_ARGUMENT, "%s: %s is NULL", call, what);
}

const char *halay_tft_error_text(void)
{
    return halay_error_noted();
}

const struct halay_error *halay_tft_last_error(void)
{
    return halay_error_fields();
}

/* ---- life ---- */

static void write_stderr(const char *line)
{
    fprintf(stderr, "%s\n", line);
}

/* Forwards a line of the engine's log; an error in it may be why a call fails. */
static void take_line(void *arg, enum halay_log_level level, const char *line)
{
    struct halay_tft *t = arg;
    const struct halay_error *error = halay_last_error();

    if (level == HALAY_LOG_ERROR) {
        pthread_mutex_lock(&t->log.lock);
        if (!*t->log.last_error.text)
            halay_error_record_set(&t->log.last_error, &(struct halay_error_place){ .rank = error->rank }, error->text);
        pthread_mutex_unlock(&t->log.lock);
    }
    if (level == HALAY_LOG_ERROR && t->log.reports_errors)
        return;
    if (t->line)
        t->line(t->line_arg, level, line);
    else
        write_stderr(line);
}

void tft_session_count_ranks(struct halay_tft *t)
{
    t->rank = halay_rank(t->ctx);
    t->ranks = halay_size(t->ctx);
    t->log.rank = t->ranks > 1 ? t->rank : -1;
}

static void take_job(struct halay_tft *t, struct halay_context *ctx)
{
    t->ctx = ctx;
    tft_session_count_ranks(t);
}

static enum halay_status join_job(struct halay_tft *t)
{
    char deterministic[64];
    const char *const settings[] = { deterministic, NULL };
    const int keeps = !*t->deterministic && halay_environment_get("HALAY_DETERMINISTIC");
    const struct halay_options options = {
        .struct_size = sizeof options, .log = take_line, .log_arg = t, .settings = keeps ? NULL : settings
    };
    struct halay_context *ctx;

    snprintf(deterministic, sizeof deterministic, "HALAY_DETERMINISTIC=%s",
             *t->deterministic ? t->deterministic : "run");
    enum halay_status status = halay_init(&options, &ctx);
    if (status)
        return status;
    t->owns_ctx = 1;
    take_job(t, ctx);
    return HALAY_OK;
}

enum halay_status tft_session_enter_ranks(struct halay_tft *t)
{
    tft_session_enter(t);
    t->entered = t->ctx ? HALAY_OK : join_job(t);
    return t->entered;
}

enum halay_status tft_session_device(struct halay_tft *t, struct tft_device *device)
{
    enum halay_status status = t->device == TFT_DEVICE_CPU || t->ctx ? HALAY_OK : join_job(t);

    return status ? status : tft_device_open(&t->log, t->device, t->ctx ? halay_local_rank(t->ctx) : 0, device);
}

enum halay_status halay_tft_join(struct halay_tft *t)
{
    return t ? tft_session_leave(t, tft_session_enter_ranks(t)) : tft_session_refuse_null("halay_tft_join", "tft");
}

enum halay_status halay_tft_init(const struct halay_tft_options *options, struct halay_tft **tft)
{
    struct halay_tft_options given = { 0 };
    enum halay_status status = HALAY_OK;

    if (!tft)
        return tft_session_refuse_null("halay_tft_init", "tft");
    if (options)
        status = halay_struct_read(NULL, "halay_tft_options", options, sizeof given, sizeof given, &given);
    if (status)
        return halay_returns(status);
    struct halay_tft *t = calloc(1, sizeof *t);
    if (!t)
        return halay_returns(HALAY_ERR_NO_MEMORY);
    halay_log_init(&t->log, HALAY_LOG_WARNING);
    t->log.reports_errors = given.reports_errors;
    t->log.write = t->line = given.log;
    t->log.arg = t->line_arg = given.log_arg;
    if (given.deterministic)
        snprintf(t->deterministic, sizeof t->deterministic, "%.15s", given.deterministic);
    if (given.ctx)
        take_job(t, given.ctx);
    int device;
    status = tft_session_word(t, "'device' of halay_tft_options", given.device, tft_device_words, 0, &device);
    if (status) {
        status = tft_session_leave(t, status);
        halay_tft_fini(t);
        return status;
    }
    t->device = (enum tft_device_kind)device;
    *tft = t;
    return HALAY_OK;
}

void halay_tft_fini(struct halay_tft *t)
{
    if (!t)
        return;
    if (t->owns_ctx)
        halay_fini(t->ctx);
    halay_log_fini(&t->log);
    free(t);
}

void halay_tft_stop(struct halay_tft *t, int reason)
{
    tft_stop_ask(&t->stop, reason < 0 ? 1 : reason);
}

int halay_tft_stopped(const struct halay_tft *t)
{
    return t->stopped;
}

struct halay_context *halay_tft_context(const struct halay_tft *t)
{
    return t->ctx;
}

void halay_tft_free(char *text)
{
    free(text);
}

/* ---- arguments and results ---- */

/* Copies the columns of a table, whose structs may be smaller than this version's. */
static enum halay_status copy_columns(struct halay_tft *t, const struct halay_tft_table *table, struct tft_frame *frame)
{
    struct halay_tft_column *columns = calloc(table->column_count + 1, sizeof *columns);
    const char *from = (const char *)table->columns;

    if (!columns)
        return halay_no_memory(&t->log, "for a table of %zu columns", table->column_count);
    for (size_t i = 0; i < table->column_count; i++)
        memcpy(&columns[i], from + i * table->column_bytes,
               table->column_bytes < sizeof *columns ? table->column_bytes : sizeof *columns);
    *frame = (struct tft_frame){ table->name ? table->name : "table", columns, table->column_count, table->rows,
                                 table->times_are_utc };
    return HALAY_OK;
}

enum halay_status tft_session_source(struct halay_tft *t, const struct halay_tft_table *given, struct tft_frame *frame,
                                     struct tft_table_source *source)
{
    struct halay_tft_table table;
    enum halay_status status = halay_struct_read(&t->log, "halay_tft_table", given,
                                                 offsetof(struct halay_tft_table, name), sizeof table, &table);

    if (status)
        return status;
    if (!!table.columns + !!table.files + !!table.text != 1 || (table.files && !table.file_count) ||
        (table.columns && (!table.column_count || table.column_bytes < sizeof(struct halay_tft_column))))
        return halay_fail(&t->log, HALAY_ERR_ARGUMENT,
                          "a table has either columns, with column_count and column_bytes, or files, or a text");
    *source = (struct tft_table_source){ .paths = table.files, .path_count = table.file_count };
    if (table.text)
        source->text = (struct tft_text){ table.name ? table.name : "text", table.text, table.text_bytes };
    if (!table.columns)
        return HALAY_OK;
    source->frame = frame;
    return copy_columns(t, &table, frame);
}

enum halay_status tft_session_text(struct halay_tft *t, json_t *document, char **text)
{
    char *made = document ? json_dumps(document, JSON_COMPACT) : NULL;

    json_decref(document);
    if (!made)
        return halay_no_memory(&t->log, "for a description");
    *text = made;
    return HALAY_OK;
}

enum halay_status tft_session_copy(struct halay_tft *t, const char *from, char **text)
{
    char *made = strdup(from);

    if (!made)
        return halay_no_memory(&t->log, "for a text");
    *text = made;
    return HALAY_OK;
}

enum halay_status tft_session_give(struct halay_tft *t, json_t *document, char **text)
{
    *text = NULL;
    if (t->rank == 0)
        return tft_session_text(t, document, text);
    json_decref(document);
    return HALAY_OK;
}

enum halay_status tft_session_word(struct halay_tft *t, const char *what, const char *word, const char *const *words,
                                   int absent, int *number)
{
    char list[200] = "";

    *number = absent;
    if (!word)
        return HALAY_OK;
    for (int i = 0; words[i]; i++) {
        size_t used = strlen(list);
        if (!strcmp(word, words[i])) {
            *number = i;
            return HALAY_OK;
        }
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    }
    return halay_fail(&t->log, HALAY_ERR_ARGUMENT, "%s is '%.40s', not one of %s", what, word, list);
}

enum halay_status tft_session_format(struct halay_tft *t, const char *format, const char *file, int *is_jsonl)
{
    static const char *const formats[] = { "csv", "jsonl", NULL };
    const char *dot = file ? strrchr(file, '.') : NULL;

    return tft_session_word(t, "format", format, formats, dot && (!strcmp(dot, ".jsonl") || !strcmp(dot, ".json")),
                            is_jsonl);
}
