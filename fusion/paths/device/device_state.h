/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the carrier of data on devices: its devices, stagings, and results in progress.
 */
#ifndef HALAY_DEVICE_STATE_H
#define HALAY_DEVICE_STATE_H

#include "collectives/transport/devices.h"
#include "fusion/paths/device/direct_state.h"
#include "fusion/requests/carrier.h"

struct halay_staging;

enum { HALAY_STAGING_CLASSES = 256 }; /* of sizes: staging.c */

struct halay_staging_device {
    struct halay_device device;                        /* first */
    struct halay_staging *idle[HALAY_STAGING_CLASSES]; /* unused stagings; guarded by the context's lock */
};

struct halay_device_carrier {
    struct halay_carrier carrier;   /* first */
    struct halay_devices devices;   /* each is a struct halay_staging_device */
    struct halay_staging *stagings; /* owned: all of them; guarded by the context's lock */
    struct halay_direct direct;

    /* Driver only. */
    struct halay_events deferred; /* owned: of submissions whose data have not arrived (deferred.c) */
    /* Requests that have succeeded, whose results are being copied back; those from launched on are not published. */
    struct halay_request *landing, **landing_last, *launched;
    enum halay_status status; /* an error: results cannot be copied back */
    int64_t copied_us;        /* when copies were last started, or found to have completed */
};

/* Return the carrier of the context, and its devices. */
static inline struct halay_device_carrier *halay_device_carrier_of(const struct halay_context *ctx)
{
    return (struct halay_device_carrier *)ctx->carrier;
}
static inline struct halay_devices *halay_devices_of(const struct halay_context *ctx)
{
    return &halay_device_carrier_of(ctx)->devices;
}

/* Returns the table of device functions, NULL while no device has been used. */
static inline const struct halay_device_ops *halay_devices_ops(const struct halay_context *ctx)
{
    return halay_devices_table(halay_devices_of(ctx));
}

/* halay_carrier_ops.load: device_carrier.c */
enum halay_status halay_device_carrier_load(struct halay_context *ctx);

#endif
