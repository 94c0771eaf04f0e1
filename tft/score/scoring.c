/* SPDX-License-Identifier: Apache-2.0
 *
 * Scoring. Zero-initialised object, fini accepts it half-built.
 */
#include "tft/score/scoring.h"
#include "base/config.h"
#include "base/machine/topology.h"
#include "tft/data/htd.h"
#include "tft/model/tft.h"
#include "tft/score/assessment.h"
#include <string.h>

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

    if (!status && stride && halay_parse_long(stride, 1, TFT_STEPS_MAX, &steps)) {
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

static json_t *describe(struct tft_scoring *s, enum tft_split split, size_t stride, const struct tft_assessment *a)
{
    json_t *head = json_pack("{ss sI sI sI}", "split", tft_split_names[split], "windows", (json_int_t)a->windows,
                             "short_windows", (json_int_t)a->short_windows, "stride", (json_int_t)stride);
    json_t *scores = tft_assessment_json(a);

    if (!head || !scores || json_object_update(head, scores) ||
        json_object_set_new(head, "loss", json_real(a->result.loss)) ||
        json_object_set_new(head, "step", json_integer(s->checkpoint.step))) {
        json_decref(head);
        head = NULL;
    }
    json_decref(scores);
    return head;
}

enum halay_status tft_scoring_evaluate(struct tft_scoring *s, enum tft_split split, size_t stride, json_t **result)
{
    struct tft_windows windows = { 0 };
    struct tft_forecaster forecaster = { 0 };
    struct tft_assessment a = { 0 };
    enum halay_status status = tft_windows_init(s->log, &s->data, split, stride, &windows);

    if (!status && !windows.count) {
        halay_error(s->log, "the data hold no window of split '%s'", tft_split_names[split]);
        status = HALAY_ERR_FORMAT;
    }
    if (!status)
        status = tft_scoring_forecaster(s, &windows, &forecaster);
    if (!status)
        status = tft_assessment_init(s->log, &s->data, &s->checkpoint.config.quantiles, &a);
    if (!status)
        status = tft_assessment_add(&a, &forecaster, NULL, NULL);
    if (!status) {
        *result = describe(s, split, stride, &a);
        if (!*result) {
            halay_error(s->log, "no memory for the result");
            status = HALAY_ERR_NO_MEMORY;
        }
    }
    if (a.data)
        tft_assessment_fini(&a);
    tft_forecaster_fini(&forecaster);
    tft_windows_fini(&windows);
    return status;
}
