/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/layers/quantile_loss.h"

/* d loss / d forecast of a target that is `above` the forecast; a NaN stays one. */
static double slope_of(double above, double quantile)
{
    if (above > 0)
        return -quantile;
    return above < 0 ? 1 - quantile : above;
}

double quantile_loss(const struct quantile_loss *of, const real *p, const real *y, const real *w, real *d_p)
{
    const double *quantiles = of->quantiles, scale = of->scale;
    size_t Q = of->Q, O = of->O, B = of->B, D = of->D;
    double sum = 0;

    for (size_t t = 0; t < D; t++)
        for (size_t b = 0; b < B; b++)
            for (size_t q = 0; q < Q; q++)
                for (size_t o = 0; o < O; o++) {
                    size_t at = (t * B + b) * Q * O + q * O + o, target = (b * D + t) * O + o;
                    double weight = (double)w[target], above, slope;

                    /* A masked target may hold anything, a NaN too. */
                    above = weight == 0 ? 0 : (double)y[target] - (double)p[at];
                    slope = slope_of(above, quantiles[q]);
                    sum -= weight == 0 ? 0 : weight * slope * above;
                    if (d_p)
                        d_p[at] = weight == 0 ? 0 : (real)(weight * slope * scale);
                }
    return sum * scale;
}
