/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor: the registration of a name.
 */
#ifndef HALAY_TENSOR_H
#define HALAY_TENSOR_H

#include "fusion/protocol/members.h"
#include "fusion/protocol/payload.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/carrier.h"
#include "halay.h"

struct halay_entry;

struct halay_tensor {
    struct halay_context *ctx;     /* borrowed: outlives it */
    struct halay_entry *entry;     /* borrowed: outlives it */
    struct halay_process_set *set; /* borrowed: outlives it */
    struct halay_signature signature;
    size_t count, bytes;
    struct halay_payload payload;  /* owned: this rank's payload of the signature */
    struct halay_buffers *buffers; /* owned: of a group */
    const void *in;                /* borrowed while in flight */
    void *out;
    size_t out_bytes;
    int timeout_ms;
    struct halay_placing placing;
    uint64_t order; /* of registration, from 1 */
    int is_stale;   /* it depends on the ranks at its registration, which have changed; guarded by lock */
};

#endif
