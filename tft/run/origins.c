/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/run/origins.h"
#include "base/memory.h"
#include "tft/run/window_scale.h"
#include <math.h>
#include <stdlib.h>

enum { SPAN_PART = 6 };

/* The steps that a sixth of the training span has, or the validation span, if that is shorter. */
static int64_t steps_apart(const struct tft_data *d)
{
    const struct tft_schema *s = &d->schema;
    int64_t first = INT64_MAX, valid, train;

    for (size_t e = 0; e < d->entity_count; e++)
        first = d->entities[e].start < first ? d->entities[e].start : first;
    if (first >= s->split_end[TFT_TRAIN])
        return 0;
    train = tft_period_between(&s->every, first, s->split_end[TFT_TRAIN]) / SPAN_PART;
    valid = tft_period_between(&s->every, s->split_end[TFT_TRAIN], s->split_end[TFT_VALID]);
    return valid < train ? valid : train;
}

enum halay_status tft_origins_init(struct halay_log *log, struct tft_data *d, struct tft_origins *o)
{
    const struct tft_schema *s = &d->schema;
    size_t count;

    *o = (struct tft_origins){ .log = log,
                               .data = d,
                               .count = 1,
                               .ends = { s->split_end[TFT_TRAIN], s->split_end[TFT_VALID] },
                               .levels = tft_schema_open_levels(s),
                               .apart = s->has_split[TFT_VALID] ? steps_apart(d) : 0 };
    if (o->apart >= (int64_t)s->horizon)
        o->count = TFT_ORIGINS;
    if (!halay_mul_overflows(d->entity_count, d->real_count, &count))
        o->scales = calloc(count + 1, sizeof *o->scales);
    if (o->scales)
        return HALAY_OK;
    halay_error(log, "no memory for the scales of %zu entities", d->entity_count);
    *o = (struct tft_origins){ 0 };
    return HALAY_ERR_NO_MEMORY;
}

/* The mean and the deviation of target number o's measured values in rows [first, end); {0, 1} of none. A value that
 * was filled may know what comes after. */
static struct tft_level level_of(const struct tft_data *d, size_t o, size_t first, size_t end)
{
    size_t O = d->schema.target_count, column = d->real_count - O + o, n = 0;
    double sum = 0, squares = 0;

    for (size_t row = first; row < end; row++) {
        n += d->present[row * O + o];
        sum += d->present[row * O + o] ? (double)d->values[row * d->real_count + column] : 0;
    }
    if (!n)
        return (struct tft_level){ 0, 1 };
    for (size_t row = first; row < end; row++) {
        double x = (double)d->values[row * d->real_count + column] - sum / (double)n;
        squares += d->present[row * O + o] ? x * x : 0;
    }
    return (struct tft_level){ (float)(sum / (double)n), (float)fmax(sqrt(squares / (double)n), tft_spread_least) };
}

/* Of column k, by the rows before the training span's present end; of a lag by its target's. */
static enum halay_status fit_column(struct tft_origins *at, size_t k)
{
    const struct tft_data *d = at->data;
    enum halay_status status = HALAY_OK;
    size_t o = 0;

    while (d->schema.targets[o] != d->schema.inputs[d->reals[k]].base)
        o++;
    for (size_t e = 0; e < d->entity_count && !status; e++) {
        size_t first = d->entities[e].first, rows = tft_data_split_rows(d, e, TFT_TRAIN);
        status = tft_data_check(d, first, rows);
        if (!status)
            at->scales[e * d->real_count + k] = level_of(d, o, first, first + rows);
    }
    return status;
}

static enum halay_status fit(struct tft_origins *o)
{
    const struct tft_data *d = o->data;
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < d->entity_count * d->real_count; i++)
        o->scales[i] = (struct tft_level){ 0, 1 };
    for (size_t k = 0; k < d->real_count && !status && o->levels & TFT_LEVELS_WINDOW; k++)
        if (tft_schema_is_open(&d->schema, d->reals[k]))
            status = fit_column(o, k);
    return status;
}

enum halay_status tft_origins_go(struct tft_origins *o, int number, const struct tft_level **levels)
{
    struct tft_schema *s = &o->data->schema;

    s->split_end[TFT_TRAIN] = number ? tft_period_add(&s->every, o->ends[0], -number * o->apart) : o->ends[0];
    s->split_end[TFT_VALID] = number ? tft_period_add(&s->every, s->split_end[TFT_TRAIN], o->apart) : o->ends[1];
    *levels = number ? o->scales : NULL;
    return number ? fit(o) : HALAY_OK;
}

void tft_origins_fini(struct tft_origins *o)
{
    if (o->data) {
        o->data->schema.split_end[TFT_TRAIN] = o->ends[0];
        o->data->schema.split_end[TFT_VALID] = o->ends[1];
    }
    free(o->scales);
    *o = (struct tft_origins){ 0 };
}
