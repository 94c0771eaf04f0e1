/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "tft/core/api/api_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void name_inputs(struct tft_forecast_room *room, const char **names)
{
    const struct tft_weight_reader *r = room->reader;
    size_t i = 0;

    for (int choice = 0; r->all && choice < TFT_CHOICES; choice++)
        for (size_t j = 0; j < r->V[choice]; j++, i++) {
            snprintf(room->input_names[i], sizeof room->input_names[i], "%s %s", tft_part_names[choice],
                     tft_weight_name(r, choice, j));
            names[i] = room->input_names[i];
        }
}

/* Returns the next `count` numbers. */
static double *take(double **numbers, size_t count)
{
    *numbers += count;
    return *numbers - count;
}

static void lay_arrays(struct tft_forecast_room *room, const struct tft_list *quantiles)
{
    const struct tft_schema *s = &room->data->schema;
    const size_t D = s->horizon, O = s->target_count, Q = quantiles->count;
    double *numbers = room->numbers, *own = take(&numbers, Q);

    memcpy(own, quantiles->values, Q * sizeof *own);
    for (size_t o = 0; o < O; o++)
        room->names[o] = s->inputs[s->targets[o]].name;
    name_inputs(room, room->names + O);
    room->forecast = (struct halay_tft_forecast){ .horizon = D,
                                                  .target_count = O,
                                                  .quantile_count = Q,
                                                  .times = room->times,
                                                  .targets = room->names,
                                                  .quantiles = own,
                                                  .values = take(&numbers, D * O * Q),
                                                  .actuals = take(&numbers, D * O),
                                                  .input_count = room->reader->all,
                                                  .inputs = room->names + O,
                                                  .weights = take(&numbers, room->reader->all),
                                                  .lag_count = room->reader->T,
                                                  .lags = take(&numbers, room->reader->T),
                                                  .scaled_actuals = take(&numbers, D * O),
                                                  .scales = take(&numbers, O) };
}

enum halay_status tft_forecast_room_init(struct halay_log *log, const struct tft_inference *inference,
                                         const struct tft_weight_reader *reader, struct tft_forecast_room *room)
{
    const struct tft_schema *s = &inference->data.schema;
    const struct tft_list *q = &inference->run.config.quantiles;
    const size_t values = s->horizon * s->target_count;

    *room = (struct tft_forecast_room){ .data = &inference->data, .reader = reader };
    const size_t numbers = q->count + values * (q->count + 2) + s->target_count + tft_weight_numbers(reader);
    room->numbers = halay_region_alloc(&room->memory, numbers, sizeof *room->numbers);
    room->times = halay_region_alloc(&room->memory, s->horizon, sizeof *room->times);
    room->names = halay_region_alloc(&room->memory, s->target_count + reader->all, sizeof *room->names);
    room->input_names = halay_region_alloc(&room->memory, reader->all, sizeof *room->input_names);
    if (room->memory.failed)
        return halay_no_memory(log, "for forecasts");
    lay_arrays(room, q);
    return HALAY_OK;
}

void tft_forecast_room_fini(struct tft_forecast_room *room)
{
    halay_region_fini(&room->memory);
    *room = (struct tft_forecast_room){ 0 };
}

/* Returns the divisor that makes differences of a target's forecasts, at their scale, comparable between entities. */
static double scale_of(const struct tft_data *d, size_t entity, size_t o)
{
    return tft_loss_is_unscaled(d->loss) ? tft_data_scaler(d, entity, d->schema.targets[o])->scale : 1;
}

static void fill_forecast(struct tft_forecast_room *room, const struct tft_window *window, const float *p)
{
    const struct tft_data *d = room->data;
    struct halay_tft_forecast *f = &room->forecast;
    const size_t O = f->target_count, Q = f->quantile_count;
    double *values = (double *)f->values, *actuals = (double *)f->actuals, *scaled = (double *)f->scaled_actuals;

    f->scaled = p;
    for (size_t o = 0; o < O; o++)
        ((double *)f->scales)[o] = scale_of(d, window->entity, o);
    for (size_t i = 0; i < f->horizon * O; i++) {
        const struct tft_scaler *scaler = tft_data_target_scaler(d, window->entity, i % O);
        const size_t row = window->origin + i / O, at = window->origin * O + i;
        for (size_t q = 0; q < Q; q++)
            values[i * Q + q] = tft_scaler_undo(scaler, (double)p[i * Q + q]);
        actuals[i] = d->present[at] ? d->target[at] : NAN;
        scaled[i] = d->present[at] ? tft_data_forecast_target(d, row, i % O) : NAN;
    }
}

enum halay_status tft_forecast_room_fill(struct tft_forecast_room *room, const struct tft_window *window,
                                         const float *p, const float *more)
{
    const struct tft_data *d = room->data;
    struct halay_tft_forecast *f = &room->forecast;

    f->entity = d->entities[window->entity].id;
    f->origin = tft_data_time(d, window->entity, window->origin - 1);
    f->number = window->entity;
    f->past = window->length;
    f->row = window->origin - d->entities[window->entity].first;
    for (size_t h = 0; h < f->horizon; h++)
        room->times[h] = tft_data_time(d, window->entity, window->origin + h);
    enum halay_status status = p ? tft_data_check(d, window->origin, f->horizon) : HALAY_OK;
    if (status || !p)
        return status;
    fill_forecast(room, window, p);
    for (size_t i = 0; more && i < f->input_count; i++)
        ((double *)f->weights)[i] = (double)more[i];
    for (size_t i = 0; more && i < f->lag_count; i++)
        ((double *)f->lags)[i] = (double)more[f->input_count + i];
    return HALAY_OK;
}
