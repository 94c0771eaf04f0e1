/* SPDX-License-Identifier: Apache-2.0
 *
 * Making calibrations: scores of many windows, kept, and then their factors.
 */
#include "tft/core/score/calibration.h"
#include "tft/core/score/forecast.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* This many windows are enough (tft_spread). */
enum { WINDOWS_MAX = 100000 };

struct fit {
    const struct tft_data *data; /* borrowed */
    struct tft_calibration c;
    struct tft_windows windows;
    size_t count, values; /* of windows; of scores in one */
    uint64_t *numbers;    /* which windows; like the next three, of c's memory */
    size_t *entities;     /* (count) whose they are, ascending */
    float *scores;        /* (count, values) */
    double *column;       /* (count) the scores of a step and band */
};

/* Returns a forecaster that only forecasts other windows. */
static struct tft_forecaster forecaster_of(const struct tft_forecaster *like, const struct tft_windows *windows,
                                           const uint64_t *numbers)
{
    struct tft_forecaster f = *like;

    f.gather = (struct tft_gather){ .windows = windows, .numbers = numbers };
    f.calibrator = NULL;
    f.look = NULL;
    f.more = 0;
    f.chunk = NULL;
    return f;
}

static enum halay_status keep_scores(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    struct fit *f = arg;
    enum halay_status status = tft_data_check(f->data, w->origin, f->c.horizon);

    f->entities[position] = w->entity;
    if (!status)
        tft_calibration_scores(&f->c, f->data, w, p, f->scores + position * f->values);
    return status;
}

static enum halay_status fit_init(struct halay_log *log, const struct tft_data *data, const struct tft_list *quantiles,
                                  size_t max, struct fit *f)
{
    struct halay_region *memory = &f->c.memory;
    enum halay_status status;

    if ((status = tft_calibration_init(log, quantiles, data, &f->c)) ||
        (status = tft_windows_init(log, data, TFT_VALID, data->schema.horizon, &f->windows)))
        return status;
    f->data = data;
    max = max < WINDOWS_MAX ? max : WINDOWS_MAX;
    f->count = f->windows.count < max ? f->windows.count : max;
    f->values = f->c.target_count * f->c.horizon * f->c.band_count;
    f->numbers = halay_region_alloc(memory, f->count, sizeof *f->numbers);
    f->entities = halay_region_alloc(memory, f->count, sizeof *f->entities);
    f->column = halay_region_alloc(memory, f->count, sizeof *f->column);
    f->scores = halay_region_alloc(memory, f->count * f->values, sizeof *f->scores);
    if (memory->failed)
        return halay_no_memory(log, "for the scores of %zu windows", f->count);
    for (size_t i = 0; i < f->count; i++)
        f->numbers[i] = tft_spread(i, f->count, f->windows.count);
    return HALAY_OK;
}

/* Returns the factors of a target, from windows [first, end): a new reference; *found: how many there are. */
static json_t *factors_json(struct fit *f, size_t target, size_t first, size_t end, size_t *found)
{
    json_t *steps = json_array();

    *found = 0;
    for (size_t h = 0; h < f->c.horizon; h++) {
        json_t *bands = json_array();
        for (size_t b = 0; b < f->c.band_count; b++) {
            size_t n = 0, at = (target * f->c.horizon + h) * f->c.band_count + b;
            for (size_t i = first; i < end; i++) {
                float score = f->scores[i * f->values + at];
                if (!isnan(score))
                    f->column[n++] = score;
            }
            double factor = tft_conformal_kept(tft_conformal_factor(f->column, n, f->c.bands[b].level), n);
            *found += !isnan(factor);
            json_array_append_new(bands, isnan(factor) ? json_null() : json_real(factor));
        }
        json_array_append_new(steps, bands);
    }
    return steps;
}

static json_t *target_json(struct fit *f, size_t target)
{
    json_t *entities = json_object(), *factors;
    size_t found;

    for (size_t first = 0, end; first < f->count; first = end) {
        for (end = first; end < f->count && f->entities[end] == f->entities[first];)
            end++;
        factors = factors_json(f, target, first, end, &found);
        if (found)
            json_object_set(entities, f->data->entities[f->entities[first]].id, factors);
        json_decref(factors);
    }
    return json_pack("{so so}", "by_horizon", factors_json(f, target, 0, f->count, &found), "by_entity", entities);
}

static json_t *fit_json(struct fit *f, const struct tft_list *quantiles)
{
    const struct tft_schema *s = &f->data->schema;
    json_t *targets = json_object();

    for (size_t o = 0; o < s->target_count; o++)
        json_object_set_new(targets, s->inputs[s->targets[o]].name, target_json(f, o));
    return json_pack("{so sI so}", "quantiles", tft_list_json(quantiles), "windows", (json_int_t)f->count, "targets",
                     targets);
}

enum halay_status tft_calibrate(const struct tft_forecaster *like, const struct tft_data *data,
                                const struct tft_list *quantiles, size_t max, json_t **document)
{
    struct fit f = { 0 };
    enum halay_status status = fit_init(like->log, data, quantiles, max, &f);
    struct tft_forecaster forecaster = forecaster_of(like, &f.windows, f.numbers);

    if (status || (status = tft_forecaster_init(&forecaster)) ||
        (status = tft_forecast(&forecaster, f.count, keep_scores, &f)))
        goto release;
    *document = fit_json(&f, quantiles);
    if (!*document)
        status = halay_no_memory(like->log, "for a calibration");
release:
    tft_forecaster_fini(&forecaster);
    tft_windows_fini(&f.windows);
    tft_calibration_fini(&f.c);
    return status;
}

size_t tft_calibrate_found(const json_t *document)
{
    size_t found = 0, h, b;
    const char *name;
    json_t *target, *bands, *factor;

    json_object_foreach(json_object_get(document, "targets"), name, target)
        json_array_foreach(json_object_get(target, "by_horizon"), h, bands)
            json_array_foreach(bands, b, factor)
                found += json_is_number(factor);
    return found;
}

void tft_calibrate_describe(const json_t *document, const struct tft_data *data, const char *windows, char *text,
                            size_t size)
{
    const size_t factors = tft_calibrate_found(document);
    long long count = (long long)json_integer_value(json_object_get(document, "windows"));
    size_t own = 0;
    const char *name;
    json_t *target;

    json_object_foreach(json_object_get(document, "targets"), name, target) {
        size_t n = json_object_size(json_object_get(target, "by_entity"));
        own = n > own ? n : own;
    }
    if (factors && own == data->entity_count)
        snprintf(text, size, "intervals calibrated on %lld %s, each entity by its own", count, windows);
    else if (factors)
        snprintf(text, size, "intervals calibrated on %lld %s: %zu of %zu entities by their own, the others by all",
                 count, windows, own, data->entity_count);
    else
        snprintf(text, size,
                 "intervals are not calibrated: %lld %s, a horizon apart, are too few for their quantiles "
                 "(at least %d)",
                 count, windows, TFT_CONFORMAL_LEAST);
}

/* ---- recent windows ---- */

static enum halay_status note_window(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    (void)position;
    return tft_calibrator_note(arg, w, p);
}

enum halay_status tft_calibrate_recall(const struct tft_forecaster *like)
{
    struct tft_windows before = { 0 };
    struct tft_forecaster forecaster = forecaster_of(like, &before, NULL);
    enum halay_status status;

    if (!like->calibrator || !like->calibrator->is_rolling)
        return HALAY_OK;
    if (!(status = tft_windows_init_preceding(like->log, like->gather.windows, TFT_RECENT, &before)) &&
        !(status = tft_forecaster_init(&forecaster)))
        status = tft_forecast(&forecaster, before.count, note_window, like->calibrator);
    tft_forecaster_fini(&forecaster);
    tft_windows_fini(&before);
    return status;
}
