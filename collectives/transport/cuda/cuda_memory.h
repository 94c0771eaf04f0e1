/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, streams and events of CUDA devices.
 */
#ifndef HALAY_CUDA_MEMORY_H
#define HALAY_CUDA_MEMORY_H

#include "collectives/transport/device_ops.h"

extern const struct halay_device_ops halay_cuda_ops;

#endif
