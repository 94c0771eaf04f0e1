/* SPDX-License-Identifier: Apache-2.0
 *
 * Scoring. Zero-initialised object, fini accepts it half-built.
 */
#include "tft/scoring.h"
#include "base/config.h"
#include "base/topology.h"
#include "tft/htd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t naive_lags[] = { 24, 168 };
enum { NAIVE_LAGS = sizeof naive_lags / sizeof *naive_lags };

static enum halay_status parse_split(struct halay_log *log, const char *name, enum tft_split *split)
{
    for (int i = 0; i < TFT_SPLIT_COUNT; i++) {
        if (!strcmp(name, tft_split_names[i])) {
            *split = (enum tft_split)i;
            return HALAY_OK;
        }
    }
    halay_error(log, "unknown split '%s'; there are train, valid and test", name);
    return HALAY_ERR_CONFIG;
}

enum halay_status tft_selection_parse(struct halay_log *log, const char *split, const char *stride,
                                      struct tft_selection *selection)
{
    long steps = 0;
    enum halay_status status = parse_split(log, split, &selection->split);

    if (!status && stride && halay_parse_long(stride, 1, TFT_WINDOW_MAX, &steps)) {
        halay_error(log, "'--stride' must be a whole number of steps, 1 or more, not '%s'", stride);
        status = HALAY_ERR_CONFIG;
    }
    selection->stride = (size_t)steps;
    return status;
}

static int thread_count(const struct tft_scoring *s)
{
    struct halay_topology topology;

    if (halay_topology_load(s->log, &topology))
        return 1;
    int share = halay_topology_usable(&topology) / halay_local_size(s->ctx);
    return share > 1 ? share : 1;
}

enum halay_status tft_scoring_init(struct halay_log *log, const char *checkpoint, const char *data_path,
                                   struct tft_scoring *s)
{
    enum halay_status status = halay_init(NULL, &s->ctx);

    s->log = log;
    if (status)
        return status;
    s->rank = halay_rank(s->ctx);
    if (halay_size(s->ctx) > 1)
        log->rank = s->rank;
    status = tft_checkpoint_load(log, checkpoint, &s->checkpoint);
    if (!status && data_path)
        status = tft_htd_open(log, data_path, &s->data);
    if (!status && data_path)
        status = tft_checkpoint_check_data(log, &s->checkpoint, data_path, &s->data);
    if (!status)
        status = tft_pool_create(log, thread_count(s), &s->pool);
    if (!status)
        status = tft_workers_create(log, s->checkpoint.model, s->pool, tft_forecast_granules(s->checkpoint.model),
                                    &s->workers);
    return status;
}

void tft_scoring_fini(struct tft_scoring *s)
{
    tft_workers_destroy(s->workers);
    tft_pool_destroy(s->pool);
    tft_data_fini(&s->data);
    tft_checkpoint_fini(&s->checkpoint);
    halay_fini(s->ctx);
    memset(s, 0, sizeof *s);
}

enum halay_status tft_scoring_forecaster(struct tft_scoring *s, const struct tft_windows *windows,
                                         struct tft_forecaster *forecaster)
{
    *forecaster = (struct tft_forecaster){ .log = s->log,
                                           .ctx = s->ctx,
                                           .model = s->checkpoint.model,
                                           .workers = s->workers,
                                           .gather = { .windows = windows },
                                           .params = s->checkpoint.params };
    return tft_forecaster_init(forecaster);
}

/* The naive forecasts' scores by lag: {"24": ..., "168": ...}. */
static enum halay_status naive_scores(struct tft_scoring *s, const struct tft_gather *gather,
                                      struct tft_naive naive[NAIVE_LAGS], json_t *out)
{
    const struct tft_list *quantiles = &s->checkpoint.config.quantiles;

    for (size_t k = 0; k < NAIVE_LAGS; k++) {
        char name[32];
        enum halay_status status =
            tft_naive_init(s->log, &s->data, naive_lags[k], quantiles->values, quantiles->count, &naive[k]);
        if (status)
            return status;
        json_t *scores =
            tft_evaluate_naive(s->log, gather, gather->windows->count, &naive[k], quantiles->values, quantiles->count);
        snprintf(name, sizeof name, "%zu", naive_lags[k]);
        if (scores)
            json_object_set_new(out, name, scores);
    }
    return HALAY_OK;
}

static json_t *describe(struct tft_scoring *s, enum tft_split split, size_t stride, const struct tft_windows *windows,
                        const struct tft_evaluation_result *r, json_t *naive)
{
    const char **ids = calloc(s->data.entity_count, sizeof *ids);
    json_t *head = json_pack("{ss sI sI}", "split", tft_split_names[split], "windows", (json_int_t)windows->count,
                             "stride", (json_int_t)stride);
    json_t *scores = NULL;

    for (size_t e = 0; ids && e < s->data.entity_count; e++)
        ids[e] = s->data.entities[e].id;
    scores = ids ? tft_scores_json(&r->scores, ids) : NULL;
    free(ids);
    if (!head || !scores || json_object_update(head, scores) || json_object_set_new(head, "loss", json_real(r->loss)) ||
        json_object_set(head, "naive", naive) || json_object_set_new(head, "step", json_integer(s->checkpoint.step))) {
        json_decref(head);
        head = NULL;
    }
    json_decref(scores);
    return head;
}

enum halay_status tft_scoring_evaluate(struct tft_scoring *s, enum tft_split split, size_t stride, json_t **result)
{
    struct tft_windows windows = { 0 };
    struct tft_naive naive[NAIVE_LAGS] = { 0 };
    struct tft_forecaster forecaster = { 0 };
    struct tft_evaluation_result scores = { 0 };
    json_t *of_naive = json_object();
    enum halay_status status = tft_windows_init(s->log, &s->data, split, stride, &windows);

    if (!status && !windows.count) {
        halay_error(s->log, "the data hold no window of split '%s'", tft_split_names[split]);
        status = HALAY_ERR_FORMAT;
    }
    if (!status)
        status = tft_scoring_forecaster(s, &windows, &forecaster);
    if (!status)
        status = naive_scores(s, &forecaster.gather, naive, of_naive);
    if (!status)
        status = tft_evaluate(&forecaster, windows.count, &naive[0], &scores);
    if (!status) {
        *result = describe(s, split, stride, &windows, &scores, of_naive);
        if (!*result) {
            halay_error(s->log, "no memory for the result");
            status = HALAY_ERR_NO_MEMORY;
        }
    }
    tft_evaluation_result_fini(&scores);
    tft_forecaster_fini(&forecaster);
    for (size_t k = 0; k < NAIVE_LAGS; k++)
        tft_naive_fini(&naive[k]);
    json_decref(of_naive);
    tft_windows_fini(&windows);
    return status;
}
