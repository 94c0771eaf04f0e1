/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server counts, as Prometheus' text. Any thread may count; a reader sees each number as it is.
 */
#ifndef HALAY_TFT_SERVE_METRICS_H
#define HALAY_TFT_SERVE_METRICS_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { SERVE_CODES = 8, SERVE_BUCKETS = 12 };

/* Zero-initialised, then init. Atomics are all relaxed: each is a number by itself. */
struct serve_metrics {
    _Atomic uint64_t answers[SERVE_CODES];                   /* by code, serve_metric_codes */
    _Atomic uint64_t buckets[SERVE_BUCKETS], time_us, timed; /* from a request's last byte to its answer */
    _Atomic uint64_t windows, batches, forecast_us;
    _Atomic uint64_t loads, failed_loads;
    _Atomic uint64_t waiting; /* requests */
    _Atomic int64_t step;     /* of the model */
    pthread_mutex_t lock;
    json_t *inputs; /* owned, guarded by lock: of halay_tft_model_inputs; NULL: none */
};

void serve_metrics_init(struct serve_metrics *metrics);
void serve_metrics_fini(struct serve_metrics *metrics);

void serve_metrics_answer(struct serve_metrics *metrics, int code, int64_t took_us);

/* The document of halay_tft_model_inputs; NULL: none yet. */
void serve_metrics_inputs(struct serve_metrics *metrics, const char *json);

/* The text, to be freed; NULL: no memory. */
char *serve_metrics_text(struct serve_metrics *metrics, size_t *size);

#endif
