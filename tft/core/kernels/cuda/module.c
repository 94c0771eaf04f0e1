/* SPDX-License-Identifier: Apache-2.0
 *
 * The module of the CUDA device: which of the machine's devices a rank gets, and why it gets none. It links nothing of
 * halay's.
 */
#include "tft/core/kernels/cuda/cuda.h"
#include "tft/core/kernels/device.h"
#include <stdio.h>

enum { LEAST = 75 }; /* ten times the compute capability: the kernels are compiled from 7.5 on */

/* Returns what would help, as the end of a sentence. */
static const char *advice(cudaError_t error, int driver)
{
    switch (error) {
    case cudaErrorInsufficientDriver:
        return driver ? "; a newer driver would do" : "; no NVIDIA driver is here, or the container does not have it";
    case cudaErrorNoDevice:
        return "; a GPU may be hidden by CUDA_VISIBLE_DEVICES or by the container";
    case cudaErrorNotPermitted:
        return "; this user, or this container, may not open /dev/nvidia*";
    case cudaErrorDevicesUnavailable:
        return "; another process has it for itself (nvidia-smi shows its compute mode)";
    case cudaErrorMemoryAllocation:
        return "; other processes use its memory (nvidia-smi lists them)";
    default:
        return "";
    }
}

static enum halay_status refuse(const char *what, cudaError_t error, char *why, size_t size)
{
    int driver = 0, runtime = 0;

    (void)cudaDriverGetVersion(&driver); /* 0: no driver */
    (void)cudaRuntimeGetVersion(&runtime);
    snprintf(why, size, "%s: %s (CUDA %d.%d; the driver's is %d.%d)%s; 'device: cpu' needs none", what,
             cudaGetErrorString(error), runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10,
             advice(error, driver));
    return HALAY_ERR_UNSUPPORTED;
}

static enum halay_status module_open(int local_rank, struct tft_device *device, char *why, size_t size)
{
    int count = 0, major = 0, minor = 0;
    cudaError_t error = cudaGetDeviceCount(&count);

    if (!error && !count)
        error = cudaErrorNoDevice;
    if (error)
        return refuse("no device", error, why, size);
    const int number = local_rank % count;
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
    if (!error)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number);
    if (!error && 10 * major + minor < LEAST) {
        snprintf(why, size, "GPU %d has compute capability %d.%d, and 7.5 (T4) is the least", number, major, minor);
        return HALAY_ERR_UNSUPPORTED;
    }
    if (!error)
        error = cudaSetDevice(number);
    if (!error)
        error = cudaFree(NULL); /* makes its context, where most errors show */
    if (error)
        return refuse("the GPU cannot be used", error, why, size);
    *device = (struct tft_device){ .kernels = tft_kernels_cuda(), .number = number };
    return HALAY_OK;
}

const struct tft_device_module halay_tft_device = {
    .version = HALAY_VERSION,
    .kernels_size = sizeof(struct kernels),
    .open = module_open,
};
