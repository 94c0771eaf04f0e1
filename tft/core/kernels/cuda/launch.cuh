/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch, as nvcc and the tests' emulation (tests/cuda/README.md) both understand it: no <<<>>>.
 */
#ifndef HALAY_TFT_CUDA_LAUNCH_CUH
#define HALAY_TFT_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

template <class... P, class... A>
static inline cudaError_t cuda_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                                      A... arguments)
{
    cudaLaunchConfig_t config = {};

    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
}

/* All blocks at once: they may wait for each other. */
template <class... P, class... A>
static inline cudaError_t cuda_launch_together(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                               cudaStream_t stream, A... arguments)
{
    cudaLaunchAttribute together = {};
    cudaLaunchConfig_t config = {};

    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &together;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
}

#endif
