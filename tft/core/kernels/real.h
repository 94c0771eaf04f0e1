/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's number: float; double where -DTFT_DOUBLE builds the same sources for the gradient checks.
 */
#ifndef HALAY_TFT_REAL_H
#define HALAY_TFT_REAL_H

#include "halay_types.h"

#ifdef __CUDACC__
#define TFT_ANYWHERE __host__ __device__ /* also compiled for a device */
#else
#define TFT_ANYWHERE
#endif

#define TFT_INLINE static inline __attribute__((always_inline, unused))
#define TFT_FORMULA TFT_ANYWHERE TFT_INLINE /* of numbers; the caller's loop may be vectorised */

#ifdef TFT_OPAQUE /* neither readable nor writable: to check who looks at numbers (tests/build/device_memory.sh) */
typedef struct {
    const float hidden;
} real;
#elif defined(TFT_DOUBLE)
typedef double real;
#define TFT_DTYPE HALAY_F64
#else
typedef float real;
#define TFT_DTYPE HALAY_F32
#endif

/* Reals of a cache line of floats. Factors and results of products begin at multiples of it: a GPU's tensor cores load
 * quickly what is aligned to 16 bytes. */
enum { TFT_ALIGNMENT = 16 };

#endif
