/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses: what a model learns to forecast, and the meaning of the P numbers that its last layer computes for a target.
 *
 *     quantiles                 P = Q: the quantiles
 *     mae, mse, huber           1: one number, the point (the median, the mean, between the two)
 *     gaussian                  2: mean, deviation
 *     student-t                 3: location, scale, degrees of freedom
 *     poisson                   1: mean
 *     negative-binomial         2: mean, dispersion a; the variance is mean + a mean^2
 *     tweedie                   2: mean, dispersion f; the variance is f mean^power; a sum of a Poisson
 *                               number of gamma values, so that it may be 0
 *
 * Quantiles and points are of the target as its window is scaled. A distribution's loss is the negative logarithm of
 * the target's likelihood. Its target y and its forecasts are scaled as the data are, or, of the last three, not at
 * all; an offset and a unit > 0 lead from the numbers o of the last layer there (softplus(x) = log(1 + e^x)):
 *
 *     gaussian, student-t       offset + unit o_0, unit (1e-4 + softplus(o_1)), 2 + softplus(o_2)
 *     poisson and below         unit (1e-6 + softplus(offset / unit + o_0)), about offset + unit o_0 where that is well
 *                               above 0; 1e-4 + softplus(o_1), of tweedie times unit^(2 - power), which has its unit
 *
 * The smallest spreads keep the slopes of targets without noise finite; above 2 degrees of freedom the variance is.
 */
#ifndef HALAY_TFT_LOSS_H
#define HALAY_TFT_LOSS_H

#include "tft/core/kernels/real.h"
#include <math.h>
#include <stddef.h>

enum tft_loss {
    TFT_LOSS_QUANTILES,
    TFT_LOSS_MAE,
    TFT_LOSS_MSE,
    TFT_LOSS_HUBER,
    TFT_LOSS_POISSON,
    TFT_LOSS_NEGATIVE_BINOMIAL,
    TFT_LOSS_TWEEDIE,
    TFT_LOSS_GAUSSIAN,
    TFT_LOSS_STUDENT_T
};

enum { TFT_LOSS_PARAMETERS_MAX = 3 };
#define TFT_LEAST_SPREAD 1e-4 /* of deviations, scales and dispersions, in their units */

TFT_ANYWHERE static inline int tft_loss_is_point(enum tft_loss loss)
{
    return loss == TFT_LOSS_MAE || loss == TFT_LOSS_MSE || loss == TFT_LOSS_HUBER;
}

TFT_ANYWHERE static inline int tft_loss_is_distribution(enum tft_loss loss)
{
    return loss >= TFT_LOSS_POISSON;
}

/* Returns nonzero if the distribution is of whole numbers. */
TFT_ANYWHERE static inline int tft_loss_counts(enum tft_loss loss)
{
    return loss == TFT_LOSS_POISSON || loss == TFT_LOSS_NEGATIVE_BINOMIAL;
}

/* Returns nonzero if the distribution is of the target in its own unit, and never below 0. */
TFT_ANYWHERE static inline int tft_loss_is_unscaled(enum tft_loss loss)
{
    return tft_loss_counts(loss) || loss == TFT_LOSS_TWEEDIE;
}

/* P. */
TFT_ANYWHERE static inline size_t tft_loss_outputs(enum tft_loss loss, size_t quantiles)
{
    if (loss == TFT_LOSS_QUANTILES)
        return quantiles;
    if (loss == TFT_LOSS_STUDENT_T)
        return 3;
    return tft_loss_is_point(loss) || loss == TFT_LOSS_POISSON ? 1 : 2;
}

/* Returns the loss of a point that is below the target by this distance: huber's is the square up to a scaled unit,
 * then linear. */
TFT_ANYWHERE static inline double tft_loss_of_point(enum tft_loss loss, double below)
{
    double size = fabs(below);

    if (loss == TFT_LOSS_MAE)
        return size;
    if (loss == TFT_LOSS_MSE)
        return size * size;
    return size <= 1 ? size * size / 2 : size - 0.5;
}

/* `factor` times a loss. A likelihood's logarithm may be 0 or below: it is taken for 1 at least. */
static inline double tft_loss_times(enum tft_loss loss, double value, double factor)
{
    if (!tft_loss_is_distribution(loss) || !isfinite(value))
        return factor * value;
    return value + (factor - 1) * fmax(fabs(value), 1);
}

/* d loss / d point. */
TFT_ANYWHERE static inline double tft_loss_slope_of_point(enum tft_loss loss, double below)
{
    if (loss == TFT_LOSS_MSE)
        return -2 * below;
    if (loss == TFT_LOSS_HUBER && fabs(below) <= 1)
        return -below;
    return (below < 0) - (below > 0);
}

TFT_ANYWHERE static inline double tft_softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* d loss / d quantile of a target that is `above` it; a NaN stays one. */
TFT_ANYWHERE static inline double tft_quantile_slope(double above, double quantile)
{
    if (above > 0)
        return -quantile;
    return above < 0 ? 1 - quantile : above;
}

/* A distribution, and how its parameters change with the numbers that they come from. */
struct tft_distribution {
    enum tft_loss family;
    double power;                           /* tweedie's */
    double at[TFT_LOSS_PARAMETERS_MAX];     /* in the order above */
    double slopes[TFT_LOSS_PARAMETERS_MAX]; /* d at[k] / d o_k */
};

/* o: (P). */
TFT_ANYWHERE static inline struct tft_distribution tft_distribution_of(enum tft_loss loss, double power,
                                                                       const double *o, double offset, double unit)
{
    const double least_mean = 1e-6, least_freedom = 2;
    const int is_unscaled = tft_loss_is_unscaled(loss);
    const double scale = loss == TFT_LOSS_TWEEDIE ? pow(unit, 2 - power) : is_unscaled ? 1 : unit;
    const size_t count = tft_loss_outputs(loss, 0);
    struct tft_distribution d = { .family = loss, .power = power, .at = { 0 }, .slopes = { 0 } };

    d.at[0] = is_unscaled ? unit * (least_mean + tft_softplus(offset / unit + o[0])) : offset + unit * o[0];
    d.slopes[0] = is_unscaled ? unit / (1 + exp(-(offset / unit + o[0]))) : unit;
    for (size_t k = 1; k < count; k++) {
        d.at[k] = k == 1 ? scale * (TFT_LEAST_SPREAD + tft_softplus(o[k])) : least_freedom + tft_softplus(o[k]);
        d.slopes[k] = (k == 1 ? scale : 1) / (1 + exp(-o[k]));
    }
    return d;
}

/* Returns the negative logarithm of y's likelihood in full, so that those of different distributions compare, and sets
 * its slopes along the parameters (d->at). y is a number that the distribution can give. (likelihood.c) */
TFT_ANYWHERE double tft_likelihood_loss(const struct tft_distribution *d, double y, double *slopes);

#endif
