/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift of errors. The sums are (entities + 1, slots + 1): the last entity is all together, the last slot the recent
 * span.
 */
#include "tft/tools/drift/drift.h"
#include <math.h>
#include <stdlib.h>

static const double least_ratio = 1.02, least_share = 0.01;

struct sums {
    double loss;
    size_t n, covered;
};

struct work {
    const struct tft_drift *drift;
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

static void add_sums(struct sums *to, const struct sums *from)
{
    to->loss += from->loss;
    to->n += from->n;
    to->covered += from->covered;
}

/* ---- forecasts --------------------------------------------------------------------------------------------------- */

static double quantile_loss(double y, double p, double quantile)
{
    return y >= p ? quantile * (y - p) : (1 - quantile) * (p - y);
}

/* Adds the quantile losses of one value, in the unit of forecasts, and whether the outermost quantiles hold it. */
static void add_value(const struct halay_tft_forecast *w, double y, const float *p, struct sums *to)
{
    size_t Q = w->quantile_count;

    for (size_t q = 0; q < Q; q++)
        to->loss += quantile_loss(y, (double)p[q], w->quantiles[q]) / (double)Q;
    to->covered += y >= (double)p[0] && y <= (double)p[Q - 1];
    to->n++;
}

static void take_window(struct work *w, const struct halay_tft_forecast *window)
{
    const int64_t moment = window->times[0];
    const size_t slot = moment >= w->spans->since ? w->spans->slots : tft_spans_slot(w->spans, moment);
    struct sums found = { 0 };

    if (moment < w->spans->since && slot >= w->spans->slots)
        return; /* in the rest of the past, which is less than a slot */
    for (size_t i = 0; i < window->horizon * window->target_count; i++)
        if (!isnan(window->scaled_actuals[i]))
            add_value(window, window->scaled_actuals[i], window->scaled + i * window->quantile_count, &found);
    add_sums(sums_at(w, window->number, slot), &found);
    add_sums(sums_at(w, w->drift->extent.entities, slot), &found);
    *(slot == w->spans->slots ? &w->recent : &w->past) += found.n > 0;
}

static enum halay_status take_forecasts(struct work *w, int64_t begin, int64_t end, size_t stride)
{
    const struct halay_tft_pass_options o = { .struct_size = sizeof o,
                                              .split = "valid",
                                              .begin = begin,
                                              .end = end,
                                              .stride = stride,
                                              .calibrate = w->drift->calibrate };
    struct halay_tft_pass *pass = NULL;
    const struct halay_tft_forecast *window = NULL;
    enum halay_status status = halay_tft_pass_open(w->drift->model, w->drift->data, &o, &pass);

    while (!status && !(status = halay_tft_pass_next(pass, &window)) && window)
        take_window(w, window);
    halay_tft_pass_close(pass);
    return status;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static struct sums sum_slots(const struct work *w, size_t entity, size_t first, size_t end)
{
    struct sums all = { 0 };

    for (size_t k = first; k < end; k++)
        add_sums(&all, sums_at(w, entity, k));
    return all;
}

static struct sums sums_without(const struct sums *all, const struct sums *part)
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

static json_t *describe_entity(const struct work *w, size_t entity, double reference, double recent)
{
    const char *name = halay_tft_data_entity(w->drift->data, entity, NULL);

    return json_pack("{s:s?, s:f, s:f}", "entity", name, "reference", reference, "recent", recent);
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
        const struct sums rest = sums_without(&past, &block); /* as the recent span is excluded from its reference */
        const int is_full = block.n * slots * 2 >= past.n * w->spans->block; /* half as many as on average */
        const int is_good = is_full && block.n && rest.n && rest.loss > 0;
        w->losses[b] = is_good ? loss_of(&block) / loss_of(&rest) : NAN;
        w->coverages[b] = is_good ? fabs(coverage_of(&block) - coverage_of(&rest)) : NAN;
    }
    status = tft_findings_add(w->findings, "loss", loss_of(&recent) / loss_of(&past), w->losses, least_ratio,
                              describe_entity(w, entity, loss_of(&past), loss_of(&recent)));
    if (!status)
        status =
            tft_findings_add(w->findings, "coverage", fabs(coverage_of(&recent) - coverage_of(&past)), w->coverages,
                             least_share, describe_entity(w, entity, coverage_of(&past), coverage_of(&recent)));
    if (status)
        halay_error(w->drift->log, "no memory for what was found");
    return status;
}

enum halay_status tft_drift_of_errors(const struct tft_drift *drift, const struct tft_spans *spans, size_t stride,
                                      struct tft_findings *findings, size_t *windows)
{
    struct work w = { .drift = drift, .spans = spans, .findings = findings };
    size_t entities = drift->extent.entities + 1;
    enum halay_status status = HALAY_OK;

    *windows = 0;
    w.sums = calloc(entities * (spans->slots + 1), sizeof *w.sums);
    w.losses = calloc(spans->blocks + 1, sizeof *w.losses);
    w.coverages = calloc(spans->blocks + 1, sizeof *w.coverages);
    if (!w.sums || !w.losses || !w.coverages) {
        halay_error(drift->log, "no memory for the errors of %zu entities", entities - 1);
        status = HALAY_ERR_NO_MEMORY;
    }
    if (!status)
        status = take_forecasts(&w, spans->since, spans->until, stride);
    if (!status && w.recent)
        status = take_forecasts(&w, spans->begin, spans->end, stride);
    for (size_t e = 0; e < entities && !status && w.recent && w.past; e++)
        status = look_at(&w, e);
    if (w.past)
        *windows = w.recent;
    free(w.sums);
    free(w.losses);
    free(w.coverages);
    return status;
}
