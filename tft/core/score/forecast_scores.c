/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything is added on one thread in order of window, so that scores do not depend on ranks or threads.
 */
#include "tft/core/score/forecast_scores.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scorer {
    const struct tft_forecaster *forecaster;
    struct tft_seasonal_error *seasonal; /* or NULL */
    struct tft_forecast_scores *result;
    tft_forecast_take also; /* NULL: none */
    void *arg;
};

/* Adds the forecast of one step to each target's scores, and their losses times the row's weight to *sum. */
static void add_step(struct tft_scores *all, const struct tft_data *d, const double *seasonal_error,
                     const struct tft_window *w, size_t h, const float *p, double *sum)
{
    const size_t O = d->schema.target_count, row = w->origin + h;

    for (size_t o = 0; o < O; o++) {
        const struct tft_scaler *scaler = tft_data_target_scaler(d, w->entity, o);
        struct tft_scores *scores = &all[o];
        double unscaled[TFT_SCORE_QUANTILES_MAX], y = tft_data_forecast_target(d, row, o), loss = 0;
        if (!d->present[row * O + o])
            continue;
        for (size_t q = 0; q < scores->quantile_count; q++) {
            double scaled = p[o * scores->quantile_count + q];
            unscaled[q] = tft_scaler_undo(scaler, scaled);
            loss += tft_loss_is_point(d->loss) ? tft_loss_of_point(d->loss, y - scaled)
                                               : tft_quantile_loss(y, scaled, scores->quantiles[q]);
        }
        *sum += loss * tft_data_weight(d, row);
        tft_scores_add(scores, scores->entity_count > 1 ? w->entity : 0, h, d->target[row * O + o], unscaled,
                       seasonal_error ? seasonal_error[o] : 0);
    }
}

void tft_forecast_scores_add_step(struct tft_forecast_scores *r, const struct tft_data *d, const double *seasonal_error,
                                  const struct tft_window *w, size_t h, const float *p)
{
    add_step(r->scores, d, seasonal_error, w, h, p, &r->loss_sum);
}

void tft_forecast_scores_finish(const struct tft_model *model, struct tft_forecast_scores *r)
{
    size_t n = 0;

    for (size_t o = 0; o < r->target_count; o++)
        n += r->scores[o].all.n;
    const int is_distribution = tft_loss_is_distribution(tft_model_config(model)->loss);
    const double sum = is_distribution ? r->likelihood_sum : r->loss_sum * tft_model_loss_factor(model);

    r->loss = n ? sum / (double)n : 0;
}

enum halay_status tft_forecast_scores_add_window(const struct tft_forecaster *f, struct tft_seasonal_error *seasonal,
                                                 const struct tft_window *w, const float *p,
                                                 struct tft_forecast_scores *r)
{
    const struct tft_data *d = f->gather.windows->data;
    size_t values = d->schema.target_count * r->scores[0].quantile_count;
    enum halay_status status = tft_data_check(d, w->origin, d->schema.horizon);

    if (status)
        return status;
    double unused = 0;
    const double *seasonal_error = seasonal ? tft_seasonal_error_before(seasonal, w) : NULL;
    r->likelihood_sum += tft_forecast_loss(f, p);
    for (size_t h = 0; h < d->schema.horizon; h++) {
        tft_forecast_scores_add_step(r, d, seasonal_error, w, h, p + h * values);
        if (r->uncalibrated)
            add_step(r->uncalibrated, d, seasonal_error, w, h, f->calibrator->before + h * values, &unused);
    }
    return HALAY_OK;
}

static enum halay_status score_window(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    const struct scorer *s = arg;
    enum halay_status status = tft_forecast_scores_add_window(s->forecaster, s->seasonal, w, p, s->result);

    return status || !s->also ? status : s->also(s->arg, position, w, p);
}

enum halay_status tft_forecast_scores_init(struct halay_log *log, const double *quantiles, size_t quantile_count,
                                           const struct tft_data *data, size_t entities,
                                           struct tft_forecast_scores *result)
{
    const struct tft_schema *s = &data->schema;

    *result = (struct tft_forecast_scores){ .target_count = s->target_count };
    result->scores = tft_scores_create(log, s->target_count, quantiles, quantile_count, s->horizon, entities);
    return result->scores ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

enum halay_status tft_forecast_scores_add(struct tft_forecaster *f, size_t count, struct tft_seasonal_error *seasonal,
                                          tft_forecast_take also, void *arg, struct tft_forecast_scores *r)
{
    struct scorer s = { .forecaster = f, .seasonal = seasonal, .also = also, .arg = arg, .result = r };
    const struct tft_scores *of = r->scores;

    if (f->calibrator && !r->uncalibrated)
        r->uncalibrated = tft_scores_create(f->log, r->target_count, of->quantiles, of->quantile_count, of->horizon,
                                            of->entity_count);
    if (f->calibrator && !r->uncalibrated)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = tft_forecast(f, count, score_window, &s);

    tft_forecast_scores_finish(f->model, r);
    return status;
}

enum halay_status tft_forecast_scores_of(struct tft_forecaster *f, size_t count, struct tft_forecast_scores *r)
{
    const struct tft_model_config *m = tft_model_config(f->model);
    const struct tft_data *d = f->gather.windows->data;
    enum halay_status status;

    if ((status = tft_forecast_scores_init(f->log, m->quantiles, m->quantile_count, d, d->entity_count, r)) ||
        (status = tft_forecast_scores_add(f, count, NULL, NULL, NULL, r)))
        tft_forecast_scores_fini(r);
    return status;
}

void tft_forecast_scores_fini(struct tft_forecast_scores *result)
{
    free(result->scores);
    free(result->uncalibrated);
    *result = (struct tft_forecast_scores){ 0 };
}

/* ---- the seasonal error ---- */

enum halay_status tft_seasonal_error_init(struct halay_log *log, const struct tft_data *data,
                                          struct tft_seasonal_error *error)
{
    const size_t targets = data->schema.target_count;

    *error = (struct tft_seasonal_error){ .data = data };
    error->sums = halay_region_alloc(&error->memory, targets, sizeof *error->sums);
    error->errors = halay_region_alloc(&error->memory, targets, sizeof *error->errors);
    return error->memory.failed ? halay_no_memory(log, "for scores") : HALAY_OK;
}

void tft_seasonal_error_fini(struct tft_seasonal_error *error)
{
    halay_region_fini(&error->memory);
    *error = (struct tft_seasonal_error){ 0 };
}

/* Restarts with no rows of an entity; what was found stays. */
static void start_entity(struct tft_seasonal_error *s, size_t entity)
{
    for (size_t o = 0; o < s->data->schema.target_count; o++)
        s->sums[o] = (struct tft_seasonal_sum){ .found = s->sums[o].found };
    s->entity = entity;
    s->rows = 0;
}

/* Add |value - value `lag` rows before| where both were measured. */
static void add_change(const struct tft_seasonal_error *s, size_t target, size_t lag, double *sum, size_t *count)
{
    const struct tft_data *d = s->data;
    const size_t O = d->schema.target_count, at = (d->entities[s->entity].first + s->rows) * O + target;

    if (s->rows < lag || !d->present[at] || !d->present[at - lag * O])
        return;
    *sum += fabs(d->target[at] - d->target[at - lag * O]);
    ++*count;
}

const double *tft_seasonal_error_before(struct tft_seasonal_error *s, const struct tft_window *w)
{
    const struct tft_data *d = s->data;
    const size_t end = w->origin - d->entities[w->entity].first, season = d->schema.seasons[0];

    if (w->entity != s->entity || end < s->rows)
        start_entity(s, w->entity);
    for (; s->rows < end; s->rows++)
        for (size_t o = 0; o < d->schema.target_count; o++) {
            struct tft_seasonal_sum *sum = &s->sums[o];
            add_change(s, o, season, &sum->by_season, &sum->season_count);
            add_change(s, o, 1, &sum->by_step, &sum->step_count);
        }
    for (size_t o = 0; o < d->schema.target_count; o++) {
        struct tft_seasonal_sum *sum = &s->sums[o];
        const size_t count = end > season ? sum->season_count : sum->step_count;
        const double total = end > season ? sum->by_season : sum->by_step;
        s->errors[o] = count ? total / (double)count : 0;
        sum->found |= count > 0;
    }
    return s->errors;
}
