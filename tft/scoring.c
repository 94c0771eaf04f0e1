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

/* What is made for one evaluation. */
struct evaluation {
    struct tft_windows windows;
    struct tft_forecaster forecaster;
    struct tft_naive *naive; /* owned: (lags, targets) */
    struct tft_evaluation_result result;
};

static enum halay_status init_naive(struct tft_scoring *s, struct evaluation *e)
{
    const struct tft_list *quantiles = &s->checkpoint.config.quantiles;
    size_t O = s->data.schema.target_count;
    enum halay_status status = HALAY_OK;

    e->naive = calloc(NAIVE_LAGS * O, sizeof *e->naive);
    if (!e->naive) {
        halay_error(s->log, "no memory for naive forecasts");
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t k = 0; k < NAIVE_LAGS * O && !status; k++)
        status = tft_naive_init(s->log, &s->data, k % O, naive_lags[k / O], quantiles->values, quantiles->count,
                                &e->naive[k]);
    return status;
}

static void fini_evaluation(struct tft_scoring *s, struct evaluation *e)
{
    for (size_t k = 0; e->naive && k < NAIVE_LAGS * s->data.schema.target_count; k++)
        tft_naive_fini(&e->naive[k]);
    free(e->naive);
    tft_evaluation_result_fini(&e->result);
    tft_forecaster_fini(&e->forecaster);
    tft_windows_fini(&e->windows);
}

/* The naive forecasts' scores for a target by lag: {"24": ..., "168": ...}. */
static json_t *describe_naive(struct tft_scoring *s, const struct evaluation *e, size_t target)
{
    const struct tft_list *quantiles = &s->checkpoint.config.quantiles;
    json_t *object = json_object();

    for (size_t k = 0; k < NAIVE_LAGS; k++) {
        const struct tft_naive *naive = &e->naive[k * s->data.schema.target_count + target];
        json_t *scores = tft_evaluate_naive(s->log, &e->forecaster.gather, e->windows.count, naive, quantiles->values,
                                            quantiles->count);
        char name[32];
        snprintf(name, sizeof name, "%zu", naive_lags[k]);
        if (scores)
            json_object_set_new(object, name, scores);
    }
    return object;
}

/* All scores of a target. */
static json_t *describe_target(struct tft_scoring *s, const struct evaluation *e, size_t target)
{
    const char **ids = calloc(s->data.entity_count, sizeof *ids);
    json_t *scores;

    for (size_t i = 0; ids && i < s->data.entity_count; i++)
        ids[i] = s->data.entities[i].id;
    scores = ids ? tft_scores_json(&e->result.scores[target], ids) : NULL;
    free(ids);
    if (scores && json_object_set_new(scores, "naive", describe_naive(s, e, target))) {
        json_decref(scores);
        scores = NULL;
    }
    return scores;
}

/* The scores of the only target, or of each under its name, and the means of those without a unit. */
static json_t *describe_targets(struct tft_scoring *s, const struct evaluation *e)
{
    size_t O = s->data.schema.target_count;
    json_t **each = O == 1 ? NULL : calloc(O, sizeof *each), *all = NULL, *by_name = json_object();
    int ok = by_name != NULL;

    if (O == 1) {
        json_decref(by_name);
        return describe_target(s, e, 0);
    }
    for (size_t o = 0; each && ok && o < O; o++) { /* the object by name owns them */
        each[o] = describe_target(s, e, o);
        ok = !json_object_set_new(by_name, s->data.schema.inputs[s->data.schema.targets[o]].name, each[o]);
    }
    if (each && ok)
        all = tft_scores_mean_json(each, O);
    if (all)
        json_object_set(all, "targets", by_name);
    json_decref(by_name);
    free(each);
    return all;
}

static json_t *describe(struct tft_scoring *s, enum tft_split split, size_t stride, const struct evaluation *e)
{
    json_t *head = json_pack("{ss sI sI sI}", "split", tft_split_names[split], "windows", (json_int_t)e->windows.count,
                             "short_windows", (json_int_t)tft_windows_short(&e->windows), "stride", (json_int_t)stride);
    json_t *scores = describe_targets(s, e);

    if (!head || !scores || json_object_update(head, scores) ||
        json_object_set_new(head, "loss", json_real(e->result.loss)) ||
        json_object_set_new(head, "step", json_integer(s->checkpoint.step))) {
        json_decref(head);
        head = NULL;
    }
    json_decref(scores);
    return head;
}

enum halay_status tft_scoring_evaluate(struct tft_scoring *s, enum tft_split split, size_t stride, json_t **result)
{
    struct evaluation e = { 0 };
    enum halay_status status = tft_windows_init(s->log, &s->data, split, stride, &e.windows);

    if (!status && !e.windows.count) {
        halay_error(s->log, "the data hold no window of split '%s'", tft_split_names[split]);
        status = HALAY_ERR_FORMAT;
    }
    if (!status)
        status = tft_scoring_forecaster(s, &e.windows, &e.forecaster);
    if (!status)
        status = init_naive(s, &e);
    if (!status)
        status = tft_evaluate(&e.forecaster, e.windows.count, e.naive, &e.result);
    if (!status) {
        *result = describe(s, split, stride, &e);
        if (!*result) {
            halay_error(s->log, "no memory for the result");
            status = HALAY_ERR_NO_MEMORY;
        }
    }
    fini_evaluation(s, &e);
    return status;
}
