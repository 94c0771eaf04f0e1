/* SPDX-License-Identifier: Apache-2.0
 *
 * Inference. Zero-initialised object, fini accepts it half-built.
 */
#include "tft/core/score/inference.h"
#include "base/config.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/model/tft.h"
#include "tft/core/run/batches.h"
#include "tft/core/score/evaluation.h"
#include <string.h>

enum halay_status tft_inference_start(struct tft_inference *s)
{
    const int on_host = tft_model_kernels(s->run.model)->host_memory; /* otherwise one thread drives the device */
    const int threads = on_host && !s->pool ? tft_rank_threads(s->log, s->ctx) : 1;
    enum halay_status status = s->pool ? HALAY_OK : tft_pool_create(s->log, threads, &s->pool);

    if (status || s->workers)
        return status;
    return tft_workers_create(s->log, s->run.model, s->pool, tft_forecast_granules(s->run.model), &s->workers);
}

void tft_inference_fini(struct tft_inference *s)
{
    tft_calibrator_fini(&s->calibrator);
    tft_workers_destroy(s->workers);
    tft_pool_destroy(s->pool);
    tft_data_fini(&s->data);
    tft_run_fini(&s->run);
    memset(s, 0, sizeof *s);
}

/* Windows of a chunk after which others may forecast: some granules for each thread, and whole ones up to the usual end
 * of a chunk, so that each is computed with the same windows as in chunks of the usual size. */
static size_t small_chunk(const struct tft_inference *s)
{
    enum { WINDOWS = 256, GRANULES = 4 };
    const size_t granule = tft_model_config(s->run.model)->granule;
    const size_t windows = GRANULES * granule * (size_t)tft_pool_threads(s->pool);

    if (TFT_FORECAST_CHUNK % granule || windows > TFT_FORECAST_CHUNK)
        return TFT_FORECAST_CHUNK;
    return windows > WINDOWS ? windows : WINDOWS;
}

enum halay_status tft_inference_forecaster(struct tft_inference *s, const struct tft_windows *windows, size_t more,
                                           struct tft_forecaster *forecaster)
{
    s->data.loss = (enum tft_loss)s->run.config.loss;
    *forecaster = (struct tft_forecaster){ .log = s->log,
                                           .ctx = s->ctx,
                                           .stop = s->stop,
                                           .model = s->run.model,
                                           .workers = s->workers,
                                           .gather = { .windows = windows },
                                           .params = s->run.params,
                                           .members = &s->run.members,
                                           .blend = &s->run.blend,
                                           .between = s->between,
                                           .between_arg = s->between_arg,
                                           .chunk_windows = s->between ? small_chunk(s) : 0,
                                           .more = more,
                                           .calibrator = s->calibrator.data ? &s->calibrator : NULL };
    enum halay_status status = tft_calibrate_recall(forecaster);
    return status ? status : tft_forecaster_init(forecaster);
}

/* Describes what the forecast of each blended target is made of, in sentences; NULL: no memory. */
static json_t *describe_blend(const struct tft_inference *s)
{
    json_t *all = json_array();
    char text[500];

    for (size_t o = 0; o < s->data.schema.target_count; o++)
        if (tft_blend_has(&s->run.blend, &s->data.schema, o)) {
            tft_blend_describe(&s->run.blend, &s->data.schema, o, text, sizeof text);
            json_array_append_new(all, json_string(text));
        }
    return all;
}

static json_t *describe_evaluation(struct tft_inference *s, const struct tft_window_choice *choice,
                                   const struct tft_evaluation *a)
{
    json_t *calibration = s->calibrator.data ? tft_calibrator_json(&s->calibrator) : json_null();
    json_t *more = json_pack("{so so}", "calibration", calibration, "blend", describe_blend(s));
    json_t *whole = tft_evaluation_json(a, "scores", choice->split, choice->stride, more);

    json_object_set_new(whole, "step", json_integer(s->run.step));
    json_object_set_new(whole, "refitted", s->run.refit ? json_false() : json_null());
    return whole;
}

/* Brings the data's rows to the device, if there is one, for all windows of an evaluation. */
static enum halay_status upload_rows(struct tft_inference *s, struct tft_resident **resident)
{
    const struct tft_model *model = s->run.model;

    if (tft_model_kernels(model)->host_memory)
        return HALAY_OK;
    tft_model_kernels(model)->use(tft_model_config(model)->device.number);
    return tft_resident_create(s->log, &s->data, tft_workers_queue(s->workers), tft_model_config(model)->granule,
                               tft_pool_threads(s->pool), resident);
}

enum halay_status tft_inference_evaluate(struct tft_inference *s, const struct tft_window_choice *choice,
                                         tft_forecast_take also, void *arg, json_t **result)
{
    struct tft_windows windows = { 0 };
    struct tft_forecaster forecaster = { 0 };
    struct tft_evaluation a = { 0 };
    struct tft_resident *resident = NULL;
    enum halay_status status = tft_windows_init(s->log, &s->data, choice->split, choice->stride, &windows);

    if (!status && !windows.count)
        status = halay_fail(s->log, HALAY_ERR_FORMAT, "the data hold no window of split '%s'",
                            tft_split_names[choice->split]);
    if (status || (status = tft_inference_forecaster(s, &windows, 0, &forecaster)) ||
        (status = tft_targets_check(s->log, &s->data)) || (status = upload_rows(s, &resident)) ||
        (status = tft_evaluation_init(s->log, &s->data, &s->run.config.quantiles, &a)))
        goto release;
    forecaster.resident = resident;
    status = tft_evaluation_add(&a, &forecaster, also, arg);
    if (status)
        goto release;
    *result = describe_evaluation(s, choice, &a);
    if (!*result)
        status = halay_no_memory(s->log, "for the result");
release:
    tft_evaluation_fini(&a);
    tft_forecaster_fini(&forecaster);
    tft_resident_destroy(resident);
    tft_windows_fini(&windows);
    return status;
}
