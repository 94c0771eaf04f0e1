/* SPDX-License-Identifier: Apache-2.0
 *
 * Half precision on arrays: plain loops over the definitions in half.h.
 */
#include "base/half.h"

void halay_f16_to_f32_array(float *restrict out, const uint16_t *restrict in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = halay_f16_to_f32(in[i]);
}

void halay_f32_to_f16_array(uint16_t *restrict out, const float *restrict in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = halay_f32_to_f16(in[i]);
}

void halay_bf16_to_f32_array(float *restrict out, const uint16_t *restrict in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = halay_bf16_to_f32(in[i]);
}

void halay_f32_to_bf16_array(uint16_t *restrict out, const float *restrict in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = halay_f32_to_bf16(in[i]);
}
