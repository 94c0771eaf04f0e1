/* SPDX-License-Identifier: Apache-2.0
 *
 * Batcher. The list of those that wait is the only thing that threads share, but for the next model. Cleanup: zeroed
 * first, destroy accepts half-built.
 */
#include "tft/tools/serve/batcher.h"
#include "base/clock.h"
#include "tft/tools/serve/answer.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct serve_batcher {
    struct halay_log *log;         /* borrowed, as metrics */
    struct serve_metrics *metrics; /* borrowed */
    size_t most, batch;
    const char *calibrate; /* borrowed */
    int64_t timeout_us;
    struct serve_model *model; /* owned; the thread's, as the next two */
    size_t most_bytes;         /* of the bodies that are taken now */
    int64_t between_us;        /* spent on batches between slices of others */
    pthread_t thread;
    int has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct serve_waiting *first, **last; /* guarded by lock, as what follows */
    size_t count;
    struct serve_model *next; /* owned; NULL: none */
    int is_stopping, refuses;
};

/* Requests that are forecast together. */
struct batch {
    struct serve_waiting *first; /* owned */
    struct halay_tft_queries all;
    struct halay_tft_query *queries; /* owned */
    size_t size;                     /* of these */
};

enum { READ_BYTES = 1 << 20 };  /* of bodies that are read before a batch, and one more */
enum { SHORTER = 16 };          /* times, than the longest body of a batch, are those that come between its slices */
enum { SHORT_BYTES = 4 << 10 }; /* bodies up to here are alike */

static void free_waiting(struct serve_waiting *w)
{
    serve_request_fini(&w->request);
    free(w);
}

/* ---- answers ---- */

/* One has been answered with this code. */
static void end_waiting(struct serve_batcher *b, struct serve_waiting *w, int code)
{
    serve_metrics_answer(b->metrics, code, halay_now_us() - w->begun_us);
    free_waiting(w);
}

static void refuse_waiting(struct serve_batcher *b, struct serve_waiting *w, int code, const char *reason)
{
    end_waiting(b, w, serve_answer_refusal(w->exchange, code, reason));
}

/* The first query of a request that failed; count: none. */
static size_t find_failed(const struct halay_tft_query *queries, size_t count)
{
    size_t i = 0;

    while (i < count && !queries[i].status)
        i++;
    return i;
}

static int answer_failed(const struct serve_waiting *w, const struct halay_tft_query *queries, size_t failed)
{
    const struct halay_tft_query *q = &queries[failed];
    struct serve_error error;

    serve_error_of_query(&w->request, failed, q, &error);
    if (q->status == HALAY_ERR_NO_MEMORY)
        error.code = 503;
    else if (q->status == HALAY_ERR_SYSTEM)
        error.code = 500;
    else if (q->status == HALAY_ERR_UNSUPPORTED)
        error.code = 413; /* gaps that are far larger than the rows */
    return serve_answer_error(w->exchange, &error);
}

static void answer_all(struct serve_batcher *b, struct batch *batch)
{
    const struct halay_tft_query *q = batch->queries;

    for (struct serve_waiting *w = batch->first, *next; w; w = next) {
        const size_t count = w->request.count, failed = find_failed(q, count);
        next = w->next;
        for (size_t i = 0; failed == count && i < count; i++)
            atomic_fetch_add_explicit(&b->metrics->windows, q[i].windows, memory_order_relaxed);
        q += count;
        end_waiting(b, w,
                    failed < count ? answer_failed(w, q - count, failed)
                                   : serve_answer(w->exchange, w->form, q - count, count, b->model->step_text));
    }
    batch->first = NULL;
}

/* All of them fail together. Only options that the model does not have are the requests' fault. */
static void refuse_all(struct serve_batcher *b, struct batch *batch, enum halay_status status)
{
    struct serve_error error = { .code = status == HALAY_ERR_ARGUMENT || status == HALAY_ERR_FORMAT ? 400
                                         : status == HALAY_ERR_NO_MEMORY                            ? 503
                                                                                                    : 500 };

    snprintf(error.reason, sizeof error.reason, "%s", halay_tft_error_text());
    if (error.code != 400)
        halay_warning(b->log, "a forecast failed: %s", error.reason);
    for (struct serve_waiting *w = batch->first, *next; w; w = next) {
        next = w->next;
        end_waiting(b, w, serve_answer_error(w->exchange, &error));
    }
    batch->first = NULL;
}

/* ---- forecasts ---- */

static void forecast_between(void *batcher);

static int make_queries(struct serve_batcher *b, struct batch *batch)
{
    size_t count = 0;

    for (const struct serve_waiting *w = batch->first; w; w = w->next)
        count += w->request.count;
    if (count > batch->size) {
        free(batch->queries);
        batch->queries = malloc(count * sizeof *batch->queries);
        batch->size = batch->queries ? count : 0;
        if (!batch->queries)
            return 0;
    }
    memset(batch->queries, 0, count * sizeof *batch->queries);
    struct halay_tft_query *q = batch->queries;
    for (struct serve_waiting *w = batch->first; w; w = w->next)
        for (size_t i = 0; i < w->request.count; i++, q++) {
            struct serve_instance *instance = &w->request.instances[i];
            q->table = &instance->table;
            if (instance->has_future)
                q->future = &instance->future;
            else if (b->model->needs_future)
                q->future = q->table;
        }
    const struct serve_options *o = &batch->first->request.options;
    batch->all = (struct halay_tft_queries){ .struct_size = sizeof batch->all,
                                             .queries = batch->queries,
                                             .count = count,
                                             .query_bytes = sizeof *batch->queries,
                                             .calibrate = *o->calibrate ? o->calibrate : NULL,
                                             .format = batch->first->form == SERVE_CSV ? "csv" : "jsonl",
                                             .explains = o->explains,
                                             .quantiles = o->quantile_count ? o->quantiles : NULL,
                                             .quantile_count = o->quantile_count,
                                             .between = forecast_between,
                                             .arg = b };
    return 1;
}

/* Publishes the statistics of the model's inputs to the metrics. */
static void publish_inputs(struct serve_batcher *b)
{
    char *json = NULL;

    if (!halay_tft_model_inputs(b->model->model, &json))
        serve_metrics_inputs(b->metrics, json);
    halay_tft_free(json);
}

static size_t longest_body(const struct batch *batch)
{
    size_t longest = 0;

    for (const struct serve_waiting *w = batch->first; w; w = w->next)
        longest = w->bytes > longest ? w->bytes : longest;
    return longest;
}

static void forecast_batch(struct serve_batcher *b, struct batch *batch)
{
    const int64_t begun = halay_now_us(), before_us = b->between_us;
    const size_t most_bytes = b->most_bytes;

    if (!make_queries(b, batch)) {
        for (struct serve_waiting *w = batch->first, *next; w; w = next) {
            next = w->next;
            refuse_waiting(b, w, 503, "no memory for the request");
        }
        return;
    }
    atomic_fetch_add_explicit(&b->metrics->batches, 1, memory_order_relaxed);
    b->most_bytes = longest_body(batch) / SHORTER;
    enum halay_status status = halay_tft_forecast_queries(b->model->model, &batch->all);
    b->most_bytes = most_bytes;
    atomic_fetch_add_explicit(&b->metrics->forecast_us,
                              (uint64_t)(halay_now_us() - begun - (b->between_us - before_us)), memory_order_relaxed);
    if (!status)
        publish_inputs(b); /* before the answers, so that a client that has one sees them */
    if (status)
        refuse_all(b, batch, status);
    else
        answer_all(b, batch);
    halay_tft_queries_clear(&batch->all);
}

/* ---- the list ---- */

/* Read a body; shorter ones come between its parts. Returns the code of a refusal that was given, or 0. */
static int read_body(struct serve_batcher *b, struct serve_waiting *w)
{
    struct serve_body body = { .form = w->asked, .between = forecast_between, .arg = b };
    const size_t most_bytes = b->most_bytes;
    struct serve_error error;

    w->is_read = 1;
    if (halay_now_us() - w->begun_us > b->timeout_us) /* drop_old refuses it */
        return 0;
    body.bytes = halay_http_body(w->exchange, &body.count);
    b->most_bytes = body.count / SHORTER;
    const int good = serve_request_read(&body, &w->words, &w->request, &error);
    b->most_bytes = most_bytes;
    if (!good)
        return serve_answer_error(w->exchange, &error);
    struct serve_options *o = &w->request.options;
    if (o->explains && w->form == SERVE_CSV)
        return serve_answer_refusal(
            w->exchange, 406, "explanations come with JSON or JSON lines: 'Accept: application/json' asks for these");
    if (!*o->calibrate && b->calibrate)
        snprintf(o->calibrate, sizeof o->calibrate, "%s", b->calibrate);
    return 0;
}

/* Finds the first request that may be taken now and is not read; NULL if those before it fill a batch, or all are
 * read. */
static struct serve_waiting *find_unread_locked(const struct serve_batcher *b)
{
    size_t tables = 0;

    for (struct serve_waiting *w = b->first; w && tables < b->batch; w = w->next) {
        if (w->bytes > b->most_bytes)
            continue;
        if (!w->is_read)
            return w;
        tables += w->request.count;
    }
    return NULL;
}

static void remove_locked(struct serve_batcher *b, const struct serve_waiting *w)
{
    struct serve_waiting **at = &b->first;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (b->last == &w->next)
        b->last = at;
    b->count--;
}

/* Read what waits and may be taken now, in order, until there is enough for a batch. While one is read others are
 * appended to the list, and taken from it. */
static void read_some(struct serve_batcher *b)
{
    struct serve_waiting *w;
    size_t bytes = 0;

    pthread_mutex_lock(&b->lock);
    while (bytes < READ_BYTES && (w = find_unread_locked(b))) {
        bytes += w->bytes;
        pthread_mutex_unlock(&b->lock);
        const int code = read_body(b, w);
        pthread_mutex_lock(&b->lock);
        if (!code)
            continue;
        remove_locked(b, w);
        pthread_mutex_unlock(&b->lock);
        end_waiting(b, w, code);
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
}

/* Returns nonzero if the bodies' lengths are close enough that the shorter one's request may wait for the longer. */
static int is_alike(const struct serve_waiting *a, const struct serve_waiting *b)
{
    const size_t shorter = a->bytes < b->bytes ? a->bytes : b->bytes,
                 longer = a->bytes < b->bytes ? b->bytes : a->bytes;

    return longer / SHORTER <= (shorter > SHORT_BYTES ? shorter : SHORT_BYTES);
}

/* Takes the first request that may be taken now and, in order, those that can be forecast with it. NULL if none waits,
 * or if the first is not read. */
static struct serve_waiting *take_batch_locked(struct serve_batcher *b)
{
    struct serve_waiting **from = &b->first, *first, *w;

    while ((first = *from) && first->bytes > b->most_bytes)
        from = &first->next;
    if (!first || !(first->is_read || b->refuses))
        return NULL;
    struct serve_waiting **to = &first->next;
    size_t tables = first->request.count;
    *from = first->next;
    b->count--;
    for (struct serve_waiting **at = from; (w = *at);) {
        const int fits = w->is_read && w->bytes <= b->most_bytes && is_alike(w, first) &&
                         tables + w->request.count <= b->batch &&
                         (w->form == SERVE_CSV) == (first->form == SERVE_CSV) &&
                         serve_options_equal(&w->request.options, &first->request.options);
        if (!fits) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        *to = w;
        to = &w->next;
        tables += w->request.count;
        b->count--;
    }
    *to = NULL;
    b->last = &b->first;
    while (*b->last)
        b->last = &(*b->last)->next;
    return first;
}

/* Those of a batch that have not waited too long; the others are refused. */
static struct serve_waiting *drop_old(struct serve_batcher *b, struct serve_waiting *first, int refuses)
{
    const int64_t now = halay_now_us();
    struct serve_waiting *kept = NULL, **to = &kept;

    for (struct serve_waiting *w = first, *next; w; w = next) {
        next = w->next;
        w->next = NULL;
        if (refuses) {
            refuse_waiting(b, w, 503, "the server is stopping");
        } else if (now - w->begun_us > b->timeout_us) {
            refuse_waiting(b, w, 504, "the request has waited too long for its forecast");
        } else {
            *to = w;
            to = &w->next;
        }
    }
    return kept;
}

/* Take a batch of what waits. NULL: nothing may be taken now, or all of it is refused. */
static struct serve_waiting *take_batch(struct serve_batcher *b)
{
    pthread_mutex_lock(&b->lock);
    int refuses = b->refuses;
    pthread_mutex_unlock(&b->lock);
    if (!refuses)
        read_some(b);
    pthread_mutex_lock(&b->lock);
    refuses = b->refuses;
    struct serve_waiting *first = take_batch_locked(b);
    atomic_store_explicit(&b->metrics->waiting, b->count, memory_order_relaxed);
    pthread_mutex_unlock(&b->lock);
    return drop_old(b, first, refuses);
}

/* Between two slices of a batch, one of shorter requests. */
static void forecast_between(void *batcher)
{
    struct serve_batcher *b = batcher;
    const int64_t begun = halay_now_us(), before_us = b->between_us;
    struct batch batch = { .first = take_batch(b) };

    if (batch.first)
        forecast_batch(b, &batch);
    free(batch.queries);
    b->between_us = before_us + (halay_now_us() - begun); /* with the batches between its own slices */
}

/* Wait for requests or another model, and take both. *is_over: nothing will come any more. */
static struct serve_waiting *wait_for_batch(struct serve_batcher *b, int *is_over)
{
    pthread_mutex_lock(&b->lock);
    while (!b->first && !b->next && !b->is_stopping)
        pthread_cond_wait(&b->changed, &b->lock);
    struct serve_model *next = b->next;
    b->next = NULL;
    *is_over = !b->first && b->is_stopping;
    pthread_mutex_unlock(&b->lock);
    if (next) {
        serve_model_close(b->model);
        b->model = next;
        serve_metrics_inputs(b->metrics, NULL);
        atomic_store_explicit(&b->metrics->step, next->step, memory_order_relaxed);
    }
    return take_batch(b);
}

static void *run_batches(void *arg)
{
    struct serve_batcher *b = arg;
    struct batch batch = { 0 };
    int is_over = 0;

    while (!is_over) {
        batch.first = wait_for_batch(b, &is_over);
        if (batch.first)
            forecast_batch(b, &batch);
    }
    free(batch.queries);
    return NULL;
}

/* ---- from other threads ---- */

enum halay_status serve_batcher_start(struct halay_log *log, struct serve_metrics *metrics, struct serve_model *model,
                                      size_t most, size_t batch, const char *calibrate, int64_t timeout_us,
                                      struct serve_batcher **batcher)
{
    struct serve_batcher *b = calloc(1, sizeof *b);

    if (!b) {
        halay_error(log, "no memory for the server");
        serve_model_close(model);
        return HALAY_ERR_NO_MEMORY;
    }
    *b = (struct serve_batcher){ .log = log,
                                 .metrics = metrics,
                                 .most = most,
                                 .batch = batch,
                                 .calibrate = calibrate,
                                 .timeout_us = timeout_us,
                                 .model = model,
                                 .most_bytes = SIZE_MAX,
                                 .last = &b->first };
    pthread_mutex_init(&b->lock, NULL); /* with default attributes these cannot fail */
    pthread_cond_init(&b->changed, NULL);
    atomic_store_explicit(&metrics->step, model->step, memory_order_relaxed);
    const int failed = pthread_create(&b->thread, NULL, run_batches, b);
    b->has_thread = !failed;
    if (!failed) {
        *batcher = b;
        return HALAY_OK;
    }
    halay_error(log, "cannot start the thread that forecasts: %s", strerror(failed));
    serve_batcher_destroy(b);
    return HALAY_ERR_SYSTEM;
}

int serve_batcher_add(struct serve_batcher *b, struct serve_waiting *w)
{
    halay_http_body(w->exchange, &w->bytes);
    pthread_mutex_lock(&b->lock);
    const int fits = b->count < b->most && !b->is_stopping;
    if (fits) {
        w->next = NULL;
        *b->last = w;
        b->last = &w->next;
        b->count++;
        atomic_store_explicit(&b->metrics->waiting, b->count, memory_order_relaxed);
        pthread_cond_signal(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return fits;
}

void serve_batcher_swap(struct serve_batcher *b, struct serve_model *model)
{
    pthread_mutex_lock(&b->lock);
    struct serve_model *unused = b->next;
    b->next = model;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    serve_model_close(unused);
}

void serve_batcher_stop(struct serve_batcher *b, int refuses)
{
    pthread_mutex_lock(&b->lock);
    b->is_stopping = 1;
    b->refuses = refuses;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    if (b->has_thread)
        pthread_join(b->thread, NULL);
    b->has_thread = 0;
}

void serve_batcher_destroy(struct serve_batcher *b)
{
    if (!b)
        return;
    if (b->has_thread)
        serve_batcher_stop(b, 1);
    serve_model_close(b->next);
    serve_model_close(b->model);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
