/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of CUDA's driver interface, which nothing links: the runtime finds them.
 */
#ifndef HALAY_CUDA_DRIVER_H
#define HALAY_CUDA_DRIVER_H

#include <cuda_runtime_api.h>

enum { HALAY_CUDA_DRIVER_VERSION = 12000 }; /* of the functions, as cuda.h has them */

/* An error, too, if the driver has no function of that name and version: the runtime calls that a success. */
static inline cudaError_t halay_cuda_find(const char *name, void **function)
{
    enum cudaDriverEntryPointQueryResult found;

#if CUDART_VERSION >= 12050
    cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, function, HALAY_CUDA_DRIVER_VERSION, cudaEnableDefault, &found);
#else
    cudaError_t error = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &found);
#endif
    return error == cudaSuccess && !*function ? cudaErrorNotSupported : error;
}

#endif
