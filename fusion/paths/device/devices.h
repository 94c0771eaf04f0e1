/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: the module that knows them, loaded when the program uses one; its streams; memory that the program has of
 * it. Any thread.
 */
#ifndef HALAY_DEVICES_H
#define HALAY_DEVICES_H

#include "collectives/transport/device_ops.h"
#include "fusion/paths/device/direct_state.h"
#include "fusion/requests/carrier.h"

struct halay_staging;

enum { HALAY_STAGING_CLASSES = 256 }; /* of sizes: staging.c */

/* One that has been used, and our streams on it: one for each direction, since a device copies both ways at once. */
struct halay_device {
    int number;     /* set once, as are the next */
    void *in, *out; /* owned: towards the host, and back */
    struct halay_device *next;
    struct halay_staging *idle[HALAY_STAGING_CLASSES]; /* those that nobody uses; guarded by the context's lock */
};

struct halay_device_block {
    void *ptr;
    int device;
    struct halay_device_block *next;
};

struct halay_devices {
    struct halay_carrier carrier; /* first */
    /* NULL: none was ever used. Stored (release) under `lock` once the module is there, loaded (acquire) anywhere. */
    const struct halay_device_ops *_Atomic ops;
    struct halay_device_host host;     /* set before ops */
    void *module;                      /* owned: its handle */
    pthread_mutex_t lock;              /* of the next; around no other but the log's */
    struct halay_device *first;        /* owned; what is on the list stays there */
    struct halay_device_block *blocks; /* owned: of halay_alloc_device */
    struct halay_staging *stagings;    /* owned: all of them; guarded by the context's lock */
    struct halay_direct direct;

    /* Driver only. */
    struct halay_events held, released; /* owned: of submissions whose data are not there yet (hold.c) */
    /* Requests that have ended well, and whose results are on the way; those from launched on are not published. */
    struct halay_request *landing, **landing_last, *launched;
    enum halay_status status; /* an error: results cannot be brought back */
    int64_t copied_us;        /* when a device was given copies, or seen to have made some, last */
};

/* The carrier of the context. */
static inline struct halay_devices *halay_devices_of(const struct halay_context *ctx)
{
    return (struct halay_devices *)ctx->carrier;
}

void halay_devices_init(struct halay_devices *devices); /* storage of the caller's, zero-initialised */
void halay_devices_fini(struct halay_devices *devices);
/* All is given back; nothing is under way, no staging is left, and there is still a log. */
void halay_devices_close(struct halay_devices *devices);

/* NULL while no device has been used. */
static inline const struct halay_device_ops *halay_devices_ops(const struct halay_context *ctx)
{
    return atomic_load_explicit(&halay_devices_of(ctx)->ops, memory_order_acquire);
}

/* Load the module, unless it is there. HALAY_ERR_UNSUPPORTED: there is none, or no device; HALAY_ERR_VERSION. */
enum halay_status halay_devices_open(struct halay_context *ctx);
/* That device, with streams of ours. The module is there. Errors as of device_ops.h. */
enum halay_status halay_devices_get(struct halay_context *ctx, int number, struct halay_device **out);

/* Wait for an event of that device when the engine has stopped. HALAY_IN_PROGRESS: not until the deadline; else as
 * event_done. */
enum halay_status halay_devices_await(struct halay_context *ctx, int number, void *event, int64_t deadline_us);

/* Memory of a device. Opens the module. */
enum halay_status halay_devices_alloc(struct halay_context *ctx, int number, size_t bytes, void **ptr);
/* Nonzero if it was such memory, and has been freed. */
int halay_devices_free(struct halay_context *ctx, void *ptr);

#endif
