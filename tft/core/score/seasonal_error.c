/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over an entity's rows that grow from window to window. Zero-initialised, fini accepts half-built.
 */
#include "tft/core/score/seasonal_error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum halay_status tft_seasonal_error_init(struct halay_log *log, const struct tft_data *data,
                                          struct tft_seasonal_error *error)
{
    const size_t targets = data->schema.target_count;

    *error = (struct tft_seasonal_error){ .data = data };
    error->sums = calloc(targets, sizeof *error->sums);
    error->errors = calloc(targets, sizeof *error->errors);
    if (error->sums && error->errors)
        return HALAY_OK;
    halay_error(log, "no memory for scores");
    return HALAY_ERR_NO_MEMORY;
}

void tft_seasonal_error_fini(struct tft_seasonal_error *error)
{
    free(error->sums);
    free(error->errors);
    *error = (struct tft_seasonal_error){ 0 };
}

/* Begin again with no rows of an entity; what was found stays. */
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
