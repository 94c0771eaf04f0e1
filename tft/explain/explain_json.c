/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation as one JSON object. What could not be made is null.
 */
#include "tft/explain/explain.h"
#include "tft/explain/shares.h"
#include <math.h>
#include <stdlib.h>

enum { PEAKS = 5, HORIZONS = 24 };

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* A row of the q-risks: the first is the model's, the others are without a variable each. */
static json_t *q_risk_json(const struct tft_explanation *e, size_t row)
{
    const struct tft_model_config *c = tft_model_config(e->inference->run.model);
    json_t *q_risk = json_object();
    char name[32];

    for (size_t q = 0; q < c->quantile_count; q++) {
        tft_quantile_name(c->quantiles[q], name, sizeof name);
        json_object_set_new(q_risk, name, number(e->q_risk[row * c->quantile_count + q]));
    }
    return q_risk;
}

/* ---- inputs ---- */

static json_t *share_json(double mean, double p10, double p50, double p90)
{
    return json_pack("{so so so so}", "mean", number(mean), "p10", number(p10), "p50", number(p50), "p90", number(p90));
}

static json_t *importance_json(const struct tft_explanation *e, int choice)
{
    json_t *part = json_object();

    for (size_t j = 0; j < e->reader.V[choice]; j++) {
        const int64_t *bins = e->sums.bins[choice] + j * TFT_SHARE_BINS;
        json_object_set_new(part, tft_weight_name(&e->reader, choice, j),
                            share_json(tft_explanation_mean(e, choice, j), tft_share_quantile(bins, .1),
                                       tft_share_quantile(bins, .5), tft_share_quantile(bins, .9)));
    }
    return part;
}

/* {"past": {"load": [a mean for each step]}, ...} */
static json_t *steps_json(const struct tft_explanation *e)
{
    json_t *steps = json_object();

    for (int choice = TFT_CHOICE_HISTORY; choice < TFT_CHOICES; choice++) {
        json_t *part = json_object();
        for (size_t j = 0; j < e->reader.V[choice]; j++) {
            json_t *means = json_array();
            for (size_t t = 0; t < tft_weight_steps(&e->reader, choice); t++)
                json_array_append_new(means, number(tft_weight_sums_mean(&e->sums, choice, t, j)));
            json_object_set_new(part, tft_weight_name(&e->reader, choice, j), means);
        }
        json_object_set_new(steps, tft_part_names[choice], part);
    }
    return steps;
}

/* What some windows have in common. */
static json_t *explained_json(const struct tft_explanation *e, const struct tft_explained *of)
{
    double n = (double)of->windows;
    json_t *object = json_pack("{sI sI so so}", "windows", (json_int_t)of->windows, "regimes", (json_int_t)of->regimes,
                               "distance", number(of->distance / n), "most", number(of->windows ? of->most : NAN));
    size_t at = 0, all = e->reader.all;

    for (int choice = 0; choice < TFT_CHOICES; choice++) {
        json_t *part = json_object();
        for (size_t j = 0; j < e->reader.V[choice]; j++, at++)
            json_object_set_new(
                part, tft_weight_name(&e->reader, choice, j),
                share_json(of->means[at] / n, of->means[all + at], of->means[2 * all + at], of->means[3 * all + at]));
        json_object_set_new(object, tft_part_names[choice], part);
    }
    return object;
}

static json_t *entities_json(const struct tft_explanation *e)
{
    const struct tft_data *d = &e->inference->data;
    json_t *entities = json_object();

    for (size_t i = 0; i < d->entity_count; i++)
        if (e->entities[i].windows)
            json_object_set_new(entities, d->entities[i].id, explained_json(e, &e->entities[i]));
    return entities;
}

static json_t *periods_json(const struct tft_explanation *e)
{
    json_t *periods = json_array();
    char from[32];

    for (size_t i = 0; i < TFT_EXPLAIN_PERIODS; i++) {
        int64_t begin = e->begin + (int64_t)(((double)e->end - (double)e->begin + 1) * (double)i / TFT_EXPLAIN_PERIODS);
        if (!e->periods[i].windows)
            continue;
        json_t *period = explained_json(e, &e->periods[i]);
        tft_schema_print_time(&e->inference->data.schema, begin, from, sizeof from);
        json_object_set_new(period, "from", json_string(from));
        json_array_append_new(periods, period);
    }
    return periods;
}

/* ---- attention ---- */

static double mean_lag(const struct tft_explanation *e, size_t lag)
{
    double sum = 0;

    for (size_t head = 0; head < e->reader.heads; head++)
        sum += tft_explanation_lag(e, head, lag);
    return sum / (double)e->reader.heads;
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
        json_array_append_new(peaks, json_pack("{sI so}", "lag", (json_int_t)best, "mean", number(last)));
    }
    return peaks;
}

/* To each step of the window, from some of the horizon's steps. */
static json_t *horizons_json(const struct tft_explanation *e)
{
    const struct tft_weight_reader *r = &e->reader;
    size_t shown = r->D < HORIZONS ? r->D : HORIZONS;
    json_t *horizons = json_array();

    for (size_t k = 0; k < shown; k++) {
        size_t h = shown > 1 ? k * (r->D - 1) / (shown - 1) : 0;
        json_t *means = json_array();
        for (size_t t = 0; t <= r->E + h; t++) {
            double sum = 0;
            for (size_t head = 0; head < r->heads; head++)
                sum += tft_share_mean(e->sums.attention[(head * r->D + h) * r->T + t], e->sums.seen[t]);
            json_array_append_new(means, number(sum / (double)r->heads));
        }
        json_array_append_new(horizons, json_pack("{sI so}", "horizon", (json_int_t)h + 1, "mean", means));
    }
    return horizons;
}

/* Percentiles over the windows, of the horizon's first step. */
static json_t *next_step_json(const struct tft_explanation *e)
{
    static const struct {
        const char *name;
        double quantile;
    } rows[] = { { "p10", .1 }, { "p50", .5 }, { "p90", .9 } };
    json_t *object = json_object();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *values = json_array();
        for (size_t lag = 0; lag <= e->reader.E; lag++)
            json_array_append_new(
                values, number(tft_share_quantile(e->sums.lag_bins + lag * TFT_SHARE_BINS, rows[i].quantile)));
        json_object_set_new(object, rows[i].name, values);
    }
    return object;
}

static json_t *attention_json(const struct tft_explanation *e)
{
    size_t lags = e->reader.E + e->reader.D;
    double *by_lag = calloc(lags, sizeof *by_lag);
    json_t *attention = json_object(), *means = json_array(), *heads = json_array();

    for (size_t lag = 0; by_lag && lag < lags; lag++) {
        by_lag[lag] = mean_lag(e, lag);
        json_array_append_new(means, number(by_lag[lag]));
    }
    for (size_t head = 0; head < e->reader.heads; head++) {
        json_t *of_head = json_array();
        for (size_t lag = 0; lag < lags; lag++)
            json_array_append_new(of_head, number(tft_explanation_lag(e, head, lag)));
        json_array_append_new(heads, of_head);
    }
    if (by_lag)
        json_object_set_new(attention, "peaks", peaks_json(by_lag, lags));
    json_object_set_new(attention, "by_lag", means);
    json_object_set_new(attention, "by_head", heads);
    json_object_set_new(attention, "next_step", next_step_json(e));
    json_object_set_new(attention, "by_horizon", horizons_json(e));
    free(by_lag);
    return attention;
}

/* ---- occlusion ---- */

/* Of the variables that are (not) static: how alike weights and occlusion rank them. */
static json_t *correlation_json(const struct tft_explanation *e, const double *weights, const double *changes,
                                int of_statics)
{
    const struct tft_model_config *c = tft_model_config(e->inference->run.model);
    double a[TFT_VARIABLES_MAX], b[TFT_VARIABLES_MAX];
    size_t n = 0;

    for (size_t i = 0; i < c->variable_count; i++)
        if ((c->variables[i].role == TFT_STATIC) == of_statics) {
            a[n] = weights[i];
            b[n++] = changes[i];
        }
    return number(tft_rank_correlation(a, b, n));
}

static json_t *occlusion_json(const struct tft_explanation *e)
{
    const struct tft_model_config *c = tft_model_config(e->inference->run.model);
    size_t Q = c->quantile_count, median = tft_median_of(c->quantiles, Q);
    double weights[TFT_VARIABLES_MAX], changes[TFT_VARIABLES_MAX];
    json_t *inputs = json_object();

    tft_explanation_importance(e, weights);
    for (size_t i = 0; i < c->variable_count; i++) {
        changes[i] = e->q_risk[(1 + i) * Q + median] / e->q_risk[median] - 1;
        json_object_set_new(inputs, c->variables[i].name,
                            json_pack("{so so so}", "weight", number(weights[i]), "q_risk", q_risk_json(e, 1 + i),
                                      "change", number(changes[i])));
    }
    return json_pack("{so so so}", "inputs", inputs, "rank_correlation", correlation_json(e, weights, changes, 0),
                     "rank_correlation_static", correlation_json(e, weights, changes, 1));
}

/* ---- all ---- */

json_t *tft_explanation_json(const struct tft_explanation *e)
{
    const struct tft_explain_request *r = e->request;
    size_t regimes = 0;

    for (size_t i = 0; i < e->inference->data.entity_count; i++)
        regimes += e->entities[i].regimes;
    json_t *importance = json_object();
    for (int choice = 0; choice < TFT_CHOICES; choice++)
        json_object_set_new(importance, tft_part_names[choice], importance_json(e, choice));
    return json_pack("{ss sI sI sI sI sI so so so so so so s{sf sI} so}", "split", tft_split_names[r->windows.split],
                     "windows", (json_int_t)e->windows.count, "stride", (json_int_t)r->windows.stride, "step",
                     (json_int_t)e->inference->run.step, "encoder", (json_int_t)e->reader.E, "horizon",
                     (json_int_t)e->reader.D, "q_risk", q_risk_json(e, 0), "importance", importance, "by_step",
                     steps_json(e), "by_entity", entities_json(e), "over_time", periods_json(e), "attention",
                     attention_json(e), "regimes", "threshold", r->distance, "windows", (json_int_t)regimes,
                     "occlusion", r->has_occlusion ? occlusion_json(e) : json_null());
}
