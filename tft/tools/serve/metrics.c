/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters and their text (version 0.0.4 of Prometheus' format).
 */
#include "tft/tools/serve/metrics.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const int codes[SERVE_CODES] = { 200, 400, 406, 415, 500, 503, 504, 0 }; /* 0: any other */
static const double bounds[SERVE_BUCKETS] = { .001, .0025, .005, .01, .015, .025, .05, .1, .25, 1, 5, 0 }; /* 0: none */

void serve_metrics_init(struct serve_metrics *m)
{
    pthread_mutex_init(&m->lock, NULL); /* with default attributes it cannot fail */
}

void serve_metrics_fini(struct serve_metrics *m)
{
    json_decref(m->inputs);
    pthread_mutex_destroy(&m->lock);
}

static void add_to(_Atomic uint64_t *number, uint64_t more)
{
    atomic_fetch_add_explicit(number, more, memory_order_relaxed);
}

static uint64_t load_count(_Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

void serve_metrics_answer(struct serve_metrics *m, int code, int64_t took_us)
{
    size_t i = 0, b = 0;

    while (codes[i] && codes[i] != code)
        i++;
    add_to(&m->answers[i], 1);
    while (b + 1 < SERVE_BUCKETS && (double)took_us > bounds[b] * 1e6)
        b++;
    add_to(&m->buckets[b], 1);
    add_to(&m->time_us, (uint64_t)took_us);
    add_to(&m->timed, 1);
}

void serve_metrics_inputs(struct serve_metrics *m, const char *json)
{
    json_t *inputs = json ? json_loads(json, 0, NULL) : NULL; /* NULL also without memory */

    pthread_mutex_lock(&m->lock);
    json_t *before = m->inputs;
    m->inputs = inputs;
    pthread_mutex_unlock(&m->lock);
    json_decref(before);
}

static void write_counter(FILE *to, const char *name, const char *help, double value)
{
    fprintf(to, "# HELP halay_tft_serve_%s %s\n# TYPE halay_tft_serve_%s counter\nhalay_tft_serve_%s %.15g\n", name,
            help, name, name, value);
}

static void write_gauge(FILE *to, const char *name, const char *help, double value)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s gauge\n%s %.15g\n", name, help, name, name, value);
}

static void write_answers(struct serve_metrics *m, FILE *to)
{
    static const char name[] = "halay_tft_serve_requests_total";

    fprintf(to, "# HELP %s Answered requests to /invocations, by status code.\n# TYPE %s counter\n", name, name);
    for (size_t i = 0; i < SERVE_CODES; i++)
        if (codes[i])
            fprintf(to, "%s{code=\"%d\"} %" PRIu64 "\n", name, codes[i], load_count(&m->answers[i]));
        else
            fprintf(to, "%s{code=\"other\"} %" PRIu64 "\n", name, load_count(&m->answers[i]));
}

static void write_times(struct serve_metrics *m, FILE *to)
{
    static const char name[] = "halay_tft_serve_request_seconds";
    uint64_t sum = 0;

    fprintf(to, "# HELP %s From a request's last byte to its answer.\n# TYPE %s histogram\n", name, name);
    for (size_t i = 0; i < SERVE_BUCKETS; i++) {
        sum += load_count(&m->buckets[i]);
        if (bounds[i] > 0)
            fprintf(to, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[i], sum);
        else
            fprintf(to, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
    }
    fprintf(to, "%s_sum %.6f\n%s_count %" PRIu64 "\n", name, (double)load_count(&m->time_us) / 1e6, name, sum);
}

static void write_label(FILE *to, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", to);
        else if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
}

static void write_of_inputs(const json_t *inputs, FILE *to, const char *name, const char *key, const char *help)
{
    const json_t *one;
    size_t i;

    if (json_array_size(inputs))
        fprintf(to, "# HELP halay_tft_serve_%s %s\n# TYPE halay_tft_serve_%s gauge\n", name, help, name);
    json_array_foreach(inputs, i, one) {
        fprintf(to, "halay_tft_serve_%s{input=\"", name);
        write_label(to, json_string_value(json_object_get(one, "input")));
        fprintf(to, "\"} %.9g\n", json_number_value(json_object_get(one, key)));
    }
}

static void write_inputs(struct serve_metrics *m, FILE *to)
{
    pthread_mutex_lock(&m->lock);
    write_of_inputs(m->inputs, to, "input_psi", "psi",
                    "How far values of requests are from the training's: the population stability index.");
    write_of_inputs(m->inputs, to, "input_outside", "outside",
                    "The share of values of requests beyond all that the training had of the entity.");
    pthread_mutex_unlock(&m->lock);
}

/* Bytes of memory that the process has. */
static double resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file && fscanf(file, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

char *serve_metrics_text(struct serve_metrics *m, size_t *size)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, size);

    if (!to)
        return NULL;
    write_answers(m, to);
    write_times(m, to);
    write_counter(to, "windows_total", "Forecast windows.", (double)load_count(&m->windows));
    write_counter(to, "batches_total", "Forecasts of one or more requests together.", (double)load_count(&m->batches));
    write_counter(to, "forecast_seconds_total", "Time in them.", (double)load_count(&m->forecast_us) / 1e6);
    write_counter(to, "model_loads_total", "Models taken into use.", (double)load_count(&m->loads));
    write_counter(to, "model_load_failures_total", "Models that could not be loaded.",
                  (double)load_count(&m->failed_loads));
    write_gauge(to, "halay_tft_serve_waiting_requests", "Requests that wait for their forecast.",
                (double)load_count(&m->waiting));
    write_gauge(to, "halay_tft_serve_model_step", "The training step of the model in use.",
                (double)atomic_load_explicit(&m->step, memory_order_relaxed));
    write_inputs(m, to);
    write_gauge(to, "process_resident_memory_bytes", "Resident memory.", resident_bytes());
    const int failed = ferror(to) | fclose(to);
    if (!failed)
        return text;
    free(text);
    return NULL;
}
