/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL, loaded when it is asked for.
 */
#ifndef HALAY_CUDA_NCCL_H
#define HALAY_CUDA_NCCL_H

#include "collectives/transport/device_ops.h"

extern const struct halay_device_nccl halay_cuda_nccl;

#endif
