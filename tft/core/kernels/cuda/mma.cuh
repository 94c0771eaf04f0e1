/* SPDX-License-Identifier: Apache-2.0
 *
 * A warp's product on the tensor cores, the only inline PTX. The tests' emulation has a file of its own in this one's
 * place (tests/cuda/include/tft/core/kernels/cuda/mma.cuh), and tests/cuda/proof.cu holds both to the table below.
 *
 *     d (16, 8) += a (16, 16) b (16, 8)     bf16, sums f32; lane 4 g + p of the warp has, two numbers a word:
 *
 *     a.x   row g,      columns 2 p, 2 p + 1         b.x   rows 2 p, 2 p + 1, column g
 *     a.y   row g + 8,  the same columns             b.y   rows 2 p + 8, 2 p + 9, column g
 *     a.z   row g,      columns 2 p + 8, 2 p + 9     d[0], d[1]   row g, columns 2 p, 2 p + 1
 *     a.w   row g + 8,  the same columns             d[2], d[3]   row g + 8, the same columns
 *
 * The first of a word's two numbers is in its lower half (PTX ISA, "Matrix fragments for mma.m16n8k16").
 */
#ifndef HALAY_TFT_CUDA_MMA_CUH
#define HALAY_TFT_CUDA_MMA_CUH

#include <cuda_runtime.h>

/* All 32 lanes call it. GPUs before sm_80 have no such product: nothing launches it there. */
static __device__ __forceinline__ void mma_bf16(float (&d)[4], const uint4 &a, const uint2 &b)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#else
    __trap();
#endif
}

#endif
