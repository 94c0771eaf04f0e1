/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: everything is added on one thread in order of window, so that results do not depend on ranks or threads.
 */
#include "tft/evaluate.h"
#include <string.h>

struct scoring {
    const struct tft_forecaster *forecaster;
    const struct tft_naive *naive;
    struct tft_evaluation_result *result;
    double loss;
};

static enum halay_status score_window(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    struct scoring *s = arg;
    struct tft_scores *scores = &s->result->scores;
    const struct tft_data *d = s->forecaster->gather.windows->data;
    const struct tft_scaler *scaler = tft_data_target_scaler(d, w->entity);
    size_t Q = scores->quantile_count;

    (void)position;
    for (size_t h = 0; h < d->schema.horizon; h++) {
        size_t row = w->origin + h;
        double unscaled[TFT_SCORE_QUANTILES_MAX], y = d->values[row * d->real_count + d->real_count - 1];
        if (!d->present[row])
            continue;
        for (size_t q = 0; q < Q; q++) {
            double scaled = p[h * Q + q];
            unscaled[q] = tft_scaler_undo(scaler, scaled);
            s->loss += tft_quantile_loss(y, scaled, scores->quantiles[q]);
        }
        tft_scores_add(scores, w->entity, h, d->target[row], unscaled, s->naive ? s->naive->mean_error[w->entity] : 0);
    }
    return HALAY_OK;
}

enum halay_status tft_evaluate(struct tft_forecaster *f, size_t count, const struct tft_naive *naive,
                               struct tft_evaluation_result *result)
{
    const struct tft_model_config *m = tft_model_config(f->model);
    struct tft_evaluation_result r = { 0 };
    struct scoring s = { .forecaster = f, .naive = naive, .result = &r };
    double quantiles[TFT_SCORE_QUANTILES_MAX];
    enum halay_status status;

    for (size_t q = 0; q < m->quantile_count; q++) /* 0.1f is not 0.1: take the six decimals that were meant */
        quantiles[q] = (double)(int64_t)((double)m->quantiles[q] * 1e6 + 0.5) / 1e6;
    status =
        tft_scores_init(f->log, quantiles, m->quantile_count, m->D, f->gather.windows->data->entity_count, &r.scores);
    if (!status)
        status = tft_forecast(f, count, score_window, &s);
    if (status) {
        tft_evaluation_result_fini(&r);
        return status;
    }
    r.loss = r.scores.all.n ? s.loss / (double)r.scores.all.n : 0;
    *result = r;
    return HALAY_OK;
}

void tft_evaluation_result_fini(struct tft_evaluation_result *result)
{
    tft_scores_fini(&result->scores);
}

json_t *tft_evaluate_naive(struct halay_log *log, const struct tft_gather *gather, size_t count,
                           const struct tft_naive *naive, const double *quantiles, size_t quantile_count)
{
    const struct tft_data *d = gather->windows->data;
    struct tft_scores with = { 0 }, plain = { 0 };
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
            if (!d->present[row] || !tft_naive_forecast(naive, w.entity, row, p, &value))
                continue;
            for (size_t q = 0; q < quantile_count; q++)
                same[q] = value;
            tft_scores_add(&with, w.entity, h, d->target[row], p, 0);
            tft_scores_add(&plain, w.entity, h, d->target[row], same, 0);
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
