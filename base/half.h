/* SPDX-License-Identifier: Apache-2.0
 *
 * Half precision: binary16 (f16) and bfloat16 (bf16) to and from binary32, in integer arithmetic.
 *
 *           sign exponent fraction   largest      least normal   least subnormal
 *   f16       1      5       10      65504        2^-14          2^-24
 *   bf16      1      8        7      3.39e38      2^-126         2^-133
 *
 * Rounding is to nearest, ties to even, whatever the processor's rounding mode; subnormal numbers are kept both ways;
 * what is too large becomes infinity. A NaN stays a NaN: its sign and the upper bits of its payload are kept and it
 * becomes quiet, as the x86 instructions do it (VCVTPS2PH, VCVTPH2PS), so that vector code gives the same bits as this.
 * bf16 to f32 adds zeros and changes nothing else.
 *
 * These definitions are the specification; vector versions elsewhere are tested against them.
 */
#ifndef HALAY_BASE_HALF_H
#define HALAY_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t halay_f32_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float halay_f32_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float halay_bf16_to_f32(uint16_t half)
{
    return halay_f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t halay_f32_to_bf16(float value)
{
    uint32_t bits = halay_f32_bits(value);
    uint32_t nan = (bits >> 16) | 0x40u;
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;

    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float halay_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;

    if (magnitude > 0x7c00u)
        return halay_f32_from_bits(sign | 0x7fc00000u | magnitude << 13);
    if (magnitude == 0x7c00u)
        return halay_f32_from_bits(sign | 0x7f800000u);
    if (magnitude >= 0x400u)
        return halay_f32_from_bits(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
    /* Subnormal: a small integer times 2^-24, which binary32 holds as a normal number. */
    return halay_f32_from_bits(sign | halay_f32_bits((float)(int)magnitude * 0x1p-24f));
}

static inline uint16_t halay_f32_to_f16(float value)
{
    uint32_t bits = halay_f32_bits(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t exponent = magnitude >> 23;

    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520, half-way between the largest number and the next: a tie, to the even one */
        return (uint16_t)(sign | 0x7c00u);
    if (exponent >= 113) { /* normal as f16; a carry out of the fraction goes into the exponent, as it should */
        magnitude += 0xfffu + ((magnitude >> 13) & 1u);
        return (uint16_t)(sign | ((magnitude - ((127u - 15u) << 23)) >> 13));
    }
    if (exponent < 102) /* below 2^-25, half of the least subnormal */
        return (uint16_t)sign;
    uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u, shift = 126u - exponent; /* 14 to 24 */
    uint32_t kept = fraction >> shift, lost = fraction & ((1u << shift) - 1u), tie = 1u << (shift - 1u);

    return (uint16_t)(sign | (kept + (lost > tie || (lost == tie && (kept & 1u)))));
}

#endif
