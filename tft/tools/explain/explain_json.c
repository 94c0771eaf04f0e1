/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation as one JSON object. What could not be made is null.
 */
#include "base/number_text.h"
#include "tft/tools/explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PEAKS = 5 };

static json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

struct tft_quantile_name tft_quantile_name_of(double quantile)
{
    struct tft_quantile_name name;

    halay_snprintf(name.text, sizeof name.text, "p%.6g", quantile * 100);
    return name;
}

/* Returns a row of the q-risks: the first is the model's, the others are without an input each. */
static json_t *q_risk_json(const struct tft_explanation *e, size_t row)
{
    json_t *q_risk = json_object();

    for (size_t q = 0; q < e->quantile_count; q++)
        json_object_set_new(q_risk, tft_quantile_name_of(e->quantiles[q]).text,
                            json_number(e->q_risk[row * e->quantile_count + q]));
    return q_risk;
}

/* ---- inputs ---- */

static json_t *share_json(double mean, double p10, double p50, double p90)
{
    return json_pack("{so so so so}", "mean", json_number(mean), "p10", json_number(p10), "p50", json_number(p50),
                     "p90", json_number(p90));
}

static json_t *importance_json(const struct tft_explanation *e, int part)
{
    json_t *inputs = json_object();

    for (size_t j = 0; j < e->of.V[part]; j++) {
        const int64_t *bins = e->sums.bins[part] + j * TFT_SHARE_BINS;
        json_object_set_new(inputs, tft_weighed_name(&e->of, part, j),
                            share_json(tft_weight_sums_mean_of_steps(&e->sums, part, j), tft_share_quantile(bins, .1),
                                       tft_share_quantile(bins, .5), tft_share_quantile(bins, .9)));
    }
    return inputs;
}

/* Percentiles of some steps, `stride` histograms apart, as lists in an object. */
static void add_percentiles(json_t *object, const int64_t *bins, size_t steps, size_t stride)
{
    static const struct {
        const char *name;
        double quantile;
    } rows[] = { { "p10", .1 }, { "p50", .5 }, { "p90", .9 } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *values = json_array();
        for (size_t t = 0; t < steps; t++)
            json_array_append_new(
                values, json_number(tft_share_quantile(bins + t * stride * TFT_SHARE_BINS, rows[i].quantile)));
        json_object_set_new(object, rows[i].name, values);
    }
}

/* {"past": {"load": {"mean": [of each step]}}, "future": with percentiles} */
static json_t *steps_json(const struct tft_explanation *e)
{
    json_t *steps = json_object();

    for (int part = TFT_WEIGHED_PAST; part < TFT_WEIGHED_PARTS; part++) {
        json_t *inputs = json_object();
        size_t V = e->of.V[part], count = e->of.steps[part];
        for (size_t j = 0; j < V; j++) {
            json_t *input = json_object(), *means = json_array();
            for (size_t t = 0; t < count; t++)
                json_array_append_new(means, json_number(tft_weight_sums_mean(&e->sums, part, t, j)));
            json_object_set_new(input, "mean", means);
            if (part == TFT_WEIGHED_FUTURE)
                add_percentiles(input, e->sums.future_bins + j * TFT_SHARE_BINS, count, V);
            json_object_set_new(inputs, tft_weighed_name(&e->of, part, j), input);
        }
        json_object_set_new(steps, tft_weighed_parts[part], inputs);
    }
    return steps;
}

/* Returns the totals of some windows. */
static json_t *explained_json(const struct tft_explanation *e, const struct tft_explained *of)
{
    double n = (double)of->windows;
    json_t *object =
        json_pack("{sI sI so so}", "windows", (json_int_t)of->windows, "regimes", (json_int_t)of->regimes, "distance",
                  json_number(of->distance / n), "most", json_number(of->windows ? of->most : NAN));
    size_t at = 0, all = e->of.all;

    for (int part = 0; part < TFT_WEIGHED_PARTS; part++) {
        json_t *inputs = json_object();
        for (size_t j = 0; j < e->of.V[part]; j++, at++)
            json_object_set_new(
                inputs, tft_weighed_name(&e->of, part, j),
                share_json(of->means[at] / n, of->means[all + at], of->means[2 * all + at], of->means[3 * all + at]));
        json_object_set_new(object, tft_weighed_parts[part], inputs);
    }
    return object;
}

static json_t *entities_json(const struct tft_explanation *e)
{
    json_t *entities = json_object();

    for (size_t i = 0; i < e->entity_count; i++)
        if (e->entities[i].windows)
            json_object_set_new(entities, halay_tft_data_entity(e->data, i, NULL), explained_json(e, &e->entities[i]));
    return entities;
}

json_t *tft_explanation_moment(const struct tft_explanation *e, int64_t moment)
{
    char text[TFT_TIME_MAX];

    halay_tft_data_print_time(e->data, moment, text);
    return json_string(text);
}

static json_t *periods_json(const struct tft_explanation *e)
{
    json_t *periods = json_array();

    for (size_t i = 0; i < TFT_EXPLAIN_PERIODS; i++) {
        int64_t begin = e->begin + (int64_t)(((double)e->end - (double)e->begin + 1) * (double)i / TFT_EXPLAIN_PERIODS);
        if (!e->periods[i].windows)
            continue;
        json_t *period = explained_json(e, &e->periods[i]);
        json_object_set_new(period, "from", tft_explanation_moment(e, begin));
        json_array_append_new(periods, period);
    }
    return periods;
}

/* ---- attention ---- */

static double mean_lag(const struct tft_explanation *e, size_t lag)
{
    double sum = 0;

    for (size_t head = 0; head < e->of.heads; head++)
        sum += tft_weight_sums_lag(&e->sums, head, lag);
    return sum / (double)e->of.heads;
}

/* The lags that more attention goes to than to both neighbours, the most first. */
static json_t *peaks_json(const double *by_lag, size_t lags)
{
    json_t *peaks = json_array();
    double last = INFINITY;

    while (json_array_size(peaks) < PEAKS) {
        size_t best = lags;
        for (size_t lag = 1; lag + 1 < lags; lag++)
            if (by_lag[lag] > by_lag[lag - 1] && by_lag[lag] > by_lag[lag + 1] && by_lag[lag] < last &&
                (best == lags || by_lag[lag] > by_lag[best]))
                best = lag;
        if (best == lags)
            break;
        last = by_lag[best];
        json_array_append_new(peaks, json_pack("{sI so}", "lag", (json_int_t)best, "mean", json_number(last)));
    }
    return peaks;
}

/* To each step of the window, from some of the horizon's steps. */
static json_t *horizons_json(const struct tft_explanation *e)
{
    const struct tft_weighed *of = &e->of;
    json_t *horizons = json_array();

    for (size_t k = 0; k < e->sums.shown; k++) {
        size_t h = tft_weight_sums_shown(&e->sums, k), steps = of->E + h + 1;
        json_t *horizon = json_pack("{sI}", "horizon", (json_int_t)h + 1), *means = json_array();
        for (size_t t = 0; t < steps; t++)
            json_array_append_new(means, json_number(tft_weight_sums_attention(&e->sums, of->heads, h, t)));
        json_object_set_new(horizon, "mean", means);
        add_percentiles(horizon, e->sums.shown_bins + k * of->T * TFT_SHARE_BINS, steps, 1);
        json_array_append_new(horizons, horizon);
    }
    return horizons;
}

static json_t *attention_json(const struct tft_explanation *e)
{
    size_t lags = e->of.T;
    double *by_lag = calloc(lags, sizeof *by_lag);
    json_t *attention = json_object(), *means = json_array(), *heads = json_array();

    for (size_t lag = 0; by_lag && lag < lags; lag++) {
        by_lag[lag] = mean_lag(e, lag);
        json_array_append_new(means, json_number(by_lag[lag]));
    }
    for (size_t head = 0; head < e->of.heads; head++) {
        json_t *of_head = json_array();
        for (size_t lag = 0; lag < lags; lag++)
            json_array_append_new(of_head, json_number(tft_weight_sums_lag(&e->sums, head, lag)));
        json_array_append_new(heads, of_head);
    }
    if (by_lag)
        json_object_set_new(attention, "peaks", peaks_json(by_lag, lags));
    json_object_set_new(attention, "by_lag", means);
    json_object_set_new(attention, "by_head", heads);
    json_object_set_new(attention, "by_horizon", horizons_json(e));
    free(by_lag);
    return attention;
}

/* ---- occlusion ---- */

static int is_static(const json_t *input)
{
    return !strcmp(json_string_value(json_object_get(input, "role")), "static");
}

/* Computes an input's weight, by its place in the model: of past and future, the mean over a window's steps, where an
 * input that a part does not have weighs nothing there; of static ones, the mean. */
static double weight_of(const struct tft_explanation *e, const char *name)
{
    double weight = 0;

    for (int part = 0; part < TFT_WEIGHED_PARTS; part++)
        for (size_t j = 0; j < e->of.V[part]; j++)
            if (!strcmp(tft_weighed_name(&e->of, part, j), name))
                weight += tft_weight_sums_mean_of_steps(&e->sums, part, j) *
                          (part == TFT_WEIGHED_STATIC ? 1 : (double)e->of.steps[part] / (double)e->of.T);
    return weight;
}

/* Returns the rank correlation of weights and changes, over the inputs that are (not) static. a, b: room for them. */
static json_t *correlation_json(const struct tft_explanation *e, const double *weights, const double *changes,
                                int of_statics, double *a, double *b)
{
    const json_t *input;
    size_t i, n = 0;

    json_array_foreach(tft_explanation_inputs(e), i, input) {
        if (is_static(input) != of_statics)
            continue;
        a[n] = weights[i];
        b[n++] = changes[i];
    }
    return json_number(tft_rank_correlation(a, b, n));
}

/* Returns the name of the input over time with the largest value; null without one. */
static json_t *largest_json(const struct tft_explanation *e, const double *values)
{
    const json_t *input, *best = NULL;
    double most = 0;
    size_t i;

    json_array_foreach(tft_explanation_inputs(e), i, input) {
        if (is_static(input) || (best && !(values[i] > most)))
            continue;
        best = input;
        most = values[i];
    }
    return best ? json_incref(json_object_get(best, "name")) : json_null();
}

void tft_explanation_verdict(const json_t *occlusion, char *text, size_t size)
{
    const json_t *correlation = json_object_get(occlusion, "rank_correlation");
    const char *heaviest = json_string_value(json_object_get(occlusion, "heaviest"));
    const char *missed = json_string_value(json_object_get(occlusion, "most_missed"));
    const char *rank = "do not rank the inputs as the forecasts need them: do not read them as importance here";

    *text = 0;
    if (!json_is_number(correlation) || !heaviest || !missed)
        return;
    if (json_number_value(correlation) >= .7)
        rank = "rank the inputs much as the forecasts need them";
    else if (json_number_value(correlation) >= .3)
        rank = "rank the inputs only roughly as the forecasts need them";
    if (!strcmp(heaviest, missed))
        snprintf(text, size, "the weights %s; %s is first in both", rank, heaviest);
    else
        snprintf(text, size, "the weights %s; %s weighs most, %s is missed most", rank, heaviest, missed);
}

static json_t *occlusion_json(const struct tft_explanation *e)
{
    const json_t *list = tft_explanation_inputs(e), *input;
    const size_t n = json_array_size(list), Q = e->quantile_count, median = e->median;
    double *weights = calloc(4 * n + 1, sizeof *weights), *changes = weights + n, *a = changes + n, *b = a + n;
    json_t *inputs = json_object();
    char verdict[400];
    size_t i;

    if (!weights) {
        json_decref(inputs);
        return NULL;
    }
    json_array_foreach(list, i, input) {
        const char *name = json_string_value(json_object_get(input, "name"));
        weights[i] = weight_of(e, name);
        changes[i] = e->q_risk[(1 + i) * Q + median] / e->q_risk[median] - 1;
        json_object_set_new(inputs, name,
                            json_pack("{so so so}", "weight", json_number(weights[i]), "q_risk", q_risk_json(e, 1 + i),
                                      "change", json_number(changes[i])));
    }
    json_t *all = json_pack("{so so so so so}", "inputs", inputs, "rank_correlation",
                            correlation_json(e, weights, changes, 0, a, b), "rank_correlation_static",
                            correlation_json(e, weights, changes, 1, a, b), "heaviest", largest_json(e, weights),
                            "most_missed", largest_json(e, changes));
    free(weights);
    tft_explanation_verdict(all, verdict, sizeof verdict);
    json_object_set_new(all, "verdict", json_string(verdict));
    return all;
}

/* ---- single windows ---- */

static json_t *window_json(const struct tft_explanation *e, size_t entity, int64_t origin)
{
    return json_pack("{ss so}", "entity", halay_tft_data_entity(e->data, entity, NULL), "origin",
                     tft_explanation_moment(e, origin));
}

static json_t *regimes_json(const struct tft_explanation *e)
{
    size_t regimes = 0, n = e->windows;
    double sum = 0;
    json_t *farthest = json_array();

    for (size_t i = 0; i < e->entity_count; i++) {
        regimes += e->entities[i].regimes;
        sum += e->entities[i].distance;
    }
    for (size_t i = 0; i < e->farthest_count; i++) {
        const struct tft_far *far = &e->farthest[i];
        json_t *window = window_json(e, far->entity, far->origin);
        json_object_set_new(window, "distance", json_number(far->distance));
        json_object_set_new(window, "nearer", json_number((double)(n - 1 - i) / (double)n));
        json_object_set_new(window, "regime", json_boolean(far->distance > e->given.regime));
        json_array_append_new(farthest, window);
    }
    return json_pack("{sf sI so so}", "threshold", e->given.regime, "windows", (json_int_t)regimes, "distance",
                     share_json(sum / (double)n, tft_share_quantile(e->distances, .1),
                                tft_share_quantile(e->distances, .5), tft_share_quantile(e->distances, .9)),
                     "farthest", farthest);
}

json_t *tft_explanation_list(const double *values, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_number(values[i]));
    return list;
}

/* Returns a forecast's weights, its attention (by lag), and the usual attention of its entity's forecasts. */
static json_t *single_json(const struct tft_explanation *e, const char *which, const struct tft_single *single)
{
    const double *weight = single->weights;
    const size_t lags = single->past + e->of.D;
    json_t *json = window_json(e, single->entity, single->origin);

    json_object_set_new(json, "which", json_string(which));
    json_object_set_new(json, "mae", json_number(single->mae));
    json_object_set_new(json, "distance", json_number(single->distance));
    for (int part = 0; part < TFT_WEIGHED_PARTS; part++) {
        json_t *inputs = json_object();
        for (size_t j = 0; j < e->of.V[part]; j++)
            json_object_set_new(inputs, tft_weighed_name(&e->of, part, j), json_number(*weight++));
        json_object_set_new(json, tft_weighed_parts[part], inputs);
    }
    json_object_set_new(json, "attention", tft_explanation_list(single->lags, lags));
    json_object_set_new(json, "usual", tft_explanation_list(single->usual, lags));
    return json;
}

static json_t *singles_json(const struct tft_explanation *e)
{
    json_t *singles = json_array();

    if (e->asked.has_window)
        json_array_append_new(singles, single_json(e, "chosen", &e->asked));
    if (e->worst.has_window)
        json_array_append_new(singles, single_json(e, "worst", &e->worst));
    if (e->best.has_window)
        json_array_append_new(singles, single_json(e, "best", &e->best));
    return singles;
}

/* ---- all ---- */

json_t *tft_explanation_json(const struct tft_explanation *e)
{
    json_t *importance = json_object();

    for (int part = 0; part < TFT_WEIGHED_PARTS; part++)
        json_object_set_new(importance, tft_weighed_parts[part], importance_json(e, part));
    return json_pack("{ss ss sI sI sO sI sI so so so so so so so so so}", "kind", "explanation", "split",
                     e->given.split, "windows", (json_int_t)e->windows, "stride", (json_int_t)e->given.stride, "step",
                     json_object_get(e->of.about, "step"), "encoder", (json_int_t)e->of.E, "horizon",
                     (json_int_t)e->of.D, "q_risk", q_risk_json(e, 0), "importance", importance, "by_step",
                     steps_json(e), "by_entity", entities_json(e), "over_time", periods_json(e), "attention",
                     attention_json(e), "regimes", regimes_json(e), "forecasts", singles_json(e), "occlusion",
                     e->given.has_occlusion ? occlusion_json(e) : json_null());
}
