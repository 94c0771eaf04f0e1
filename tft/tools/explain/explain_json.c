/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation as one JSON object, and what charts need besides. What could not be made is null.
 */
#include "base/number_text.h"
#include "tft/tools/explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PEAKS = 5, MAP_ROWS = 48, MAP_COLUMNS = 256 };

static json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *list_json(const double *values, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_number(values[i]));
    return list;
}

static json_t *moment_json(const struct tft_explanation *e, int64_t moment)
{
    char text[TFT_TIME_MAX];

    halay_tft_data_print_time(e->data, moment, text);
    return json_string(text);
}

/* The name of a quantile: "p10". */
struct quantile_name {
    char text[32];
};

static struct quantile_name quantile_name(double quantile)
{
    struct quantile_name name;

    halay_snprintf(name.text, sizeof name.text, "p%.6g", quantile * 100);
    return name;
}

/* Returns a row of the q-risks: the first is the model's, the others are without an input each. */
static json_t *q_risk_json(const struct tft_explanation *e, size_t row)
{
    json_t *q_risk = json_object();

    for (size_t q = 0; q < e->quantile_count; q++)
        json_object_set_new(q_risk, quantile_name(e->quantiles[q]).text,
                            json_number(e->q_risk[row * e->quantile_count + q]));
    return q_risk;
}

/* ---- inputs ---- */

static json_t *share_json(double mean, double p10, double p50, double p90)
{
    return json_pack("{so so so so}", "mean", json_number(mean), "p10", json_number(p10), "p50", json_number(p50),
                     "p90", json_number(p90));
}

/* Returns a mean, and percentiles of what the bins counted. */
static json_t *share_of_bins(double mean, const int64_t *bins)
{
    return share_json(mean, tft_share_quantile(bins, .1), tft_share_quantile(bins, .5), tft_share_quantile(bins, .9));
}

/* Returns what is known of input j of a part, number `at` of all inputs. */
typedef json_t *(*input_json)(const struct tft_explanation *e, const void *of, int part, size_t j, size_t at);

/* Adds an object for each part from `first` on, with a member for each of its inputs. */
static json_t *add_parts(json_t *to, const struct tft_explanation *e, int first, input_json make, const void *of)
{
    size_t at = 0;

    for (int part = first; part < TFT_WEIGHED_PARTS; part++) {
        json_t *inputs = json_object();
        for (size_t j = 0; j < e->of.V[part]; j++)
            json_object_set_new(inputs, tft_weighed_name(&e->of, part, j), make(e, of, part, j, at++));
        json_object_set_new(to, tft_weighed_parts[part], inputs);
    }
    return to;
}

static json_t *importance_json(const struct tft_explanation *e, const void *of, int part, size_t j, size_t at)
{
    (void)of, (void)at;
    return share_of_bins(tft_weight_sums_mean_of_steps(&e->sums, part, j), e->sums.bins[part] + j * TFT_SHARE_BINS);
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

/* {"mean": [of each step]}, of the future with percentiles. */
static json_t *steps_json(const struct tft_explanation *e, const void *of, int part, size_t j, size_t at)
{
    json_t *input = json_object(), *means = json_array();

    (void)of, (void)at;
    for (size_t t = 0; t < e->of.steps[part]; t++)
        json_array_append_new(means, json_number(tft_weight_sums_mean(&e->sums, part, t, j)));
    json_object_set_new(input, "mean", means);
    if (part == TFT_WEIGHED_FUTURE)
        add_percentiles(input, e->sums.future_bins + j * TFT_SHARE_BINS, e->of.steps[part], e->of.V[part]);
    return input;
}

static json_t *means_json(const struct tft_explanation *e, const void *of, int part, size_t j, size_t at)
{
    const struct tft_explained *x = of;
    const double *mean = x->means + at;
    const size_t all = e->of.all;

    (void)part, (void)j;
    return share_json(mean[0] / (double)x->windows, mean[all], mean[2 * all], mean[3 * all]);
}

/* Returns the totals of some windows. */
static json_t *explained_json(const struct tft_explanation *e, const struct tft_explained *of)
{
    json_t *object =
        json_pack("{sI sI so so}", "windows", (json_int_t)of->windows, "regimes", (json_int_t)of->regimes, "distance",
                  json_number(of->distance / (double)of->windows), "most", json_number(of->windows ? of->most : NAN));

    return add_parts(object, e, TFT_WEIGHED_STATIC, means_json, of);
}

static json_t *entities_json(const struct tft_explanation *e)
{
    json_t *entities = json_object();

    for (size_t i = 0; i < e->entity_count; i++)
        if (e->entities[i].windows)
            json_object_set_new(entities, halay_tft_data_entity(e->data, i, NULL), explained_json(e, &e->entities[i]));
    return entities;
}

static json_t *periods_json(const struct tft_explanation *e)
{
    json_t *periods = json_array();

    for (size_t i = 0; i < TFT_EXPLAIN_PERIODS; i++) {
        int64_t begin = e->begin + (int64_t)(((double)e->end - (double)e->begin + 1) * (double)i / TFT_EXPLAIN_PERIODS);
        if (!e->periods[i].windows)
            continue;
        json_t *period = explained_json(e, &e->periods[i]);
        json_object_set_new(period, "from", moment_json(e, begin));
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

static double value_at(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Returns the lags that more attention goes to than to both neighbours, the most first. */
static json_t *peaks_json(const json_t *by_lag)
{
    json_t *peaks = json_array();
    double last = INFINITY;

    while (json_array_size(peaks) < PEAKS) {
        double most = NAN;
        size_t best = 0;
        for (size_t lag = 1; lag + 1 < json_array_size(by_lag); lag++) {
            const double value = value_at(by_lag, lag);
            if (value > value_at(by_lag, lag - 1) && value > value_at(by_lag, lag + 1) && value < last &&
                !(value <= most)) {
                most = value;
                best = lag;
            }
        }
        if (!best)
            break;
        last = most;
        json_array_append_new(peaks, json_pack("{sI so}", "lag", (json_int_t)best, "mean", json_number(last)));
    }
    return peaks;
}

/* Returns attention to each step of the window, from some of the horizon's steps. */
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
    json_t *means = json_array(), *heads = json_array();

    for (size_t lag = 0; lag < e->of.T; lag++)
        json_array_append_new(means, json_number(mean_lag(e, lag)));
    for (size_t head = 0; head < e->of.heads; head++) {
        json_t *of_head = json_array();
        for (size_t lag = 0; lag < e->of.T; lag++)
            json_array_append_new(of_head, json_number(tft_weight_sums_lag(&e->sums, head, lag)));
        json_array_append_new(heads, of_head);
    }
    return json_pack("{so so so so}", "peaks", peaks_json(means), "by_lag", means, "by_head", heads, "by_horizon",
                     horizons_json(e));
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

/* Returns the rank correlation of weights and changes, over the inputs that are (not) static. */
static json_t *correlation_json(const struct tft_explanation *e, int of_statics)
{
    double *a = e->compared[0], *b = e->compared[1];
    const json_t *input;
    size_t i, n = 0;

    json_array_foreach(tft_explanation_inputs(e), i, input) {
        if (is_static(input) != of_statics)
            continue;
        a[n] = e->weights[i];
        b[n++] = e->changes[i];
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

/* Writes in words how far the weights can be trusted; empty without a correlation. */
static void write_verdict(const json_t *occlusion, char *text, size_t size)
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
    const size_t Q = e->quantile_count;
    const json_t *input;
    json_t *inputs = json_object();
    char verdict[400];
    size_t i;

    json_array_foreach(tft_explanation_inputs(e), i, input) {
        const char *name = json_string_value(json_object_get(input, "name"));
        e->weights[i] = weight_of(e, name);
        e->changes[i] = e->q_risk[(1 + i) * Q + e->median] / e->q_risk[e->median] - 1;
        json_object_set_new(inputs, name,
                            json_pack("{so so so}", "weight", json_number(e->weights[i]), "q_risk",
                                      q_risk_json(e, 1 + i), "change", json_number(e->changes[i])));
    }
    json_t *all = json_pack("{so so so so so}", "inputs", inputs, "rank_correlation", correlation_json(e, 0),
                            "rank_correlation_static", correlation_json(e, 1), "heaviest", largest_json(e, e->weights),
                            "most_missed", largest_json(e, e->changes));
    write_verdict(all, verdict, sizeof verdict);
    json_object_set_new(all, "verdict", json_string(verdict));
    return all;
}

/* ---- single windows ---- */

static json_t *window_json(const struct tft_explanation *e, size_t entity, int64_t origin)
{
    return json_pack("{ss so}", "entity", halay_tft_data_entity(e->data, entity, NULL), "origin",
                     moment_json(e, origin));
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
                     share_of_bins(sum / (double)n, e->distances), "farthest", farthest);
}

static json_t *weight_json(const struct tft_explanation *e, const void *of, int part, size_t j, size_t at)
{
    const struct tft_single *single = of;

    (void)e, (void)part, (void)j;
    return json_number(single->weights[at]);
}

/* Adds a forecast's weights, its attention (by lag), and the usual attention of its entity's forecasts. */
static void add_single(const struct tft_explanation *e, const char *which, const struct tft_single *single,
                       json_t *list)
{
    const size_t lags = single->past + e->of.D;

    if (!single->has_window)
        return;
    json_t *json = window_json(e, single->entity, single->origin);
    json_object_set_new(json, "which", json_string(which));
    json_object_set_new(json, "mae", json_number(single->mae));
    json_object_set_new(json, "distance", json_number(single->distance));
    add_parts(json, e, TFT_WEIGHED_STATIC, weight_json, single);
    json_object_set_new(json, "attention", list_json(single->lags, lags));
    json_object_set_new(json, "usual", list_json(single->usual, lags));
    json_array_append_new(list, json);
}

/* ---- all ---- */

json_t *tft_explanation_json(const struct tft_explanation *e)
{
    json_t *importance = add_parts(json_object(), e, TFT_WEIGHED_STATIC, importance_json, NULL);
    json_t *steps = add_parts(json_object(), e, TFT_WEIGHED_PAST, steps_json, NULL), *singles = json_array();

    add_single(e, "chosen", &e->asked, singles);
    add_single(e, "worst", &e->worst, singles);
    add_single(e, "best", &e->best, singles);
    return json_pack("{ss ss sI sI sO sI sI so so so so so so so so so}", "kind", "explanation", "split",
                     e->given.split, "windows", (json_int_t)e->windows, "stride", (json_int_t)e->given.stride, "step",
                     json_object_get(e->of.about, "step"), "encoder", (json_int_t)e->of.E, "horizon",
                     (json_int_t)e->of.D, "q_risk", q_risk_json(e, 0), "importance", importance, "by_step", steps,
                     "by_entity", entities_json(e), "over_time", periods_json(e), "attention", attention_json(e),
                     "regimes", regimes_json(e), "forecasts", singles, "occlusion",
                     e->given.has_occlusion ? occlusion_json(e) : json_null());
}

/* ---- pictures ---- */

/* Returns the mean attention of some steps of the horizon to some lags; not a number if no window has them. */
static double map_cell(const struct tft_explanation *e, size_t h, size_t tall, size_t lag, size_t wide)
{
    const struct tft_weighed *of = &e->of;
    double sum = 0;
    size_t n = 0;

    for (size_t i = h; i < h + tall && i < of->D; i++)
        for (size_t k = lag; k < lag + wide && k <= of->E + i; k++) {
            double value = tft_weight_sums_attention(&e->sums, of->heads, i, of->E + i - k);
            sum += isfinite(value) ? value : 0;
            n += isfinite(value) != 0;
        }
    return n ? sum / (double)n : NAN;
}

/* Returns attention by horizon (a list for each step) and lag, with cells joined where there are too many to draw. */
static json_t *map_json(const struct tft_explanation *e)
{
    const struct tft_weighed *of = &e->of;
    const size_t tall = (of->D + MAP_ROWS - 1) / MAP_ROWS, wide = (of->T + MAP_COLUMNS - 1) / MAP_COLUMNS;
    json_t *map = json_array();

    for (size_t h = 0; h < of->D; h += tall) {
        json_t *row = json_array();
        for (size_t lag = 0; lag < of->T; lag += wide)
            json_array_append_new(row, json_number(map_cell(e, h, tall, lag, wide)));
        json_array_append_new(map, row);
    }
    return map;
}

/* Returns a series' windows, with the one whose attention is farthest from the usual. */
static json_t *series_json(const struct tft_explanation *e, const struct tft_explained_series *s)
{
    const struct tft_single *far = &s->farthest;
    json_t *series = json_pack("{ss so so so so}", "entity", halay_tft_data_entity(e->data, s->entity, NULL), "from",
                               moment_json(e, s->from), "until", moment_json(e, s->until), "values",
                               list_json(s->values, s->count), "distances", list_json(s->distances, s->count));

    if (far->has_window)
        json_object_set_new(series, "farthest",
                            json_pack("{sI so so so so}", "at", (json_int_t)s->farthest_at, "origin",
                                      moment_json(e, far->origin), "distance", json_number(far->value), "attention",
                                      list_json(far->lags, e->of.T), "usual", list_json(far->usual, e->of.T)));
    return series;
}

/* Returns a quantile of the first target at each step of the horizon. */
static json_t *quantile_json(const struct tft_explanation *e, const struct tft_single *s, size_t q)
{
    json_t *values = json_array();

    for (size_t h = 0; h < e->of.D; h++)
        json_array_append_new(values, json_number(s->values[h * e->target_count * e->quantile_count + q]));
    return values;
}

/* Returns the first target in the window's rows; null where it was not measured. NULL without memory. */
static enum halay_status read_actual(const struct tft_explanation *e, const struct tft_single *s, json_t **actual)
{
    const size_t rows = s->past + e->of.D, O = e->target_count;
    double *values = calloc(rows * O, sizeof *values);
    enum halay_status status;

    if (!values)
        return halay_no_memory(e->log, "for the forecasts to draw");
    status = halay_tft_data_actuals(e->data, s->entity, s->row - s->past, rows, values);
    *actual = status ? NULL : json_array();
    for (size_t i = 0; i < rows && !status; i++)
        json_array_append_new(*actual, json_number(values[i * O]));
    free(values);
    return status;
}

/* Adds a single forecast over the measured values, with the share of attention that each step of its window got. */
static enum halay_status add_forecast(const struct tft_explanation *e, const struct tft_single *s, json_t *list)
{
    const size_t shown = s->past + e->of.D, last = e->quantile_count - 1;
    json_t *actual = NULL, *attention = json_array();
    enum halay_status status = HALAY_OK;

    if (!s->has_window || (status = read_actual(e, s, &actual))) {
        json_decref(attention);
        return status;
    }
    json_t *picture =
        json_pack("{ss so sI so so so so s[sss]}", "entity", halay_tft_data_entity(e->data, s->entity, NULL), "from",
                  moment_json(e, s->begin), "history", (json_int_t)s->past, "actual", actual, "low",
                  quantile_json(e, s, 0), "middle", quantile_json(e, s, e->median), "high", quantile_json(e, s, last),
                  "band", quantile_name(e->quantiles[0]).text, quantile_name(e->quantiles[e->median]).text,
                  quantile_name(e->quantiles[last]).text);
    if (e->target_count > 1)
        json_object_set(picture, "target", json_array_get(json_object_get(e->of.about, "targets"), 0));
    for (size_t t = e->of.T - shown; t < e->of.T; t++)
        json_array_append_new(attention, json_number((double)s->places[t]));
    json_object_set_new(picture, "attention", attention);
    json_array_append_new(list, picture);
    return HALAY_OK;
}

enum halay_status tft_explanation_pictures(const struct tft_explanation *e, json_t *result)
{
    json_t *series = json_array(), *forecasts = json_array();
    enum halay_status status;

    for (size_t k = 0; k < e->series_count; k++)
        if (e->series[k].count > 1)
            json_array_append_new(series, series_json(e, &e->series[k]));
    (void)((status = add_forecast(e, &e->asked, forecasts)) || (status = add_forecast(e, &e->worst, forecasts)) ||
           (status = add_forecast(e, &e->best, forecasts)));
    json_object_set_new(result, "pictures",
                        json_pack("{so so so}", "map", map_json(e), "series", series, "forecasts", forecasts));
    return status;
}
