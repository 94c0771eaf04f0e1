/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver: the threads that drive the engine, and where they sleep.
 */
#ifndef HALAY_DRIVER_H
#define HALAY_DRIVER_H

#include "fusion/engine/role.h"
#include "fusion/requests/context.h"

/* The driver's role: the thread that has it, sleeping threads, and deferred wakes. Guarded by the context's lock unless
 * stated otherwise. */
struct halay_driver {
    struct halay_role role;  /* the thread that has it, and threads to be woken */
    int64_t drove_us;        /* when a thread last released the role */
    int must_send;           /* messages are being sent although nothing is pending: must_send in engine/driver.c */
    _Atomic int is_stopping; /* the thread is to end; written under lock, the driver reads it (relaxed) */
    /* Threads that have unlocked and are waking another one: the context stays until they have finished. Added to under
     * lock (relaxed); subtracted with release, for the acquire in halay_driver_stop. */
    _Atomic int leaving;
    pthread_cond_t thread_wakes; /* the background thread: the role is free and there is work, or it is to end */
    pthread_t thread;            /* set once before start, as are these */
    long spin_thread_us, spin_waiter_us;

    /* Wakes deferred because another call is expected to follow at once. */
    int64_t deferred_us;          /* when the first of them was deferred */
    size_t deferred_bytes;        /* bytes of the submissions since then */
    _Atomic int is_wake_deferred; /* written under lock; relaxed: read by the thread that is expected to call */
    /* How often in succession another call followed at once a wait that ended with requests in flight, up to a few. */
    int waits_followed;
    int calls_back;            /* a submission had a callback: the program may make no call after its last wait */
    _Atomic int64_t called_us; /* when the last of these calls began, or returned if it took long; relaxed: a hint */
};

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
