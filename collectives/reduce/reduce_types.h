/* SPDX-License-Identifier: Apache-2.0
 *
 * The types that a reducer has functions for, as lists: X(name, type of an element). reduce.c and reduce_vector.h
 * each say once how a function is made, and go through the lists.
 */
#ifndef HALAY_REDUCE_TYPES_H
#define HALAY_REDUCE_TYPES_H

#include <stdint.h>

#define HALAY_FLOAT_TYPES(X) X(f32, float) X(f64, double) X(f16, uint16_t) X(bf16, uint16_t)
#define HALAY_HALF_TYPES(X) X(f16) X(bf16)
/* Sums, products and bits do not depend on the sign. */
#define HALAY_MODULAR_TYPES(X) X(u8, uint8_t) X(u16, uint16_t) X(u32, uint32_t) X(u64, uint64_t)
/* min and max do. Unsigned types of 32 and 64 bits do not exist. */
#define HALAY_ORDERED_TYPES(X) \
    X(u8, uint8_t) X(i8, int8_t) X(u16, uint16_t) X(i16, int16_t) X(i32, int32_t) X(i64, int64_t)

/* f16 is combined as f32. */
#define f16_sum f32_sum
#define f16_product f32_product
#define f16_min f32_min
#define f16_max f32_max
#define f16_finish f32_finish

#endif
