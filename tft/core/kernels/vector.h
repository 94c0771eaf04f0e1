/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise loops at the processor's width.
 *
 * A function marked TFT_VECTOR is compiled for AVX-512, AVX2 and plain x86-64, and the loader picks one for the
 * machine; elsewhere it is ordinary C. Loops are written plainly, without calls, and the compiler vectorises them; sums
 * that may be reordered say so with `#pragma omp simd reduction`. The same machine gives the same bits; another width
 * may not. (The thread sanitizer cannot run before the loader is done, so there the clones are left out.)
 */
#ifndef HALAY_TFT_VECTOR_H
#define HALAY_TFT_VECTOR_H

#include "tft/core/kernels/real.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(TFT_DOUBLE)
#define TFT_HAVE_CLONES
#define TFT_VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TFT_VECTOR
#endif

#ifdef TFT_DOUBLE
TFT_INLINE real real_exp(real x)
{
    return exp(x);
}
#else
/*
 * e^x within 2 units in the last place, without a branch: x = n ln 2 + r, |r| <= ln 2 / 2, a polynomial for e^r, and n
 * put into the exponent. A NaN stays one. Saturates outside [-64, 64], which changes no bit of the results here: e^-64
 * vanishes beside 1. The limit is low because the compiler computes with the saturated value for all numbers and
 * selects afterwards: times 1 / (1 + e^88), most products are subnormal, and each such vector takes ten times as long.
 */
TFT_INLINE real real_exp(real x)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */
    float n, r, p, power;
    uint32_t bits;

    x = x < -64.0f ? -64.0f : x;
    x = x > 64.0f ? 64.0f : x;
    n = x * 1.44269504f + round;
    memcpy(&bits, &n, sizeof bits);
    n -= round;
    r = x - n * 0.693359375f; /* ln 2 in two parts: the first has few bits, n times it is exact */
    r = r + n * 2.12194440e-4f;
    p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}
#endif

TFT_INLINE real real_sqrt(real x)
{
    return (real)sqrt(x);
}

TFT_INLINE real real_sigmoid(real x)
{
    return 1 / (1 + real_exp(-x));
}

TFT_INLINE real real_tanh(real x)
{
    real t = real_exp(-2 * (x < 0 ? -x : x));
    real y = (1 - t) / (1 + t);

    return x < 0 ? -y : y;
}

/* Exponential linear unit, alpha 1; its slope follows from its value: y > 0 ? 1 : y + 1. */
TFT_INLINE real real_elu(real x)
{
    real y = real_exp(x < 0 ? x : 0) - 1;

    return x > 0 ? x : y;
}

#endif
