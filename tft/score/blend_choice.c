/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/score/blend_choice.h"
#include <stdlib.h>
#include <string.h>

enum { SHARES = 11, WINDOWS_LEAST = 20 };

struct choice {
    const struct tft_forecaster *forecaster;
    struct tft_blend blend; /* errors are borrowed */
    struct tft_forecast_scores of[SHARES];
    double likelihood_sum;
    float *p; /* owned: a window's forecast */
};

static enum halay_status take(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    struct choice *c = arg;
    const struct tft_data *d = c->forecaster->gather.windows->data;
    size_t of_step = c->blend.targets * c->blend.quantile_count, values = c->blend.horizon * of_step;
    enum halay_status status = tft_data_check(d, w->origin, d->schema.horizon);

    (void)position;
    c->likelihood_sum += tft_forecast_loss(c->forecaster, p);
    for (size_t k = 0; k < SHARES && !status; k++) {
        c->blend.share = (double)k / (SHARES - 1);
        memcpy(c->p, p, values * sizeof *p);
        status = tft_blend_apply(&c->blend, d, w, NULL, c->p);
        for (size_t h = 0; h < c->blend.horizon && !status; h++)
            tft_forecast_scores_add_step(&c->of[k], d, NULL, w->entity, w->origin + h, h, c->p + h * of_step);
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
    size_t best = SHARES - 1;

    if (!status)
        status = tft_forecast(f, count, take, &c);
    for (size_t k = SHARES - 1; k-- > 0 && !status;)
        best = c.of[k].loss_sum < c.of[best].loss_sum ? k : best;
    best = count < WINDOWS_LEAST ? SHARES / 2 : best;
    if (!status) {
        blend->share = (double)best / (SHARES - 1);
        *result = c.of[best];
        result->likelihood_sum = c.likelihood_sum;
        tft_forecast_scores_finish(f->model, result);
        c.of[best] = (struct tft_forecast_scores){ 0 };
    }
    for (size_t k = 0; k < SHARES; k++)
        tft_forecast_scores_fini(&c.of[k]);
    free(c.p);
    return status;
}
