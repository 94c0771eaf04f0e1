/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts, chunk by chunk. A rank's share of a chunk is a range of whole granules, because the rounding of a matrix
 * product may depend on its number of rows, and a window's forecast must not depend on the number of ranks.
 */
#include "tft/core/score/forecast.h"
#include "base/memory.h"
#include "tft/core/kernels/call.h"
#include "tft/core/model/tft.h"
#include <stdlib.h>
#include <string.h>

/* A share of a chunk, while it is computed. */
struct share {
    struct tft_forecaster *forecaster;
    struct tft_gather gather;
    float *out;                     /* borrowed: (windows of the share, all) */
    tft_forecast_look look;         /* NULL: none */
    size_t D, O, P, Q, values, all; /* values: D O Q; all: with the numbers after them */
};

size_t tft_forecast_granules(const struct tft_model *model)
{
    return (TFT_FORECAST_CHUNK + tft_model_config(model)->granule - 1) / tft_model_config(model)->granule;
}

/* Returns nonzero if the loss does not follow from forecasts. */
static int has_loss(const struct tft_model *model)
{
    return tft_loss_is_distribution(tft_model_config(model)->loss);
}

static size_t window_values(const struct tft_model *model)
{
    return tft_model_config(model)->D * tft_model_columns(model)->targets * tft_model_config(model)->quantile_count;
}

/* Returns the numbers of one window in a chunk. */
static size_t all_values(const struct tft_forecaster *f)
{
    return window_values(f->model) + f->more + (size_t)has_loss(f->model);
}

static int has_members(const struct tft_forecaster *f)
{
    return f->members && f->members->count;
}

double tft_forecast_loss(const struct tft_forecaster *f, const float *p)
{
    return has_loss(f->model) ? (double)p[all_values(f) - 1] : 0;
}

enum halay_status tft_forecaster_init(struct tft_forecaster *f)
{
    size_t bytes;

    f->chunk = NULL;
    if (!f->chunk_windows)
        f->chunk_windows = TFT_FORECAST_CHUNK;
    const size_t chunks = has_members(f) ? 2 : 1;
    if (!halay_mul_overflows(f->chunk_windows * chunks * sizeof(float), all_values(f), &bytes))
        f->chunk = malloc(bytes + sizeof *f->chunk);
    if (f->chunk)
        return HALAY_OK;
    return halay_no_memory(f->log, "for forecasts");
}

void tft_forecaster_fini(struct tft_forecaster *f)
{
    free(f->chunk);
    f->chunk = NULL;
}

/* Makes a sample's forecast (D, O, Q) from what the model computed for it, (D, O, P). */
static void forecast_sample(const struct share *s, const struct tft_batch *batch, size_t b, const real *computed,
                            float *forecast)
{
    const struct tft_model_config *config = tft_model_config(s->forecaster->model);

    for (size_t i = 0; i < s->D * s->O; i++)
        tft_outputs_forecast(config, computed + i * s->P, batch->offsets[b * s->D * s->O + i],
                             batch->units[b * s->O + i % s->O], forecast + i * s->Q);
}

/* Brings what forecasts are scaled with to the host, of a batch that was cut on the device. */
static void download_scales(const struct share *s, const struct tft_batch *batch)
{
    const size_t units = batch->B * s->O;

    kernel_to_host(batch->queue, batch->there->offsets, units * s->D * sizeof(real), batch->offsets);
    kernel_to_host(batch->queue, batch->there->units, units * sizeof(real), batch->units);
}

static enum halay_status keep_granule(void *arg, int thread, const struct tft_batch *batch, const real *predictions,
                                      double loss)
{
    const struct share *s = arg;
    const struct tft_forecaster *f = s->forecaster;
    float *out = s->out + batch->position * s->all;

    if (batch->is_there)
        download_scales(s, batch);
    for (size_t b = 0; b < batch->B; b++)
        forecast_sample(s, batch, b, predictions + b * s->D * s->O * s->P, out + b * s->all);
    if (has_loss(f->model))
        out[s->all - 1] = (float)loss;
    if (s->look)
        s->look(f->look_arg, &(struct tft_forecast_granule){ .thread = thread,
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
    const struct tft_resident *resident = s->look || s->gather.occlusion ? NULL : s->forecaster->resident;

    if (tft_stop_asked(s->forecaster->stop))
        return HALAY_ERR_CANCELED;
    return resident ? tft_resident_fill(resident, &s->gather, thread, batch)
                    : tft_gather_fill(&s->gather, thread, batch);
}

/* Computes into s->out, by these parameters. */
static enum halay_status compute_by(struct share *s, const float *params, size_t windows)
{
    struct tft_forecaster *f = s->forecaster;
    const int with_loss = has_loss(f->model);
    const struct tft_forward forward = {
        .params = params,
        .is_unchanged = f->has_begun,
        .samples = windows,
        .fill = fill_share,
        .fill_arg = s,
        .take = keep_granule,
        .take_arg = s,
        .with_loss = with_loss,
    };

    f->has_begun = 1;
    return tft_forward_run(f->workers, &forward);
}

/* Makes the mean of `out` and of the members' forecasts, which are computed at `other`. */
static enum halay_status average_members(const struct share *share, size_t windows, float *other)
{
    const struct tft_members *members = share->forecaster->members;
    const size_t all = share->all, last = has_loss(share->forecaster->model) ? all - 1 : all, count = windows * all;
    const float part = 1 / (float)(members->count + 1);
    struct share s = *share;

    s.look = NULL;
    s.out = other;
    for (size_t m = 0; m < members->count; m++) {
        memset(other, 0, count * sizeof *other);
        enum halay_status status = compute_by(&s, members->params[m], windows);
        if (status)
            return status;
        for (size_t i = 0; i < count; i++)
            share->out[i] += i % all < s.values || i % all == last ? other[i] : 0;
    }
    for (size_t i = 0; i < count; i++)
        share->out[i] *= i % all < s.values || i % all == last ? part : 1;
    return HALAY_OK;
}

static enum halay_status compute_share(struct tft_forecaster *f, size_t first, size_t from, size_t to)
{
    struct share s = { .forecaster = f,
                       .gather = f->gather,
                       .D = tft_model_config(f->model)->D,
                       .O = tft_model_columns(f->model)->targets,
                       .P = tft_config_outputs(tft_model_config(f->model)),
                       .Q = tft_model_config(f->model)->quantile_count,
                       .values = window_values(f->model),
                       .look = f->look,
                       .all = all_values(f) };

    if (to <= from)
        return HALAY_OK;
    s.gather.base += first + from;
    s.out = f->chunk + from * s.all;
    enum halay_status status = compute_by(&s, f->params, to - from);
    if (status || !has_members(f))
        return status;
    /* after the chunk and the number that is summed with it */
    return average_members(&s, to - from, f->chunk + f->chunk_windows * s.all + 1);
}

/* Ranks add up two counts beside their forecasts: how many are interrupted, and how many have given up. */
enum { GAVE_UP = 65536 };

/* Decides on all ranks what becomes of a chunk with the sum of these. */
static enum halay_status judge_chunk(struct tft_forecaster *f, float sum)
{
    int reason;

    if (sum >= GAVE_UP)
        return halay_fail(f->log, HALAY_ERR_PEER, "another rank gave up forecasting: see its error");
    enum halay_status status = sum > 0 ? tft_stop_share(f->ctx, f->stop, &reason) : HALAY_OK;
    return status || !(sum > 0) ? status : HALAY_ERR_CANCELED;
}

/* failed: HALAY_OK, or why this rank gives up, which the others learn by the sum. */
static enum halay_status compute_chunk(struct tft_forecaster *f, size_t first, size_t n, enum halay_status failed)
{
    size_t rank = f->ctx ? (size_t)halay_rank(f->ctx) : 0, ranks = f->ctx ? (size_t)halay_size(f->ctx) : 1;
    size_t values = all_values(f), granule = tft_model_config(f->model)->granule,
           granules = (n + granule - 1) / granule;
    size_t from = granules * rank / ranks * granule, to = granules * (rank + 1) / ranks * granule;
    float *sum = f->chunk + n * values;

    memset(f->chunk, 0, (n * values + 1) * sizeof *f->chunk);
    enum halay_status status = failed ? failed : compute_share(f, first, from, to < n ? to : n);
    if (ranks == 1)
        return status;
    const int gives_up = status && status != HALAY_ERR_CANCELED;
    *sum = gives_up ? GAVE_UP : status == HALAY_ERR_CANCELED;
    enum halay_status summed =
        halay_allreduce(f->ctx, "forecast", NULL, f->chunk, n * values + 1, HALAY_F32, HALAY_SUM);
    if (gives_up || summed)
        return gives_up ? status : summed;
    return judge_chunk(f, *sum);
}

/* Keeps forecasts of targets that are never below 0 there after blending and calibration. */
static void keep_possible(const struct tft_forecaster *f, float *p)
{
    for (size_t i = 0; tft_loss_is_unscaled(tft_model_config(f->model)->loss) && i < window_values(f->model); i++)
        p[i] = p[i] < 0 ? 0 : p[i];
}

/* Puts each step's quantiles in ascending order, which is never farther from the truth (V. Chernozhukov, I.
 * Fernandez-Val, A. Galichon, "Quantile and probability curves without crossing", Econometrica 78(3), 2010). A model
 * that conforms to another program's forecasts what that one does. */
static void sort_quantiles(const struct tft_forecaster *f, float *p)
{
    size_t Q = tft_model_config(f->model)->quantile_count;

    if (tft_model_config(f->model)->conformance != TFT_PUBLISHED)
        return;
    for (float *end = p + window_values(f->model); p < end; p += Q)
        for (size_t i = 1; i < Q; i++) /* they are few, and nearly always in order */
            for (size_t j = i; j > 0 && p[j] < p[j - 1]; j--) {
                float lower = p[j];
                p[j] = p[j - 1];
                p[j - 1] = lower;
            }
}

/* Finishes the forecast p of a window. */
static enum halay_status finish_window(struct tft_forecaster *f, const struct tft_window *window, float *p)
{
    const struct tft_data *d = f->gather.windows->data;
    enum halay_status status;

    sort_quantiles(f, p);
    if (f->blend && f->blend->errors && (status = tft_blend_apply(f->blend, d, window, f->gather.occlusion, p)))
        return status;
    if (f->calibrator && (status = tft_calibrator_apply(f->calibrator, window, p)))
        return status;
    keep_possible(f, p);
    return HALAY_OK;
}

static enum halay_status compute_next_chunk(struct tft_forecaster *f, enum halay_status failed)
{
    const size_t left = f->count - f->end, n = left < f->chunk_windows ? left : f->chunk_windows;

    if (f->between && f->end && !failed)
        f->between(f->between_arg);
    f->first = f->next = f->end;
    f->end += n;
    return compute_chunk(f, f->first, n, failed);
}

void tft_forecast_begin(struct tft_forecaster *f, size_t count)
{
    f->count = count;
    f->first = f->next = f->end = 0;
    f->has_begun = 0;
}

enum halay_status tft_forecast_next(struct tft_forecaster *f, enum halay_status failed, size_t *position,
                                    struct tft_window *window, const float **p)
{
    *p = NULL;
    while (failed || f->next == f->end) {
        if (f->end == f->count)
            return failed;
        enum halay_status status = compute_next_chunk(f, failed);
        if (status)
            return status;
    }
    float *computed = f->chunk + (f->next - f->first) * all_values(f);
    *position = f->next++;
    *window = tft_gather_window(&f->gather, *position);
    enum halay_status status = finish_window(f, window, computed);
    if (status) /* of which the other ranks hear with the next chunk */
        return tft_forecast_next(f, status, position, window, p);
    *p = computed;
    return HALAY_OK;
}

enum halay_status tft_forecast(struct tft_forecaster *f, size_t count, tft_forecast_take take, void *arg)
{
    struct tft_window window;
    size_t position;
    const float *p;
    enum halay_status status, taken = HALAY_OK;

    tft_forecast_begin(f, count);
    while (!(status = tft_forecast_next(f, taken, &position, &window, &p)) && p)
        taken = take(arg, position, &window, p);
    return status;
}
