/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries, group by group, so that memory does not grow with their number. The tables of a group are read one by one,
 * so that a malformed one fails alone; the data of the others are joined and forecast as one list of windows, and each
 * window's line is appended to its query's text. Zero-initialised; fini accepts partly initialised.
 */
#include "base/memory.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include "tft/core/data/data.h"
#include "tft/core/score/forecast_file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A text that is being written. */
struct text {
    FILE *file;
    char *bytes; /* owned once the file is closed */
    size_t count;
};

/* A query during the call. */
struct asked {
    struct halay_tft_query *query; /* borrowed */
    struct tft_data data;          /* owned; empty once it failed */
    size_t end;                    /* the number of the entity after its own in the joined data */
    struct text forecasts, explanations;
};

enum { QUERIES_READ = 8 };    /* between two calls of the program's function */
enum { QUERIES_GROUP = 256 }; /* at once: each takes some tens of kilobytes besides its rows */

struct work {
    struct halay_tft_model *model;
    struct halay_tft_queries given; /* with the group's queries */
    struct asked *asked;            /* owned: (count) */
    size_t current;                 /* the query of the next window */
    struct tft_windows windows;
    struct tft_weight_reader reader;
    struct tft_forecast_file file;
    struct tft_explain_file look;
    size_t chosen[TFT_SCORE_QUANTILES_MAX];
};

static struct halay_tft_query *query_at(const struct halay_tft_queries *q, size_t i)
{
    return (struct halay_tft_query *)(void *)((char *)q->queries + i * q->query_bytes);
}

/* ---- calls in between ---- */

/* Lets the program use the model between two parts of the work. The call's state in the model is set aside during this
 * time and restored at the same address, which the windows point to. */
static void let_between(void *arg)
{
    struct work *w = arg;
    struct tft_inference *s = &w->model->inference;
    struct halay_tft *t = w->model->tft;
    const struct tft_data data = s->data;
    const struct tft_calibrator calibrator = s->calibrator;
    const int owns_data = w->model->owns_data;

    memset(&s->data, 0, sizeof s->data);
    memset(&s->calibrator, 0, sizeof s->calibrator);
    w->model->owns_data = 0;
    s->between = NULL;
    t->stopped = 0;
    w->given.between(w->given.arg);
    s->between = let_between;
    s->between_arg = w;
    s->data = data;
    s->calibrator = calibrator;
    w->model->owns_data = owns_data;
    tft_session_enter(t); /* forgets the errors of the calls between */
    if (t->stopped)
        tft_stop_ask(&t->stop, t->stopped); /* one of them took the request, which is for this call, too */
}

/* ---- errors of one query ---- */

/* Gives a query its status and its error, which is the session's last one. */
static enum halay_status fail_query(struct work *w, struct asked *a, enum halay_status status)
{
    struct halay_tft_query *q = a->query;
    struct halay_error_record error;

    halay_log_copy_error(&w->model->tft->log, &error);
    tft_data_end(&a->data);
    q->status = status;
    q->row = error.row;
    status = tft_session_copy(w->model->tft, error.text, &q->error);
    if (!status && *error.subject)
        status = tft_session_copy(w->model->tft, error.subject, &q->subject);
    if (!status && *error.column)
        status = tft_session_copy(w->model->tft, error.column, &q->column);
    return status;
}

static enum halay_status check_windows(const struct work *w, const struct tft_data *d, size_t *filled)
{
    const struct tft_inference *s = &w->model->inference;
    struct tft_windows windows = { 0 };
    enum halay_status status = tft_windows_init_last(s->log, d, &windows);

    for (size_t e = 0; e < d->entity_count && !status; e++) {
        const size_t all = d->entities[e].rows, rows = all > d->schema.horizon ? all - d->schema.horizon : 0;
        const size_t at = tft_windows_before(&windows, e);
        struct tft_window window = { 0 };
        if (at != tft_windows_before(&windows, e + 1))
            window = tft_windows_get(&windows, at);
        if (window.length >= d->schema.min_encoder) {
            *filled += (size_t)tft_window_is_filled(d, &window);
            continue;
        }
        status = rows < d->schema.min_encoder
                     ? halay_fail(s->log, HALAY_ERR_FORMAT, "'%s' has %zu rows, the model looks back over at least %zu",
                                  d->entities[e].id, rows, d->schema.min_encoder)
                     : halay_fail(s->log, HALAY_ERR_FORMAT, "'%s': a value with 'fill: drop' is missing near its end",
                                  d->entities[e].id);
    }
    tft_windows_fini(&windows);
    return status;
}

/* Returns an error only if it is not the query's own. */
static enum halay_status read_query(struct work *w, struct asked *a)
{
    const struct tft_model_rows rows = {
        .table = a->query->table, .is_at_end = 1, .future = a->query->future, .is_whole = 1
    };
    enum halay_status status;

    a->query->filled = 0;
    if ((status = tft_model_read_data(w->model, &rows, &a->data)) ||
        (status = check_windows(w, &a->data, &a->query->filled)))
        return fail_query(w, a, status);
    a->query->windows = a->data.entity_count;
    return HALAY_OK;
}

/* ---- all queries ---- */

static enum halay_status read_queries(struct work *w)
{
    struct halay_tft *t = w->model->tft;
    enum halay_status status;

    for (size_t i = 0; i < w->given.count; i++) {
        tft_session_enter(t); /* forgets the previous query's error */
        if (tft_stop_asked(&t->stop))
            return HALAY_ERR_CANCELED;
        if ((status = read_query(w, &w->asked[i])))
            return status;
        if (w->given.between && (i + 1) % QUERIES_READ == 0 && i + 1 < w->given.count)
            let_between(w);
    }
    tft_session_enter(t);
    return HALAY_OK;
}

/* Joins the data of the readable queries as the model's data for the call. */
static enum halay_status join_queries(struct work *w)
{
    struct tft_inference *s = &w->model->inference;
    struct tft_data *parts = calloc(w->given.count + 1, sizeof *parts);
    size_t count = 0, entities = 0;

    if (!parts)
        return halay_no_memory(s->log, "for queries");
    parts[0] = (struct tft_data){ .schema = s->run.schema, .encoding = s->run.encoding };
    for (size_t i = 0; i < w->given.count; i++) {
        if (!w->asked[i].query->status)
            parts[count++] = w->asked[i].data;
        w->asked[i].end = entities += w->asked[i].data.entity_count;
    }
    enum halay_status status = tft_data_join(s->log, parts, count ? count : 1, &s->data);
    w->model->owns_data = !status;
    free(parts); /* the queries own their members */
    return status;
}

static enum halay_status open_text(struct work *w, struct text *text)
{
    text->file = open_memstream(&text->bytes, &text->count);
    if (text->file)
        return HALAY_OK;
    return halay_no_memory(&w->model->tft->log, "for forecasts");
}

static enum halay_status open_texts(struct work *w)
{
    enum halay_status status;

    for (size_t i = 0; i < w->given.count; i++) {
        struct asked *a = &w->asked[i];
        if (a->query->status)
            continue;
        if ((status = open_text(w, &a->forecasts)) || (w->given.explains && (status = open_text(w, &a->explanations))))
            return status;
        w->file.file = a->forecasts.file;
        w->look.file = a->explanations.file;
        tft_forecast_file_header(&w->file);
        tft_explain_file_header(&w->look);
    }
    return HALAY_OK;
}

/* Closes a text and gives it to the caller; a failed write means that memory ran out. */
static enum halay_status close_text(struct work *w, struct text *text, char **to)
{
    if (!text->file)
        return HALAY_OK;
    const int failed = ferror(text->file) | fclose(text->file);
    text->file = NULL;
    if (!failed) {
        *to = text->bytes;
        text->bytes = NULL;
        return HALAY_OK;
    }
    return halay_no_memory(&w->model->tft->log, "for forecasts");
}

static enum halay_status close_texts(struct work *w)
{
    enum halay_status status;

    for (size_t i = 0; i < w->given.count; i++) {
        struct asked *a = &w->asked[i];
        if ((status = close_text(w, &a->forecasts, &a->query->forecasts)) ||
            (status = close_text(w, &a->explanations, &a->query->explanations)))
            return status;
    }
    return HALAY_OK;
}

static enum halay_status take_window(void *arg, size_t position, const struct tft_window *window, const float *p)
{
    struct work *w = arg;
    const struct tft_list *q = w->file.quantiles;
    const size_t values = w->file.data->schema.horizon * w->file.data->schema.target_count * q->count;

    while (window->entity >= w->asked[w->current].end)
        w->current++;
    w->file.file = w->asked[w->current].forecasts.file;
    w->look.file = w->asked[w->current].explanations.file;
    enum halay_status status = tft_forecast_file_window(&w->file, position, window, p);
    return status ? status : tft_explain_file_window(&w->look, window, p + values);
}

static enum halay_status forecast_queries(struct work *w)
{
    struct tft_inference *s = &w->model->inference;
    struct tft_forecaster forecaster = { 0 };
    enum halay_status status = tft_windows_init_last(s->log, &s->data, &w->windows);

    if (status || !w->windows.count)
        return status;
    if (w->given.explains)
        status = tft_weight_reader_init(s->log, s->run.model, (size_t)tft_pool_threads(s->pool), &w->reader);
    w->file.data = w->look.data = &s->data;
    if (status || (status = open_texts(w)) ||
        (status = tft_inference_forecaster(s, &w->windows, tft_weight_numbers(&w->reader), &forecaster)))
        return status;
    forecaster.params = tft_run_future_params(&s->run);
    forecaster.ctx = NULL; /* of this rank alone */
    if (w->given.explains) {
        forecaster.look = tft_explain_file_look;
        forecaster.look_arg = &w->look;
    }
    if (!(status = tft_forecast(&forecaster, w->windows.count, take_window, w)))
        status = tft_profile_add(w->model->profile, &w->windows);
    tft_forecaster_fini(&forecaster);
    return status ? status : close_texts(w);
}

/* ---- the call ---- */

static enum halay_status choose_quantiles(struct work *w)
{
    const struct tft_list *q = &w->model->inference.run.config.quantiles;
    const size_t count = w->given.quantile_count;

    for (size_t i = 0; w->given.quantiles && i < count; i++) {
        size_t k = 0;
        while (k < q->count && fabs(q->values[k] - w->given.quantiles[i]) > 1e-9)
            k++;
        if (k == q->count || i == TFT_SCORE_QUANTILES_MAX)
            return halay_fail(&w->model->tft->log, HALAY_ERR_ARGUMENT, "the model does not forecast the quantile %g",
                              w->given.quantiles[i]);
        w->chosen[i] = k;
    }
    w->file.chosen = w->given.quantiles ? w->chosen : NULL;
    w->file.chosen_count = count;
    return HALAY_OK;
}

static enum halay_status begin_queries(struct work *w, int *calibrate)
{
    struct halay_tft *t = w->model->tft;
    struct tft_inference *s = &w->model->inference;
    int is_jsonl;
    enum halay_status status;

    if (w->given.count && (!w->given.queries || w->given.query_bytes < sizeof(struct halay_tft_query)))
        return halay_fail(&t->log, HALAY_ERR_ARGUMENT, "queries have a count and query_bytes");
    if ((status = tft_session_word(t, "calibrate", w->given.calibrate, tft_calibrate_words, -1, calibrate)) ||
        (status = tft_session_format(t, w->given.format, NULL, &is_jsonl)) || (status = choose_quantiles(w)))
        return status;
    w->file.quantiles = &s->run.config.quantiles;
    w->file.json = w->look.json = is_jsonl;
    w->look.log = s->log;
    w->look.reader = &w->reader;
    s->between = w->given.between ? let_between : NULL;
    s->between_arg = w;
    return HALAY_OK;
}

static void free_text(struct text *text)
{
    if (text->file)
        fclose(text->file); /* discarded */
    free(text->bytes);
}

static void group_fini(struct work *w)
{
    tft_model_return_data(w->model);
    for (size_t i = 0; w->asked && i < w->given.count; i++) {
        tft_data_end(&w->asked[i].data);
        free_text(&w->asked[i].forecasts);
        free_text(&w->asked[i].explanations);
    }
    free(w->asked);
    w->asked = NULL;
    tft_weight_reader_fini(&w->reader);
    tft_windows_fini(&w->windows);
}

static enum halay_status forecast_group(struct work *w, const struct halay_tft_queries *all, size_t first,
                                        int calibrate)
{
    w->given.queries = all->count ? query_at(all, first) : NULL;
    w->given.count = all->count - first < QUERIES_GROUP ? all->count - first : QUERIES_GROUP;
    w->current = 0;
    w->asked = calloc(w->given.count + 1, sizeof *w->asked);
    if (!w->asked)
        return halay_no_memory(&w->model->tft->log, "for queries");
    for (size_t i = 0; i < w->given.count; i++)
        w->asked[i].query = query_at(&w->given, i);
    enum halay_status status;
    if (!(status = read_queries(w)) && !(status = join_queries(w)) &&
        !(status = tft_model_calibrate(w->model, calibrate)))
        status = forecast_queries(w);
    group_fini(w);
    return status;
}

static enum halay_status forecast_groups(struct work *w, const struct halay_tft_queries *queries)
{
    int calibrate;
    size_t first = 0;
    enum halay_status status;

    if ((status = TFT_READ(w->model->tft, halay_tft_queries, queries, &w->given)) ||
        (status = begin_queries(w, &calibrate)))
        return status;
    const struct halay_tft_queries all = w->given;
    do {
        status = forecast_group(w, &all, first, calibrate);
        first += QUERIES_GROUP;
    } while (!status && first < all.count);
    w->model->inference.between = NULL;
    return status;
}

enum halay_status halay_tft_forecast_queries(struct halay_tft_model *model, const struct halay_tft_queries *queries)
{
    struct work w = { .model = model };

    if (!model || !queries)
        return tft_session_refuse_null("halay_tft_forecast_queries", "an argument");
    enum halay_status status = tft_model_enter(model); /* of this rank alone */
    return tft_session_leave_stopped(model->tft, status ? status : forecast_groups(&w, queries));
}

void halay_tft_queries_clear(const struct halay_tft_queries *queries)
{
    for (size_t i = 0; i < queries->count; i++) {
        struct halay_tft_query *q = query_at(queries, i);
        free(q->error);
        free(q->forecasts);
        free(q->explanations);
        free(q->subject);
        free(q->column);
        q->error = q->forecasts = q->explanations = q->subject = q->column = NULL;
        q->status = HALAY_OK;
        q->windows = q->filled = q->row = 0;
    }
}
