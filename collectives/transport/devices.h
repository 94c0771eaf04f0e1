/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: the module that knows them, loaded when the program uses one; its streams; memory that the program has of
 * it. Any thread.
 */
#ifndef HALAY_DEVICES_H
#define HALAY_DEVICES_H

#include "base/config.h"
#include "collectives/transport/device_ops.h"
#include <pthread.h>
#include <stdatomic.h>

/* One that has been used, and our streams on it: one for each direction, since a device copies both ways at once. */
struct halay_device {
    int number;     /* set once, as are the next */
    void *in, *out; /* owned: towards the host, and back */
    void *landed;   /* owned: an event of `out` */
    struct halay_device *next;
};

struct halay_device_block {
    void *ptr;
    int device;
    struct halay_device_block *next;
};

struct halay_devices {
    /* NULL: none was ever used. Stored (release) under `lock` once the module is there, loaded (acquire) anywhere. */
    const struct halay_device_ops *_Atomic ops;
    struct halay_device_host host;     /* set before ops */
    void *module;                      /* owned: its handle */
    size_t device_bytes;               /* set once */
    pthread_mutex_t lock;              /* of the next; around no other but the log's */
    struct halay_device *first;        /* owned; what is on the list stays there */
    struct halay_device_block *blocks; /* owned: of halay_devices_alloc */
};

/* Storage of the caller's, zero-initialised. device_bytes: of a struct of the caller's, with zeros, that begins with
 * each struct halay_device. */
void halay_devices_init(struct halay_devices *devices, size_t device_bytes);
void halay_devices_fini(struct halay_devices *devices);
/* All is given back; nothing is under way, nothing that was made on a device is left, and there is still a log. */
void halay_devices_close(struct halay_devices *devices);

/* NULL while no device has been used. */
static inline const struct halay_device_ops *halay_devices_table(const struct halay_devices *devices)
{
    return atomic_load_explicit(&((struct halay_devices *)devices)->ops, memory_order_acquire);
}

/* Load the module, unless it is there. HALAY_ERR_UNSUPPORTED: there is none, or no device; HALAY_ERR_VERSION. */
enum halay_status halay_devices_open(struct halay_devices *devices, struct halay_log *log,
                                     const struct halay_config *config);
/* That device, with streams of ours. The module is there. Errors as of device_ops.h. */
enum halay_status halay_devices_get(struct halay_devices *devices, int number, struct halay_device **out);

/* Wait for a point of that device. HALAY_IN_PROGRESS: not until the deadline; else as event_done. */
enum halay_status halay_devices_await(const struct halay_devices *devices, int number,
                                      const struct halay_device_point *point, int64_t deadline_us);

/* Memory of a device; number -1: the calling thread's current one
 * (HALAY_DEVICE_CURRENT). The module is there. */
enum halay_status halay_devices_alloc(struct halay_devices *devices, int number, size_t bytes, void **ptr);
/* Nonzero if it was such memory, and has been freed. */
int halay_devices_free(struct halay_devices *devices, void *ptr);

#endif
