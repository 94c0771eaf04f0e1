/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion of an array on its way into a collective, and on its way back: another type, a factor, or both, in one
 * pass over memory.
 */
#ifndef HALAY_CONVERT_H
#define HALAY_CONVERT_H

#include "halay_types.h"
#include <stddef.h>

/* to[i] = factor * from[i]. The types are the same (scale.h lists those that can be scaled), or one is f32 and the
 * other f16 or bf16: then the product is in f32. They do not overlap. */
void halay_convert(void *to, enum halay_dtype to_type, const void *from, enum halay_dtype from_type, size_t count,
                   double factor);

#endif
