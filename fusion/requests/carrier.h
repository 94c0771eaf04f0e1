/* SPDX-License-Identifier: Apache-2.0
 *
 * Carrier: copies data that the host's processors cannot access to memory that they can, or reduces them where they
 * are, and copies the results back. It works before and after any path of a submission. The engine knows the one
 * carrier of a context, ctx->carrier, only by this table.
 *
 *     program's thread   prepare    reserves the memory of a submission, and notes the work that its data follow
 *     driver             defer      the data have not arrived: the event of the submission waits, and the events that
 *                                   must not overtake it
 *                        release    queues events whose data have arrived
 *                        start      starts a bucket whose data stay where they are
 *                        land       the request has ended: its result is copied back before that is published
 *                        progress   finds results that have been copied; their requests are published next
 */
#ifndef HALAY_CARRIER_H
#define HALAY_CARRIER_H

#include "fusion/requests/context.h"
#include "fusion/requests/tensor.h"

struct halay_bucket;

/* The carrier's part of a request, from prepare until its last reference ends; first in the carrier's own struct. */
struct halay_cargo {
    void *program_out; /* the program's out; the request's out is the carrier's */
    int is_direct;     /* the data stay on the device, unless the bucket falls back to the host; driver only */
    /* The result is on its way, and a stream can wait for it (join); stored (release) by the driver, loaded (acquire)
     * by halay_wait_stream. */
    _Atomic int is_launched;
};

struct halay_carrier_ops {
    /* Parts of messages: "data on a device cannot be reached", "results on a device have failed". */
    const char *unreachable, *lost;

    /* ---- on the program's threads, no lock held ---- */

    /* Loads the support for submissions with such data. HALAY_ERR_UNSUPPORTED, HALAY_ERR_VERSION. */
    enum halay_status (*load)(struct halay_context *ctx);
    /* Sets *cargo; NULL: the data are in host memory. Loads the support if necessary. Errors are logged:
     * HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED, HALAY_ERR_NO_MEMORY and those of device_ops.h. */
    enum halay_status (*prepare)(const struct halay_tensor *tensor, struct halay_cargo **cargo);
    /* Makes the stream follow the launched result of the request. */
    enum halay_status (*join)(struct halay_context *ctx, struct halay_cargo *cargo, void *stream);

    /* ---- the context's lock is held ---- */

    /* Gives the request the carrier's buffers instead of the program's. */
    void (*apply_locked)(struct halay_cargo *cargo, struct halay_request *request);
    void (*put_locked)(struct halay_cargo *cargo);

    /* ---- driver ---- */

    /* Starts to copy the data of a submission; any event may have to wait for earlier ones. *deferred: it is kept. */
    enum halay_status (*defer)(struct halay_context *ctx, const struct halay_event *event, int *deferred);
    /* Moves the events that may continue to ctx->queue.resubmitted; also on an error, which is the carrier's. */
    enum halay_status (*release)(struct halay_context *ctx);
    /* Drops all deferred events: the engine has failed. */
    void (*drop)(struct halay_context *ctx);
    /* Starts a bucket whose data all ranks have announced on devices. HALAY_IN_PROGRESS, or an error. */
    enum halay_status (*start)(struct halay_bucket *bucket);
    /* Returns HALAY_OK once the results are on their way, or bucket->coll runs instead. */
    enum halay_status (*progress_bucket)(struct halay_bucket *bucket);
    void (*drop_bucket)(struct halay_bucket *bucket);
    /* Checks the peers in groups of the carrier's own. */
    void (*check)(struct halay_context *ctx);
    /* Returns nonzero if devices may take such tensors of all ranks; these buckets run one at a time. Constant, and
     * the same on all ranks. */
    int (*may_take)(const struct halay_process_set *set, const struct halay_signature *signature);
    /* Returns nonzero if no other bucket of the set may start now. */
    int (*excludes)(const struct halay_process_set *set);
    /* Takes a request with cargo that has its final status. Nonzero: halay_request_landed will follow. */
    int (*land)(struct halay_context *ctx, struct halay_request *request);
    /* Returns how many have landed; *status: HALAY_OK, or why results on a device have failed. */
    size_t (*progress)(struct halay_context *ctx, enum halay_status *status);
    /* Returns the longest sleep while the carrier is at work, 0: look again at once; HALAY_RINGS: it is idle. */
    long (*sleep_us)(const struct halay_context *ctx);

    /* ---- life: no other thread ---- */

    void (*open)(struct halay_context *ctx);  /* the world exists; before the driver starts */
    void (*end)(struct halay_context *ctx);   /* the driver has stopped: lands the rest */
    void (*stop)(struct halay_context *ctx);  /* the group still exists; another world may be opened */
    void (*close)(struct halay_context *ctx); /* no request is left; the world still exists */
    void (*destroy)(struct halay_carrier *carrier);
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

#endif
