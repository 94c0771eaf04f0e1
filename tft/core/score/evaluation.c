/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation. Zero-initialised object, fini accepts it half-built.
 */
#include "tft/core/score/evaluation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- naive forecasts ---- */

/* Returns the scores of a target's naive forecasts by season k: with their residuals' quantiles, and plain. */
static struct tft_scores *naive_at(const struct tft_naive_scores *n, size_t k, size_t target)
{
    return n->scores + 2 * (k * n->target_count + target);
}

/* entities: this number of them, or 1 for all together. */
static enum halay_status naive_init(struct halay_log *log, const struct tft_data *d, const struct tft_list *q,
                                    size_t entities, struct tft_naive_scores *n)
{
    *n = (struct tft_naive_scores){ .target_count = d->schema.target_count };
    n->season_count = tft_naive_seasons(&d->schema, n->seasons);
    n->scores =
        tft_scores_create(log, 2 * n->season_count * n->target_count, q->values, q->count, d->schema.horizon, entities);
    return n->scores ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

/* Adds the scores of a target's naive forecasts by season k at positions [0, count) of a gather. */
static enum halay_status add_naive(struct halay_log *log, const struct tft_gather *gather, size_t count, size_t k,
                                   size_t o, const struct tft_naive_scores *n)
{
    const struct tft_data *d = gather->windows->data;
    struct tft_scores *with = naive_at(n, k, o), *plain = with + 1;
    struct tft_naive naive;
    enum halay_status status = tft_naive_init(log, d, o, n->seasons[k], with->quantiles, with->quantile_count, &naive);

    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        struct tft_window w = tft_gather_window(gather, i);
        const size_t entity = with->entity_count > 1 ? w.entity : 0;
        for (size_t h = 0; h < d->schema.horizon; h++) {
            size_t at = (w.origin + h) * n->target_count + o;
            double p[TFT_SCORE_QUANTILES_MAX], same[TFT_SCORE_QUANTILES_MAX], value;
            if (!d->present[at] || !tft_naive_forecast(&naive, w.entity, w.origin, h, p, &value))
                continue;
            for (size_t q = 0; q < with->quantile_count; q++)
                same[q] = value;
            tft_scores_add(with, entity, h, d->target[at], p, 0);
            tft_scores_add(plain, entity, h, d->target[at], same, 0);
        }
    }
    tft_naive_fini(&naive);
    return HALAY_OK;
}

/* Adds those of all seasons and targets. */
static enum halay_status add_all_naive(struct halay_log *log, const struct tft_gather *gather, size_t count,
                                       const struct tft_naive_scores *n)
{
    enum halay_status status;

    for (size_t k = 0; k < n->season_count; k++)
        for (size_t o = 0; o < n->target_count; o++)
            if ((status = add_naive(log, gather, count, k, o, n)))
                return status;
    return HALAY_OK;
}

/* Returns the naive forecasts with the lowest q-risk of the median, a mean over targets [first, end); infinite without
 * those that have at least half of this number of values of each. */
static struct tft_naive_best best_of(const struct tft_naive_scores *n, size_t first, size_t end, size_t values)
{
    struct tft_naive_best best = { .q_risk = INFINITY };

    for (size_t k = 0; k < n->season_count; k++)
        for (int is_plain = 0; is_plain < 2; is_plain++) {
            double risk = 0;
            for (size_t o = first; o < end; o++) {
                const struct tft_scores *s = naive_at(n, k, o) + is_plain;
                const int is_scored = s->all.size > 0 && 2 * s->all.n >= values;
                risk += is_scored ? tft_sums_q_risk(&s->all, s->median) / (double)(end - first) : INFINITY;
            }
            if (risk < best.q_risk)
                best = (struct tft_naive_best){ n->seasons[k], is_plain, risk };
        }
    return best;
}

enum halay_status tft_naive_find_best(struct halay_log *log, const struct tft_gather *gather, size_t count,
                                      const struct tft_list *quantiles, struct tft_naive_best *best)
{
    struct tft_naive_scores n;
    enum halay_status status;

    if (!(status = naive_init(log, gather->windows->data, quantiles, 1, &n)))
        status = add_all_naive(log, gather, count, &n);
    if (!status)
        *best = best_of(&n, 0, n.target_count, 0);
    free(n.scores);
    return status;
}

/* Returns {"p10": .., ..., "plain": {...}, "by_horizon": [...], "values": n, "title": "..."} of season k. */
static json_t *naive_json(const struct tft_evaluation *a, size_t k, size_t target, const char *key)
{
    const struct tft_scores *with = naive_at(&a->naive, k, target), *plain = with + 1;
    json_t *object = tft_scores_q_risk_json(with, &with->all), *horizons = json_array();
    char title[64];

    for (size_t h = 0; h < with->horizon; h++) { /* the median's, for pictures */
        const struct tft_sums *sums = &plain->by_horizon[h];
        json_array_append_new(horizons, sums->size > 0 ? json_real(tft_sums_q_risk(sums, plain->median)) : json_null());
    }
    tft_naive_title(key, with->horizon, title, sizeof title);
    json_object_set_new(object, "plain", tft_scores_q_risk_json(plain, &plain->all));
    json_object_set_new(object, "by_horizon", horizons);
    json_object_set_new(object, "values", json_integer((json_int_t)with->all.n));
    json_object_set_new(object, "title", json_string(title));
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
    return naive_init(log, data, q, data->entity_count, &a->naive);
}

void tft_evaluation_fini(struct tft_evaluation *a)
{
    free(a->naive.scores);
    tft_seasonal_error_fini(&a->seasonal);
    tft_forecast_scores_fini(&a->result);
    *a = (struct tft_evaluation){ 0 };
}

enum halay_status tft_evaluation_add(struct tft_evaluation *a, struct tft_forecaster *forecaster,
                                     tft_forecast_take also, void *arg)
{
    const struct tft_windows *windows = forecaster->gather.windows;
    enum halay_status status;

    if ((status = add_all_naive(a->log, &forecaster->gather, windows->count, &a->naive)) ||
        (status = tft_forecast_scores_add(forecaster, windows->count, &a->seasonal, also, arg, &a->result)))
        return status;
    a->windows += windows->count;
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

/* Adds which naive forecasts are the best, and a sentence if the target's do not beat them. */
static void put_best(const struct tft_evaluation *a, size_t target, json_t *scores)
{
    const struct tft_scores *mine = &a->result.scores[target];
    const struct tft_naive_best best = best_of(&a->naive, target, target + 1, mine->all.n);
    const double q_risk = tft_sums_q_risk(&mine->all, mine->median);
    char key[24], text[400];

    if (isinf(best.q_risk))
        return;
    tft_naive_key(best.season, key, sizeof key);
    json_object_set_new(scores, "best_naive",
                        json_pack("{ss sb sf}", "forecast", key, "plain", best.is_plain, "q_risk", best.q_risk));
    if (tft_naive_warning(&a->data->schema, target, mine->quantiles[mine->median], q_risk, &best, text, sizeof text))
        json_object_set_new(scores, "no_better_than_naive", json_string(text));
}

/* Returns all scores of a target; NULL without memory. */
static json_t *target_json(const struct tft_evaluation *a, size_t target)
{
    const char **ids = calloc(a->data->entity_count, sizeof *ids);
    json_t *scores, *naive = json_object(), *why = why_no_mase(a, target);
    char key[32];

    for (size_t i = 0; ids && i < a->data->entity_count; i++)
        ids[i] = a->data->entities[i].id;
    scores = ids ? tft_scores_json(&a->result.scores[target], ids) : NULL;
    free(ids);
    for (size_t k = 0; k < a->naive.season_count; k++) {
        tft_naive_key(a->naive.seasons[k], key, sizeof key);
        json_object_set_new(naive, key, naive_json(a, k, target, key));
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

/* Returns the scores of the only target, or those of each under "targets". */
static json_t *scores_json(const struct tft_evaluation *a)
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

json_t *tft_evaluation_json(const struct tft_evaluation *a, const char *kind, enum tft_split split, size_t stride,
                            json_t *more)
{
    json_t *whole =
        json_pack("{ss ss sI sI sI}", "kind", kind, "split", tft_split_names[split], "windows", (json_int_t)a->windows,
                  "short_windows", (json_int_t)a->short_windows, "stride", (json_int_t)stride);
    json_t *scores = scores_json(a);

    if (!more || !scores || json_object_update(whole, more) || json_object_update(whole, scores) ||
        json_object_set_new(whole, "loss", json_real(a->result.loss))) {
        json_decref(whole);
        whole = NULL;
    }
    json_decref(scores);
    json_decref(more);
    return whole;
}
