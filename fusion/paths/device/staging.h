/* SPDX-License-Identifier: Apache-2.0
 *
 * Staging: data of a device travel through pinned memory of the host.
 */
#ifndef HALAY_STAGING_H
#define HALAY_STAGING_H

#include "collectives/group/transit.h"
#include "fusion/paths/device/device_state.h"
#include "fusion/state/request.h"

/* A submission's data, or those of one tensor of a group. NULL at a device: they are the host's, and host is theirs. */
struct halay_staged {
    const void *device_in; /* borrowed while in flight, as the next */
    void *device_out;
    const void *host_in; /* what the engine works on */
    void *host_out;
    size_t in_bytes, out_bytes; /* to be copied; of a result whose size is not known before, the room for it */
};

struct halay_staging {
    struct halay_cargo cargo;       /* first */
    struct halay_staging *next;     /* of the idle ones */
    struct halay_staging *all_next; /* of all; guarded by the context's lock */
    struct halay_transit transit;
    const void *behind;          /* the program's stream, if that is all it follows: compared, never used */
    void *by;                    /* a stream of ours in which devices reduce the data; NULL: they are copied */
    int is_direct;               /* it stays on the device unless it falls back */
    int must_wait;               /* it follows something */
    struct halay_staged *staged; /* owned, kept, [staged_capacity] */
    size_t count, staged_capacity;
};

/* What the request has, or NULL. */
static inline struct halay_staging *halay_staging_of(const struct halay_request *request)
{
    return (struct halay_staging *)request->cargo;
}

/* The data of a tensor as the program has them: what goes in, and the room for what comes out. */
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

/* What a submission with these data needs; *out is NULL where all is the host's and nothing is followed. Its stream and
 * event are noted as they are now. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED, HALAY_ERR_NO_MEMORY and those of
 * device_ops.h, each with a line that names the tensor, or what failed. */
enum halay_status halay_staging_prepare(struct halay_context *ctx, const char *name,
                                        const struct halay_placing *placing, struct halay_extent *spans, size_t count,
                                        struct halay_staging **out);
/* It was not used; NULL is allowed. */
void halay_staging_put(struct halay_context *ctx, struct halay_staging *staging);

/* ---- the context's lock is held ---- */

/* halay_carrier_ops.apply_locked and put_locked */
void halay_staging_apply_locked(struct halay_cargo *cargo, struct halay_request *request);
void halay_staging_put_cargo_locked(struct halay_cargo *cargo);

/* ---- driver ---- */

/* Bring its data to the host, once what it follows has come. An error is the device's; some of it may be under way. */
enum halay_status halay_staging_start(struct halay_staging *staging);
/* Are they there, and of a request that has ended well the results? HALAY_IN_PROGRESS, HALAY_OK, or an error of the
 * device's. */
enum halay_status halay_staging_look(struct halay_staging *staging);
/* Its request ends early: nothing is started any more. Nonzero: a device is at work, look until it is not. */
int halay_staging_leave(struct halay_staging *staging);
/* A direct one: its data are worked on by this stream of ours, and its result follows what that has been given. */
void halay_staging_goes_by(struct halay_staging *staging, void *stream);
/* The request's data, if they are direct and on the device, come to the host after all: look until they are there. */
enum halay_status halay_staging_fall_back(struct halay_context *ctx, struct halay_request *request);
/* Bring the results of a request that has ended well to the device. HALAY_OK: there are none; HALAY_IN_PROGRESS: look
 * when they are there. */
enum halay_status halay_staging_finish(struct halay_request *request);

/* The engine has stopped: give the memory back, not the events that a program may still let its streams wait for. */
void halay_staging_close(struct halay_context *ctx);
/* No request is left. */
void halay_staging_free_all(struct halay_context *ctx);

#endif
