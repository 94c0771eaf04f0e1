/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the all-reduce through segments (device_ops.h). Each returns what the launch did.
 */
#ifndef HALAY_CUDA_REDUCE_H
#define HALAY_CUDA_REDUCE_H

#include "collectives/transport/device_work.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads all kernels for the current device. A kernel is else loaded by its first launch, which may wait for all work of
 * the device. */
cudaError_t halay_cuda_load(void);
cudaError_t halay_cuda_pack(const struct halay_device_work *work, cudaStream_t stream);
cudaError_t halay_cuda_reduce(const struct halay_device_work *work, cudaStream_t stream);
cudaError_t halay_cuda_unpack(const struct halay_device_work *work, cudaStream_t stream);
cudaError_t halay_cuda_exchange(const struct halay_device_work *work, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
