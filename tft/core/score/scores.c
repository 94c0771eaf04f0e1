/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores: sums of errors, and ratios of them.
 *
 * Values are added in order of window and horizon, so that the sums' bits do not depend on the number of ranks.
 * References: TFT paper equation 26; Hyndman and Koehler 2006 for the scaled error.
 */
#include "tft/core/score/scores.h"
#include "base/memory.h"
#include "base/number_text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tft_quantile_name(double quantile, char *text, size_t size)
{
    halay_snprintf(text, size, "p%.6g", quantile * 100);
}

size_t tft_median_of(const double *quantiles, size_t count)
{
    size_t median = 0;

    for (size_t q = 1; q < count; q++)
        if (fabs(quantiles[q] - 0.5) < fabs(quantiles[median] - 0.5))
            median = q;
    return median;
}

double tft_quantile_loss(double y, double p, double quantile)
{
    return y >= p ? quantile * (y - p) : (1 - quantile) * (p - y);
}

struct tft_scores *tft_scores_create(struct halay_log *log, size_t count, const double *quantiles,
                                     size_t quantile_count, size_t horizon, size_t entity_count)
{
    const size_t sums = horizon + entity_count;
    struct tft_scores *scores = NULL;

    if (quantile_count <= TFT_SCORE_QUANTILES_MAX)
        scores = calloc(count, sizeof *scores + sums * sizeof(struct tft_sums));
    if (!scores) {
        halay_no_memory(log, "for scores");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        struct tft_scores *s = &scores[i];
        *s = (struct tft_scores){ .quantile_count = quantile_count,
                                  .horizon = horizon,
                                  .entity_count = entity_count,
                                  .median = tft_median_of(quantiles, quantile_count),
                                  .by_horizon = (struct tft_sums *)(scores + count) + i * sums };
        s->by_entity = s->by_horizon + horizon;
        memcpy(s->quantiles, quantiles, quantile_count * sizeof *quantiles);
    }
    return scores;
}

static void add_to_sums(const struct tft_scores *s, struct tft_sums *sums, double y, const double *p,
                        double naive_error)
{
    double error = fabs(y - p[s->median]), both = fabs(y) + fabs(p[s->median]);
    size_t above = 0;
    int crossed = 0;

    for (size_t q = 0; q < s->quantile_count; q++) {
        sums->quantile_loss[q] += tft_quantile_loss(y, p[q], s->quantiles[q]);
        crossed |= q && p[q] < p[q - 1];
        above += y > p[q];
    }
    sums->n++;
    sums->above[above]++;
    sums->width += p[s->quantile_count - 1] - p[0];
    sums->absolute += error;
    sums->squared += error * error;
    sums->size += fabs(y);
    sums->symmetric += both > 0 ? 2 * error / both : 0;
    sums->scaled += naive_error > 0 ? error / naive_error : 0;
    sums->scaled_n += naive_error > 0;
    sums->covered += y >= p[0] && y <= p[s->quantile_count - 1];
    sums->crossed += (size_t)crossed;
}

void tft_scores_add(struct tft_scores *s, size_t entity, size_t horizon, double y, const double *p, double naive_error)
{
    add_to_sums(s, &s->all, y, p, naive_error);
    add_to_sums(s, &s->by_horizon[horizon], y, p, naive_error);
    add_to_sums(s, &s->by_entity[entity], y, p, naive_error);
}

double tft_sums_q_risk(const struct tft_sums *sums, size_t quantile)
{
    return sums->size > 0 ? 2 * sums->quantile_loss[quantile] / sums->size : 0;
}

/* Returns a number; null for NAN, since 0 would be the best score. */
static json_t *number_json(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

/* Returns {"p10": ...} of a number for each quantile. */
static json_t *by_quantile_json(const struct tft_scores *s, const double *values)
{
    json_t *object = json_object();

    for (size_t q = 0; q < s->quantile_count; q++) {
        char name[32];
        tft_quantile_name(s->quantiles[q], name, sizeof name);
        json_object_set_new(object, name, number_json(values[q]));
    }
    return object;
}

json_t *tft_scores_q_risk_json(const struct tft_scores *s, const struct tft_sums *sums)
{
    double values[TFT_SCORE_QUANTILES_MAX];

    for (size_t q = 0; q < s->quantile_count; q++)
        values[q] = sums->size > 0 ? tft_sums_q_risk(sums, q) : NAN;
    return by_quantile_json(s, values);
}

/* Returns the mean over the horizons that have a q-risk: values, and not only zeros; NAN if none has. */
static double mean_by_horizon(const struct tft_scores *s, size_t quantile)
{
    double sum = 0;
    size_t n = 0;

    for (size_t h = 0; h < s->horizon; h++) {
        sum += tft_sums_q_risk(&s->by_horizon[h], quantile);
        n += s->by_horizon[h].size > 0;
    }
    return n ? sum / (double)n : NAN;
}

/* Returns the mean of a function over the targets for which it is a number; NAN without such targets. */
static double mean_of_targets(const struct tft_scores *s, size_t targets, size_t quantile,
                              double (*of)(const struct tft_scores *s, size_t quantile))
{
    double sum = 0;
    size_t n = 0;

    for (size_t o = 0; o < targets; o++) {
        double value = of(&s[o], quantile);
        sum += isnan(value) ? 0 : value;
        n += !isnan(value);
    }
    return n ? sum / (double)n : NAN;
}

/* Returns {"p10": ...}, each the mean of a function over the targets. */
static json_t *mean_json(const struct tft_scores *s, size_t targets,
                         double (*of)(const struct tft_scores *s, size_t quantile))
{
    double values[TFT_SCORE_QUANTILES_MAX];

    for (size_t q = 0; q < s->quantile_count; q++)
        values[q] = mean_of_targets(s, targets, q, of);
    return by_quantile_json(s, values);
}

static double q_risk_of_all(const struct tft_scores *s, size_t quantile)
{
    return s->all.size > 0 ? tft_sums_q_risk(&s->all, quantile) : NAN;
}

double tft_scores_mean_q_risk(const struct tft_scores *s, size_t targets, size_t quantile)
{
    double mean = mean_of_targets(s, targets, quantile, q_risk_of_all);

    return isnan(mean) ? 0 : mean;
}

json_t *tft_scores_mean_q_risk_json(const struct tft_scores *s, size_t targets)
{
    return mean_json(s, targets, q_risk_of_all);
}

json_t *tft_scores_mean_by_horizon_json(const struct tft_scores *s, size_t targets)
{
    return mean_json(s, targets, mean_by_horizon);
}

/* Returns a sum per value; null without values. */
static json_t *per_value(double sum, size_t n)
{
    return number_json(n ? sum / (double)n : NAN);
}

/* Returns the share of values that are not above each quantile (put in order): {"p10": ...}. */
static json_t *reliability_json(const struct tft_scores *s, const struct tft_sums *sums)
{
    double values[TFT_SCORE_QUANTILES_MAX];
    size_t n = 0;

    for (size_t q = 0; q < s->quantile_count; q++) {
        n += sums->above[q];
        values[q] = sums->n ? (double)n / (double)sums->n : NAN;
    }
    return by_quantile_json(s, values);
}

/* Returns the histogram of y's place in its forecast distribution: of each part between two quantiles, and of the two
 * outside, the share of values there divided by the share that the quantiles promise. {"p0_p10": ..., "p10_p50": ...}
 * */
static json_t *pit_json(const struct tft_scores *s, const struct tft_sums *sums)
{
    json_t *object = json_object();

    for (size_t q = 0; q <= s->quantile_count; q++) {
        double low = q ? s->quantiles[q - 1] : 0, high = q < s->quantile_count ? s->quantiles[q] : 1;
        char from[32], to[32], name[80];
        tft_quantile_name(low, from, sizeof from);
        tft_quantile_name(high, to, sizeof to);
        snprintf(name, sizeof name, "%s_%s", from, to);
        json_object_set_new(object, name, per_value((double)sums->above[q] / (high - low), sums->n));
    }
    return object;
}

/* Returns a score per value of the sums of quantile losses; null where it is not defined. */
static json_t *of_losses(const struct tft_scores *s, const struct tft_sums *sums,
                         double (*score)(const double *quantiles, size_t count, const double *losses))
{
    return per_value(score(s->quantiles, s->quantile_count, sums->quantile_loss), sums->n);
}

static void put_intervals(const struct tft_scores *s, const struct tft_sums *sums, json_t *object)
{
    char low[32], high[32], name[80];
    size_t n = s->quantile_count > 1 ? sums->n : 0; /* of intervals: one quantile makes none */

    tft_quantile_name(s->quantiles[0], low, sizeof low);
    tft_quantile_name(s->quantiles[s->quantile_count - 1], high, sizeof high);
    snprintf(name, sizeof name, "coverage_%s_%s", low, high);
    json_object_set_new(object, name, per_value((double)sums->covered, n));
    json_object_set_new(object, "width", per_value(sums->width, n));
    json_object_set_new(object, "interval_score", of_losses(s, sums, tft_interval_score));
    json_object_set_new(object, "wis", of_losses(s, sums, tft_weighted_interval_score));
    json_object_set_new(object, "crps", of_losses(s, sums, tft_crps));
    json_object_set_new(object, "reliability", reliability_json(s, sums));
    json_object_set_new(object, "pit", pit_json(s, sums));
    json_object_set_new(object, "crossing", per_value((double)sums->crossed, n));
}

json_t *tft_scores_intervals_json(const struct tft_scores *s)
{
    json_t *object = json_pack("{so}", "q_risk", tft_scores_q_risk_json(s, &s->all));

    if (object)
        put_intervals(s, &s->all, object);
    return object;
}

/* Adds the scores of some sums to an object. */
static void put_scores(const struct tft_scores *s, const struct tft_sums *sums, json_t *object)
{
    double wql = 0;

    for (size_t q = 0; q < s->quantile_count; q++)
        wql += tft_sums_q_risk(sums, q) / (double)s->quantile_count;
    json_object_set_new(object, "values", json_integer((json_int_t)sums->n));
    json_object_set_new(object, "q_risk", tft_scores_q_risk_json(s, sums));
    json_object_set_new(object, "mae", per_value(sums->absolute, sums->n));
    json_object_set_new(object, "rmse", sums->n ? json_real(sqrt(sums->squared / (double)sums->n)) : json_null());
    json_object_set_new(object, "smape", per_value(sums->symmetric, sums->n));
    json_object_set_new(object, "mase", per_value(sums->scaled, sums->scaled_n));
    json_object_set_new(object, "wql", per_value(wql, sums->size > 0));
    put_intervals(s, sums, object);
}

/* Returns the mean over the entities that have a scaled error of each one's mean; null if none has. */
static json_t *mean_of_entities(const struct tft_scores *s)
{
    double sum = 0;
    size_t n = 0;

    for (size_t e = 0; e < s->entity_count; e++) {
        const struct tft_sums *of = &s->by_entity[e];
        sum += of->scaled_n ? of->scaled / (double)of->scaled_n : 0;
        n += of->scaled_n > 0;
    }
    return per_value(sum, n);
}

json_t *tft_scores_json(const struct tft_scores *s, const char *const *ids)
{
    json_t *object = json_object(), *entities = json_object(), *horizons = json_array();

    put_scores(s, &s->all, object);
    json_object_set_new(object, "mase", mean_of_entities(s));
    json_object_set_new(object, "q_risk_by_horizon_mean", mean_json(s, 1, mean_by_horizon));
    for (size_t e = 0; e < s->entity_count; e++) {
        if (!s->by_entity[e].n)
            continue;
        json_t *of_entity = json_object();
        put_scores(s, &s->by_entity[e], of_entity);
        json_object_set_new(entities, ids[e], of_entity);
    }
    for (size_t h = 0; h < s->horizon; h++) {
        json_t *of_horizon = json_pack("{sI}", "horizon", (json_int_t)h + 1);
        put_scores(s, &s->by_horizon[h], of_horizon);
        json_array_append_new(horizons, of_horizon);
    }
    json_object_set_new(object, "by_entity", entities);
    if (!json_object_set_new(object, "by_horizon", horizons))
        return object;
    json_decref(object);
    return NULL;
}

/* Returns the mean of objects[key], or objects[key][inner] if inner is not NULL, over the objects in which it is a
 * number. */
static json_t *mean_of(json_t *const *objects, size_t n, const char *key, const char *inner)
{
    double sum = 0;
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(objects[i], key);
        value = inner ? json_object_get(value, inner) : value;
        sum += json_number_value(value);
        found += (size_t)json_is_number(value);
    }
    return per_value(sum, found);
}

/* Adds to `to` the mean of a value over the objects; numbers, and objects of numbers. Counts are added up. */
static void put_mean(json_t *to, const char *key, json_t *const *of, size_t n)
{
    const json_t *first = json_object_get(of[0], key);
    const char *inner;
    json_t *value;

    if (json_is_object(first)) {
        json_t *object = json_object();
        json_object_foreach((json_t *)first, inner, value)
            json_object_set_new(object, inner, mean_of(of, n, key, inner));
        json_object_set_new(to, key, object);
    } else if (json_is_integer(first)) {
        json_int_t sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += json_integer_value(json_object_get(of[i], key));
        json_object_set_new(to, key, json_integer(sum));
    } else {
        json_object_set_new(to, key, mean_of(of, n, key, NULL));
    }
}

json_t *tft_scores_mean_json(json_t *const *of, size_t n)
{
    static const char *const with_unit[] = {
        "mae",        "rmse",  "width",   "interval_score",       "wis",          "crps", "by_entity",
        "by_horizon", "naive", "no_mase", "no_better_than_naive", "uncalibrated", NULL
    };
    json_t *mean = json_object();
    const char *key;
    json_t *value;

    json_object_foreach(of[0], key, value) {
        size_t i = 0;
        while (with_unit[i] && strcmp(with_unit[i], key))
            i++;
        if (!with_unit[i])
            put_mean(mean, key, of, n);
    }
    return mean;
}

/*
 * Intervals between quantiles, and their scores.
 *
 * References: Winkler 1972 for the interval score; Bracher, Ray, Gneiting and Reich 2021 for the weighted one;
 * Gneiting and Ranjan 2011 for the CRPS as an integral of quantile losses.
 */

/* Quantiles are millionths. */
#define SAME 1e-9

int tft_interval_partner(const double *quantiles, size_t count, size_t quantile)
{
    for (size_t q = 0; q < count; q++)
        if (q != quantile && fabs(quantiles[q] + quantiles[quantile] - 1) < SAME)
            return (int)q;
    return TFT_NO_PARTNER;
}

double tft_interval_score(const double *quantiles, size_t count, const double *losses)
{
    if (count < 2 || fabs(quantiles[0] + quantiles[count - 1] - 1) >= SAME)
        return NAN;
    return (losses[0] + losses[count - 1]) / quantiles[0];
}

double tft_weighted_interval_score(const double *quantiles, size_t count, const double *losses)
{
    double sum = 0, weight = 0;

    for (size_t q = 0; q < count; q++)
        if (fabs(quantiles[q] - 0.5) < SAME || tft_interval_partner(quantiles, count, q) != TFT_NO_PARTNER) {
            sum += losses[q];
            weight += 0.5;
        }
    return weight > 0.5 ? sum / weight : NAN;
}

double tft_crps(const double *quantiles, size_t count, const double *losses)
{
    double sum = 0;

    for (size_t q = 0; q < count; q++) {
        double from = q ? (quantiles[q - 1] + quantiles[q]) / 2 : 0;
        double to = q + 1 < count ? (quantiles[q] + quantiles[q + 1]) / 2 : 1;
        sum += 2 * (to - from) * losses[q];
    }
    return sum;
}
