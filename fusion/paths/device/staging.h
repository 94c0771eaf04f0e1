/* SPDX-License-Identifier: Apache-2.0
 *
 * Staging: device data are copied through pinned host memory.
 */
#ifndef HALAY_STAGING_H
#define HALAY_STAGING_H

#include "collectives/group/transit.h"
#include "fusion/paths/device/device_state.h"
#include "fusion/state/request.h"

/* The data of a submission, or of one tensor of a group. NULL at a device: they are in the host memory of the
 * program. */
struct halay_staged {
    const void *device_in; /* borrowed while in flight, as the next */
    void *device_out;
    const void *host_in; /* the engine's input */
    void *host_out;
    size_t in_bytes, out_bytes; /* to be copied; for a result of unknown size, the room for it */
};

struct halay_staging {
    struct halay_cargo cargo;       /* first */
    struct halay_staging *next;     /* of the idle ones */
    struct halay_staging *all_next; /* of all; guarded by the context's lock */
    struct halay_transit transit;
    const void *behind;          /* the program's stream, if it follows nothing else: compared, never used */
    void *by;                    /* a stream of ours on which devices reduce the data; NULL: they are copied */
    int is_direct;               /* it stays on the device unless it falls back */
    int must_wait;               /* it follows work of the program */
    struct halay_staged *staged; /* owned, kept, [staged_capacity] */
    size_t count, staged_capacity;
};

/* Returns the staging of a request, or NULL. */
static inline struct halay_staging *halay_staging_of(const struct halay_request *request)
{
    return (struct halay_staging *)request->cargo;
}

/* The data of a tensor as given by the program: its input, and the room for its output. */
struct halay_extent {
    const void *in;
    size_t in_bytes; /* 0: nothing is read there */
    void *out;
    size_t out_bytes;  /* 0: nothing is written there */
    int is_direct;     /* it may stay on the device: paths/device/direct.h */
    int is_in_place;   /* in and out can be one array: of the same bytes, whatever is done with them */
    int in_on, out_on; /* filled in: the device, -1: the host */
};

/* ---- on the program's threads, no lock held ---- */

/* Prepares a submission with these data; *out is NULL if all are in host memory and it follows no work. The states of
 * its stream and event are noted. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED, HALAY_ERR_NO_MEMORY and those of
 * device_ops.h, each with a line that names the tensor, or the cause. */
enum halay_status halay_staging_prepare(struct halay_context *ctx, const char *name,
                                        const struct halay_placing *placing, struct halay_extent *spans, size_t count,
                                        struct halay_staging **out);
/* Returns an unused staging to the pool; NULL is allowed. */
void halay_staging_put(struct halay_context *ctx, struct halay_staging *staging);

/* ---- the context's lock is held ---- */

/* halay_carrier_ops.apply_locked and put_locked */
void halay_staging_apply_locked(struct halay_cargo *cargo, struct halay_request *request);
void halay_staging_put_cargo_locked(struct halay_cargo *cargo);

/* ---- driver ---- */

/* Starts to copy the data to the host, once the work that it follows is done. An error is the device's; copies may be
 * in progress. */
enum halay_status halay_staging_start(struct halay_staging *staging);
/* Returns HALAY_OK if the data have arrived, and those of the results of a request that has ended well.
 * HALAY_IN_PROGRESS, or an error of the device. */
enum halay_status halay_staging_look(struct halay_staging *staging);
/* Ends a staging whose request ends early: starts nothing any more. Returns nonzero while a device is at work: look
 * until it is idle. */
int halay_staging_leave(struct halay_staging *staging);
/* Makes a direct submission use this stream of ours, so that its result follows the work given to it. */
void halay_staging_goes_by(struct halay_staging *staging, void *stream);
/* Copies the request's direct data to the host after all: look until they have arrived. */
enum halay_status halay_staging_fall_back(struct halay_context *ctx, struct halay_request *request);
/* Starts to copy the results of a request that has ended well to the device. HALAY_OK: nothing to copy;
 * HALAY_IN_PROGRESS: look until they have arrived. */
enum halay_status halay_staging_finish(struct halay_request *request);

/* Frees the memory, when the engine has stopped, but not the events that a program may still let its streams wait
 * for. */
void halay_staging_close(struct halay_context *ctx);
/* Frees all stagings. No request is left. */
void halay_staging_free_all(struct halay_context *ctx);

#endif
