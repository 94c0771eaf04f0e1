/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver: the threads that drive the engine, and where they sleep.
 */
#ifndef HALAY_DRIVER_H
#define HALAY_DRIVER_H

#include "fusion/requests/context.h"

/* Limits of what several submissions may defer: time since the first, and bytes. */
enum { HALAY_DEFERRED_US = 100, HALAY_DEFERRED_BYTES = 4 << 20 };

void halay_driver_init(struct halay_context *ctx); /* its locks */
void halay_driver_fini(struct halay_context *ctx);
/* Sets the driver's initial state and starts the thread. */
enum halay_status halay_driver_start(struct halay_context *ctx);
void halay_driver_stop(struct halay_context *ctx);
/* Wakes the driver, because there is new work. lock not held. */
void halay_driver_wake(struct halay_context *ctx);
/* Notes a submission, and wakes the driver or defers that. entry: the last one of several submitted together; bytes: of
 * all of them. attendance: how the program learns of the end: by a callback, perhaps by a wait, or by a wait that
 * follows at once. lock held; unlocks. */
enum halay_attendance { HALAY_CALLS_BACK, HALAY_MAY_WAIT, HALAY_WILL_WAIT };
void halay_driver_submitted_unlock(struct halay_context *ctx, struct halay_entry *entry, size_t bytes,
                                   enum halay_attendance attendance);
/* Wakes the driver if that was deferred because a wait was expected: the program did not wait. lock not held. Cheap if
 * no wake is deferred. */
void halay_driver_wake_deferred(struct halay_context *ctx);
/* Drives or sleeps until done(arg) is nonzero, for timeout_ms at most; -1: without a limit. lock not held. Returns the
 * last result of done. */
int halay_driver_wait(struct halay_context *ctx, int (*done)(void *arg), void *arg, int timeout_ms);

#endif
