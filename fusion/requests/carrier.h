/* SPDX-License-Identifier: Apache-2.0
 *
 * Carrier: copies data that the host's processors cannot access to memory that they can, or reduces them where they
 * are, and copies the results back (paths/device/device_carrier.h). It works before and after the coordinator, and
 * before and after a send or receive.
 */
#ifndef HALAY_CARRIER_H
#define HALAY_CARRIER_H

#include "fusion/protocol/members.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/context.h"

struct halay_bucket;

/* The program's description of memory that is not the host's. */
struct halay_placing {
    enum halay_memory_kind memory;
    void *stream, *event; /* work that the data follow; NULL: none */
};

/* A submission, made from a registered tensor or from the caller's description. */
struct halay_submission {
    const struct halay_signature *signature;
    const struct halay_tensor_info *info; /* NULL: the registered tensor's */
    size_t count, bytes;
    const void *in;
    void *out;
    size_t out_bytes;
    halay_callback callback;
    void *arg;
    int timeout_ms;
    const struct halay_placing *placing;
    struct halay_process_set *set;
    struct halay_cargo *cargo; /* the request's once it is submitted; NULL: its data are in host memory */
    /* Borrowed: the room at info->name for a name by the order of calls; NULL: the program has given a name. */
    char *unnamed;
};

/* The carrier's part of a request, from prepare until its last reference ends; first in the carrier's own struct. */
struct halay_cargo {
    void *program_out; /* the program's out; the request's out is the carrier's */
    /* The result is on its way, and a stream can wait for it (join); stored (release) by the driver, loaded (acquire)
     * by halay_wait_stream. */
    _Atomic int is_launched;
};

/* Calls of the folders below the carrier. */
struct halay_carrier_ops {
    /* Returns a request's cargo to the pool. The context's lock is held. */
    void (*put_locked)(struct halay_cargo *cargo);
    /* Takes a request with cargo that has its final status: its result is copied back before that is published.
     * Nonzero: halay_request_landed will follow. Driver. */
    int (*land)(struct halay_context *ctx, struct halay_request *request);
    /* Drops a bucket that devices reduce. Driver. */
    void (*drop_bucket)(struct halay_bucket *bucket);
};

/* The part of a carrier that the engine uses; first in the carrier's own struct. */
struct halay_carrier {
    const struct halay_carrier_ops *ops;
    _Atomic int is_loaded; /* data may be on devices: stored (release) once it is loaded, loaded (acquire) anywhere */
    size_t deferred_count; /* deferred events; driver only */
};

static inline int halay_carrier_is_loaded(const struct halay_context *ctx)
{
    return atomic_load_explicit(&ctx->carrier->is_loaded, memory_order_acquire);
}

/* Returns nonzero if a submission with this placing may have data on devices, or work to follow. Cheap. */
static inline int halay_carrier_is_wanted(const struct halay_context *ctx, const struct halay_placing *placing)
{
    return placing->memory != HALAY_MEMORY_ANY || placing->stream || placing->event || halay_carrier_is_loaded(ctx);
}

static inline struct halay_placing halay_info_placing(const struct halay_tensor_info *info)
{
    return (struct halay_placing){ .memory = info->memory, .stream = info->after_stream, .event = info->after_event };
}

#endif
