/* SPDX-License-Identifier: Apache-2.0
 *
 * o_q moves p_q and all above it, with slope sigmoid(o_q) = 1 - e^(p_(q-1) - p_q): what forward wrote over o is enough.
 */
#include "tft/layers/ascending.h"
#include <math.h>

static real softplus(real x)
{
    return (real)((x > 0 ? (double)x : 0) + log1p(exp(-fabs((double)x))));
}

void ascending_forward(real *o, size_t R, size_t Q, size_t O)
{
    for (size_t r = 0; r < R; r++)
        for (size_t k = O; k < Q * O; k++)
            o[r * Q * O + k] = o[r * Q * O + k - O] + softplus(o[r * Q * O + k]);
}

void ascending_backward(const real *p, size_t R, size_t Q, size_t O, real *d_p)
{
    for (size_t r = 0; r < R; r++) {
        const real *row = p + r * Q * O;
        real *d = d_p + r * Q * O;

        for (size_t k = Q * O; k-- > O;) {
            d[k - O] += d[k];
            d[k] *= (real)-expm1((double)row[k - O] - (double)row[k]);
        }
    }
}
