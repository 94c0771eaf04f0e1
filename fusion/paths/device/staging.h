/* SPDX-License-Identifier: Apache-2.0
 *
 * Staging: device data are copied through pinned host memory.
 */
#ifndef HALAY_STAGING_H
#define HALAY_STAGING_H

#include "collectives/group/transit.h"
#include "fusion/paths/device/device_state.h"
#include "fusion/requests/request.h"

/* The data of a submission, or of one tensor of a group. A device pointer is NULL if the data are in the program's host
 * memory. */
struct halay_staged {
    const void *device_in; /* borrowed while in flight, as is device_out */
    void *device_out;
    const void *host_in; /* the engine's input */
    void *host_out;
    size_t in_bytes, out_bytes; /* to be copied; for a result of unknown size, the room for it */
};

struct halay_staging {
    struct halay_cargo cargo;       /* first */
    struct halay_staging *next;     /* in a list of idle stagings */
    struct halay_staging *all_next; /* in the list of all stagings; guarded by the context's lock */
    struct halay_transit transit;
    /* Borrowed: the end of what the engine's stream has that reduces the data; NULL: they are copied, or not begun. */
    const struct halay_device_point *end;
    int must_wait;               /* the data follow work of the program */
    int has_no_mark;             /* results are being copied back, and no event marks their end yet */
    struct halay_staged *staged; /* owned, kept, [staged_capacity] */
    size_t count, staged_capacity;
};

/* Returns the staging of a request, or NULL. */
static inline struct halay_staging *halay_staging_of(const struct halay_request *request)
{
    return (struct halay_staging *)request->cargo;
}

/* ---- on the program's threads, no lock held ---- */

/* halay_carrier_ops.load and prepare. prepare notes the present state of the tensor's stream and event. */
enum halay_status halay_staging_load(struct halay_context *ctx);
enum halay_status halay_staging_prepare(const struct halay_tensor *tensor, struct halay_cargo **cargo);

/* ---- the context's lock is held ---- */

/* halay_carrier_ops.apply_locked and put_locked */
void halay_staging_apply_locked(struct halay_cargo *cargo, struct halay_request *request);
void halay_staging_put_cargo_locked(struct halay_cargo *cargo);

/* ---- driver ---- */

/* Starts to copy the data to the host, once the work that they follow is done. Errors of the device; copies may be in
 * progress. */
enum halay_status halay_staging_start(struct halay_staging *staging);
/* Returns HALAY_OK if the data, or after halay_staging_finish the results, have arrived; HALAY_IN_PROGRESS; or an error
 * of the device. */
enum halay_status halay_staging_look(struct halay_staging *staging);
/* Ends a staging whose request ends early: starts no further copies. Returns nonzero if copies are in progress: look
 * until they have ended. */
int halay_staging_leave(struct halay_staging *staging);
/* Sets the end of the engine's work that computes the result of a direct submission, as it will be then. */
void halay_staging_set_end(struct halay_staging *staging, const struct halay_device_point *end);
/* Copies the request's direct data to the host after all: look until they have arrived. */
enum halay_status halay_staging_fall_back(struct halay_context *ctx, struct halay_request *request);
/* Starts to copy the results of a request that has succeeded to the device. HALAY_OK: nothing to copy;
 * HALAY_IN_PROGRESS: mark it, then look until they have arrived. */
enum halay_status halay_staging_finish(struct halay_request *request);
/* Marks the end of the copies of the requests of a list from halay_staging_finish, by one event a device: streams can
 * wait for the results. */
enum halay_status halay_staging_mark(struct halay_request *first);

/* Frees the memory, but not the events, for which streams of the program may still wait. Called when the engine has
 * stopped. */
void halay_staging_close(struct halay_context *ctx);
/* Frees all stagings. No request is left. */
void halay_staging_free_all(struct halay_context *ctx);

#endif
