/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: everything is added on one thread in order of window, so that results do not depend on ranks or threads.
 */
#include "tft/evaluate.h"
#include <stdlib.h>

struct scoring {
    const struct tft_forecaster *forecaster;
    const struct tft_naive *naive; /* (targets), or NULL */
    struct tft_evaluation_result *result;
    double loss;
};

/* Row `row`, the horizon's step h: p is (targets, quantiles), scaled. */
static void score_row(struct scoring *s, size_t entity, size_t row, size_t h, const float *p)
{
    const struct tft_data *d = s->forecaster->gather.windows->data;
    size_t O = d->schema.target_count;

    for (size_t o = 0; o < O; o++) {
        const struct tft_scaler *scaler = tft_data_target_scaler(d, entity, o);
        struct tft_scores *scores = &s->result->scores[o];
        size_t Q = scores->quantile_count;
        double unscaled[TFT_SCORE_QUANTILES_MAX], y = d->values[(row + 1) * d->real_count - O + o];
        if (!d->present[row * O + o])
            continue;
        for (size_t q = 0; q < Q; q++) {
            double scaled = p[o * Q + q];
            unscaled[q] = tft_scaler_undo(scaler, scaled);
            s->loss += tft_quantile_loss(y, scaled, scores->quantiles[q]);
        }
        tft_scores_add(scores, entity, h, d->target[row * O + o], unscaled,
                       s->naive ? s->naive[o].mean_error[entity] : 0);
    }
}

static enum halay_status score_window(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    struct scoring *s = arg;
    const struct tft_data *d = s->forecaster->gather.windows->data;
    size_t values = d->schema.target_count * s->result->scores[0].quantile_count;

    (void)position;
    for (size_t h = 0; h < d->schema.horizon; h++)
        score_row(s, w->entity, w->origin + h, h, p + h * values);
    return HALAY_OK;
}

/* Empty sums for each target. */
static enum halay_status init_scores(const struct tft_forecaster *f, struct tft_evaluation_result *r)
{
    const struct tft_model_config *m = tft_model_config(f->model);
    const struct tft_data *d = f->gather.windows->data;
    double quantiles[TFT_SCORE_QUANTILES_MAX];
    enum halay_status status = HALAY_OK;

    for (size_t q = 0; q < m->quantile_count; q++) /* 0.1f is not 0.1: take the six decimals that were meant */
        quantiles[q] = (double)(int64_t)((double)m->quantiles[q] * 1e6 + 0.5) / 1e6;
    r->scores = calloc(d->schema.target_count, sizeof *r->scores);
    if (!r->scores) {
        halay_error(f->log, "no memory for scores");
        return HALAY_ERR_NO_MEMORY;
    }
    r->target_count = d->schema.target_count;
    for (size_t o = 0; o < r->target_count && !status; o++)
        status = tft_scores_init(f->log, quantiles, m->quantile_count, m->D, d->entity_count, &r->scores[o]);
    return status;
}

enum halay_status tft_evaluate(struct tft_forecaster *f, size_t count, const struct tft_naive *naive,
                               struct tft_evaluation_result *result)
{
    struct tft_evaluation_result r = { 0 };
    struct scoring s = { .forecaster = f, .naive = naive, .result = &r };
    enum halay_status status = init_scores(f, &r);
    size_t n = 0;

    if (!status)
        status = tft_forecast(f, count, score_window, &s);
    if (status) {
        tft_evaluation_result_fini(&r);
        return status;
    }
    for (size_t o = 0; o < r.target_count; o++)
        n += r.scores[o].all.n;
    r.loss = n ? s.loss / (double)n : 0;
    *result = r;
    return HALAY_OK;
}

void tft_evaluation_result_fini(struct tft_evaluation_result *result)
{
    for (size_t o = 0; o < result->target_count; o++)
        tft_scores_fini(&result->scores[o]);
    free(result->scores);
    *result = (struct tft_evaluation_result){ 0 };
}

json_t *tft_evaluate_naive(struct halay_log *log, const struct tft_gather *gather, size_t count,
                           const struct tft_naive *naive, const double *quantiles, size_t quantile_count)
{
    const struct tft_data *d = gather->windows->data;
    struct tft_scores with = { 0 }, plain = { 0 };
    size_t O = d->schema.target_count, o = naive->target;
    json_t *result = NULL;

    if (naive->lag < d->schema.horizon ||
        tft_scores_init(log, quantiles, quantile_count, d->schema.horizon, d->entity_count, &with))
        return NULL;
    if (tft_scores_init(log, quantiles, quantile_count, d->schema.horizon, d->entity_count, &plain))
        goto err_free;
    for (size_t i = 0; i < count; i++) {
        struct tft_window w = tft_gather_window(gather, i);
        for (size_t h = 0; h < d->schema.horizon; h++) {
            size_t row = w.origin + h;
            double p[TFT_SCORE_QUANTILES_MAX], same[TFT_SCORE_QUANTILES_MAX], value;
            if (!d->present[row * O + o] || !tft_naive_forecast(naive, w.entity, row, p, &value))
                continue;
            for (size_t q = 0; q < quantile_count; q++)
                same[q] = value;
            tft_scores_add(&with, w.entity, h, d->target[row * O + o], p, 0);
            tft_scores_add(&plain, w.entity, h, d->target[row * O + o], same, 0);
        }
    }
    result = tft_scores_q_risk_json(&with, &with.all);
    if (result) {
        json_object_set_new(result, "plain", tft_scores_q_risk_json(&plain, &plain.all));
        json_t *horizons = json_array(); /* the median's, for pictures */
        for (size_t h = 0; h < with.horizon; h++)
            json_array_append_new(horizons, json_real(tft_sums_q_risk(&plain.by_horizon[h], plain.median)));
        json_object_set_new(result, "by_horizon", horizons);
        json_object_set_new(result, "values", json_integer((json_int_t)with.all.n));
    }
    tft_scores_fini(&plain);
err_free:
    tft_scores_fini(&with);
    return result;
}
