/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration: bands, the document, and its use. References: Romano, Patterson and Candes 2019 for conformalised
 * quantile regression; Kivaranovic, Johnson and Leeb 2020 and Sesia and Candes 2020 for errors relative to the width.
 *
 * All windows pass through the calibrator on one thread in their order, so that
 * nothing depends on ranks or threads.
 */
#include "tft/core/score/calibration.h"
#include "base/bins.h"
#include "base/number_text.h"
#include "tft/core/data/paths.h"
#include "tft/core/score/scores.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { FORMAT_VERSION = 1, SLOTS = TFT_RECENT + 1 };

/* ---- conformal bands ---- */

size_t tft_bands_of(const double *quantiles, size_t count, struct tft_band bands[TFT_BANDS_MAX])
{
    size_t median = tft_median_of(quantiles, count), n = 0;

    for (size_t q = 0; q < count; q++) {
        int partner = tft_interval_partner(quantiles, count, q);
        if (partner > (int)q)
            bands[n++] = (struct tft_band){ q, (size_t)partner, 1, 1, 0, quantiles[partner] - quantiles[q] };
        else if (partner == TFT_NO_PARTNER && q < median)
            bands[n++] = (struct tft_band){ q, median, 1, 0, 0, 1 - quantiles[q] };
        else if (partner == TFT_NO_PARTNER && q > median)
            bands[n++] = (struct tft_band){ median, q, 0, 1, 0, quantiles[q] };
    }
    for (size_t b = 0; b < n; b++) {
        bands[n + b] = bands[b];
        bands[n + b].is_flat = 1;
    }
    return 2 * n;
}

int tft_band_applies(const struct tft_band *band, const double *p)
{
    return (p[band->high] - p[band->low] <= TFT_FLAT_WIDTH) == band->is_flat;
}

double tft_band_score(const struct tft_band *band, const double *p, double y)
{
    double width = band->is_flat ? 1 : p[band->high] - p[band->low];
    double below = band->has_low ? p[band->low] - y : -INFINITY, above = band->has_high ? y - p[band->high] : -INFINITY;
    double score = fmax(below, above) / width;

    return tft_band_applies(band, p) && isfinite(score) ? score : NAN;
}

double tft_conformal_factor(double *scores, size_t count, double level)
{
    double rank = ceil((double)(count + 1) * level - 1e-9);

    if (count < TFT_CONFORMAL_LEAST || rank > (double)count)
        return NAN;
    halay_sort_doubles(scores, count);
    return scores[(size_t)fmax(rank, 1) - 1];
}

double tft_conformal_kept(double factor, size_t count)
{
    return factor < 0 ? factor * (double)count / (double)(count + TFT_CONFORMAL_LEAST) : factor;
}

void tft_quantiles_sort(double *p, size_t count)
{
    for (size_t i = 1; i < count; i++) /* they are few, and nearly always in order */
        for (size_t j = i; j > 0 && p[j] < p[j - 1]; j--) {
            double lower = p[j];
            p[j] = p[j - 1];
            p[j - 1] = lower;
        }
}

double tft_band_least(const struct tft_band *band)
{
    if (band->is_flat)
        return 0;
    return band->has_low && band->has_high ? -0.5 : -1;
}

void tft_bands_widen(const struct tft_band *bands, size_t band_count, const double *factors, size_t median, double *p,
                     size_t count)
{
    double before[TFT_SCORE_QUANTILES_MAX];

    tft_quantiles_sort(p, count);
    memcpy(before, p, count * sizeof *p);
    for (size_t b = 0; b < band_count; b++) {
        const struct tft_band *band = &bands[b];
        double width = band->is_flat ? 1 : before[band->high] - before[band->low];
        double move = fmax(factors[b], tft_band_least(band)) * width;
        if (isnan(factors[b]) || !tft_band_applies(band, before))
            continue;
        if (band->has_low)
            p[band->low] = before[band->low] - move;
        if (band->has_high)
            p[band->high] = before[band->high] + move;
    }
    for (size_t q = median; q-- > 0;)
        p[q] = fmin(p[q], p[q + 1]);
    for (size_t q = median + 1; q < count; q++)
        p[q] = fmax(p[q], p[q - 1]);
}

/* ---- save ---- */

/* Prints the CRC-32 of what makes the forecasts: parameters, members and blend. */
static void print_crc(const struct tft_param_table *table, const float *params, const struct tft_members *members,
                      const struct tft_blend *blend, char text[16])
{
    char of_member[16];

    tft_run_print_crc(table, params, text);
    for (size_t i = 0; i < members->count; i++) {
        tft_run_print_crc(table, members->params[i], of_member);
        uLong both = crc32(strtoul(text, NULL, 16), (const unsigned char *)of_member, (uInt)strlen(of_member));
        snprintf(text, 16, "%08x", (unsigned)both);
    }
    if (!blend->errors)
        return;
    uLong crc = crc32_z(strtoul(text, NULL, 16), (const unsigned char *)blend->weights,
                        tft_blend_weights_count(blend) * sizeof *blend->weights);
    snprintf(text, 16, "%08x", (unsigned)crc);
}

json_t *tft_calibration_json(const struct tft_param_table *table, const float *params,
                             const struct tft_members *members, const struct tft_blend *blend, long long step,
                             json_t *document)
{
    char crc[16];

    print_crc(table, params, members, blend, crc);
    json_t *whole = json_pack("{si ss sI}", "format", FORMAT_VERSION, "parameters", crc, "step", (json_int_t)step);
    if (!json_object_update(whole, document))
        return whole;
    json_decref(whole);
    return NULL;
}

enum halay_status tft_calibration_save(struct halay_log *log, const char *folder, const json_t *whole)
{
    return tft_folder_write(log, folder, "calibration.json", whole);
}

/* ---- load ---- */

static size_t values_of(const struct tft_calibration *c)
{
    return c->target_count * c->horizon * c->band_count;
}

/* Returns memory for this number of factors, none of which is known; NULL if it runs out. */
static double *no_factors(struct tft_calibration *c, size_t count)
{
    double *factors = halay_region_alloc(&c->memory, count, sizeof *factors);

    for (size_t i = 0; factors && i < count; i++)
        factors[i] = NAN;
    return factors;
}

enum halay_status tft_calibration_init(struct halay_log *log, const struct tft_list *quantiles,
                                       const struct tft_data *data, struct tft_calibration *c)
{
    *c = (struct tft_calibration){ .target_count = data->schema.target_count,
                                   .horizon = data->schema.horizon,
                                   .quantile_count = quantiles->count,
                                   .median = tft_median_of(quantiles->values, quantiles->count) };
    c->band_count = tft_bands_of(quantiles->values, quantiles->count, c->bands);
    c->by_horizon = no_factors(c, values_of(c));
    c->entry = halay_region_alloc(&c->memory, data->entity_count, sizeof *c->entry);
    if (c->memory.failed) {
        tft_calibration_fini(c);
        return halay_no_memory(log, "for a calibration");
    }
    for (size_t e = 0; e < data->entity_count; e++)
        c->entry[e] = SIZE_MAX;
    return HALAY_OK;
}

void tft_calibration_fini(struct tft_calibration *c)
{
    halay_region_fini(&c->memory);
    *c = (struct tft_calibration){ 0 };
}

/* Reads factors of (horizon, bands); HALAY_ERR_FORMAT if the list has another shape. Older files have none of the flat
 * bands, the second half. */
static enum halay_status read_factors(const struct tft_calibration *c, const json_t *list, double *factors)
{
    if (json_array_size(list) != c->horizon)
        return HALAY_ERR_FORMAT;
    for (size_t h = 0; h < c->horizon; h++, factors += c->band_count) {
        const json_t *bands = json_array_get(list, h);
        const size_t count = json_array_size(bands);
        if (count != c->band_count && 2 * count != c->band_count)
            return HALAY_ERR_FORMAT;
        for (size_t b = 0; b < count; b++) {
            const json_t *factor = json_array_get(bands, b);
            if (!json_is_number(factor) && !json_is_null(factor))
                return HALAY_ERR_FORMAT;
            factors[b] = json_is_number(factor) ? json_number_value(factor) : NAN;
        }
    }
    return HALAY_OK;
}

/* Numbers the entities of the data that the document knows; returns how many it does. */
static size_t number_entries(const struct tft_data *data, const json_t *targets, size_t *entry)
{
    size_t n = 0;
    const char *name;
    json_t *target;

    for (size_t e = 0; e < data->entity_count; e++) {
        int is_known = 0;
        json_object_foreach((json_t *)targets, name, target)
            is_known |= json_object_get(json_object_get(target, "by_entity"), data->entities[e].id) != NULL;
        entry[e] = is_known ? n++ : SIZE_MAX;
    }
    return n;
}

static enum halay_status read_targets(struct halay_log *log, const json_t *targets, const struct tft_data *data,
                                      struct tft_calibration *c)
{
    const size_t entries = number_entries(data, targets, c->entry), of_target = c->horizon * c->band_count;
    enum halay_status status;

    c->by_entity = no_factors(c, entries * values_of(c));
    if (!c->by_entity)
        return halay_no_memory(log, "for a calibration");
    for (size_t o = 0; o < c->target_count; o++) {
        const json_t *target = json_object_get(targets, data->schema.inputs[data->schema.targets[o]].name);
        const json_t *by_entity = json_object_get(target, "by_entity");
        if ((status = read_factors(c, json_object_get(target, "by_horizon"), c->by_horizon + o * of_target)))
            return status;
        for (size_t e = 0; e < data->entity_count; e++) {
            const json_t *factors = json_object_get(by_entity, data->entities[e].id);
            const size_t at = (c->entry[e] * c->target_count + o) * of_target; /* of a known entity */
            if (factors && (status = read_factors(c, factors, c->by_entity + at)))
                return status;
        }
    }
    return HALAY_OK;
}

static int is_of(const json_t *document, const struct tft_run *run)
{
    const char *parameters = json_string_value(json_object_get(document, "parameters"));
    char crc[16];

    print_crc(tft_model_params(run->model), run->params, &run->members, &run->blend, crc);
    return parameters && !strcmp(parameters, crc);
}

int tft_calibration_suits(struct halay_log *log, const char *folder, const json_t *document, const struct tft_run *run)
{
    if (!document || is_of(document, run))
        return document != NULL;
    halay_warning(log,
                  "intervals are not calibrated: '%s/calibration.json' was made with other parameters than the run has "
                  "now; 'halay-tft train --resume' makes it anew",
                  folder ? folder : "memory");
    return 0;
}

/* Returns HALAY_OK if the document is a calibration of this run, of the parameters that it has now. */
static enum halay_status check_document(struct halay_log *log, const char *folder, const json_t *document,
                                        const struct tft_run *run)
{
    json_t *quantiles = tft_list_json(&run->config.quantiles);
    const int is_current = is_of(document, run) && json_equal(quantiles, json_object_get(document, "quantiles"));

    json_decref(quantiles);
    if (json_integer_value(json_object_get(document, "format")) != FORMAT_VERSION)
        return halay_fail(log, HALAY_ERR_FORMAT,
                          "'%s/calibration.json' is not a calibration that this version reads; 'halay-tft train "
                          "--resume' makes one",
                          folder);
    if (is_current)
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_FORMAT,
                      "'%s/calibration.json' was made with other parameters (those of step %lld) than the run has now "
                      "(step %lld); 'halay-tft train --resume' makes it anew",
                      folder, (long long)json_integer_value(json_object_get(document, "step")), run->step);
}

static enum halay_status report_damaged(struct halay_log *log, const char *folder)
{
    return halay_fail(log, HALAY_ERR_FORMAT,
                      "'%s/calibration.json' is damaged: it does not have a factor for each horizon and interval",
                      folder);
}

enum halay_status tft_calibration_take(struct halay_log *log, const char *folder, const json_t *document,
                                       const struct tft_run *run, const struct tft_data *data,
                                       struct tft_calibration *c)
{
    enum halay_status status;

    folder = folder ? folder : "memory";
    if ((status = check_document(log, folder, document, run)) ||
        (status = tft_calibration_init(log, &run->config.quantiles, data, c)))
        return status;
    c->windows = (size_t)json_integer_value(json_object_get(document, "windows"));
    status = read_targets(log, json_object_get(document, "targets"), data, c);
    if (status == HALAY_ERR_FORMAT)
        report_damaged(log, folder);
    if (status)
        tft_calibration_fini(c);
    return status;
}

static json_t *list_bands(const struct tft_calibration *c)
{
    json_t *list = json_array();

    for (size_t b = 0; b < c->band_count; b++) {
        const struct tft_band *band = &c->bands[b];
        json_array_append_new(list, json_pack("{sI sI sb sb sb sf}", "low", (json_int_t)band->low, "high",
                                              (json_int_t)band->high, "moves_low", band->has_low, "moves_high",
                                              band->has_high, "is_flat", band->is_flat, "least", tft_band_least(band)));
    }
    return list;
}

enum halay_status tft_calibration_describe(struct halay_log *log, const char *folder, const json_t *document,
                                           const struct tft_run *run, json_t **described)
{
    const struct tft_data none = { .schema = run->schema }; /* no entities: theirs are checked below */
    json_t *targets = json_object_get(document, "targets"), *target, *factors;
    const char *name, *id;
    struct tft_calibration c;
    enum halay_status status = tft_calibration_take(log, folder, document, run, &none, &c);

    if (status)
        return status;
    json_object_foreach(targets, name, target)
        json_object_foreach(json_object_get(target, "by_entity"), id, factors)
            status = read_factors(&c, factors, c.by_horizon) ? HALAY_ERR_FORMAT : status;
    if (status)
        report_damaged(log, folder ? folder : "memory");
    else
        *described = json_pack("{ss sI sf so sO}", "kind", "calibration", "median", (json_int_t)c.median, "flat_width",
                               TFT_FLAT_WIDTH, "bands", list_bands(&c), "targets", targets);
    tft_calibration_fini(&c);
    return status;
}

enum halay_status tft_calibration_find(struct halay_log *log, const char *folder, json_t **document)
{
    return tft_folder_find(log, folder, "calibration.json", document);
}

enum halay_status tft_calibration_read(struct halay_log *log, const char *folder, json_t **document)
{
    enum halay_status status = tft_calibration_find(log, folder, document);

    if (status || *document)
        return status;
    return halay_fail(
        log, HALAY_ERR_ARGUMENT,
        "'%s' has no calibration: 'halay-tft train --out %s --data DATA --resume --calibrate conformal' makes "
        "one from the validation windows, '--calibrate none' does without",
        folder, folder);
}

/* ---- use ---- */

double tft_calibration_factor(const struct tft_calibration *c, size_t entity, size_t target, size_t horizon,
                              size_t band, enum tft_calibrated_by *by)
{
    size_t at = (target * c->horizon + horizon) * c->band_count + band, entry = c->entry[entity];
    double factor = entry == SIZE_MAX ? NAN : c->by_entity[entry * c->target_count * c->horizon * c->band_count + at];

    *by = TFT_BY_ENTITY;
    if (isnan(factor)) {
        factor = c->by_horizon[at];
        *by = isnan(factor) ? TFT_BY_NOTHING : TFT_BY_HORIZON;
    }
    return factor;
}

enum halay_status tft_calibrator_init(struct halay_log *log, const struct tft_data *data, int is_rolling,
                                      struct tft_calibration *calibration, struct tft_calibrator *c)
{
    struct tft_calibration *stored = &c->calibration;

    *c = (struct tft_calibrator){ .log = log, .data = data, .is_rolling = is_rolling, .calibration = *calibration };
    *calibration = (struct tft_calibration){ 0 };
    c->before = halay_region_alloc(&stored->memory, stored->horizon * stored->target_count * stored->quantile_count,
                                   sizeof *c->before);
    c->recent = halay_region_alloc(&stored->memory, is_rolling ? data->entity_count : 0, sizeof *c->recent);
    if (!stored->memory.failed)
        return HALAY_OK;
    tft_calibrator_fini(c);
    return halay_no_memory(log, "for a calibration");
}

void tft_calibrator_fini(struct tft_calibrator *c)
{
    tft_calibration_fini(&c->calibration);
    *c = (struct tft_calibrator){ 0 };
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
    struct tft_calibration *stored = &c->calibration;
    struct tft_recent *r = &c->recent[w->entity];
    size_t values = values_of(stored), slot = r->count % SLOTS;

    if (r->count && w->origin < r->origins[(r->count - 1) % SLOTS] + stored->horizon)
        return HALAY_OK;
    if (!r->scores && !(r->scores = halay_region_alloc(&stored->memory, SLOTS * values, sizeof *r->scores)))
        return halay_no_memory(c->log, "for the latest windows of %zu entities", c->data->entity_count);
    enum halay_status status = tft_data_check(c->data, w->origin, stored->horizon);
    if (status)
        return status;
    tft_calibration_scores(stored, c->data, w, p, r->scores + slot * values);
    r->origins[slot] = w->origin;
    r->count++;
    return HALAY_OK;
}

/* Returns the factor that the latest windows give a forecast from this origin; NAN if they have too few values. */
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

/* Finds the factors of a step's bands that apply to its forecast, p (quantiles) in order; NAN for the others. */
static void find_factors(struct tft_calibrator *c, const struct tft_window *w, size_t target, size_t h, const double *p,
                         double *factors)
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
        find_factors(c, w, i % O, i / O, wide, factors);
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
