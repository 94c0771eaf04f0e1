/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of narrow arrays: activations that a device stores in bf16, two bytes a number.
 *
 * The host computes addresses as if every array were of reals (x + row * W), and dereferences none of them. So the
 * address of a narrow array is twice its place in memory, with a bit that no place has:
 *
 *     address = TFT_NARROW + 2 * place       number n: address + 4 n bytes, place + 2 n bytes
 *
 * The layers need not know which arrays are narrow; a member of a device's table sees it by the address. Only a device
 * whose queues have `narrow` (struct queue_head) is given any.
 */
#ifndef HALAY_TFT_NARROW_H
#define HALAY_TFT_NARROW_H

#include "tft/core/kernels/real.h"
#include <stddef.h>
#include <stdint.h>

#define TFT_NARROW ((uintptr_t)1 << 62)
#define TFT_NARROW_BYTES (sizeof(real) / 2)

TFT_FORMULA int tft_is_narrow(const real *x)
{
    return ((uintptr_t)x & TFT_NARROW) != 0;
}

/* Bytes of a number of this array. */
TFT_INLINE size_t tft_bytes_of(const real *x)
{
    return tft_is_narrow(x) ? TFT_NARROW_BYTES : sizeof(real);
}

/* Returns the address of a narrow array at this place. */
TFT_INLINE real *tft_narrow_at(void *place)
{
    return (real *)(TFT_NARROW + 2 * (uintptr_t)place);
}

/* Returns where a narrow array is. */
TFT_FORMULA void *tft_narrow_place(const real *x)
{
    return (void *)(((uintptr_t)x - TFT_NARROW) / 2);
}

/* Returns where an array is, narrow or not. */
TFT_FORMULA void *tft_place_of(const real *x)
{
    return tft_is_narrow(x) ? tft_narrow_place(x) : (void *)(uintptr_t)x;
}

#endif
