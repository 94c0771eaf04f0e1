/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/tools/explain/singles.h"
#include "tft/core/score/scores.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tft_single_layout tft_single_layout_of(const struct tft_weight_reader *r, size_t forecast)
{
    struct tft_single_layout l = { .forecast = forecast, .means = forecast };

    l.distance = l.means + r->all;
    l.lags = l.distance + 1;
    l.places = l.lags + r->T;
    l.end = l.places + r->T;
    return l;
}

void tft_single_measure(const struct tft_single_layout *l, const struct tft_weight_sums *sums,
                        const struct tft_weights *w, const struct tft_forecast_granule *granule, size_t b)
{
    const struct tft_weight_reader *r = sums->reader;
    struct tft_window window = tft_gather_window(granule->gather, (size_t)granule->batch->position + b);
    float *numbers = granule->more + b * granule->stride - l->forecast;

    tft_weight_means(r, w, granule->batch, b, numbers + l->means);
    numbers[l->distance] = (float)tft_weight_sums_distance(sums, window.entity, w, b, granule->batch->lengths[b]);
    tft_weight_lags(r, w, granule->batch, b, numbers + l->lags);
    tft_weight_places(r, w, b, numbers + l->places);
}

enum halay_status tft_single_init(const struct tft_single_layout *l, const struct tft_weight_reader *r,
                                  struct tft_single *s)
{
    *s = (struct tft_single){ .numbers = calloc(l->end, sizeof *s->numbers), .usual = calloc(r->T, sizeof *s->usual) };
    return s->numbers && s->usual ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

void tft_single_fini(struct tft_single *s)
{
    free(s->numbers);
    free(s->usual);
    *s = (struct tft_single){ 0 };
}

void tft_single_offer(struct tft_single *s, const struct tft_single_layout *l, const struct tft_weight_sums *sums,
                      const struct tft_window *window, const float *numbers, double value)
{
    if (isnan(value) || (s->has_window && value <= s->value))
        return;
    s->has_window = 1;
    s->value = value;
    s->window = *window;
    memcpy(s->numbers, numbers, l->end * sizeof *numbers);
    tft_weight_sums_usual(sums, window->entity, s->usual);
}

/* ---- errors ---- */

double tft_single_error(const struct tft_data *d, const struct tft_list *q, const struct tft_window *w,
                        const float *forecast)
{
    size_t O = d->schema.target_count, median = tft_median_of(q->values, q->count), n = 0;
    double sum = 0;

    for (size_t h = 0; h < d->schema.horizon; h++)
        for (size_t o = 0; o < O; o++) {
            size_t row = w->origin + h;
            double scale =
                tft_loss_is_unscaled(d->loss) ? tft_data_scaler(d, w->entity, d->schema.targets[o])->scale : 1;
            if (!d->present[row * O + o])
                continue;
            sum +=
                fabs(tft_data_forecast_target(d, row, o) - (double)forecast[(h * O + o) * q->count + median]) / scale;
            n++;
        }
    return n ? sum / (double)n : NAN;
}

double tft_single_mae(const struct tft_data *d, const struct tft_list *q, const struct tft_window *w,
                      const float *forecast, size_t o)
{
    const struct tft_scaler *scaler = tft_data_target_scaler(d, w->entity, o);
    size_t O = d->schema.target_count, median = tft_median_of(q->values, q->count), n = 0;
    double sum = 0;

    for (size_t h = 0; h < d->schema.horizon; h++)
        if (d->present[(w->origin + h) * O + o]) {
            double p = tft_scaler_undo(scaler, (double)forecast[(h * O + o) * q->count + median]);
            sum += fabs((double)d->target[(w->origin + h) * O + o] - p);
            n++;
        }
    return n ? sum / (double)n : NAN;
}

/* ---- by name ---- */

static int names_moment(const char *text, const char *moment)
{
    size_t n = strlen(text);

    return n && !strncmp(text, moment, n) && !(moment[n] >= '0' && moment[n] <= '9');
}

enum halay_status tft_single_find(struct halay_log *log, const struct tft_windows *windows, const char *text,
                                  size_t *number)
{
    const struct tft_data *d = windows->data;
    const char *comma = strrchr(text, ',');
    char moment[40], first[40] = "";
    int is_known = 0;

    for (size_t e = 0; e < d->entity_count && comma; e++) {
        size_t n = (size_t)(comma - text);
        if (strlen(d->entities[e].id) != n || strncmp(d->entities[e].id, text, n) != 0)
            continue;
        is_known = 1;
        for (size_t i = tft_windows_before(windows, e); i < tft_windows_before(windows, e + 1); i++) {
            struct tft_window w = tft_windows_get(windows, i);
            tft_schema_print_time(&d->schema, tft_data_time(d, e, w.origin - 1), moment, sizeof moment);
            if (names_moment(comma + 1, moment)) {
                *number = i;
                return HALAY_OK;
            }
            if (!*first)
                snprintf(first, sizeof first, "%s", moment);
        }
    }
    if (!comma)
        halay_error(log, "'--window %s' names no window: write its entity, a comma, and its origin", text);
    else if (!is_known)
        halay_error(log, "'--window %s' names no window: the data have no entity '%.*s'", text, (int)(comma - text),
                    text);
    else
        halay_error(log,
                    "'--window %s' names no window: that entity's first one has the origin '%s', the others are %zu "
                    "steps apart (--stride)",
                    text, first, windows->stride);
    return HALAY_ERR_CONFIG;
}
