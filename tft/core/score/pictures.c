/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures of single forecasts.
 */
#include "base/memory.h"
#include "tft/core/score/inference.h"
#include "tft/core/score/scores.h"
#include <math.h>

enum { FORECASTS_MAX = 6, HISTORY_MAX = 96 };

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Returns a quantile of a target at each step of the horizon. */
static json_t *quantile_json(const struct tft_inference *s, const struct tft_window *w, const float *p, size_t target,
                             size_t q)
{
    const struct tft_scaler *scaler = tft_data_target_scaler(&s->data, w->entity, target);
    const size_t Q = s->run.config.quantiles.count, O = s->data.schema.target_count;
    json_t *values = json_array();

    for (size_t h = 0; h < s->data.schema.horizon; h++)
        json_array_append_new(values, number(tft_scaler_undo(scaler, (double)p[(h * O + target) * Q + q])));
    return values;
}

static json_t *actual_json(const struct tft_data *d, size_t first, size_t count, size_t target)
{
    const size_t O = d->schema.target_count;
    json_t *values = json_array();

    for (size_t row = first; row < first + count; row++)
        json_array_append_new(values, d->present[row * O + target] ? number(d->target[row * O + target]) : json_null());
    return values;
}

/* Makes a window's forecast p (D, O, Q), scaled, of one target into an object in the target's unit: "entity", "target"
 * (of several), "from" (the first moment forecast), "history" (steps before that), "actual" (those and the horizon's;
 * null: not measured), "low", "middle", "high", "band" (names of these quantiles). *picture is a new reference.
 * HALAY_ERR_NO_MEMORY, HALAY_ERR_FORMAT (damaged data), both logged. */
static enum halay_status draw_forecast(const struct tft_inference *s, const struct tft_window *w, const float *p,
                                       size_t target, json_t **picture)
{
    const struct tft_data *d = &s->data;
    const struct tft_list *q = &s->run.config.quantiles;
    const size_t past = w->length < HISTORY_MAX ? w->length : HISTORY_MAX;
    const size_t use[] = { 0, tft_median_of(q->values, q->count), q->count - 1 };
    char from[40], name[3][32];
    enum halay_status status = tft_data_check(d, w->origin - past, past + d->schema.horizon);

    if (status)
        return status;
    tft_schema_print_time(&d->schema, tft_data_time(d, w->entity, w->origin), from, sizeof from);
    for (int i = 0; i < 3; i++)
        tft_quantile_name(q->values[use[i]], name[i], sizeof name[i]);
    *picture =
        json_pack("{ss ss sI so so so so s[sss]}", "entity", d->entities[w->entity].id, "from", from, "history",
                  (json_int_t)past, "actual", actual_json(d, w->origin - past, past + d->schema.horizon, target), "low",
                  quantile_json(s, w, p, target, use[0]), "middle", quantile_json(s, w, p, target, use[1]), "high",
                  quantile_json(s, w, p, target, use[2]), "band", name[0], name[1], name[2]);
    if (!*picture)
        return halay_no_memory(s->log, "for the forecasts to draw");
    if (d->schema.target_count > 1)
        json_object_set_new(*picture, "target", json_string(d->schema.inputs[d->schema.targets[target]].name));
    return HALAY_OK;
}

/* ---- some windows of many ---------------------------------------------------------------------------------------- */

struct album {
    struct tft_inference *inference;
    uint64_t numbers[FORECASTS_MAX];
    json_t *forecasts[FORECASTS_MAX]; /* owned */
    size_t count;
};

/* Chooses windows of the split, spread over entities and time. */
static void album_choose(struct album *a, const struct tft_windows *w)
{
    const size_t entities = w->data->entity_count;

    for (size_t k = 0; k < FORECASTS_MAX; k++) {
        size_t e = entities > FORECASTS_MAX ? k * entities / FORECASTS_MAX : k % entities;
        size_t before = tft_windows_before(w, e), count = tft_windows_before(w, e + 1) - before;
        if (count)
            a->numbers[a->count++] = before + (2 * k + 1) * count / (2 * FORECASTS_MAX);
    }
}

/* Keeps a forecast if it is one of the chosen; each shows one of the targets. */
static enum halay_status album_take(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    struct album *a = arg;
    const size_t targets = a->inference->data.schema.target_count;
    enum halay_status status = HALAY_OK;

    for (size_t k = 0; k < a->count && !status; k++)
        if (a->numbers[k] == position && !a->forecasts[k])
            status = draw_forecast(a->inference, w, p, k % targets, &a->forecasts[k]);
    return status;
}

enum halay_status tft_pictures_evaluate(struct tft_inference *s, const struct tft_window_choice *choice,
                                        json_t **result)
{
    struct tft_windows windows = { 0 };
    struct album album = { .inference = s };
    json_t *forecasts = json_array();
    enum halay_status status = tft_windows_init(s->log, &s->data, choice->split, choice->stride, &windows);

    if (!status) {
        album_choose(&album, &windows);
        status = tft_inference_evaluate(s, choice, album_take, &album, result);
    }
    for (size_t k = 0; k < album.count; k++)
        json_array_append_new(forecasts, album.forecasts[k]);
    if (!status)
        json_object_set_new(*result, "pictures", json_pack("{sO}", "forecasts", forecasts));
    json_decref(forecasts);
    tft_windows_fini(&windows);
    return status;
}
