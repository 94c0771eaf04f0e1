/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: the module that knows them, loaded when the program uses one; its streams; memory that the program has of
 * it. Any thread.
 */
#ifndef HALAY_DEVICES_H
#define HALAY_DEVICES_H

#include "fusion/state/context.h"

void halay_devices_init(struct halay_devices *devices); /* storage of the caller's, zero-initialised */
void halay_devices_fini(struct halay_devices *devices);
/* All is given back; nothing is under way, no staging is left, and there is still a log. */
void halay_devices_close(struct halay_devices *devices);

/* NULL while no device has been used. */
static inline const struct halay_device_ops *halay_devices_ops(const struct halay_context *ctx)
{
    return atomic_load_explicit(&((struct halay_context *)ctx)->devices.ops, memory_order_acquire);
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
