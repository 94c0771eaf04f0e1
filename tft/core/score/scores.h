/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores: how far forecasts are from the actual values, summed value by value, in the target's own unit.
 *
 * q-risk is the paper's equation 26: 2 * sum of quantile losses / sum of |y|, over all values and horizons; "by
 * horizon, mean" is the published program's: that ratio for each horizon, averaged. Only measured targets are added.
 */
#ifndef HALAY_TFT_SCORES_H
#define HALAY_TFT_SCORES_H

#include "base/log.h"
#include <jansson.h>
#include <stddef.h>

enum { TFT_SCORE_QUANTILES_MAX = 16 };

/* Sums over some set of values. */
struct tft_sums {
    size_t n;
    double quantile_loss[TFT_SCORE_QUANTILES_MAX];
    double absolute, squared; /* errors of the median */
    double size;              /* |y| */
    double symmetric;         /* 2 |y - p| / (|y| + |p|) */
    double scaled;            /* |y - p| / the seasonal naive error before it, of scaled_n values that have one */
    size_t scaled_n;
    double width;                              /* between the outer quantiles */
    size_t covered, crossed;                   /* y between the outer quantiles; quantiles out of order */
    size_t above[TFT_SCORE_QUANTILES_MAX + 1]; /* y above this number of quantiles */
};

struct tft_scores {
    size_t quantile_count, horizon, entity_count;
    double quantiles[TFT_SCORE_QUANTILES_MAX]; /* ascending */
    size_t median;                             /* the one nearest to 0.5 */
    struct tft_sums all;
    struct tft_sums *by_horizon; /* (horizon) */
    struct tft_sums *by_entity;  /* (entities) */
};

/* "p10" for 0.1, "p2.5" for 0.025. */
void tft_quantile_name(double quantile, char *text, size_t size);
/* The number of the quantile nearest to 0.5. */
size_t tft_median_of(const double *quantiles, size_t count);
double tft_quantile_loss(double y, double p, double quantile);

/* Makes this number of scores, all empty, for free(); NULL (logged) without memory. */
struct tft_scores *tft_scores_create(struct halay_log *log, size_t count, const double *quantiles,
                                     size_t quantile_count, size_t horizon, size_t entity_count);

/* Add one value: p[quantile]. naive_error: that of the rows before, for the scaled error; zero leaves it out. */
void tft_scores_add(struct tft_scores *scores, size_t entity, size_t horizon, double y, const double *p,
                    double naive_error);

double tft_sums_q_risk(const struct tft_sums *sums, size_t quantile);
/* Returns the mean over several targets of each one's q-risk of all values. */
double tft_scores_mean_q_risk(const struct tft_scores *scores, size_t targets, size_t quantile);
/* {"p10": ...} of that, and of the means by horizon; NULL without memory. */
json_t *tft_scores_mean_q_risk_json(const struct tft_scores *scores, size_t targets);
json_t *tft_scores_mean_by_horizon_json(const struct tft_scores *scores, size_t targets);
/* {"p10": ...} of some sums, null without values; NULL without memory. */
json_t *tft_scores_q_risk_json(const struct tft_scores *scores, const struct tft_sums *sums);
/* Returns the scores of intervals and q_risk, of all values together. NULL if memory runs out. */
json_t *tft_scores_intervals_json(const struct tft_scores *scores);
/* Returns all keys of `evaluate` that scores give, null where a value is missing; ids (entities) name the entities.
 * NULL if memory runs out. */
json_t *tft_scores_json(const struct tft_scores *scores, const char *const *ids);

/* Combines several targets' objects of tft_scores_json: the number of values, and the mean of each score that has no
 * unit, over those that have it. NULL without memory. */
json_t *tft_scores_mean_json(json_t *const *of_targets, size_t targets);

/*
 * Intervals between quantiles: which there are, and the scores that follow from the quantile losses L(q), where
 * L(q) = q (y - p) above the forecast p and (1 - q) (p - y) below. All are in the target's unit; lower is better.
 *
 *     interval score (Winkler) of a central interval that leaves out a share a:
 *         width + 2/a * what y is below or above it      =  2/a * (L(a/2) + L(1 - a/2))
 *     weighted interval score (WIS) of K central intervals and the median:
 *         (|y - median| / 2 + sum of a/2 * interval score) / (K + 1/2)   =  sum of their L / (K + 1/2)
 *     CRPS: 2 * integral of L(q) over q from 0 to 1, here 2 * sum of w(q) L(q). w is how much of [0, 1] is nearer to q
 *         than to any other quantile: .3, .4, .3 for .1, .5, .9.
 */

/* Returns the quantile that makes a central interval with this one; NO_PARTNER without one. */
enum { TFT_NO_PARTNER = -1 };
int tft_interval_partner(const double *quantiles, size_t count, size_t quantile);

/* Scores of quantile losses, or of sums or means of them: (count). NAN where the quantiles hold no central interval (of
 * the outermost two; for WIS, of any two). */
double tft_interval_score(const double *quantiles, size_t count, const double *losses);
double tft_weighted_interval_score(const double *quantiles, size_t count, const double *losses);
double tft_crps(const double *quantiles, size_t count, const double *losses);

#endif
