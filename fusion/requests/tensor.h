/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor: a description that has been checked, of a registration or of one submission by name.
 */
#ifndef HALAY_TENSOR_H
#define HALAY_TENSOR_H

#include "fusion/protocol/members.h"
#include "fusion/protocol/payload.h"
#include "fusion/protocol/signature.h"
#include "halay.h"

struct halay_entry;
struct halay_naming;
struct halay_request;

/* The program's description of memory that is not the host's. */
struct halay_placing {
    enum halay_memory_kind memory;
    void *stream, *event; /* work that the data follow; NULL: none */
};

struct halay_tensor {
    /* Members for a submission in a plan, in few cache lines. */
    struct halay_context *ctx;   /* borrowed: outlives it, as entry and set */
    struct halay_entry *entry;   /* NULL: not found yet */
    struct halay_naming *naming; /* borrowed: of a submission by name, as long as this; NULL: registered */
    uint64_t order;              /* of registration, from 1 */
    const void *in;              /* borrowed while in flight */
    void *out;
    size_t bytes;
    struct halay_request *prepared; /* borrowed, between the two steps of a submission; guarded by lock */

    struct halay_process_set *set;
    const char *name; /* borrowed: the entry's, or the naming's */
    struct halay_signature signature;
    size_t count;
    /* Owned: this rank's payload of the signature, and the buffers of a group. Of a submission by name only the
     * payload's length: its description has the rest. */
    struct halay_payload payload;
    struct halay_buffers *buffers;
    size_t out_bytes; /* how many bytes at out the result may use */
    int timeout_ms;
    struct halay_placing placing;
    int is_stale; /* it depends on the ranks at its registration, which have changed; guarded by lock */
};

#endif
