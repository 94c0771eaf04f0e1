/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: what a context knows of memory that is not the host's. Empty until the program uses a device.
 */
#ifndef HALAY_STATE_DEVICES_H
#define HALAY_STATE_DEVICES_H

#include "collectives/transport/device_ops.h"
#include "fusion/state/direct.h"
#include <pthread.h>
#include <stdatomic.h>

struct halay_staging;

enum { HALAY_STAGING_CLASSES = 256 }; /* of sizes: device/staging.c */

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
    /* NULL: none was ever used. Stored (release) under `lock` once the module is there, loaded (acquire) anywhere. */
    const struct halay_device_ops *_Atomic ops;
    struct halay_device_host host;     /* set before ops */
    void *module;                      /* owned: its handle */
    pthread_mutex_t lock;              /* of the next; around no other but the log's */
    struct halay_device *first;        /* owned; what is on the list stays there */
    struct halay_device_block *blocks; /* owned: of halay_alloc_device */
    struct halay_staging *stagings;    /* owned: all of them; guarded by the context's lock */
    struct halay_direct direct;
};

#endif
