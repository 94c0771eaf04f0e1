/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction of arrays: the arithmetic of every collective, in one place.
 *
 * reduce.c is the meaning, in plain C; reduce_avx2.c and reduce_avx512.c (both: reduce_vector.h) give the same bits
 * faster and are chosen at run time. The rules:
 *   - the sources are combined along one binary tree over their numbers, cut at the largest power of two below their
 *     number: 3: (0+1)+2   5: ((0+1)+(2+3))+4   6: ((0+1)+(2+3))+(4+5)   7: ((0+1)+(2+3))+((4+5)+6)
 *   - f16 and bf16 are combined in f32 and rounded once, to nearest even, when the result is stored
 *   - a divisor above 1 divides the combined value before that rounding (average)
 *   - a result that is not a number is the type's canonical quiet NaN (sign clear), so that it does not matter which
 *     operand's payload the processor keeps
 *   - of -0 and +0 min takes -0, max takes +0; integers wrap around; a bool that is not 0 counts as 1
 */
#ifndef HALAY_REDUCE_H
#define HALAY_REDUCE_H

#include "halay_types.h"
#include <stddef.h>

/*
 * dst[d][i] = (src[0][i] op src[1][i] op ... ) / divisor, for every d and i < count. A dst may be the same as a src;
 * otherwise they do not overlap. sources and destinations are at least 1; divisor is 1 for all but sums of floating
 * types. Arrays need the alignment of their element only. dst[0] should be this rank's own memory: the vector versions
 * prefetch the others for writing.
 */
typedef void halay_reduce_fn(void *const *dst, int destinations, const void *const *src, int sources, size_t count,
                             int divisor);

struct halay_reducer {
    const char *name; /* "plain", "avx2", "avx512" */
    /* NULL where halay_reduction_takes is zero, and for adasum. average: the sum's; the caller gives the divisor. */
    halay_reduce_fn *reduce[HALAY_DTYPE_COUNT][HALAY_REDUCTION_COUNT];
    /* f16 or bf16 to f32 and back (rounded to nearest even). Nothing overlaps. */
    void (*widen[HALAY_DTYPE_COUNT])(float *dst, const void *src, size_t count); /* NULL for other types */
    void (*narrow[HALAY_DTYPE_COUNT])(void *dst, const float *src, size_t count);
    /* Adasum's, of f32 and f64 (NULL for other types), in f64. dots: adds to three a.b, a.a and b.b. join: a = of_a a +
     * of_b b. Nothing overlaps. */
    void (*dots[HALAY_DTYPE_COUNT])(const void *a, const void *b, size_t count, double three[3]);
    void (*join[HALAY_DTYPE_COUNT])(void *a, const void *b, size_t count, double of_a, double of_b);
};

/* Returns the reducers that this processor can run, slowest (the plain one) first; NULL past the last. Static storage.
 * */
const struct halay_reducer *halay_reducer_get(int index);
/* Returns the fastest of them. */
const struct halay_reducer *halay_reducer_best(void);

/* The vector versions; NULL where the compiler or the processor has none. For reduce.c. */
const struct halay_reducer *halay_reducer_avx2(void);
const struct halay_reducer *halay_reducer_avx512(void);

enum { HALAY_REDUCE_DEPTH = 32 }; /* subtrees that wait at a time: one a bit of the number of sources */

#endif
