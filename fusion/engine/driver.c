/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver: the threads that drive the engine, and where they sleep. The only file of the library that creates a thread.
 *
 * One thread at a time has the driver's role. fusion/engine/role.h defines how it passes from thread to thread and
 * which thread has to be woken; docs/reference/threading.md explains why, which wakes may be deferred, and why none is
 * lost.
 */
#include "fusion/engine/driver.h"
#include "base/clock.h"
#include "base/error_text.h"
#include "base/sync.h"
#include "fusion/engine/engine.h"
#include "fusion/engine/step.h"
#include "fusion/observe/recorder.h"
#include "fusion/protocol/messenger.h"
#include "fusion/replay/reasons.h"
#include "fusion/replay/replay.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/request.h"
#include <sched.h>
#include <string.h>

#define PARK_US 1000000         /* the longest time that the thread stays parked after a waiter drove */
#define PENDING_SLEEP_US 100000 /* the longest sleep while something is pending */
#define STEADY_US 10            /* after a step that found nothing, how long steady steps continue */
#define WHOLE_US 2000           /* the longest time between whole steps of a driver that is awake */
#define AT_ONCE_US 50           /* a wait within this time after a submission, or another wait, follows at once */

enum { AT_ONCE_TIMES = 3 };

static enum halay_role_action pass_role_locked(struct halay_context *ctx, enum halay_role_event event)
{
    struct halay_role_step step = halay_role_next(ctx->driver->role, event);

    ctx->driver->role = step.role;
    return step.action;
}

/* ---- sleeping ---- */

/* Returns how long the thread stays parked after a waiter drove, and so the longest time without a listener: a fraction
 * of the time that peers allow for an answer to a PING. */
static int64_t park_us(const struct halay_context *ctx)
{
    int64_t quarter = (int64_t)ctx->world->config.peer_timeout_ms * 250;

    return quarter > 0 && quarter < PARK_US ? quarter : PARK_US;
}

/* Returns the longest sleep that the carrier allows; HALAY_RINGS: no limit, 0: no sleep. */
static long carrier_sleep_us(const struct halay_context *ctx)
{
    return ctx->carrier->ops->sleep_us(ctx);
}

/* Returns nonzero if messages have to be sent although nothing is pending: the engine has failed, and not all peers
 * have received the cause; or a plan is being left. */
static int must_send(const struct halay_context *ctx)
{
    return ctx->status != HALAY_OK ? !halay_messenger_is_quiet(ctx->messenger) : halay_replay_is_leaving(ctx);
}

static long sleep_us(struct halay_context *ctx, int64_t deadline_us)
{
    int64_t left = halay_deadline_left_us(deadline_us), longest = park_us(ctx), carrier_us = carrier_sleep_us(ctx);

    if (longest > PENDING_SLEEP_US && (halay_engine_is_pending(ctx) || must_send(ctx) ||
                                       atomic_load_explicit(&ctx->is_closing, memory_order_relaxed)))
        longest = PENDING_SLEEP_US;
    if (longest > carrier_us)
        longest = carrier_us;
    if (longest > halay_replay_sleep_us(ctx))
        longest = halay_replay_sleep_us(ctx);
    if (ctx->status == HALAY_OK && ctx->engine->look_us && longest > ctx->engine->look_us - ctx->now_us)
        longest = ctx->engine->look_us - ctx->now_us;
    if (longest < 0)
        longest = 0;
    return (long)(left < longest ? left : longest);
}

static struct timespec at_us(int64_t us)
{
    return (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
}

static int is_wanted_elsewhere(struct halay_context *ctx, int is_thread)
{
    return is_thread && (atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed) ||
                         atomic_load_explicit(&ctx->driver->is_stopping, memory_order_relaxed));
}

/* Falls asleep: other threads may take the role, and ring the bell. Returns zero if there is work: do not sleep. */
static int fall_asleep_locked(struct halay_context *ctx, int is_thread)
{
    if (!is_wanted_elsewhere(ctx, is_thread))
        return pass_role_locked(ctx, HALAY_ROLE_SLEEPS) != HALAY_ROLE_LOOK;
    pass_role_locked(ctx, HALAY_ROLE_STAYS);
    return 0;
}

/* Wakes up. Returns nonzero if the role is still this thread's. */
static int wake_up_locked(struct halay_context *ctx, int is_thread)
{
    if (pass_role_locked(ctx, is_thread ? HALAY_ROLE_WAKES_THREAD : HALAY_ROLE_WAKES_WAITER) == HALAY_ROLE_LOST)
        return 0;
    atomic_store_explicit(&ctx->driver->is_wake_deferred, 0, memory_order_relaxed);
    return 1;
}

/* Sleeps on the bell. Returns nonzero if this thread still has the role. armed_us: the longest sleep, as
 * halay_world_arm returned. */
static int sleep_in_bell(struct halay_context *ctx, uint32_t token, long armed_us, int is_thread, int64_t deadline_us)
{
    struct halay_bell *bell = &ctx->world->bell;
    long wanted_us = sleep_us(ctx, deadline_us), timeout_us = wanted_us < armed_us ? wanted_us : armed_us;

    if (halay_recording(ctx))
        halay_record_long_wait(ctx, atomic_load_explicit(&ctx->driver->called_us, memory_order_relaxed));
    pthread_mutex_lock(&ctx->lock);
    int sleeps = fall_asleep_locked(ctx, is_thread), has_role = 1;
    pthread_mutex_unlock(&ctx->lock);
    int64_t since_ns = sleeps && timeout_us > HALAY_UNRUNG_MAX_US && halay_recording_all(ctx) ? halay_now_ns() : 0;
    if (sleeps) {
        halay_bell_sleep(bell, token, timeout_us);
        pthread_mutex_lock(&ctx->lock);
        has_role = wake_up_locked(ctx, is_thread);
        pthread_mutex_unlock(&ctx->lock);
    }
    if (since_ns && has_role)
        halay_record_slept(ctx, since_ns);
    if (has_role)
        halay_bell_disarm(bell);
    return has_role;
}

/* Sleeps once. Returns nonzero if this thread still has the role. *did: the last step before the sleep did something.
 * */
static int sleep_once(struct halay_context *ctx, int (*done)(void *arg), void *arg, int is_thread, int64_t deadline_us,
                      int *did)
{
    struct halay_bell *bell = &ctx->world->bell;
    uint32_t token = halay_bell_arm(bell);
    long armed_us = 0;

    *did = halay_engine_step(ctx);
    if (!*did && !(done && done(arg)))
        armed_us = halay_world_arm(ctx->world);
    if (armed_us)
        return sleep_in_bell(ctx, token, armed_us, is_thread, deadline_us);
    halay_bell_disarm(bell);
    return 1;
}

/* Makes a steady step while these find work and the last whole step is recent; otherwise a whole one. *until_us: the
 * time until which steady steps continue; 0 at first. */
static int step_or_steady(struct halay_context *ctx, int64_t now_us, int64_t *until_us)
{
    int did = 0, is_steady = (!*until_us || now_us < *until_us) && now_us - ctx->engine->stepped_us < WHOLE_US &&
                             halay_engine_is_steady(ctx);

    if (is_steady)
        did = halay_engine_step_steady(ctx, now_us);
    if (!*until_us || did || !is_steady)
        *until_us = now_us + STEADY_US;
    return is_steady ? did : halay_engine_step(ctx);
}

/* Drives until done(arg) or the deadline; the background thread, until it has nothing to do and a waiter could drive.
 * Returns nonzero if this thread still has the role. */
static int drive_until(struct halay_context *ctx, int (*done)(void *arg), void *arg, int is_thread, int64_t now_us,
                       int64_t deadline_us)
{
    long spin_us = is_thread ? ctx->driver->spin_thread_us : ctx->driver->spin_waiter_us;
    int64_t idle_since = 0, steady_until_us = 0;
    int did;

    for (;; now_us = halay_now_us()) {
        did = step_or_steady(ctx, now_us, &steady_until_us);
        if ((done && done(arg)) || (deadline_us != HALAY_NEVER && ctx->now_us >= deadline_us))
            return 1;
        if (did) {
            idle_since = 0;
            continue;
        }
        if (is_wanted_elsewhere(ctx, is_thread))
            return 1;
        if (spin_us > 0 && atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed)) {
            if (!idle_since)
                idle_since = ctx->now_us;
            if (ctx->now_us - idle_since < spin_us) {
                halay_relax();
                continue;
            }
        }
        if (!carrier_sleep_us(ctx)) {
            sched_yield();
            continue;
        }
        halay_count(&ctx->meters->tally.sleeps, 1);
        if (!sleep_once(ctx, done, arg, is_thread, deadline_us, &did))
            return 0;
        if (did || carrier_sleep_us(ctx) == HALAY_RINGS) /* looks at a device replace spinning */
            idle_since = 0;
    }
}

/* ---- waking ---- */

/* Decides which thread to wake for new work; wake_now wakes it after unlocking. */
static enum halay_role_action wake_locked(struct halay_context *ctx)
{
    atomic_store_explicit(&ctx->driver->is_wake_deferred, 0, memory_order_relaxed);
    return pass_role_locked(ctx, HALAY_ROLE_WORK);
}

/* Notes the return of a call that has sent or woken. Waking takes longer after an idle time; that is not the program's
 * own time, so it must not count against "at once". */
static void note_return(struct halay_context *ctx)
{
    atomic_store_explicit(&ctx->driver->called_us, halay_now_us(), memory_order_relaxed);
}

static void wake_now(struct halay_context *ctx, enum halay_role_action wake)
{
    if (wake == HALAY_ROLE_SIGNAL)
        pthread_cond_signal(&ctx->driver->thread_wakes);
    else if (wake == HALAY_ROLE_RING)
        halay_bell_wake(&ctx->world->bell);
}

/* Wakes a thread for new work, and unlocks. Once awake, that thread may complete what the program waits for, and the
 * program may call halay_fini, before this function returns: `leaving` keeps the context until then. returns: this ends
 * a call of the program, see note_return. */
static void wake_unlock(struct halay_context *ctx, int returns)
{
    enum halay_role_action wake = wake_locked(ctx);

    if (wake == HALAY_ROLE_NOTHING) {
        pthread_mutex_unlock(&ctx->lock);
        return;
    }
    atomic_fetch_add_explicit(&ctx->driver->leaving, 1, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    wake_now(ctx, wake);
    if (returns)
        note_return(ctx);
    atomic_fetch_sub_explicit(&ctx->driver->leaving, 1, memory_order_release); /* halay_driver_stop: the last access */
}

void halay_driver_wake(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    wake_unlock(ctx, 0);
}

/* ---- the role ---- */

static int has_work_locked(const struct halay_context *ctx)
{
    return atomic_load_explicit(&ctx->queue.has_events, memory_order_relaxed) ||
           atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed) ||
           atomic_load_explicit(&ctx->is_closing, memory_order_relaxed) || ctx->listens || ctx->driver->must_send;
}

/* Takes the role. lock held; unlocks, because the driver works without it. */
static void take_role_unlock(struct halay_context *ctx, enum halay_role_event takes)
{
    enum halay_role_action action = pass_role_locked(ctx, takes);

    halay_error_mute(1); /* from here on errors are not this call's */
    atomic_store_explicit(&ctx->driver->is_wake_deferred, 0, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    if (action == HALAY_ROLE_DISARM)
        halay_bell_disarm(&ctx->world->bell);
}

static void give_role_locked(struct halay_context *ctx)
{
    halay_error_mute(0);
    pass_role_locked(ctx, HALAY_ROLE_GIVES);
    ctx->driver->drove_us = ctx->now_us;
    ctx->driver->must_send = must_send(ctx);
}

/* Passes the role on. A waiter that leaves while the role is free wakes a thread that may need it, whether it had the
 * role or was only offered it: the background thread, when it releases the role, wakes only waiters, and these may all
 * have left. Returns nonzero: wake the background thread. */
static int pass_on_locked(struct halay_context *ctx)
{
    if (ctx->driver->role.driver != HALAY_ROLE_FREE)
        return 0;
    if (!atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed))
        return has_work_locked(ctx);
    pthread_cond_signal(&ctx->waiter_wakes);
    return 0;
}

/* ---- deferred wakes ---- */

static void defer_wake_locked(struct halay_context *ctx, size_t bytes)
{
    if (!atomic_load_explicit(&ctx->driver->is_wake_deferred, memory_order_relaxed)) {
        ctx->driver->deferred_us = atomic_load_explicit(&ctx->driver->called_us, memory_order_relaxed);
        ctx->driver->deferred_bytes = 0;
    }
    ctx->driver->deferred_bytes += bytes;
    atomic_store_explicit(&ctx->driver->is_wake_deferred, 1, memory_order_relaxed);
}

/* Returns nonzero if no wake may be deferred, because no thread would receive messages in the meantime. A program that
 * watches a descriptor makes no call that would drive. */
static int must_wake_locked(const struct halay_context *ctx)
{
    return ctx->listens || ctx->completion_fd >= 0;
}

/* Returns nonzero if a wake for these further bytes may be deferred. A program that computes gradients may make calls
 * in quick succession for a long time while its peers wait. After HALAY_DEFERRED_US the thread is woken, and nothing is
 * deferred any more. */
static int may_defer_locked(const struct halay_context *ctx, size_t bytes)
{
    if (!halay_role_thread_sleeps(ctx->driver->role))
        return 0;
    return !atomic_load_explicit(&ctx->driver->is_wake_deferred, memory_order_relaxed) ||
           (atomic_load_explicit(&ctx->driver->called_us, memory_order_relaxed) - ctx->driver->deferred_us <
                HALAY_DEFERRED_US &&
            ctx->driver->deferred_bytes + bytes <= HALAY_DEFERRED_BYTES);
}

/* Cancels deferred wakes, because the expected call did not follow at once. Returns whether one was deferred. */
static int cancel_deferred_locked(struct halay_context *ctx)
{
    if (!atomic_load_explicit(&ctx->driver->is_wake_deferred, memory_order_relaxed))
        return 0;
    atomic_store_explicit(&ctx->driver->is_wake_deferred, 0, memory_order_relaxed);
    if (ctx->queue.followed)
        *ctx->queue.followed = 0;
    return 1;
}

void halay_driver_wake_deferred(struct halay_context *ctx)
{
    /* Relaxed: only this program thread's own earlier calls matter. */
    if (!atomic_load_explicit(&ctx->driver->is_wake_deferred, memory_order_relaxed))
        return;
    pthread_mutex_lock(&ctx->lock);
    if (cancel_deferred_locked(ctx))
        wake_unlock(ctx, 0);
    else
        pthread_mutex_unlock(&ctx->lock);
}

static int is_at_once(const struct halay_context *ctx, int64_t now_us)
{
    return now_us - atomic_load_explicit(&ctx->driver->called_us, memory_order_relaxed) < AT_ONCE_US;
}

/* Notes a submission, or a wait that has to wait, and whether it followed the one before at once. If it was too late,
 * nothing is deferred any more. */
static void note_call_locked(struct halay_context *ctx, int64_t now_us)
{
    int at_once = is_at_once(ctx, now_us), *times = ctx->queue.followed;

    atomic_store_explicit(&ctx->driver->called_us, now_us, memory_order_relaxed);
    if (times)
        *times = !at_once ? 0 : *times < AT_ONCE_TIMES ? *times + 1 : *times;
    ctx->queue.followed = NULL;
    if (!at_once)
        cancel_deferred_locked(ctx);
}

/* ---- submitting ---- */

void halay_driver_submitted_unlock(struct halay_context *ctx, struct halay_entry *entry, size_t bytes,
                                   enum halay_attendance attendance)
{
    int64_t now_us = halay_now_us();
    int is_in_time =
        is_at_once(ctx, now_us) || !atomic_load_explicit(&ctx->driver->is_wake_deferred, memory_order_relaxed);

    note_call_locked(ctx, now_us);
    int is_expected =
        attendance == HALAY_WILL_WAIT || (attendance == HALAY_MAY_WAIT && entry->followed >= AT_ONCE_TIMES &&
                                          is_in_time && may_defer_locked(ctx, bytes));

    ctx->driver->calls_back |= attendance == HALAY_CALLS_BACK;
    ctx->queue.followed = &entry->followed;
    if (!is_expected || !halay_role_may_take(ctx->driver->role) || must_wake_locked(ctx)) {
        wake_unlock(ctx, 1);
        return;
    }
    defer_wake_locked(ctx, bytes);
    pthread_mutex_unlock(&ctx->lock);
}

/* ---- waiting ---- */

static void wait_for_driver_locked(struct halay_context *ctx, int64_t deadline_us)
{
    atomic_fetch_add_explicit(&ctx->waiting.waiters, 1, memory_order_relaxed);
    wake_now(ctx, wake_locked(ctx)); /* submissions may be accumulating until a thread waits */
    if (deadline_us == HALAY_NEVER) {
        pthread_cond_wait(&ctx->waiter_wakes, &ctx->lock);
    } else {
        struct timespec t = at_us(deadline_us);
        pthread_cond_timedwait(&ctx->waiter_wakes, &ctx->lock, &t);
    }
    atomic_fetch_sub_explicit(&ctx->waiting.waiters, 1, memory_order_relaxed);
}

int halay_driver_wait(struct halay_context *ctx, int (*done)(void *arg), void *arg, int timeout_ms)
{
    int64_t now_us = halay_now_us(), deadline_us = timeout_ms < 0 ? HALAY_NEVER : now_us + (int64_t)timeout_ms * 1000;
    int is_done;

    pthread_mutex_lock(&ctx->lock);
    note_call_locked(ctx, now_us);
    while (!(is_done = done(arg)) && now_us < deadline_us) {
        if (!halay_role_may_take(ctx->driver->role)) {
            wait_for_driver_locked(ctx, deadline_us);
            now_us = halay_now_us();
            continue;
        }
        take_role_unlock(ctx, HALAY_ROLE_TAKES_WAITER);
        drive_until(ctx, done, arg, 0, now_us, deadline_us); /* no thread takes the role of a waiter */
        pthread_mutex_lock(&ctx->lock);
        give_role_locked(ctx);
        now_us = ctx->driver->drove_us;
    }
    if (!pass_on_locked(ctx)) {
        pthread_mutex_unlock(&ctx->lock);
        return is_done;
    }
    ctx->queue.followed = &ctx->driver->waits_followed;
    note_return(ctx);
    if (is_done && ctx->driver->waits_followed >= AT_ONCE_TIMES && !ctx->driver->calls_back && !must_wake_locked(ctx)) {
        defer_wake_locked(ctx, 0);
        pthread_mutex_unlock(&ctx->lock);
    } else {
        wake_unlock(ctx, 1);
    }
    return is_done;
}

static void *run_thread(void *arg)
{
    struct halay_context *ctx = arg;
    int64_t park = park_us(ctx);

    pthread_mutex_lock(&ctx->lock);
    while (!atomic_load_explicit(&ctx->driver->is_stopping, memory_order_relaxed)) {
        int is_free = ctx->driver->role.driver == HALAY_ROLE_FREE &&
                      !atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed);
        int is_wake_deferred = atomic_load_explicit(&ctx->driver->is_wake_deferred, memory_order_relaxed);
        if (is_free &&
            ((has_work_locked(ctx) && !is_wake_deferred) || halay_now_us() >= ctx->driver->drove_us + park)) {
            take_role_unlock(ctx, HALAY_ROLE_TAKES_THREAD);
            int has_role = drive_until(ctx, NULL, NULL, 1, halay_now_us(), HALAY_NEVER);
            pthread_mutex_lock(&ctx->lock);
            if (!has_role)
                continue;
            give_role_locked(ctx);
            if (atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed))
                pthread_cond_broadcast(&ctx->waiter_wakes);
            continue;
        }
        struct timespec t = at_us((is_free ? ctx->driver->drove_us : halay_now_us()) + park);
        pass_role_locked(ctx, HALAY_ROLE_PARKS);
        pthread_cond_timedwait(&ctx->driver->thread_wakes, &ctx->lock, &t);
        pass_role_locked(ctx, HALAY_ROLE_UNPARKS);
    }
    pthread_mutex_unlock(&ctx->lock);
    return NULL;
}

/* ---- life ---- */

static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Spinning pays only if the peer that is waited for has a processor of its own. The background thread may share its
 * rank's processor with the program, so it spins only as long as an answer takes, which costs less than a sleep and a
 * wake-up. */
static void choose_spin(struct halay_context *ctx)
{
    enum { WAITER_US = 100, THREAD_US = 50, THREAD_CROWDED_US = 20 };
    int processors = halay_topology_usable(&ctx->world->topology), ranks = ctx->world->local_size;

    ctx->driver->spin_waiter_us = ctx->driver->spin_thread_us = ctx->world->config.spin_us;
    if (ctx->world->config.spin_us < 0) {
        ctx->driver->spin_waiter_us = processors >= ranks ? WAITER_US : 0;
        ctx->driver->spin_thread_us = processors >= ranks ? THREAD_CROWDED_US : 0;
        if (processors >= 2 * ranks)
            ctx->driver->spin_thread_us = THREAD_US;
    }
}

void halay_driver_init(struct halay_context *ctx)
{
    pthread_mutex_init(&ctx->lock, NULL);
    cond_init(&ctx->driver->thread_wakes);
    cond_init(&ctx->waiter_wakes);
}

void halay_driver_fini(struct halay_context *ctx)
{
    pthread_cond_destroy(&ctx->waiter_wakes);
    pthread_cond_destroy(&ctx->driver->thread_wakes);
    pthread_mutex_destroy(&ctx->lock);
}

enum halay_status halay_driver_start(struct halay_context *ctx)
{
    struct halay_driver *d = ctx->driver;

    choose_spin(ctx);
    d->role = (struct halay_role){ .driver = HALAY_ROLE_FREE };
    d->waits_followed = 0;
    atomic_store_explicit(&d->is_stopping, 0, memory_order_relaxed); /* no other thread runs */
    atomic_store_explicit(&d->is_wake_deferred, 0, memory_order_relaxed);
    int error = pthread_create(&d->thread, NULL, run_thread, ctx);
    if (!error)
        return HALAY_OK;
    halay_error(ctx->log, "cannot create the engine's thread: %s", strerror(error));
    return HALAY_ERR_SYSTEM;
}

void halay_driver_stop(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    atomic_store_explicit(&ctx->driver->is_stopping, 1, memory_order_relaxed);
    wake_unlock(ctx, 0);
    pthread_join(ctx->driver->thread, NULL);
    while (atomic_load_explicit(&ctx->driver->leaving, memory_order_acquire)) /* no longer than a wake takes */
        sched_yield();
}
