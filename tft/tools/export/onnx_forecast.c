/* SPDX-License-Identifier: Apache-2.0
 *
 * The forecast's nodes, target by target: (B, D, Q), in double like the scalers.
 */
#include "tft/tools/export/onnx_impl.h"
#include <math.h>

/* Undoes the scale of the window. */
static size_t undo_window(struct onnx_graph *g, const struct onnx_input *in, size_t p)
{
    if (in->spread)
        p = ONNX_OP(g, "Mul", p, onnx_unsqueeze(g, in->spread, 2));
    return in->mean ? ONNX_OP(g, "Add", p, onnx_unsqueeze(g, in->mean, 2)) : p;
}

/* Sorts the quantiles in ascending order. */
static size_t sort_quantiles(struct onnx_graph *g, size_t p)
{
    const int64_t count = (int64_t)g->Q;
    const size_t of[] = { p, onnx_integers(g, &count, (const size_t[]){ 1 }, 1) };
    size_t sorted[2];

    onnx_set_integer(g, "largest", 0);
    onnx_node(g, "TopK", of, 2, sorted, 2);
    return sorted[0];
}

/* ---- calibration ---- */

/* Lists the entities that have factors of some target. */
static json_t *list_ids(const json_t *targets)
{
    json_t *ids = json_object(), *list = json_array(), *target, *factors;
    const char *name, *id;

    json_object_foreach((json_t *)targets, name, target)
        json_object_foreach(json_object_get(target, "by_entity"), id, factors)
            if (!json_object_get(ids, id)) {
                json_object_set(ids, id, factors);
                json_array_append_new(list, json_string(id));
            }
    json_decref(ids);
    return list;
}

static const json_t *factor_at(const json_t *factors, size_t step, size_t band)
{
    const json_t *factor = json_array_get(json_array_get(factors, step), band);

    return json_is_number(factor) ? factor : NULL;
}

/* Fills in the factors of an entity, which may have none of its own, at each step and band; 0 leaves a band
 * unchanged. */
static void fill_factors(const struct onnx_graph *g, const json_t *target, const char *id, double *values)
{
    const json_t *bands = json_object_get(g->calibration, "bands"), *general = json_object_get(target, "by_horizon");
    const json_t *own = id ? json_object_get(json_object_get(target, "by_entity"), id) : NULL;
    const size_t count = json_array_size(bands);

    for (size_t i = 0; i < g->D * count; i++) {
        const json_t *factor = factor_at(own, i / count, i % count);
        factor = factor ? factor : factor_at(general, i / count, i % count);
        if (factor)
            values[i] = fmax(json_number_value(factor), onnx_real(json_array_get(bands, i % count), "least"));
    }
}

/* Returns the factors of the samples: (B or 1, D, bands). */
static size_t factors_of(struct onnx_graph *g, const struct onnx_input *in)
{
    const json_t *targets = json_object_get(g->calibration, "targets"), *target = json_object_get(targets, in->name);
    json_t *ids = list_ids(targets);
    const size_t count = json_array_size(ids), bands = json_array_size(json_object_get(g->calibration, "bands"));
    const size_t shape[] = { count + 1, g->D, bands };
    double *values = halay_region_alloc(&g->memory, (count + 1) * g->D * bands, sizeof *values);

    for (size_t e = 0; values && e <= count; e++)
        fill_factors(g, target, json_string_value(json_array_get(ids, e)), values + e * g->D * bands);
    size_t factors = onnx_doubles(g, values, shape, 3);
    if (count)
        factors = onnx_gather(g, factors, onnx_codes(g, onnx_inputs_id(g), ids, (int64_t)count), 0);
    json_decref(ids);
    return factors;
}

/* Returns how far the ends of a band of this width move, by its factor or by that of flat forecasts. */
static size_t move_of(struct onnx_graph *g, size_t width, size_t factor, size_t of_flat)
{
    size_t has_width = ONNX_OP(g, "Greater", width, onnx_double(g, onnx_real(g->calibration, "flat_width")));

    return ONNX_OP(g, "Where", has_width, ONNX_OP(g, "Mul", width, factor), of_flat);
}

/* Widens the bands as tft_bands_widen does. */
static size_t calibrate_target(struct onnx_graph *g, const struct onnx_input *in, size_t p)
{
    const json_t *list = json_object_get(g->calibration, "bands");
    const size_t median = onnx_size(g->calibration, "median"), Q = g->Q;
    const size_t bands = json_array_size(list) / 2; /* the second half is for flat forecasts */
    size_t *before = halay_region_alloc(&g->memory, Q, sizeof *before);
    size_t *q = halay_region_alloc(&g->memory, Q, sizeof *q);
    size_t sorted = sort_quantiles(g, p), factors = factors_of(g, in);

    if (!before || !q)
        return ONNX_NONE;
    for (size_t i = 0; i < Q; i++)
        q[i] = before[i] = onnx_slice(g, sorted, -1, i, i + 1);
    for (size_t b = 0; b < bands; b++) {
        const json_t *band = json_array_get(list, b);
        const size_t low = onnx_size(band, "low"), high = onnx_size(band, "high");
        size_t width = ONNX_OP(g, "Sub", before[high], before[low]);
        size_t of_flat = onnx_slice(g, factors, -1, bands + b, bands + b + 1);
        size_t move = move_of(g, width, onnx_slice(g, factors, -1, b, b + 1), of_flat);
        if (json_is_true(json_object_get(band, "moves_low")))
            q[low] = ONNX_OP(g, "Sub", before[low], move);
        if (json_is_true(json_object_get(band, "moves_high")))
            q[high] = ONNX_OP(g, "Add", before[high], move);
    }
    for (size_t i = median; i-- > 0;)
        q[i] = ONNX_OP(g, "Min", q[i], q[i + 1]);
    for (size_t i = median + 1; i < Q; i++)
        q[i] = ONNX_OP(g, "Max", q[i], q[i - 1]);
    return onnx_concat(g, q, Q, -1);
}

/* ---- all ---- */

/* Undoes the scale of the entity. */
static size_t undo_entity(struct onnx_graph *g, const struct onnx_input *in, size_t p)
{
    size_t shift, scale;

    if (onnx_is(in->is, "scale", "none"))
        return p;
    onnx_inputs_scaler(g, in, &shift, &scale);
    if (!onnx_is(in->is, "per", "all")) {
        shift = onnx_unsqueeze(g, shift, 2);
        scale = onnx_unsqueeze(g, scale, 2);
    }
    p = ONNX_OP(g, "Add", ONNX_OP(g, "Mul", p, scale), shift);
    if (onnx_is(in->is, "scale", "log1p-standard"))
        p = ONNX_OP(g, "Sub", ONNX_OP(g, "Exp", p), onnx_double(g, 1));
    return p;
}

size_t onnx_forecast(struct onnx_graph *g, size_t quantiles)
{
    const json_t *targets = json_object_get(g->model, "targets");
    const char *conformance = onnx_text(g->config, "conformance");
    size_t *of_targets = halay_region_alloc(&g->memory, g->O, sizeof *of_targets);

    g->part = "forecast";
    quantiles = onnx_cast(g, quantiles, ONNX_DOUBLE);
    for (size_t o = 0; of_targets && o < g->O; o++) {
        const struct onnx_input *in = onnx_inputs_find(g, json_string_value(json_array_get(targets, o)));
        size_t p = undo_window(g, in, onnx_gather(g, quantiles, onnx_integer(g, (int64_t)o), 2));
        if (!conformance || onnx_is(g->config, "conformance", "published"))
            p = sort_quantiles(g, p);
        if (onnx_is(g->calibration, "method", "conformal"))
            p = calibrate_target(g, in, p);
        of_targets[o] = onnx_unsqueeze(g, onnx_cast(g, undo_entity(g, in, p), ONNX_FLOAT), 2);
    }
    return of_targets ? onnx_concat(g, of_targets, g->O, 2) : ONNX_NONE;
}
