/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: everything is added on one thread in order of window, so that results do not depend on ranks or threads.
 */
#include "tft/score/evaluate.h"
#include <stdlib.h>

struct scoring {
    const struct tft_forecaster *forecaster;
    const struct tft_naive *naive; /* (targets), or NULL */
    struct tft_evaluation_result *result;
    tft_evaluation_also also; /* NULL: nobody */
    void *arg;
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
        double unscaled[TFT_SCORE_QUANTILES_MAX], y = d->values[(row + 1) * d->real_count - O + o], loss = 0;
        if (!d->present[row * O + o])
            continue;
        for (size_t q = 0; q < Q; q++) {
            double scaled = p[o * Q + q];
            unscaled[q] = tft_scaler_undo(scaler, scaled);
            loss += tft_quantile_loss(y, scaled, scores->quantiles[q]);
        }
        s->result->loss_sum += loss * tft_data_weight(d, row);
        tft_scores_add(scores, entity, h, d->target[row * O + o], unscaled,
                       s->naive ? s->naive[o].mean_error[entity] : 0);
    }
}

static enum halay_status score_window(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    struct scoring *s = arg;
    const struct tft_data *d = s->forecaster->gather.windows->data;
    size_t values = d->schema.target_count * s->result->scores[0].quantile_count;
    enum halay_status status = tft_data_check(d, w->origin, d->schema.horizon);

    if (status)
        return status;
    for (size_t h = 0; h < d->schema.horizon; h++)
        score_row(s, w->entity, w->origin + h, h, p + h * values);
    return s->also ? s->also(s->arg, position, w, p) : HALAY_OK;
}

enum halay_status tft_evaluation_init(struct halay_log *log, const double *quantiles, size_t quantile_count,
                                      const struct tft_data *data, struct tft_evaluation_result *result)
{
    size_t O = data->schema.target_count;
    struct tft_evaluation_result r = { .scores = calloc(O, sizeof *r.scores) };
    enum halay_status status = r.scores ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    if (status)
        halay_error(log, "no memory for scores");
    for (size_t o = 0; o < O && !status; o++, r.target_count++)
        status =
            tft_scores_init(log, quantiles, quantile_count, data->schema.horizon, data->entity_count, &r.scores[o]);
    if (status)
        tft_evaluation_result_fini(&r);
    else
        *result = r;
    return status;
}

enum halay_status tft_evaluation_add(struct tft_forecaster *f, size_t count, const struct tft_naive *naive,
                                     tft_evaluation_also also, void *arg, struct tft_evaluation_result *r)
{
    struct scoring s = { .forecaster = f, .naive = naive, .also = also, .arg = arg, .result = r };
    enum halay_status status = tft_forecast(f, count, score_window, &s);
    size_t n = 0;

    for (size_t o = 0; o < r->target_count; o++)
        n += r->scores[o].all.n;
    r->loss = n ? r->loss_sum * tft_model_loss_factor(f->model) / (double)n : 0;
    return status;
}

enum halay_status tft_evaluate(struct tft_forecaster *f, size_t count, struct tft_evaluation_result *result)
{
    const struct tft_model_config *m = tft_model_config(f->model);
    struct tft_evaluation_result r = { 0 };
    enum halay_status status =
        tft_evaluation_init(f->log, m->quantiles, m->quantile_count, f->gather.windows->data, &r);

    if (!status)
        status = tft_evaluation_add(f, count, NULL, NULL, NULL, &r);
    if (status)
        tft_evaluation_result_fini(&r);
    else
        *result = r;
    return status;
}

void tft_evaluation_result_fini(struct tft_evaluation_result *result)
{
    for (size_t o = 0; o < result->target_count; o++)
        tft_scores_fini(&result->scores[o]);
    free(result->scores);
    *result = (struct tft_evaluation_result){ 0 };
}
