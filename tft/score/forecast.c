/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts, chunk by chunk. A rank's share of a chunk is a range of whole granules, because the rounding of a matrix
 * product may depend on its number of rows, and a window's forecast must not depend on the number of ranks.
 */
#include "tft/score/forecast.h"
#include "base/memory.h"
#include "tft/run/interrupt.h"
#include <stdlib.h>
#include <string.h>

/* A share of a chunk, while it is computed. */
struct share {
    const struct tft_forecaster *forecaster;
    struct tft_gather gather;
    float *out;                  /* borrowed: (windows of the share, all) */
    size_t D, O, Q, values, all; /* values: D O Q; all: with the numbers that `look` adds */
};

size_t tft_forecast_granules(const struct tft_model *model)
{
    return (TFT_FORECAST_CHUNK + tft_model_config(model)->granule - 1) / tft_model_config(model)->granule;
}

static size_t window_values(const struct tft_model *model)
{
    return tft_model_config(model)->D * tft_model_columns(model)->targets * tft_model_config(model)->quantile_count;
}

/* Numbers of one window in a chunk. */
static size_t all_values(const struct tft_forecaster *f)
{
    return window_values(f->model) + f->more;
}

enum halay_status tft_forecaster_init(struct tft_forecaster *f)
{
    size_t bytes;

    f->chunk = NULL;
    if (!f->chunk_windows)
        f->chunk_windows = TFT_FORECAST_CHUNK;
    if (!halay_mul_overflows(f->chunk_windows * sizeof(float), all_values(f), &bytes))
        f->chunk = malloc(bytes + sizeof *f->chunk);
    if (f->chunk)
        return HALAY_OK;
    halay_error(f->log, "no memory for forecasts");
    return HALAY_ERR_NO_MEMORY;
}

void tft_forecaster_fini(struct tft_forecaster *f)
{
    free(f->chunk);
    f->chunk = NULL;
}

/* A sample's forecast as if its window had not been scaled (tft/run/window_scale.h). */
static void undo_window_scale(const struct share *s, const struct tft_batch *batch, size_t b, float *forecast)
{
    for (size_t i = 0; i < s->D * s->O; i++)
        for (size_t q = 0; q < s->Q; q++) {
            float *p = &forecast[i * s->Q + q];
            *p = batch->offsets[b * s->D * s->O + i] + batch->units[b * s->O + i % s->O] * *p;
        }
}

static enum halay_status keep_granule(void *arg, int thread, const struct tft_batch *batch, const real *predictions,
                                      double loss)
{
    const struct share *s = arg;
    const struct tft_forecaster *f = s->forecaster;
    float *out = s->out + batch->position * s->all;

    (void)loss;
    for (size_t b = 0; b < batch->B; b++) {
        memcpy(out + b * s->all, predictions + b * s->values, s->values * sizeof *out);
        undo_window_scale(s, batch, b, out + b * s->all);
    }
    if (f->look)
        f->look(f->look_arg, &(struct tft_forecast_granule){ .thread = thread,
                                                             .workspace = tft_workers_workspace(f->workers, thread),
                                                             .batch = batch,
                                                             .gather = &s->gather,
                                                             .more = out + s->values,
                                                             .stride = s->all });
    return HALAY_OK;
}

static enum halay_status fill_share(void *arg, int thread, struct tft_batch *batch)
{
    struct share *s = arg;
    return tft_interrupt_seen() ? HALAY_ERR_CANCELED : tft_gather_fill(&s->gather, thread, batch);
}

static enum halay_status compute_share(struct tft_forecaster *f, size_t first, size_t from, size_t to)
{
    struct share s = { .forecaster = f,
                       .gather = f->gather,
                       .D = tft_model_config(f->model)->D,
                       .O = tft_model_columns(f->model)->targets,
                       .Q = tft_model_config(f->model)->quantile_count,
                       .values = window_values(f->model),
                       .all = all_values(f) };
    s.gather.base += first + from;
    s.out = f->chunk + from * s.all;
    const struct tft_forward forward = {
        .params = f->params,
        .samples = to - from,
        .fill = fill_share,
        .fill_arg = &s,
        .take = keep_granule,
        .take_arg = &s,
    };
    return to > from ? tft_forward_run(f->workers, &forward) : HALAY_OK;
}

static enum halay_status compute_chunk(struct tft_forecaster *f, size_t first, size_t n)
{
    size_t rank = f->ctx ? (size_t)halay_rank(f->ctx) : 0, ranks = f->ctx ? (size_t)halay_size(f->ctx) : 1;
    size_t values = all_values(f), granule = tft_model_config(f->model)->granule,
           granules = (n + granule - 1) / granule;
    size_t from = granules * rank / ranks * granule, to = granules * (rank + 1) / ranks * granule;
    enum halay_status status;

    float *interrupted = f->chunk + n * values; /* how many ranks are, summed together with the forecasts */
    memset(f->chunk, 0, (n * values + 1) * sizeof *f->chunk);
    status = compute_share(f, first, from, to < n ? to : n);
    if (ranks == 1 || (status && status != HALAY_ERR_CANCELED))
        return status;
    *interrupted = status == HALAY_ERR_CANCELED;
    status = halay_allreduce(f->ctx, "forecast", NULL, f->chunk, n * values + 1, HALAY_F32, HALAY_SUM);
    if (status || !(*interrupted > 0))
        return status;
    int number;
    status = tft_interrupt_share(f->ctx, &number);
    return status ? status : HALAY_ERR_CANCELED;
}

enum halay_status tft_forecast(struct tft_forecaster *f, size_t count, tft_forecast_take take, void *arg)
{
    size_t values = all_values(f), most = f->chunk_windows;

    for (size_t first = 0; first < count; first += most) {
        size_t n = count - first < most ? count - first : most;
        enum halay_status status = compute_chunk(f, first, n);
        for (size_t i = 0; i < n && !status; i++) {
            struct tft_window window = tft_gather_window(&f->gather, first + i);
            if (f->blend && f->blend->errors)
                status = tft_blend_apply(f->blend, f->gather.windows->data, &window, f->chunk + i * values);
            if (!status && f->calibrator)
                status = tft_calibrator_apply(f->calibrator, &window, f->chunk + i * values);
            if (!status)
                status = take(arg, first + i, &window, f->chunk + i * values);
        }
        if (status)
            return status;
    }
    return HALAY_OK;
}
