/* SPDX-License-Identifier: Apache-2.0
 *
 * What libhalay-cuda.so offers: memory, streams and events of devices.
 */
#include "collectives/transport/cuda/cuda_memory.h"
#include "collectives/transport/module.h"

const struct halay_module_api halay_module = {
    .abi = HALAY_MODULE_ABI,
    .version = HALAY_VERSION,
    .name = "cuda",
    .devices = &halay_cuda_ops,
};
