/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling of arrays by a factor: what prescale and postscale of an all-reduce do on each rank, by itself.
 *
 *     f64           in f64
 *     f32, f16, bf16  the factor is rounded to f32; in f32, halves are widened first and rounded once, to nearest even
 *     integers      in f64, cut towards zero; what is too large for the type becomes its largest (or smallest) number
 *
 * Pure functions: the same bits on every rank and every processor.
 */
#ifndef HALAY_SCALE_H
#define HALAY_SCALE_H

#include "halay_types.h"
#include <stddef.h>

/* Returns a factor as a program gives it: 0 is the default, 1. */
static inline double halay_scale_factor(double given)
{
    return given == 0 ? 1 : given;
}

/* Returns nonzero if arrays of that type can be scaled: all but bool. */
int halay_scale_takes(enum halay_dtype dtype);

/* out[i] = factor * in[i]. out may be in; otherwise they don't overlap. */
void halay_scale(void *out, const void *in, size_t count, enum halay_dtype dtype, double factor);

#endif
