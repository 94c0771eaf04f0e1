/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift of errors. What is summed of each entity lies in (entities + 1, slots + 1): the last entity is all together,
 * the last slot the recent span.
 */
#include "tft/tools/drift/errors.h"
#include <math.h>
#include <stdlib.h>

static const double least_ratio = 1.02, least_share = 0.01;

struct sums {
    double loss;
    size_t n, covered;
};

struct work {
    struct tft_inference *inference;
    const struct tft_spans *spans;
    struct tft_findings *findings;
    struct sums *sums;          /* owned */
    double *losses, *coverages; /* owned: (blocks) */
    size_t past, recent;        /* windows */
};

static struct sums *sums_at(const struct work *w, size_t entity, size_t slot)
{
    return &w->sums[entity * (w->spans->slots + 1) + slot];
}

static void add(struct sums *to, const struct sums *from)
{
    to->loss += from->loss;
    to->n += from->n;
    to->covered += from->covered;
}

/* ---- forecasts --------------------------------------------------------------------------------------------------- */

/* The quantile losses of one value, in the unit of forecasts, and whether the outermost quantiles hold it. */
static void add_value(const struct tft_list *quantiles, double y, const float *p, struct sums *to)
{
    size_t Q = quantiles->count;

    for (size_t q = 0; q < Q; q++)
        to->loss += tft_quantile_loss(y, (double)p[q], quantiles->values[q]) / (double)Q;
    to->covered += y >= (double)p[0] && y <= (double)p[Q - 1];
    to->n++;
}

static enum halay_status take(void *arg, size_t position, const struct tft_window *window, const float *p)
{
    struct work *w = arg;
    const struct tft_data *d = &w->inference->data;
    const struct tft_list *quantiles = &w->inference->run.config.quantiles;
    size_t O = d->schema.target_count, D = d->schema.horizon;
    int64_t moment = tft_data_time(d, window->entity, window->origin);
    size_t slot = moment >= w->spans->since ? w->spans->slots : tft_spans_slot(w->spans, moment);
    enum halay_status status = tft_data_check(d, window->origin, D);
    struct sums found = { 0 };

    (void)position;
    if (moment < w->spans->since && slot >= w->spans->slots)
        return status; /* in the rest of the past that is no whole slot */
    for (size_t h = 0; h < D && !status; h++)
        for (size_t o = 0; o < O; o++)
            if (d->present[(window->origin + h) * O + o])
                add_value(quantiles, tft_data_forecast_target(d, window->origin + h, o),
                          p + (h * O + o) * quantiles->count, &found);
    add(sums_at(w, window->entity, slot), &found);
    add(sums_at(w, d->entity_count, slot), &found);
    *(slot == w->spans->slots ? &w->recent : &w->past) += found.n > 0;
    return status;
}

static enum halay_status forecast(struct work *w, int64_t begin, int64_t end, size_t stride)
{
    struct tft_inference *s = w->inference;
    struct tft_windows windows = { 0 };
    struct tft_forecaster forecaster = { 0 };
    enum halay_status status = tft_windows_init_between(s->log, &s->data, TFT_VALID, begin, end, stride, &windows);

    if (!status && windows.count)
        status = tft_inference_forecaster(s, &windows, 0, &forecaster);
    if (!status && windows.count)
        status = tft_forecast(&forecaster, windows.count, take, w);
    tft_forecaster_fini(&forecaster);
    tft_windows_fini(&windows);
    return status;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static struct sums sum_slots(const struct work *w, size_t entity, size_t first, size_t end)
{
    struct sums all = { 0 };

    for (size_t k = first; k < end; k++)
        add(&all, sums_at(w, entity, k));
    return all;
}

static struct sums without(const struct sums *all, const struct sums *part)
{
    return (struct sums){ all->loss - part->loss, all->n - part->n, all->covered - part->covered };
}

static double loss_of(const struct sums *s)
{
    return s->loss / (double)s->n;
}

static double coverage_of(const struct sums *s)
{
    return (double)s->covered / (double)s->n;
}

static json_t *describe(const struct work *w, size_t entity, double reference, double recent)
{
    const struct tft_data *d = &w->inference->data;

    return json_pack("{s:o, s:f, s:f}", "entity",
                     entity < d->entity_count ? json_string(d->entities[entity].id) : json_null(), "reference",
                     reference, "recent", recent);
}

static enum halay_status look_at(struct work *w, size_t entity)
{
    const size_t slots = w->spans->slots;
    const struct sums past = sum_slots(w, entity, 0, slots), recent = *sums_at(w, entity, slots);
    enum halay_status status;

    if (!past.n || !recent.n || !(past.loss > 0))
        return HALAY_OK;
    for (size_t b = 0; b < w->spans->blocks; b++) {
        const struct sums block = sum_slots(w, entity, b, b + w->spans->block);
        const struct sums rest = without(&past, &block); /* as the recent span is no part of what it is compared with */
        const int is_full = block.n * slots * 2 >= past.n * w->spans->block; /* half as many as on average */
        const int is_good = is_full && block.n && rest.n && rest.loss > 0;
        w->losses[b] = is_good ? loss_of(&block) / loss_of(&rest) : NAN;
        w->coverages[b] = is_good ? fabs(coverage_of(&block) - coverage_of(&rest)) : NAN;
    }
    status = tft_findings_add(w->findings, "loss", loss_of(&recent) / loss_of(&past), w->losses, least_ratio,
                              describe(w, entity, loss_of(&past), loss_of(&recent)));
    if (!status)
        status =
            tft_findings_add(w->findings, "coverage", fabs(coverage_of(&recent) - coverage_of(&past)), w->coverages,
                             least_share, describe(w, entity, coverage_of(&past), coverage_of(&recent)));
    if (status)
        halay_error(w->inference->log, "no memory for what was found");
    return status;
}

enum halay_status tft_drift_of_errors(struct tft_inference *inference, const struct tft_spans *spans, size_t stride,
                                      struct tft_findings *findings, size_t *windows)
{
    struct work w = { .inference = inference, .spans = spans, .findings = findings };
    size_t entities = inference->data.entity_count + 1;
    enum halay_status status = HALAY_OK;

    *windows = 0;
    w.sums = calloc(entities * (spans->slots + 1), sizeof *w.sums);
    w.losses = calloc(spans->blocks + 1, sizeof *w.losses);
    w.coverages = calloc(spans->blocks + 1, sizeof *w.coverages);
    if (!w.sums || !w.losses || !w.coverages) {
        halay_error(inference->log, "no memory for the errors of %zu entities", entities - 1);
        status = HALAY_ERR_NO_MEMORY;
    }
    if (!status)
        status = forecast(&w, spans->since, spans->until, stride);
    if (!status && w.recent)
        status = forecast(&w, spans->begin, spans->end, stride);
    for (size_t e = 0; e < entities && !status && w.recent && w.past; e++)
        status = look_at(&w, e);
    if (w.past)
        *windows = w.recent;
    free(w.sums);
    free(w.losses);
    free(w.coverages);
    return status;
}
