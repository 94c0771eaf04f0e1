/* SPDX-License-Identifier: Apache-2.0
 *
 * The calibrator. All windows pass through it on one thread in their order, so that nothing depends on ranks or
 * threads. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/core/score/calibrator.h"
#include "base/number_text.h"
#include "tft/core/score/scores.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = TFT_RECENT + 1 };

enum halay_status tft_calibrator_init(struct halay_log *log, const struct tft_data *data, int is_rolling,
                                      struct tft_calibration *calibration, struct tft_calibrator *calibrator)
{
    struct tft_calibrator c = { .log = log, .data = data, .is_rolling = is_rolling, .calibration = *calibration };

    *calibration = (struct tft_calibration){ 0 };
    c.before =
        calloc(c.calibration.horizon * c.calibration.target_count, c.calibration.quantile_count * sizeof *c.before);
    if (is_rolling)
        c.recent = calloc(data->entity_count + 1, sizeof *c.recent);
    if (!c.before || (is_rolling && !c.recent)) {
        halay_error(log, "no memory for a calibration");
        tft_calibrator_fini(&c);
        return HALAY_ERR_NO_MEMORY;
    }
    *calibrator = c;
    return HALAY_OK;
}

void tft_calibrator_fini(struct tft_calibrator *c)
{
    for (size_t e = 0; c->recent && e < c->data->entity_count; e++)
        free(c->recent[e].scores);
    free(c->recent);
    free(c->before);
    tft_calibration_fini(&c->calibration);
    *c = (struct tft_calibrator){ 0 };
}

static size_t values_of(const struct tft_calibration *c)
{
    return c->target_count * c->horizon * c->band_count;
}

void tft_calibration_scores(const struct tft_calibration *c, const struct tft_data *d, const struct tft_window *w,
                            const float *p, float *scores)
{
    size_t O = c->target_count, Q = c->quantile_count;

    for (size_t h = 0; h < c->horizon; h++)
        for (size_t o = 0; o < O; o++) {
            size_t row = w->origin + h;
            double y = tft_data_forecast_target(d, row, o), sorted[TFT_SCORE_QUANTILES_MAX];
            float *to = scores + (o * c->horizon + h) * c->band_count;
            for (size_t q = 0; q < Q; q++)
                sorted[q] = p[(h * O + o) * Q + q];
            tft_quantiles_sort(sorted, Q);
            for (size_t b = 0; b < c->band_count; b++)
                to[b] = d->present[row * O + o] ? (float)tft_band_score(&c->bands[b], sorted, y) : NAN;
        }
}

enum halay_status tft_calibrator_note(struct tft_calibrator *c, const struct tft_window *w, const float *p)
{
    struct tft_recent *r = &c->recent[w->entity];
    size_t values = values_of(&c->calibration), slot = r->count % SLOTS;

    if (r->count && w->origin < r->origins[(r->count - 1) % SLOTS] + c->calibration.horizon)
        return HALAY_OK;
    if (!r->scores)
        r->scores = malloc((SLOTS * values + 1) * sizeof *r->scores);
    if (!r->scores) {
        halay_error(c->log, "no memory for the latest windows of %zu entities", c->data->entity_count);
        return HALAY_ERR_NO_MEMORY;
    }
    enum halay_status status = tft_data_check(c->data, w->origin, c->calibration.horizon);
    if (status)
        return status;
    tft_calibration_scores(&c->calibration, c->data, w, p, r->scores + slot * values);
    r->origins[slot] = w->origin;
    r->count++;
    return HALAY_OK;
}

/* The factor that the latest windows give a forecast from this origin; NAN: they have too few values. */
static double recent_factor(const struct tft_calibrator *c, const struct tft_window *w, size_t at, double level)
{
    const struct tft_recent *r = &c->recent[w->entity];
    double scores[TFT_RECENT];
    size_t values = values_of(&c->calibration), last = r->count, n = 0;

    if (last && r->origins[(last - 1) % SLOTS] + c->calibration.horizon > w->origin)
        last--; /* this one's targets are not all known at the origin */
    for (size_t i = last > TFT_RECENT ? last - TFT_RECENT : 0; i < last; i++) {
        float score = r->scores[i % SLOTS * values + at];
        if (!isnan(score))
            scores[n++] = score;
    }
    return tft_conformal_factor(scores, n, level);
}

/* The factors of a step's bands that apply to its forecast, p (quantiles) in order; NAN of the others. */
static void choose_factors(struct tft_calibrator *c, const struct tft_window *w, size_t target, size_t h,
                           const double *p, double *factors)
{
    const struct tft_calibration *stored = &c->calibration;

    for (size_t b = 0; b < stored->band_count; b++) {
        enum tft_calibrated_by by = TFT_BY_RECENT;
        size_t at = (target * stored->horizon + h) * stored->band_count + b;
        factors[b] = NAN;
        if (!tft_band_applies(&stored->bands[b], p))
            continue;
        factors[b] = c->is_rolling ? recent_factor(c, w, at, stored->bands[b].level) : NAN;
        if (isnan(factors[b]))
            factors[b] = tft_calibration_factor(stored, w->entity, target, h, b, &by);
        c->by[by]++;
    }
}

enum halay_status tft_calibrator_apply(struct tft_calibrator *c, const struct tft_window *w, float *p)
{
    const struct tft_calibration *stored = &c->calibration;
    size_t O = stored->target_count, Q = stored->quantile_count;

    memcpy(c->before, p, stored->horizon * O * Q * sizeof *p);
    for (size_t i = 0; i < stored->horizon * O; i++) {
        double factors[TFT_BANDS_MAX], wide[TFT_SCORE_QUANTILES_MAX];
        for (size_t q = 0; q < Q; q++)
            wide[q] = p[i * Q + q];
        tft_quantiles_sort(wide, Q);
        choose_factors(c, w, i % O, i / O, wide, factors);
        tft_bands_widen(stored->bands, stored->band_count, factors, stored->median, wide, Q);
        for (size_t q = 0; q < Q; q++)
            p[i * Q + q] = (float)wide[q];
    }
    return c->is_rolling ? tft_calibrator_note(c, w, c->before) : HALAY_OK;
}

/* ---- what was done ---- */

static const char *const keys[TFT_CALIBRATED_BY_COUNT] = { "recent", "entity", "horizon", "none" };

json_t *tft_calibrator_json(const struct tft_calibrator *c)
{
    json_t *object = json_object();
    size_t all = 0;

    for (size_t i = 0; i < TFT_CALIBRATED_BY_COUNT; i++)
        all += c->by[i];
    for (size_t i = 0; i < TFT_CALIBRATED_BY_COUNT; i++)
        json_object_set_new(object, keys[i], all ? json_real((double)c->by[i] / (double)all) : json_null());
    return object;
}

void tft_calibrator_describe(const json_t *shares, char *text, size_t size)
{
    static const char *const words[TFT_CALIBRATED_BY_COUNT] = { "by the entity's latest windows",
                                                                "by its validation windows",
                                                                "by all entities' validation windows",
                                                                "not, for want of windows" };
    size_t used = 0;

    *text = 0;
    for (size_t i = 0; i < TFT_CALIBRATED_BY_COUNT; i++) {
        double share = json_number_value(json_object_get(shares, keys[i]));
        if (share > 0 && used < size)
            used += (size_t)halay_snprintf(text + used, size - used, "%s%.3g %% %s", used ? ", " : "", 100 * share,
                                           words[i]);
    }
}
