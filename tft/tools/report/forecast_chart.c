/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/tools/report/forecast_chart.h"
#include "base/number_text.h"
#include "tft/core/score/scores.h"
#include "tft/tools/report/chart.h"
#include <math.h>
#include <stdlib.h>

enum halay_status tft_forecast_chart_init(const struct tft_data *d, const struct tft_list *q,
                                          const struct tft_window *w, const float *p, size_t o, size_t history,
                                          struct tft_forecast_chart *c)
{
    const struct tft_scaler *s = tft_data_target_scaler(d, w->entity, o);
    size_t D = d->schema.horizon, O = d->schema.target_count, median = tft_median_of(q->values, q->count);
    char moment[40];

    *c = (struct tft_forecast_chart){ .history = w->length < history ? w->length : history, .horizon = D };
    enum halay_status status = tft_data_check(d, w->origin - c->history, c->history + D);
    if (status)
        return status;
    c->truth = calloc(c->history + D, sizeof *c->truth);
    c->low = calloc(D, sizeof *c->low);
    c->middle = calloc(D, sizeof *c->middle);
    c->high = calloc(D, sizeof *c->high);
    if (!c->truth || !c->low || !c->middle || !c->high)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < c->history + D; i++) {
        size_t row = w->origin - c->history + i;
        c->truth[i] = d->present[row * O + o] ? d->target[row * O + o] : NAN;
    }
    for (size_t h = 0; h < D; h++) {
        const float *of_step = p + (h * O + o) * q->count;
        c->low[h] = tft_scaler_undo(s, (double)of_step[0]);
        c->middle[h] = tft_scaler_undo(s, (double)of_step[median]);
        c->high[h] = tft_scaler_undo(s, (double)of_step[q->count - 1]);
    }
    tft_schema_print_time(&d->schema, tft_data_time(d, w->entity, w->origin), moment, sizeof moment);
    snprintf(c->title, sizeof c->title, "%.60s%s%.60s, from %.16s", d->entities[w->entity].id, O > 1 ? ", " : "",
             O > 1 ? d->schema.inputs[d->schema.targets[o]].name : "", moment);
    halay_snprintf(c->band, sizeof c->band, "P%.3g-P%.3g", 100 * q->values[0], 100 * q->values[q->count - 1]);
    return HALAY_OK;
}

void tft_forecast_chart_fini(struct tft_forecast_chart *c)
{
    free(c->truth);
    free(c->low);
    free(c->middle);
    free(c->high);
    *c = (struct tft_forecast_chart){ 0 };
}

void tft_forecast_chart_write(FILE *f, const struct tft_forecast_chart *c, const double *weights, const char *label)
{
    size_t n = c->history + c->horizon;
    double *x = calloc(n + 1, sizeof *x);

    for (size_t i = 0; x && i < n; i++)
        x[i] = (double)i - (double)c->history + 1;
    if (x) {
        const struct tft_line lines[] = { { "truth", "truth", x, c->truth, n },
                                          { "median", "model", x + c->history, c->middle, c->horizon } };
        tft_chart_write(f, &(struct tft_chart){ .title = c->title,
                                                .x_label = "steps from the forecast's origin",
                                                .width = 520,
                                                .height = 290,
                                                .lines = lines,
                                                .line_count = 2,
                                                .band_label = c->band,
                                                .band_x = x + c->history,
                                                .band_low = c->low,
                                                .band_high = c->high,
                                                .band_count = c->horizon,
                                                .share = { label, "share", x, weights, weights ? n : 0 },
                                                .has_mark = 1,
                                                .mark = 0 });
    }
    free(x);
}
