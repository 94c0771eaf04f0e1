/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a reducer, for reduce.c and reduce_vector.h, which define REDUCER_NAME and the functions that it names:
 * T_reduce_OP for each type and reduction, T_widen and T_narrow for f16 and bf16; reduce_adasum.h has the rest. What
 * does not depend on the sign of an integer is there once, for the unsigned type; bits depend on the size of an element
 * only.
 */
#include "collectives/reduce/reduce.h"

#define FLOAT_ROW(T)                                                                                          \
    {                                                                                                         \
        [HALAY_SUM] = T##_reduce_sum, [HALAY_AVERAGE] = T##_reduce_sum, [HALAY_PRODUCT] = T##_reduce_product, \
        [HALAY_MIN] = T##_reduce_min, [HALAY_MAX] = T##_reduce_max                                            \
    }
#define INTEGER_ROW(T, U)                                                                                 \
    {                                                                                                     \
        [HALAY_SUM] = U##_reduce_sum, [HALAY_PRODUCT] = U##_reduce_product, [HALAY_MIN] = T##_reduce_min, \
        [HALAY_MAX] = T##_reduce_max, [HALAY_BIT_AND] = U##_reduce_and, [HALAY_BIT_OR] = U##_reduce_or    \
    }
#define BOOL_ROW                                                                                         \
    {                                                                                                    \
        [HALAY_SUM] = bool_reduce_or, [HALAY_PRODUCT] = bool_reduce_and, [HALAY_MIN] = bool_reduce_and,  \
        [HALAY_MAX] = bool_reduce_or, [HALAY_BIT_AND] = bool_reduce_and, [HALAY_BIT_OR] = bool_reduce_or \
    }

static const struct halay_reducer reducer = {
    .name = REDUCER_NAME,
    .reduce = { [HALAY_F32] = FLOAT_ROW(f32),
                [HALAY_F64] = FLOAT_ROW(f64),
                [HALAY_F16] = FLOAT_ROW(f16),
                [HALAY_BF16] = FLOAT_ROW(bf16),
                [HALAY_I32] = INTEGER_ROW(i32, u32),
                [HALAY_I64] = INTEGER_ROW(i64, u64),
                [HALAY_U8] = INTEGER_ROW(u8, u8),
                [HALAY_I8] = INTEGER_ROW(i8, u8),
                [HALAY_U16] = INTEGER_ROW(u16, u16),
                [HALAY_I16] = INTEGER_ROW(i16, u16),
                [HALAY_BOOL] = BOOL_ROW },
    .widen = { [HALAY_F16] = f16_widen, [HALAY_BF16] = bf16_widen },
    .narrow = { [HALAY_F16] = f16_narrow, [HALAY_BF16] = bf16_narrow },
    .dots = { [HALAY_F32] = f32_dots, [HALAY_F64] = f64_dots },
    .join = { [HALAY_F32] = f32_join, [HALAY_F64] = f64_join },
};
