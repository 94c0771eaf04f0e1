/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulation's in place of tft/core/kernels/cuda/mma.cuh, which has the table of what a lane holds.
 */
#ifndef HALAY_TFT_CUDA_MMA_CUH
#define HALAY_TFT_CUDA_MMA_CUH

#include <cuda_runtime.h>

static inline void mma_bf16(float (&d)[4], const uint4 &a, const uint2 &b)
{
    emu_fragments mine = { { a.x, a.y, a.z, a.w }, { b.x, b.y }, d };

    emu_warp(EMU_MMA, ~0u, reinterpret_cast<uint64_t>(&mine), 0);
}

#endif
