/* SPDX-License-Identifier: Apache-2.0
 *
 * The forecast's nodes, target by target: (B, D, Q), in double like the scalers.
 */
#include "base/memory.h"
#include "tft/tools/export/onnx_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- calibration's document ---- */

/* Returns nonzero if a target before this one has factors of the entity. */
static int is_listed(json_t *targets, const char *before, const char *id)
{
    const char *name;
    json_t *target;

    json_object_foreach(targets, name, target) {
        if (!strcmp(name, before))
            return 0;
        if (json_object_get(json_object_get(target, "by_entity"), id))
            return 1;
    }
    return 0;
}

/* Lists the entities that have factors of some target; ids: room for them, or NULL to count them. */
static size_t list_ids(const json_t *document, const char **ids)
{
    json_t *targets = json_object_get(document, "targets"), *target, *factors;
    const char *name, *id;
    size_t n = 0;

    json_object_foreach(targets, name, target) {
        json_object_foreach(json_object_get(target, "by_entity"), id, factors) {
            if (is_listed(targets, name, id))
                continue;
            if (ids)
                ids[n] = id;
            n++;
        }
    }
    return n;
}

enum halay_status onnx_calibration_init(struct halay_log *log, const char *folder, const struct tft_run *run,
                                        const json_t *document, struct onnx_calibration *calibration)
{
    size_t most = list_ids(document, NULL);
    struct onnx_calibration c = { .ids = calloc(most + 1, sizeof *c.ids) };
    struct tft_data data = { .schema = run->schema, .entities = calloc(most + 1, sizeof *data.entities) };
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (c.ids && data.entities) {
        c.count = list_ids(document, c.ids);
        data.entity_count = c.count;
        for (size_t e = 0; e < c.count; e++)
            data.entities[e].id = c.ids[e];
        status = tft_calibration_take(log, folder, document, run, &data, &c.factors);
    } else {
        halay_error(log, "no memory for a calibration");
    }
    free(data.entities);
    if (status)
        onnx_calibration_fini(&c);
    else
        *calibration = c;
    return status;
}

void onnx_calibration_fini(struct onnx_calibration *c)
{
    tft_calibration_fini(&c->factors);
    free(c->ids);
    *c = (struct onnx_calibration){ 0 };
}

/* ---- one target ---- */

struct target {
    struct onnx_inputs *in; /* borrowed */
    struct onnx_graph *g;
    const struct tft_run *run;
    size_t number, input; /* among the targets, and in the schema */
};

static size_t undo_window(struct target *t, size_t p)
{
    size_t offset = t->in->mean[t->input], unit = t->in->spread[t->input];

    if (unit)
        p = ONNX_OP(t->g, "Mul", p, onnx_unsqueeze(t->g, unit, 2));
    return offset ? ONNX_OP(t->g, "Add", p, onnx_unsqueeze(t->g, offset, 2)) : p;
}

/* Returns the factor to apply, where 0 leaves the band unchanged. */
static double usable_factor(const struct tft_band *band, double factor)
{
    return isnan(factor) ? 0 : fmax(factor, tft_band_least(band));
}

/* Returns the factors of the samples: (B or 1, D, bands). */
static size_t factors_of(struct target *t, const struct onnx_calibration *c)
{
    size_t D = c->factors.horizon, bands = c->factors.band_count, rows = c->count + 1, of_row = D * bands, all;
    double *values = halay_mul_overflows(rows, of_row, &all) ? NULL : calloc(all + 1, sizeof *values);
    enum tft_calibrated_by by;
    size_t factors = ONNX_NONE;

    t->g->failed |= !values;
    for (size_t i = 0; values && i < all; i++) {
        size_t e = i / of_row, h = i % of_row / bands, b = i % bands;
        double factor = e < c->count ? tft_calibration_factor(&c->factors, e, t->number, h, b, &by)
                                     : c->factors.by_horizon[t->number * of_row + i % of_row];
        values[i] = usable_factor(&c->factors.bands[b], factor);
    }
    if (values)
        factors = onnx_doubles(t->g, values, (const size_t[]){ rows, D, bands }, 3);
    if (values && c->count)
        factors = onnx_gather(t->g, factors,
                              onnx_codes(t->g, onnx_inputs_id(t->in), c->ids, NULL, c->count, (int64_t)c->count), 0);
    free(values);
    return factors;
}

/* Returns how far the ends of a band of this width move, by its factor or by that of flat forecasts. */
static size_t move_of(struct target *t, size_t width, size_t factor, size_t of_flat)
{
    size_t has_width = ONNX_OP(t->g, "Greater", width, onnx_double(t->g, TFT_FLAT_WIDTH));

    return ONNX_OP(t->g, "Where", has_width, ONNX_OP(t->g, "Mul", width, factor), of_flat);
}

/* Sorts the quantiles in ascending order. */
static size_t sort_quantiles(struct target *t, size_t p)
{
    const int64_t count = (int64_t)t->run->config.quantiles.count;
    const size_t of[] = { p, onnx_integers(t->g, &count, (const size_t[]){ 1 }, 1) };
    size_t sorted[2];

    onnx_set_integer(t->g, "largest", 0);
    onnx_node(t->g, "TopK", of, 2, sorted, 2);
    return sorted[0];
}

/* Widens the bands as tft_bands_widen does. */
static size_t calibrate_target(struct target *t, const struct onnx_calibration *c, size_t p)
{
    size_t Q = c->factors.quantile_count, before[TFT_BANDS_MAX + 1], q[TFT_BANDS_MAX + 1];
    size_t sorted = sort_quantiles(t, p);
    size_t factors = factors_of(t, c), bands = c->factors.band_count / 2; /* the second half is for flat forecasts */

    for (size_t i = 0; i < Q; i++)
        q[i] = before[i] = onnx_slice(t->g, sorted, -1, i, i + 1);
    for (size_t b = 0; b < bands; b++) {
        const struct tft_band *band = &c->factors.bands[b];
        size_t width = ONNX_OP(t->g, "Sub", before[band->high], before[band->low]);
        size_t move = move_of(t, width, onnx_slice(t->g, factors, -1, b, b + 1),
                              onnx_slice(t->g, factors, -1, bands + b, bands + b + 1));
        if (band->has_low)
            q[band->low] = ONNX_OP(t->g, "Sub", before[band->low], move);
        if (band->has_high)
            q[band->high] = ONNX_OP(t->g, "Add", before[band->high], move);
    }
    for (size_t i = c->factors.median; i-- > 0;)
        q[i] = ONNX_OP(t->g, "Min", q[i], q[i + 1]);
    for (size_t i = c->factors.median + 1; i < Q; i++)
        q[i] = ONNX_OP(t->g, "Max", q[i], q[i - 1]);
    return onnx_concat(t->g, q, Q, -1);
}

static size_t undo_entity(struct target *t, size_t p)
{
    const struct tft_input *input = &t->run->schema.inputs[t->input];
    size_t shift, scale;

    if (input->scale == TFT_SCALE_NONE)
        return p;
    onnx_inputs_scaler(t->in, t->input, &shift, &scale);
    if (input->per != TFT_PER_ALL) {
        shift = onnx_unsqueeze(t->g, shift, 2);
        scale = onnx_unsqueeze(t->g, scale, 2);
    }
    p = ONNX_OP(t->g, "Add", ONNX_OP(t->g, "Mul", p, scale), shift);
    if (input->scale == TFT_SCALE_LOG1P)
        p = ONNX_OP(t->g, "Sub", ONNX_OP(t->g, "Exp", p), onnx_double(t->g, 1));
    return p;
}

size_t onnx_forecast(struct onnx_inputs *in, const struct onnx_calibration *calibration, size_t quantiles)
{
    const struct tft_schema *s = &in->run->schema;
    size_t of_targets[TFT_INPUTS_MAX];

    in->g->part = "forecast";
    quantiles = onnx_cast(in->g, quantiles, ONNX_DOUBLE);
    for (size_t o = 0; o < s->target_count; o++) {
        struct target t = { .in = in, .g = in->g, .run = in->run, .number = o, .input = s->targets[o] };
        size_t p = undo_window(&t, onnx_element(in->g, quantiles, 2, o));
        if (in->run->config.conformance == TFT_PUBLISHED)
            p = sort_quantiles(&t, p);
        if (calibration)
            p = calibrate_target(&t, calibration, p);
        of_targets[o] = onnx_unsqueeze(in->g, onnx_cast(in->g, undo_entity(&t, p), ONNX_FLOAT), 2);
    }
    return onnx_concat(in->g, of_targets, s->target_count, 2);
}
