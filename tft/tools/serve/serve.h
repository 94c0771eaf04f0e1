/* SPDX-License-Identifier: Apache-2.0
 *
 * Serve: forecasts by HTTP, until a signal ends it.
 *
 *     GET  /ping                  200 once a model is there, 503 while the server stops
 *     POST /invocations           forecasts (tft/tools/serve/request.h, tft/tools/serve/answer.h)
 *     GET  /metrics               Prometheus' text
 *     GET  /openapi.json          all of this as OpenAPI 3.0
 *     GET  /execution-parameters  for SageMaker's batch transform
 *
 * Threads: the caller's waits for signals and loads newer models; libmicrohttpd's takes requests; the batcher's reads
 * their bodies and forecasts. SIGTERM and SIGINT end the server: it takes no new connection, answers what it has taken,
 * and closes.
 */
#ifndef HALAY_TFT_SERVE_H
#define HALAY_TFT_SERVE_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>

struct serve_config {
    const char *run, *where, *device; /* device: NULL: as in halay_tft_options */
    const char *token;                /* asked of every request; NULL: none */
    int is_open;                      /* without a token other hosts may ask, too */
    const char *calibrate;            /* of requests that do not say; NULL: as the model was trained */
    size_t queue;                     /* requests that may wait */
    size_t batch;                     /* tables that are forecast together */
    size_t body_bytes;                /* of a request, at most; */
    size_t connections;               /* at once */
    int timeout_s;                    /* for a request to arrive, and to wait for its forecast */
    int grace_s;                      /* after SIGTERM, to answer */
};

/* Serve until SIGTERM or SIGINT. Says on standard output where, and which model. Returns HALAY_OK after a signal;
 * other errors are logged. */
enum halay_status serve_run(struct halay_log *log, const struct serve_config *config);

/* The OpenAPI document. */
extern const char serve_openapi[];

#endif
