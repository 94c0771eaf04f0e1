/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/score/blend_choice.h"
#include <stdlib.h>
#include <string.h>

enum { SHARES = 11 };

struct choice {
    const struct tft_forecaster *forecaster;
    struct tft_blend blend; /* errors are borrowed */
    struct tft_forecast_scores of[SHARES];
    float *p; /* owned: a window's forecast */
};

/* Add a window's forecast with one share. */
static void add_window(const struct choice *c, const struct tft_window *w, struct tft_forecast_scores *to)
{
    const struct tft_data *d = c->forecaster->gather.windows->data;
    size_t O = d->schema.target_count, Q = c->blend.quantile_count;

    for (size_t i = 0; i < d->schema.horizon * O; i++) {
        size_t row = w->origin + i / O, o = i % O;
        double y = d->values[(row + 1) * d->real_count - O + o], unscaled[TFT_SCORE_QUANTILES_MAX], loss = 0;
        if (!d->present[row * O + o])
            continue;
        for (size_t q = 0; q < Q; q++) {
            double scaled = c->p[i * Q + q];
            unscaled[q] = tft_scaler_undo(tft_data_target_scaler(d, w->entity, o), scaled);
            loss += tft_quantile_loss(y, scaled, to->scores[o].quantiles[q]);
        }
        to->loss_sum += loss * tft_data_weight(d, row);
        tft_scores_add(&to->scores[o], 0, i / O, d->target[row * O + o], unscaled, 0);
    }
}

static enum halay_status take(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    struct choice *c = arg;
    const struct tft_data *d = c->forecaster->gather.windows->data;
    size_t values = c->blend.horizon * c->blend.targets * c->blend.quantile_count;
    enum halay_status status = tft_data_check(d, w->origin, d->schema.horizon);

    (void)position;
    for (size_t k = 0; k < SHARES && !status; k++) {
        c->blend.share = (double)k / (SHARES - 1);
        memcpy(c->p, p, values * sizeof *p);
        status = tft_blend_apply(&c->blend, d, w, c->p);
        if (!status)
            add_window(c, w, &c->of[k]);
    }
    return status;
}

static enum halay_status choice_init(struct choice *c)
{
    const struct tft_model_config *m = tft_model_config(c->forecaster->model);
    enum halay_status status = HALAY_OK;

    c->p = calloc(c->blend.horizon * c->blend.targets * c->blend.quantile_count, sizeof *c->p);
    if (!c->p) {
        halay_error(c->forecaster->log, "no memory for a forecast");
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t k = 0; k < SHARES && !status; k++)
        status = tft_forecast_scores_init(c->forecaster->log, m->quantiles, m->quantile_count,
                                          c->forecaster->gather.windows->data, 1, &c->of[k]);
    return status;
}

enum halay_status tft_blend_choose(struct tft_forecaster *f, size_t count, struct tft_blend *blend,
                                   struct tft_forecast_scores *result)
{
    struct choice c = { .forecaster = f, .blend = *blend };
    enum halay_status status = choice_init(&c);
    size_t best = SHARES - 1, n = 0;

    if (!status)
        status = tft_forecast(f, count, take, &c);
    for (size_t k = SHARES - 1; k-- > 0 && !status;)
        best = c.of[k].loss_sum < c.of[best].loss_sum ? k : best;
    for (size_t o = 0; o < c.of[best].target_count; o++)
        n += c.of[best].scores[o].all.n;
    if (!status) {
        blend->share = (double)best / (SHARES - 1);
        *result = c.of[best];
        result->loss = n ? result->loss_sum * tft_model_loss_factor(f->model) / (double)n : 0;
        c.of[best] = (struct tft_forecast_scores){ 0 };
    }
    for (size_t k = 0; k < SHARES; k++)
        tft_forecast_scores_fini(&c.of[k]);
    free(c.p);
    return status;
}
