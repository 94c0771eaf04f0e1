/* SPDX-License-Identifier: Apache-2.0
 *
 * Formulas of the kernels' elements, for the processor (tft/core/kernels/cpu_*.c) and for a GPU
 * (tft/core/kernels/cuda). Each device has its own real_exp, real_tanh, real_sigmoid and real_sqrt, whose last bits
 * differ: tft/core/kernels/vector.h, tft/core/kernels/cuda/device.cuh. Losses: tft/core/kernels/loss.h.
 */
#ifndef HALAY_TFT_FORMULAS_H
#define HALAY_TFT_FORMULAS_H

#include "tft/core/kernels/kernels.h"
#ifndef __cplusplus /* a GPU's files include its device.cuh before this */
#include "tft/core/kernels/vector.h"
#endif

/* ---- between the products of a layer ----------------------------------------------------------------------------- */

TFT_FORMULA real norm_z(real gamma, real xhat, real beta)
{
    return gamma * xhat + beta;
}

/* d_y of a layer norm: s = gamma d_z, and the row's means of s and of s xhat. */
TFT_FORMULA real norm_d_y(real inverse, real s, real mean_s, real xhat, real mean_s_xhat)
{
    return inverse * (s - mean_s - xhat * mean_s_xhat);
}

/* Returns the ELU's slope from its value. */
TFT_FORMULA real elu_slope(real value)
{
    return value > 0 ? 1 : value + 1;
}

/* Its backward is itself. */
TFT_FORMULA real dropout_value(int is_kept, real x, real scale)
{
    return is_kept ? x * scale : 0;
}

/* Gradient of the gate's sum, from that of v. */
TFT_FORMULA real gate_d_g(real d_v, real v, real s)
{
    return d_v * v * (1 - s);
}

/* ---- variable selection ------------------------------------------------------------------------------------------ */

/* dot: the row's sum of w d_w. */
TFT_FORMULA real softmax_d_z(real w, real d_w, real dot)
{
    return w * (d_w - dot);
}

/* The two inputs of an output that is resampled, and the second one's share. */
struct resampled {
    size_t left, right;
    real share;
};

TFT_FORMULA struct resampled resampled_of(size_t o, size_t in, size_t out)
{
    real position = out > 1 ? (real)o * (real)(in - 1) / (real)(out - 1) : 0;
    struct resampled at;

    at.left = (size_t)position;
    at.left = at.left < in - 1 ? at.left : in - 1;
    at.right = at.left + 1 < in ? at.left + 1 : at.left;
    at.share = position - (real)at.left;
    return at;
}

/* Column o of S: 2 sigmoid(mask_o) c_io, with the interpolation's coefficients c. */
TFT_FORMULA void resample_column(const real *mask, size_t in, size_t out, size_t o, real *s)
{
    const struct resampled at = resampled_of(o, in, out);
    const real scale = mask ? 2 * real_sigmoid(mask[o]) : 1;

    for (size_t i = 0; i < in; i++)
        s[i * out + o] = 0;
    s[at.left * out + o] += scale * (1 - at.share);
    s[at.right * out + o] += scale * at.share;
}

/* d_mask_o = 2 sigmoid'(mask_o) times the sum over i of c_io d_S_io. */
TFT_FORMULA real resample_d_mask(const real *mask, const real *d_s, size_t in, size_t out, size_t o)
{
    const struct resampled at = resampled_of(o, in, out);
    const real open = real_sigmoid(mask[o]);
    const real dot = (1 - at.share) * d_s[at.left * out + o] + at.share * d_s[at.right * out + o];

    return 2 * open * (1 - open) * dot;
}

/* ---- LSTM -------------------------------------------------------------------------------------------------------- */

/* A unit's cell after a step, from the activations of its gates. */
TFT_FORMULA real lstm_c(real i, real f, real g, real c_before)
{
    return f * c_before + i * g;
}

/* Gradients of the gates' sums, and of the cell before the step. */
struct lstm_unit_gradient {
    real i, f, g, o, c;
};

/* Returns the gradient of a unit from its activations and the gradients of its output and cell. */
TFT_FORMULA struct lstm_unit_gradient lstm_unit_backward(real i, real f, real g, real o, real c, real c_before,
                                                         real d_h, real d_c)
{
    const real tanh_c = real_tanh(c);
    const real d = d_c + d_h * o * (1 - tanh_c * tanh_c);
    struct lstm_unit_gradient to;

    to.i = d * g * i * (1 - i);
    to.f = d * c_before * f * (1 - f);
    to.g = d * i * (1 - g * g);
    to.o = d_h * tanh_c * o * (1 - o);
    to.c = d * f;
    return to;
}

/* ---- the optimizer ----------------------------------------------------------------------------------------------- */

TFT_FORMULA real average_of(real share, real x, real y)
{
    return y + share * (x - y);
}

/* Factor of a gradient whose squares have this sum; a norm that is not a number leaves it as it is. */
TFT_FORMULA real clip_factor(double clip, double squares)
{
    const double norm = sqrt(squares);

    return norm > clip ? (real)(clip / norm) : 1;
}

/* An update's factors. */
struct adam_factors {
    real beta1, beta2, one_minus_beta1, one_minus_beta2, rate, decay, epsilon;
};

static inline struct adam_factors adam_factors_of(const struct adam_run *run)
{
    const struct adam_factors factors = { (real)run->beta1,       (real)run->beta2, (real)(1 - run->beta1),
                                          (real)(1 - run->beta2), (real)run->rate,  (real)run->decay,
                                          (real)run->epsilon };

    return factors;
}

/* A moment to which nothing is added (an embedding's row that is not seen again) would stay subnormal forever, since
 * rounding to nearest keeps it from reaching zero, and its vectors would take ten times as long. */
TFT_FORMULA real normal_or_zero(real x)
{
#ifdef TFT_DOUBLE
    const real least = DBL_MIN;
#else
    const real least = FLT_MIN;
#endif
    const real size = x < 0 ? -x : x;

    return size < least ? 0 : x;
}

/* g: the clipped gradient. */
TFT_FORMULA void adam_update(struct adam_factors f, real g, real *m, real *v, real *p)
{
    *m = normal_or_zero(f.beta1 * *m + f.one_minus_beta1 * g);
    *v = normal_or_zero(f.beta2 * *v + f.one_minus_beta2 * g * g);
    *p -= f.rate * *m / (real_sqrt(*v) + f.epsilon) + f.decay * *p;
}

#endif
