/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation. Zero-initialised object, fini accepts it half-built.
 */
#include "tft/score/evaluation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static size_t naive_count(const struct tft_evaluation *a)
{
    return a->data->schema.season_count * a->data->schema.target_count;
}

/* ---- naive forecasts ---- */

static enum halay_status init_naive_scores(struct tft_evaluation *a)
{
    const struct tft_list *q = a->quantiles;
    size_t D = a->data->schema.horizon, entities = a->data->entity_count;
    enum halay_status status = HALAY_OK;

    a->naive = calloc(naive_count(a), sizeof *a->naive);
    a->has_season = calloc(a->data->schema.target_count, 1);
    if (!a->naive || !a->has_season) {
        halay_error(a->log, "no memory for naive forecasts");
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t k = 0; k < naive_count(a) && !status; k++) {
        status = tft_scores_init(a->log, q->values, q->count, D, entities, &a->naive[k].with);
        if (!status)
            status = tft_scores_init(a->log, q->values, q->count, D, entities, &a->naive[k].plain);
    }
    return status;
}

static void add_naive(struct tft_naive_scores *scores, const struct tft_gather *gather, size_t count,
                      const struct tft_naive *naive)
{
    const struct tft_data *d = gather->windows->data;
    size_t O = d->schema.target_count, o = naive->target;

    for (size_t i = 0; i < count; i++) {
        struct tft_window w = tft_gather_window(gather, i);
        for (size_t h = 0; h < d->schema.horizon; h++) {
            size_t at = (w.origin + h) * O + o;
            double p[TFT_SCORE_QUANTILES_MAX], same[TFT_SCORE_QUANTILES_MAX], value;
            if (!d->present[at] || !tft_naive_forecast(naive, w.entity, w.origin, h, p, &value))
                continue;
            for (size_t q = 0; q < scores->with.quantile_count; q++)
                same[q] = value;
            tft_scores_add(&scores->with, w.entity, h, d->target[at], p, 0);
            tft_scores_add(&scores->plain, w.entity, h, d->target[at], same, 0);
        }
    }
}

/* Of one target and season. */
static enum halay_status naive_sums(struct halay_log *log, const struct tft_gather *gather, size_t count,
                                    const struct tft_list *quantiles, size_t target, size_t season,
                                    struct tft_sums *sums)
{
    const struct tft_data *d = gather->windows->data;
    struct tft_naive naive = { 0 };
    struct tft_naive_scores scores = { 0 };
    enum halay_status status = tft_naive_init(log, d, target, season, quantiles->values, quantiles->count, &naive);

    if (!status)
        status =
            tft_scores_init(log, quantiles->values, quantiles->count, d->schema.horizon, d->entity_count, &scores.with);
    if (!status)
        status = tft_scores_init(log, quantiles->values, quantiles->count, d->schema.horizon, d->entity_count,
                                 &scores.plain);
    if (!status)
        add_naive(&scores, gather, count, &naive);
    *sums = scores.with.all;
    tft_scores_fini(&scores.with);
    tft_scores_fini(&scores.plain);
    tft_naive_fini(&naive);
    return status;
}

enum halay_status tft_naive_best(struct halay_log *log, const struct tft_gather *gather, size_t count,
                                 const struct tft_list *quantiles, size_t *season, double *q_risk)
{
    const struct tft_schema *s = &gather->windows->data->schema;
    size_t O = s->target_count, median = tft_median_of(quantiles->values, quantiles->count);
    enum halay_status status = HALAY_OK;

    *q_risk = INFINITY;
    for (size_t k = 0; k < s->season_count; k++) {
        double mean = 0;
        for (size_t o = 0; o < O && !status; o++) {
            struct tft_sums sums;
            status = naive_sums(log, gather, count, quantiles, o, s->seasons[k], &sums);
            if (!status) /* without any value it is none */
                mean += sums.size > 0 ? tft_sums_q_risk(&sums, median) / (double)O : INFINITY;
        }
        if (!status && mean < *q_risk) {
            *q_risk = mean;
            *season = s->seasons[k];
        }
    }
    return status;
}

/* The first season's naive forecasts divide the scaled error. */
static void note_seasons(struct tft_evaluation *a, const struct tft_naive *naive)
{
    for (size_t o = 0; o < a->data->schema.target_count; o++)
        for (size_t e = 0; e < a->data->entity_count; e++)
            a->has_season[o] |= a->result.scores[o].by_entity[e].n && !isnan(naive[o].mean_error[e]);
}

/* {"p10": .., ..., "plain": {...}, "by_horizon": [...], "values": n} */
static json_t *naive_json(const struct tft_naive_scores *s)
{
    json_t *object = tft_scores_q_risk_json(&s->with, &s->with.all), *horizons = json_array();

    for (size_t h = 0; h < s->with.horizon; h++) { /* the median's, for pictures */
        const struct tft_sums *sums = &s->plain.by_horizon[h];
        json_array_append_new(horizons,
                              sums->size > 0 ? json_real(tft_sums_q_risk(sums, s->plain.median)) : json_null());
    }
    json_object_set_new(object, "plain", tft_scores_q_risk_json(&s->plain, &s->plain.all));
    json_object_set_new(object, "by_horizon", horizons);
    json_object_set_new(object, "values", json_integer((json_int_t)s->with.all.n));
    return object;
}

/* ---- all ---- */

enum halay_status tft_evaluation_init(struct halay_log *log, const struct tft_data *data,
                                      const struct tft_list *quantiles, struct tft_evaluation *a)
{
    *a = (struct tft_evaluation){ .log = log, .data = data, .quantiles = quantiles };
    enum halay_status status =
        tft_forecast_scores_init(log, quantiles->values, quantiles->count, data, data->entity_count, &a->result);

    return status ? status : init_naive_scores(a);
}

void tft_evaluation_fini(struct tft_evaluation *a)
{
    for (size_t k = 0; a->naive && k < naive_count(a); k++) {
        tft_scores_fini(&a->naive[k].with);
        tft_scores_fini(&a->naive[k].plain);
    }
    free(a->naive);
    free(a->has_season);
    tft_forecast_scores_fini(&a->result);
    *a = (struct tft_evaluation){ 0 };
}

enum halay_status tft_evaluation_add(struct tft_evaluation *a, struct tft_forecaster *forecaster,
                                     tft_forecast_take also, void *arg)
{
    const struct tft_windows *windows = forecaster->gather.windows;
    size_t O = a->data->schema.target_count, n = naive_count(a);
    struct tft_naive *naive = calloc(n, sizeof *naive);
    enum halay_status status = naive ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    if (status)
        halay_error(a->log, "no memory for naive forecasts");
    for (size_t k = 0; k < n && !status; k++)
        status = tft_naive_init(a->log, a->data, k % O, a->data->schema.seasons[k / O], a->quantiles->values,
                                a->quantiles->count, &naive[k]);
    for (size_t k = 0; k < n && !status; k++)
        add_naive(&a->naive[k], &forecaster->gather, windows->count, &naive[k]);
    if (!status)
        status = tft_forecast_scores_add(forecaster, windows->count, naive, also, arg, &a->result);
    if (!status)
        note_seasons(a, naive);
    for (size_t k = 0; naive && k < n; k++)
        tft_naive_fini(&naive[k]);
    free(naive);
    a->windows += windows->count;
    a->short_windows += tft_windows_short(windows);
    return status;
}

/* Why a target has no scaled error; NULL: it has one, or no value is scored at all. */
static json_t *why_no_mase(const struct tft_evaluation *a, size_t target)
{
    const struct tft_sums *all = &a->result.scores[target].all;
    size_t season = a->data->schema.seasons[0];

    if (all->scaled_n || !all->n)
        return NULL;
    return a->has_season[target]
               ? json_sprintf("in the training span each value is that of %zu steps before", season)
               : json_sprintf("no value of the training span has one %zu steps before; set another 'season'", season);
}

/* That a target's forecasts are no better than the best of its naive ones; NULL: they are, or there is nothing to
 * compare. */
static json_t *why_no_better(const struct tft_evaluation *a, size_t target)
{
    const struct tft_scores *mine = &a->result.scores[target];
    double q_risk = tft_sums_q_risk(&mine->all, mine->median), lowest = INFINITY;
    char median[32], text[400];
    size_t best = 0;

    for (size_t k = target; k < naive_count(a); k += a->data->schema.target_count) {
        const struct tft_sums *sums = &a->naive[k].with.all;
        if (sums->n && tft_sums_q_risk(sums, mine->median) < lowest) {
            lowest = tft_sums_q_risk(sums, mine->median);
            best = a->data->schema.seasons[k / a->data->schema.target_count];
        }
    }
    if (!mine->all.n || !best || !(lowest > 0) || !(q_risk >= lowest))
        return NULL;
    tft_quantile_name(mine->quantiles[mine->median], median, sizeof median);
    tft_naive_warning(&a->data->schema, target, median, q_risk, best, lowest, text, sizeof text);
    return json_string(text);
}

/* All scores of a target. */
static json_t *target_json(const struct tft_evaluation *a, size_t target)
{
    size_t O = a->data->schema.target_count;
    const char **ids = calloc(a->data->entity_count, sizeof *ids);
    json_t *scores, *naive = json_object(), *why = why_no_mase(a, target), *warning = why_no_better(a, target);
    char name[32];

    for (size_t i = 0; ids && i < a->data->entity_count; i++)
        ids[i] = a->data->entities[i].id;
    scores = ids ? tft_scores_json(&a->result.scores[target], ids) : NULL;
    free(ids);
    for (size_t k = target; k < naive_count(a); k += O) {
        snprintf(name, sizeof name, "%zu", a->data->schema.seasons[k / O]);
        json_object_set_new(naive, name, naive_json(&a->naive[k]));
    }
    if (scores && a->result.uncalibrated)
        json_object_set_new(scores, "uncalibrated", tft_scores_intervals_json(&a->result.uncalibrated[target]));
    if (scores && why)
        json_object_set(scores, "no_mase", why);
    if (scores && warning)
        json_object_set(scores, "no_better_than_naive", warning);
    json_decref(why);
    json_decref(warning);
    if (scores && !json_object_set_new(scores, "naive", naive))
        return scores;
    json_decref(scores);
    return NULL;
}

json_t *tft_evaluation_json(const struct tft_evaluation *a)
{
    const struct tft_schema *s = &a->data->schema;
    size_t O = s->target_count;

    if (O == 1)
        return target_json(a, 0);
    json_t **each = calloc(O, sizeof *each), *all = NULL, *by_name = json_object();
    int ok = each && by_name;
    for (size_t o = 0; ok && o < O; o++) { /* the object by name owns them */
        each[o] = target_json(a, o);
        ok = !json_object_set_new(by_name, s->inputs[s->targets[o]].name, each[o]);
    }
    if (ok)
        all = tft_scores_mean_json(each, O);
    if (all)
        json_object_set(all, "targets", by_name);
    json_decref(by_name);
    free(each);
    return all;
}
