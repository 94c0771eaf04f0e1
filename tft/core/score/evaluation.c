/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation. Zero-initialised object, fini accepts it half-built.
 */
#include "tft/core/score/evaluation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static size_t naive_count(const struct tft_evaluation *a)
{
    return a->season_count * a->data->schema.target_count;
}

/* ---- naive forecasts ---- */

/* Adds the scores of a target's naive forecasts by a season at positions [0, count) of a gather. */
static enum halay_status add_naive(struct halay_log *log, const struct tft_gather *gather, size_t count, size_t o,
                                   size_t season, struct tft_naive_scores *scores)
{
    const struct tft_data *d = gather->windows->data;
    const size_t O = d->schema.target_count;
    struct tft_naive naive;
    enum halay_status status =
        tft_naive_init(log, d, o, season, scores->with.quantiles, scores->with.quantile_count, &naive);

    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        struct tft_window w = tft_gather_window(gather, i);
        for (size_t h = 0; h < d->schema.horizon; h++) {
            size_t at = (w.origin + h) * O + o;
            double p[TFT_SCORE_QUANTILES_MAX], same[TFT_SCORE_QUANTILES_MAX], value;
            if (!d->present[at] || !tft_naive_forecast(&naive, w.entity, w.origin, h, p, &value))
                continue;
            for (size_t q = 0; q < scores->with.quantile_count; q++)
                same[q] = value;
            tft_scores_add(&scores->with, w.entity, h, d->target[at], p, 0);
            tft_scores_add(&scores->plain, w.entity, h, d->target[at], same, 0);
        }
    }
    tft_naive_fini(&naive);
    return HALAY_OK;
}

static void naive_scores_fini(struct tft_naive_scores *scores)
{
    tft_scores_fini(&scores->with);
    tft_scores_fini(&scores->plain);
}

static enum halay_status naive_scores_init(struct halay_log *log, const struct tft_data *d, const struct tft_list *q,
                                           struct tft_naive_scores *scores)
{
    size_t D = d->schema.horizon, entities = d->entity_count;
    enum halay_status status = tft_scores_init(log, q->values, q->count, D, entities, &scores->with);

    return status ? status : tft_scores_init(log, q->values, q->count, D, entities, &scores->plain);
}

/* Adds the median's q-risks of one target and season, a part of their mean over the targets; without any value they are
 * infinite. */
static enum halay_status add_risks(struct halay_log *log, const struct tft_gather *gather, size_t count,
                                   const struct tft_list *q, size_t target, size_t season, double risks[2])
{
    const struct tft_data *d = gather->windows->data;
    const double targets = (double)d->schema.target_count;
    struct tft_naive_scores scores = { 0 };
    enum halay_status status;

    if (!(status = naive_scores_init(log, d, q, &scores)) &&
        !(status = add_naive(log, gather, count, target, season, &scores))) {
        int is_scored = scores.with.all.size > 0;
        risks[0] += is_scored ? tft_sums_q_risk(&scores.with.all, scores.with.median) / targets : INFINITY;
        risks[1] += is_scored ? tft_sums_q_risk(&scores.plain.all, scores.with.median) / targets : INFINITY;
    }
    naive_scores_fini(&scores);
    return status;
}

/* Takes the lower of a season's, with residuals and plain, if it is lower. */
static void take_lower(size_t season, const double risks[2], struct tft_naive_best *best)
{
    for (int is_plain = 0; is_plain < 2; is_plain++)
        if (risks[is_plain] < best->q_risk)
            *best = (struct tft_naive_best){ season, is_plain, risks[is_plain] };
}

enum halay_status tft_naive_find_best(struct halay_log *log, const struct tft_gather *gather, size_t count,
                                      const struct tft_list *quantiles, struct tft_naive_best *best)
{
    const struct tft_schema *s = &gather->windows->data->schema;
    size_t seasons[TFT_NAIVE_MAX], n = tft_naive_seasons(s, seasons);
    enum halay_status status;

    *best = (struct tft_naive_best){ .q_risk = INFINITY };
    for (size_t k = 0; k < n; k++) {
        double risks[2] = { 0, 0 };
        for (size_t o = 0; o < s->target_count; o++)
            if ((status = add_risks(log, gather, count, quantiles, o, seasons[k], risks)))
                return status;
        take_lower(seasons[k], risks, best);
    }
    return HALAY_OK;
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

/* ---- the evaluation ---- */

enum halay_status tft_evaluation_init(struct halay_log *log, const struct tft_data *data, const struct tft_list *q,
                                      struct tft_evaluation *a)
{
    enum halay_status status;

    *a = (struct tft_evaluation){ .log = log, .data = data, .quantiles = q };
    if ((status = tft_forecast_scores_init(log, q->values, q->count, data, data->entity_count, &a->result)) ||
        (status = tft_seasonal_error_init(log, data, &a->seasonal)))
        return status;
    a->season_count = tft_naive_seasons(&data->schema, a->seasons);
    a->naive = calloc(naive_count(a), sizeof *a->naive);
    if (!a->naive)
        return halay_no_memory(log, "for naive forecasts");
    for (size_t k = 0; k < naive_count(a); k++)
        if ((status = naive_scores_init(log, data, q, &a->naive[k])))
            return status;
    return HALAY_OK;
}

void tft_evaluation_fini(struct tft_evaluation *a)
{
    for (size_t k = 0; a->naive && k < naive_count(a); k++)
        naive_scores_fini(&a->naive[k]);
    free(a->naive);
    tft_seasonal_error_fini(&a->seasonal);
    tft_forecast_scores_fini(&a->result);
    *a = (struct tft_evaluation){ 0 };
}

enum halay_status tft_evaluation_add(struct tft_evaluation *a, struct tft_forecaster *forecaster,
                                     tft_forecast_take also, void *arg)
{
    const struct tft_windows *windows = forecaster->gather.windows;
    const size_t O = a->data->schema.target_count, n = windows->count;
    enum halay_status status;

    for (size_t k = 0; k < naive_count(a); k++)
        if ((status = add_naive(a->log, &forecaster->gather, n, k % O, a->seasons[k / O], &a->naive[k])))
            return status;
    if ((status = tft_forecast_scores_add(forecaster, n, &a->seasonal, also, arg, &a->result)))
        return status;
    a->windows += n;
    a->short_windows += tft_windows_short(windows);
    return HALAY_OK;
}

/* Returns why a target has no scaled error; NULL if it has one, or no value is scored at all. */
static json_t *why_no_mase(const struct tft_evaluation *a, size_t target)
{
    const struct tft_sums *all = &a->result.scores[target].all;
    size_t season = a->data->schema.seasons[0];

    if (all->scaled_n || !all->n)
        return NULL;
    return a->seasonal.sums[target].found
               ? json_sprintf("before the forecasts each value is that of %zu steps before", season)
               : json_sprintf("no value before the forecasts has one %zu steps before; set another 'season'", season);
}

/* Returns the best of a target's naive forecasts, of those that have at least half of its values. */
static struct tft_naive_best best_of(const struct tft_evaluation *a, size_t target)
{
    const struct tft_scores *mine = &a->result.scores[target];
    struct tft_naive_best best = { .q_risk = INFINITY };

    for (size_t k = target; k < naive_count(a); k += a->data->schema.target_count) {
        const struct tft_naive_scores *s = &a->naive[k];
        const double risks[2] = { tft_sums_q_risk(&s->with.all, mine->median),
                                  tft_sums_q_risk(&s->plain.all, mine->median) };
        if (s->with.all.size > 0 && 2 * s->with.all.n >= mine->all.n)
            take_lower(a->seasons[k / a->data->schema.target_count], risks, &best);
    }
    return best;
}

/* Adds which naive forecasts are the best, and a sentence if the target's do not beat them. */
static void put_best(const struct tft_evaluation *a, size_t target, json_t *scores)
{
    const struct tft_scores *mine = &a->result.scores[target];
    const struct tft_naive_best best = best_of(a, target);
    double q_risk = tft_sums_q_risk(&mine->all, mine->median);
    char key[24], median[32], text[400];

    if (isinf(best.q_risk))
        return;
    tft_naive_key(best.season, key, sizeof key);
    json_object_set_new(scores, "best_naive",
                        json_pack("{ss sb sf}", "forecast", key, "plain", best.is_plain, "q_risk", best.q_risk));
    if (!tft_naive_wins(q_risk, &best))
        return;
    tft_quantile_name(mine->quantiles[mine->median], median, sizeof median);
    tft_naive_warning(&a->data->schema, target, median, q_risk, &best, text, sizeof text);
    json_object_set_new(scores, "no_better_than_naive", json_string(text));
}

/* Returns all scores of a target; NULL without memory. */
static json_t *target_json(const struct tft_evaluation *a, size_t target)
{
    const size_t O = a->data->schema.target_count;
    const char **ids = calloc(a->data->entity_count, sizeof *ids);
    json_t *scores, *naive = json_object(), *why = why_no_mase(a, target);
    char name[32], title[64];

    for (size_t i = 0; ids && i < a->data->entity_count; i++)
        ids[i] = a->data->entities[i].id;
    scores = ids ? tft_scores_json(&a->result.scores[target], ids) : NULL;
    free(ids);
    for (size_t k = target; k < naive_count(a); k += O) {
        tft_naive_key(a->seasons[k / O], name, sizeof name);
        tft_naive_title(name, a->data->schema.horizon, title, sizeof title);
        json_t *of_season = naive_json(&a->naive[k]);
        json_object_set_new(of_season, "title", json_string(title));
        json_object_set_new(naive, name, of_season);
    }
    if (a->result.uncalibrated)
        json_object_set_new(scores, "uncalibrated", tft_scores_intervals_json(&a->result.uncalibrated[target]));
    if (why)
        json_object_set_new(scores, "no_mase", why);
    put_best(a, target, scores);
    if (!json_object_set_new(scores, "naive", naive))
        return scores;
    json_decref(scores);
    return NULL;
}

json_t *tft_evaluation_json(const struct tft_evaluation *a)
{
    const struct tft_schema *s = &a->data->schema;
    json_t *each[TFT_INPUTS_MAX], *by_name, *all = NULL;
    size_t O = s->target_count, made = 0;

    if (O == 1)
        return target_json(a, 0);
    by_name = json_object();
    for (size_t o = 0; o < O; o++) { /* the object by name owns them */
        each[o] = target_json(a, o);
        made += !json_object_set_new(by_name, s->inputs[s->targets[o]].name, each[o]);
    }
    if (made == O)
        all = tft_scores_mean_json(each, O);
    if (all)
        json_object_set(all, "targets", by_name);
    json_decref(by_name);
    return all;
}
