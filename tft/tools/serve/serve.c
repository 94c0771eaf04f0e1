/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's routes, and its life. Signals are blocked in all threads, and taken by the caller's between two looks at
 * the run's folder.
 */
#include "tft/tools/serve/serve.h"
#include "base/clock.h"
#include "base/http/http.h"
#include "tft/tools/serve/answer.h"
#include "tft/tools/serve/batcher.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { BODIES = 8, ANSWERS = 4 * BODIES, LOOK_MS = 1000, PAUSE_MS = 5 };

struct server {
    struct halay_log *log;
    const struct serve_config *config;
    struct serve_metrics metrics;
    struct serve_batcher *batcher;
    struct halay_http_server *http;
    _Atomic int is_stopping; /* relaxed: requests of that moment may be taken or not */
    /* The caller's thread: which files the model in use was loaded from, what was seen last, and what did not load. */
    uint64_t stamp, seen, refused;
};

/* ---- routes ---- */

static int is_stopping(struct server *s)
{
    return atomic_load_explicit(&s->is_stopping, memory_order_relaxed);
}

static void answer_text(struct halay_http_exchange *exchange, int code, const char *type, const char *text)
{
    halay_http_answer(exchange, &(struct halay_http_answer){
                                    .status = code, .content_type = type, .body = text, .size = strlen(text) });
}

static void answer_ping(void *arg, struct halay_http_exchange *exchange)
{
    struct server *s = arg;
    char text[80];

    snprintf(text, sizeof text, "{\"status\":\"%s\",\"step\":%lld}\n", is_stopping(s) ? "stopping" : "ready",
             (long long)atomic_load_explicit(&s->metrics.step, memory_order_relaxed));
    answer_text(exchange, is_stopping(s) ? 503 : 200, "application/json", text);
}

static void answer_metrics(void *arg, struct halay_http_exchange *exchange)
{
    struct server *s = arg;
    size_t size;
    char *text = serve_metrics_text(&s->metrics, &size);

    if (text)
        answer_text(exchange, 200, "text/plain; version=0.0.4", text);
    else
        serve_answer_refusal(exchange, 503, "no memory for the answer");
    free(text);
}

static void answer_openapi(void *arg, struct halay_http_exchange *exchange)
{
    (void)arg;
    answer_text(exchange, 200, "application/json", serve_openapi);
}

static void answer_parameters(void *arg, struct halay_http_exchange *exchange)
{
    const struct server *s = arg;
    char text[160];

    snprintf(text, sizeof text,
             "{\"MaxConcurrentTransforms\":%zu,\"BatchStrategy\":\"SINGLE_RECORD\",\"MaxPayloadInMB\":%zu}\n",
             s->config->batch, s->config->body_bytes >> 20);
    answer_text(exchange, 200, "application/json", text);
}

/* Reads the head. Returns the code of a refusal that was sent, or 0. */
static int read_head(struct halay_http_exchange *exchange, enum serve_form *form, enum serve_form *answer)
{
    const char *type = halay_http_header(exchange, "Content-Type");
    const char *coding = halay_http_header(exchange, "Content-Encoding");

    *form = serve_form_of(type ? type : "");
    if (*form == SERVE_FORMS)
        return serve_answer_refusal(exchange, 415,
                                    "the content type is not one of text/csv, application/json, application/jsonlines, "
                                    "in UTF-8");
    if (coding && *coding && strcasecmp(coding, "identity"))
        return serve_answer_refusal(exchange, 415, "a body with a content encoding is not understood");
    *answer = serve_form_accepted(halay_http_header(exchange, "Accept"), *form);
    if (*answer == SERVE_FORMS)
        return serve_answer_refusal(exchange, 406,
                                    "no type of Accept is text/csv, application/json or application/jsonlines");
    return 0;
}

static void answer_invocations(void *arg, struct halay_http_exchange *exchange)
{
    struct server *s = arg;
    const int64_t begun = halay_now_us();
    struct serve_waiting *w = calloc(1, sizeof *w);
    int code;

    if (!w) {
        code = serve_answer_refusal(exchange, 503, "no memory for the request");
    } else {
        w->exchange = exchange;
        w->begun_us = begun;
        w->words = (struct serve_words){ .name = halay_http_query(exchange, "name"),
                                         .explain = halay_http_query(exchange, "explain"),
                                         .calibrate = halay_http_query(exchange, "calibrate"),
                                         .quantiles = halay_http_query(exchange, "quantiles") };
        code = read_head(exchange, &w->asked, &w->form);
        if (!code && serve_batcher_add(s->batcher, w))
            return;
        if (!code)
            code = serve_answer_refusal(exchange, 503,
                                        is_stopping(s) ? "the server is stopping"
                                                       : "too many requests are waiting; try again later");
    }
    free(w);
    serve_metrics_answer(&s->metrics, code, halay_now_us() - begun);
}

static const struct halay_http_route routes[] = {
    { "GET", "/ping", answer_ping },
    { "POST", "/invocations", answer_invocations },
    { "GET", "/metrics", answer_metrics },
    { "GET", "/openapi.json", answer_openapi },
    { "GET", "/execution-parameters", answer_parameters },
};

/* ---- models ---- */

/* Load what the folder holds now, and use it if it is good. */
static void load_again(struct server *s, uint64_t stamp)
{
    struct serve_model *model;

    if (serve_model_load(s->log, s->config->run, s->config->device, s->config->calibrate, &model)) {
        halay_warning(s->log, "'%s' has changed, but what it holds is not used", s->config->run);
        atomic_fetch_add_explicit(&s->metrics.failed_loads, 1, memory_order_relaxed);
        s->refused = stamp;
        return;
    }
    s->stamp = stamp;
    s->refused = 0;
    atomic_fetch_add_explicit(&s->metrics.loads, 1, memory_order_relaxed);
    printf("the model of step %lld is in use\n", model->step);
    fflush(stdout);
    serve_batcher_swap(s->batcher, model);
}

/* A change is taken once nothing changes any more, so that all files of a model have come. */
static void look_at_folder(struct server *s)
{
    const uint64_t stamp = serve_model_stamp(s->config->run);
    const int is_new = stamp && stamp != s->stamp && stamp != s->refused, is_still = stamp == s->seen;

    s->seen = stamp;
    if (is_new && is_still)
        load_again(s, stamp);
}

/* ---- life ---- */

static enum halay_status open_all(struct server *s)
{
    const struct serve_config *c = s->config;
    const struct halay_http_config http = { .where = c->where,
                                            .token = c->token,
                                            .asks_for = c->is_open ? NULL : "--token-file, or --insecure",
                                            .routes = routes,
                                            .route_count = sizeof routes / sizeof *routes,
                                            .connections = c->connections,
                                            .body_bytes = c->body_bytes,
                                            .all_body_bytes = BODIES * c->body_bytes,
                                            .all_answer_bytes = ANSWERS * c->body_bytes,
                                            .idle_s = c->timeout_s,
                                            .request_s = c->timeout_s,
                                            .has_thread = 1,
                                            .arg = s };
    struct serve_model *model;

    s->stamp = s->seen = serve_model_stamp(c->run);
    enum halay_status status = serve_model_load(s->log, c->run, c->device, c->calibrate, &model);
    if (status)
        return status;
    const long long step = model->step;
    atomic_store_explicit(&s->metrics.loads, 1, memory_order_relaxed);
    status = serve_batcher_start(s->log, &s->metrics, model, c->queue, c->batch, c->calibrate,
                                 (int64_t)c->timeout_s * 1000000, &s->batcher);
    if (!status)
        status = halay_http_open(s->log, &http, &s->http);
    if (status)
        return status;
    printf("serving '%s' (step %lld) at %s\n", c->run, step, halay_http_where(s->http));
    fflush(stdout);
    return HALAY_OK;
}

/* Answer what has been taken, for as long as the grace lasts; the rest is refused. */
static void stop_server(struct server *s)
{
    const int64_t end = halay_now_us() + (int64_t)s->config->grace_s * 1000000;

    atomic_store_explicit(&s->is_stopping, 1, memory_order_relaxed);
    halay_http_quiesce(s->http);
    while (halay_http_exchanges(s->http) && halay_now_us() < end)
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000 }, NULL);
    serve_batcher_stop(s->batcher, halay_now_us() >= end);
}

static void wait_for_signals(struct server *s, const sigset_t *signals)
{
    const struct timespec look = { LOOK_MS / 1000, LOOK_MS % 1000 * 1000000 };

    for (;;) {
        const int number = sigtimedwait(signals, NULL, &look);
        if (number == SIGTERM || number == SIGINT)
            return;
        if (number == SIGHUP)
            load_again(s, serve_model_stamp(s->config->run));
        else
            look_at_folder(s);
    }
}

enum halay_status serve_run(struct halay_log *log, const struct serve_config *config)
{
    struct server s = { .log = log, .config = config };
    sigset_t signals, before;

    serve_metrics_init(&s.metrics);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, &before); /* cannot fail: the set is good */
    enum halay_status status = open_all(&s);
    if (!status) {
        wait_for_signals(&s, &signals);
        stop_server(&s);
    }
    halay_http_close(s.http);
    serve_batcher_destroy(s.batcher);
    serve_metrics_fini(&s.metrics);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}
