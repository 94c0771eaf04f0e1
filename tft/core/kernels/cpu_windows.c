/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows cut from rows that lie in the device's memory. On the processor tft/core/run/batches.c copies them, to the
 * same bits; this is what windows.cu means.
 */
#include "tft/core/kernels/cpu.h"
#include <math.h>
#include <string.h>

/* A sample: what is copied and what becomes of it. */
struct sample {
    const struct windows_run *run;
    size_t b, begin, steps; /* begin: the first step that is there, of E + D */
    size_t row;             /* its row of the data */
    size_t entity;
};

static real *reals_of(const struct sample *s)
{
    const struct windows_data *d = s->run->data;

    return s->run->reals + s->b * (d->E + d->D) * d->reals;
}

static int32_t *codes_of(const struct sample *s)
{
    const struct windows_data *d = s->run->data;

    return s->run->cats + s->b * (d->E + d->D) * d->cats;
}

static void copy_rows(const struct sample *s)
{
    const struct windows_run *r = s->run;
    const struct windows_data *d = r->data;
    size_t targets = d->D * d->O, first = (s->row + s->steps - d->D) * d->O, to = s->b * targets;

    memcpy(reals_of(s) + s->begin * d->reals, d->values + s->row * d->reals, s->steps * d->reals * sizeof(real));
    for (size_t i = 0; i < s->steps * d->cats; i++)
        codes_of(s)[s->begin * d->cats + i] = d->codes[s->row * d->cats + i];
    for (size_t i = 0; i < d->statics; i++)
        r->static_reals[s->b * d->statics + i] = d->static_values[s->entity * d->statics + i];
    for (size_t i = 0; i < d->static_cats; i++)
        r->static_cats[s->b * d->static_cats + i] = d->static_codes[s->entity * d->static_cats + i];
    for (size_t i = 0; i < targets; i++) {
        r->targets[to + i] = d->values[(s->row + s->steps - d->D + i / d->O + 1) * d->reals - d->O + i % d->O];
        r->weights[to + i] = d->weights[first + i];
        r->offsets[to + i] = 0;
    }
    for (size_t o = 0; o < d->O; o++)
        r->units[s->b * d->O + o] = 1;
}

static void patch(const struct sample *s, const struct window_patch *p)
{
    const struct windows_data *d = s->run->data;

    for (size_t t = p->from; t < p->to; t++)
        if (p->array == WINDOW_REALS)
            reals_of(s)[t * d->reals + p->column] = p->value;
        else if (p->array == WINDOW_CODES)
            codes_of(s)[t * d->cats + p->column] = p->code;
        else
            s->run->static_cats[s->b * d->static_cats + p->column] = p->code;
}

/* Computes the mean and spread that scale a column, from the window's past, in two passes. */
static void find_level(const struct sample *s, size_t column, real *mean, real *spread)
{
    const struct windows_run *r = s->run;
    const struct windows_data *d = r->data;
    const real *x = reals_of(s) + s->begin * d->reals;
    size_t n = s->steps - d->D;
    double sum = 0, squares = 0;

    x += r->scaled_by[column];
    for (size_t t = 0; t < n; t++)
        sum += (double)x[t * d->reals];
    double middle = sum / (double)n;
    for (size_t t = 0; t < n; t++) {
        double away = (double)x[t * d->reals] - middle;
        squares += away * away;
    }
    *mean = (real)middle;
    *spread = (real)fmax(sqrt(squares / (double)n), (double)r->spread_least);
}

static void scale_target(const struct sample *s, size_t o, real mean, real spread)
{
    const struct windows_run *r = s->run;
    const struct windows_data *d = r->data;

    for (size_t h = 0; h < d->D; h++) {
        size_t at = (s->b * d->D + h) * d->O + o;

        r->offsets[at] = mean;
        r->targets[at] = (r->targets[at] - r->offsets[at]) / spread;
    }
    r->units[s->b * d->O + o] = spread;
}

static void scale(const struct sample *s)
{
    const struct windows_data *d = s->run->data;
    real *x = reals_of(s) + s->begin * d->reals, mean, spread;

    for (size_t o = 0; o < d->O; o++) {
        if (s->run->scaled_by[d->reals - d->O + o] < 0)
            continue;
        find_level(s, d->reals - d->O + o, &mean, &spread);
        scale_target(s, o, mean, spread);
    }
    /* The columns by which others are scaled come last. */
    for (int last = 0; last < 2; last++)
        for (size_t k = 0; k < d->reals; k++) {
            if (s->run->scaled_by[k] < 0 || (s->run->scaled_by[k] == (int32_t)k) != last)
                continue;
            find_level(s, k, &mean, &spread);
            for (size_t t = 0; t < s->steps; t++)
                x[t * d->reals + k] = (x[t * d->reals + k] - mean) / spread;
        }
}

void cpu_windows_take(struct queue *queue, const struct windows_run *run)
{
    const struct windows_data *d = run->data;

    for (size_t b = 0; b < run->B; b++) {
        const struct window_place *place = &run->places[b];
        const struct sample s = { .run = run,
                                  .b = b,
                                  .begin = d->E - place->length,
                                  .steps = place->length + d->D,
                                  .row = place->row,
                                  .entity = place->entity };

        copy_rows(&s);
        for (size_t i = 0; i < place->patches; i++)
            patch(&s, &run->patches[place->patch + i]);
        if (run->scales)
            scale(&s);
    }
    (void)queue;
}
