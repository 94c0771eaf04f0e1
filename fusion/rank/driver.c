/* SPDX-License-Identifier: Apache-2.0
 *
 * Cycle: who drives the engine, when, and where it sleeps. The only file of the library that creates a thread.
 *
 * One thread at a time has the driver's role. While the background thread sleeps with it, anybody may take it away:
 * nothing but the bell is touched in a sleep. So a thread in halay_wait drives at once, without waking another one
 * first, and a thread that submits tells the peers before it wakes the background thread, whose way to a processor is
 * the longest part of all.
 *
 *     background thread                                waiter
 *       drives while something is in flight              role free, or the thread sleeps: takes it, drives until its
 *       nothing to do: sleeps in the transport, with       request has ended
 *         the role, so that peers reach it               somebody awake has it: sleeps on waiter_wakes
 *       robbed: parks on thread_wakes; goes back to
 *         the transport when nobody has driven for       submitter
 *         park_us()                                        role free, or the thread sleeps: takes it, tells the peers,
 *       nothing to do and somebody waits: gives the         gives it back; wakes the thread
 *         role away, parks
 *
 * Who submits need not wake the thread if a call follows at once that drives, or that can wake it. halay_allreduce and
 * its like know that a wait follows; a tensor whose submissions were followed at once by another submission or by a
 * wait, the last times, is expected to go on like this, and so is a wait that leaves more in flight and was followed by
 * another one. The wake is owed then. Whoever takes the role pays it, and so does a call that comes too late or is not
 * expected: a submission, a test of what is in flight, giving the request away. A submission also pays when the first
 * is owed for HALAY_OWED_US, or more than HALAY_OWED_BYTES would be. A program that makes none of these calls (waiting
 * for what has ended already is none) lets what it submitted last lie until the thread looks by itself, park_us() later
 * at most: what has a callback is never left to that.
 *
 * While the thread is parked, or sleeps robbed, and nobody waits, nobody listens to peers. That is all right: nothing
 * was promised to them, so no peer can need more than an answer to a PING, and it lasts a quarter of the time they give
 * it at most. Rank 0 has promised more once there are process sets in which it takes no part and which it coordinates:
 * then (ctx->driver.listens) whoever gives the role up wakes the thread, and nothing is owed.
 *
 * No wake-up is lost. Between peers: the driver arms the transport, then does a whole step, then sleeps; peers store
 * their news first and then ring. Inside the process all is under the lock: who has news for a driver that is awake
 * leaves them there (has_news), and it looks there before it falls asleep; a sleeper notes under the lock that it needs
 * a bell (bell_wanted), with a token from before; whoever takes that note rings after it has unlocked, so everybody who
 * had noted it by then wakes, or with the old token does not fall asleep.
 *
 * Data may travel over another transport than the one in which the driver sleeps. Either news of that end the sleep too
 * (a descriptor, world->data_rings), or not: then, while collectives are under way, it polls, and once nothing has come
 * for POLL_US it naps. Over several nodes it naps although the messages ring: the memory of a node has no bell there.
 */
#include "fusion/rank/driver.h"
#include "base/clock.h"
#include "base/sync.h"
#include "fusion/observe/recorder.h"
#include "fusion/rank/step.h"
#include "fusion/state/entry.h"
#include "fusion/state/request.h"
#include <sched.h>
#include <string.h>

#define PARK_US 1000000         /* how long the thread stays parked after a waiter drove, at most */
#define PENDING_SLEEP_US 100000 /* the longest sleep while something is pending */
#define TELL_US 50              /* a submitter tells the peers if nobody has driven for that long */
#define POLL_US 200             /* how long data that ring no bell are polled for without a nap */
#define NAP_US 50
#define AT_ONCE_US 50 /* a wait that comes so soon after a submission, or another wait, has followed at once */

enum { AT_ONCE_TIMES = 3 };

/* ---- sleeping ---- */

/* How long the thread stays out of the way after a drive, and nobody listens at most: a fraction of what peers allow
 * for an answer to a PING. */
static int64_t park_us(const struct halay_context *ctx)
{
    int64_t quarter = (int64_t)ctx->world->config.peer_timeout_ms * 250;

    return quarter > 0 && quarter < PARK_US ? quarter : PARK_US;
}

/* Is something under way whose news don't end a sleep? That a message was taken, for which the group of a process set
 * waits, is none that does. */
static int must_poll(const struct halay_context *ctx)
{
    const struct halay_world *world = ctx->world;

    return ctx->execution.making ||
           (ctx->execution.running_count && world->data != ctx->control && (!world->data_rings || world->node));
}

static long sleep_us(struct halay_context *ctx, int64_t deadline_us)
{
    int64_t left = halay_deadline_left_us(deadline_us), longest = park_us(ctx);

    if (must_poll(ctx))
        longest = NAP_US;
    else if (longest > PENDING_SLEEP_US &&
             (halay_engine_is_pending(ctx) || atomic_load_explicit(&ctx->is_closing, memory_order_relaxed)))
        longest = PENDING_SLEEP_US;
    if (ctx->negotiation.express.untold && longest > HALAY_EXPRESS_LATE_US)
        longest = HALAY_EXPRESS_LATE_US;
    return (long)(left < longest ? left : longest);
}

static struct timespec at_us(int64_t us)
{
    return (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
}

static int is_wanted_elsewhere(struct halay_context *ctx, int is_thread)
{
    return is_thread && (atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed) ||
                         atomic_load_explicit(&ctx->driver.is_stopping, memory_order_relaxed));
}

/* From here on others may take the role, and ring. Zero if there are news: then there is no sleeping. */
static int fall_asleep_locked(struct halay_context *ctx, int is_thread)
{
    if (ctx->driver.has_news || is_wanted_elsewhere(ctx, is_thread)) {
        ctx->driver.has_news = 0;
        return 0;
    }
    ctx->driver.is_asleep = ctx->driver.bell_wanted = 1;
    if (is_thread)
        ctx->driver.thread_dozes = 1;
    return 1;
}

/* Nonzero if the role is still ours. */
static int wake_up_locked(struct halay_context *ctx, int is_thread, uint64_t role)
{
    if (is_thread)
        ctx->driver.thread_dozes = 0;
    if (ctx->driver.number != role)
        return 0;
    ctx->driver.is_asleep = 0;
    atomic_store_explicit(&ctx->driver.is_owed, 0, memory_order_relaxed);
    return 1;
}

/* A job of one rank without a control transport: nobody rings but this process. */
static int sleep_here(struct halay_context *ctx, int is_thread, int64_t deadline_us)
{
    int has_role = 1;

    pthread_mutex_lock(&ctx->lock);
    uint64_t role = ctx->driver.number;
    if (fall_asleep_locked(ctx, is_thread)) {
        struct timespec t = at_us(halay_now_us() + sleep_us(ctx, deadline_us));
        pthread_cond_timedwait(&ctx->driver.idle, &ctx->lock, &t);
        has_role = wake_up_locked(ctx, is_thread, role);
    }
    pthread_mutex_unlock(&ctx->lock);
    return has_role;
}

static int doze(struct halay_context *ctx, uint32_t token, int is_thread, int64_t deadline_us)
{
    struct halay_transport *t = ctx->control;
    long timeout_us = sleep_us(ctx, deadline_us);

    pthread_mutex_lock(&ctx->lock);
    uint64_t role = ctx->driver.number;
    int sleeps = fall_asleep_locked(ctx, is_thread), has_role = 1;
    pthread_mutex_unlock(&ctx->lock);
    int64_t since_ns = sleeps && timeout_us > NAP_US && halay_recording(&ctx->observers.recorder) ? halay_now_ns() : 0;
    if (sleeps) {
        t->ops->doze(t, token, timeout_us);
        pthread_mutex_lock(&ctx->lock);
        has_role = wake_up_locked(ctx, is_thread, role);
        pthread_mutex_unlock(&ctx->lock);
    }
    if (since_ns && has_role)
        halay_record_slept(ctx, since_ns);
    if (has_role)
        t->ops->disarm(t);
    return has_role;
}

/* Does what comes over the other transport from now on end a sleep, if it can? */
static int data_is_quiet(struct halay_context *ctx)
{
    struct halay_transport *data = ctx->world->data;

    return !ctx->world->data_rings || data->ops->fd_arm(data);
}

/* Nonzero if the role is still ours. *did: the last look before the sleep found something. */
static int sleep_once(struct halay_context *ctx, int (*done)(void *arg), void *arg, int is_thread, int64_t deadline_us,
                      int *did)
{
    struct halay_transport *t = ctx->control;

    *did = 0;
    if (!t)
        return sleep_here(ctx, is_thread, deadline_us);
    uint32_t token = t->ops->arm(t);
    *did = halay_engine_step(ctx);
    if (!*did && !(done && done(arg)) && !t->ops->is_busy(t) && data_is_quiet(ctx))
        return doze(ctx, token, is_thread, deadline_us);
    t->ops->disarm(t);
    return 1;
}

/* Drive until done(arg), the deadline, or, for the background thread, until it has nothing to do and somebody waits.
 * Nonzero if the role is still ours. */
static int drive(struct halay_context *ctx, int (*done)(void *arg), void *arg, int is_thread, int64_t deadline_us)
{
    long spin_us = is_thread ? ctx->driver.spin_thread_us : ctx->driver.spin_waiter_us;
    int64_t idle_since = 0;
    int did;

    for (;;) {
        did = halay_engine_step(ctx);
        if ((done && done(arg)) || (deadline_us != HALAY_NEVER && ctx->now_us >= deadline_us))
            return 1;
        if (did) {
            idle_since = 0;
            continue;
        }
        if (is_wanted_elsewhere(ctx, is_thread))
            return 1;
        long awake_us = must_poll(ctx) && spin_us < POLL_US ? POLL_US : spin_us;
        if (awake_us > 0 && atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed)) {
            if (!idle_since)
                idle_since = ctx->now_us;
            if (ctx->now_us - idle_since < awake_us) {
                must_poll(ctx) ? (void)sched_yield() : halay_relax();
                continue;
            }
        }
        halay_count(&ctx->observers.tally.sleeps, 1);
        if (!sleep_once(ctx, done, arg, is_thread, deadline_us, &did))
            return 0;
        if (did || !must_poll(ctx)) /* one nap follows the other while nothing comes */
            idle_since = 0;
    }
}

/* ---- waking ---- */

enum wake { WAKE_NOBODY, WAKE_BELL, WAKE_THREAD };

/* There is something new for the driver: whom to wake, to be done by wake_now after unlocking. */
static enum wake wake_locked(struct halay_context *ctx)
{
    int is_free = ctx->driver.holder == HALAY_DRIVER_NONE;

    atomic_store_explicit(&ctx->driver.is_owed, 0, memory_order_relaxed);
    if (!is_free && !ctx->driver.is_asleep) {
        ctx->driver.has_news = 1;
        return WAKE_NOBODY;
    }
    if (!is_free || ctx->driver.thread_dozes) {
        if (!ctx->driver.bell_wanted)
            return WAKE_NOBODY; /* it was rung: who sleeps is on its way and sees what comes meanwhile */
        ctx->driver.bell_wanted = 0;
        return WAKE_BELL;
    }
    if (!ctx->driver.thread_is_parked)
        return WAKE_NOBODY;
    ctx->driver.thread_is_parked = 0;
    return WAKE_THREAD;
}

/* A call that has told or woken somebody returns. After an idle time that takes longer than what is at once, and it is
 * not the program's time. */
static void note_return(struct halay_context *ctx)
{
    atomic_store_explicit(&ctx->driver.called_us, halay_now_us(), memory_order_relaxed);
}

static void wake_now(struct halay_context *ctx, enum wake wake)
{
    if (wake == WAKE_THREAD)
        pthread_cond_signal(&ctx->driver.thread_wakes);
    else if (wake == WAKE_BELL && ctx->control)
        ctx->control->ops->wake(ctx->control);
    else if (wake == WAKE_BELL)
        pthread_cond_broadcast(&ctx->driver.idle);
}

/* What is awake may end what the program waits for, and so lead to halay_fini, before this thread is through: it keeps
 * the context until then (leaving). returns: this is the end of a call of the program's, see note_return. */
static void wake_unlock(struct halay_context *ctx, int returns)
{
    enum wake wake = wake_locked(ctx);

    if (wake == WAKE_NOBODY) {
        pthread_mutex_unlock(&ctx->lock);
        return;
    }
    atomic_fetch_add_explicit(&ctx->driver.leaving, 1, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    wake_now(ctx, wake);
    if (returns)
        note_return(ctx);
    atomic_fetch_sub_explicit(&ctx->driver.leaving, 1, memory_order_release); /* halay_driver_stop: the last touch */
}

void halay_driver_wake(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    wake_unlock(ctx, 0);
}

/* ---- the role ---- */

static int has_work_locked(const struct halay_context *ctx)
{
    return ctx->queue.submitted.count || atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed) ||
           atomic_load_explicit(&ctx->is_closing, memory_order_relaxed) || ctx->driver.listens;
}

/* Free, or the thread's, who sleeps. */
static int may_take_locked(const struct halay_context *ctx)
{
    return ctx->driver.holder == HALAY_DRIVER_NONE ||
           (ctx->driver.holder == HALAY_DRIVER_THREAD && ctx->driver.is_asleep);
}

/* lock held; unlocks: the driver's work is done without it. */
static void take_role_unlock(struct halay_context *ctx, enum halay_driver driver)
{
    int is_armed = ctx->driver.is_asleep && ctx->control;

    ctx->driver.holder = driver;
    ctx->driver.number++;
    ctx->driver.is_asleep = 0;
    ctx->driver.has_news = 0; /* the first step sees all there is */
    atomic_store_explicit(&ctx->driver.is_owed, 0, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    if (is_armed)
        ctx->control->ops->disarm(ctx->control);
}

static void give_role_locked(struct halay_context *ctx)
{
    ctx->driver.holder = HALAY_DRIVER_NONE;
    ctx->driver.drove_us = ctx->now_us;
}

/* Whoever leaves while the role is free wakes who may need it, whether it had the role itself or was only offered it:
 * the thread, giving the role away, wakes waiters alone, and they may all be done by then. Nonzero: the thread is to be
 * woken. */
static int pass_on_locked(struct halay_context *ctx)
{
    if (ctx->driver.holder != HALAY_DRIVER_NONE)
        return 0;
    if (!atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed))
        return has_work_locked(ctx);
    pthread_cond_signal(&ctx->driver.waiter_wakes);
    return 0;
}

/* ---- wakes that are owed ---- */

/* Does the thread sleep, and has nobody called it yet? */
static int thread_sleeps_locked(const struct halay_context *ctx)
{
    return ctx->driver.thread_is_parked || (ctx->driver.thread_dozes && ctx->driver.bell_wanted);
}

static void owe_locked(struct halay_context *ctx, size_t bytes)
{
    if (!atomic_load_explicit(&ctx->driver.is_owed, memory_order_relaxed)) {
        ctx->driver.owed_us = atomic_load_explicit(&ctx->driver.called_us, memory_order_relaxed);
        ctx->driver.owed_bytes = 0;
    }
    ctx->driver.owed_bytes += bytes;
    atomic_store_explicit(&ctx->driver.is_owed, 1, memory_order_relaxed);
}

/* May so much more be owed? Calls may follow at once for as long as a program computes gradients, and the peers wait
 * for them. When that was too long the thread was called, and finds its work owed no more. */
static int may_owe_locked(const struct halay_context *ctx, size_t bytes)
{
    if (!thread_sleeps_locked(ctx))
        return 0;
    return !atomic_load_explicit(&ctx->driver.is_owed, memory_order_relaxed) ||
           (atomic_load_explicit(&ctx->driver.called_us, memory_order_relaxed) - ctx->driver.owed_us < HALAY_OWED_US &&
            ctx->driver.owed_bytes + bytes <= HALAY_OWED_BYTES);
}

/* The call that was expected has not come at once: nothing is owed any more. Returns whether a wake was. */
static int cancel_owed_locked(struct halay_context *ctx)
{
    if (!atomic_load_explicit(&ctx->driver.is_owed, memory_order_relaxed))
        return 0;
    atomic_store_explicit(&ctx->driver.is_owed, 0, memory_order_relaxed);
    if (ctx->driver.latest)
        ctx->driver.latest->followed = 0;
    ctx->driver.waits_followed = 0;
    return 1;
}

void halay_driver_pay(struct halay_context *ctx)
{
    /* Relaxed: it is about what this thread of the program did before. */
    if (!atomic_load_explicit(&ctx->driver.is_owed, memory_order_relaxed))
        return;
    pthread_mutex_lock(&ctx->lock);
    if (cancel_owed_locked(ctx))
        wake_unlock(ctx, 0);
    else
        pthread_mutex_unlock(&ctx->lock);
}

static void count_followed(int *times, int is_at_once)
{
    if (!is_at_once)
        *times = 0;
    else if (*times < AT_ONCE_TIMES)
        ++*times;
}

static int is_at_once(const struct halay_context *ctx, int64_t now_us)
{
    return now_us - atomic_load_explicit(&ctx->driver.called_us, memory_order_relaxed) < AT_ONCE_US;
}

/* A submission, or a wait that has to wait, has come: keep how soon it followed the one before. Too late for what was
 * owed, it is owed no more. */
static void note_call_locked(struct halay_context *ctx, int64_t now_us, int is_wait)
{
    int at_once = is_at_once(ctx, now_us);

    atomic_store_explicit(&ctx->driver.called_us, now_us, memory_order_relaxed);
    if (ctx->driver.latest)
        count_followed(&ctx->driver.latest->followed, at_once);
    else if (ctx->driver.has_left_some && is_wait)
        count_followed(&ctx->driver.waits_followed, at_once);
    ctx->driver.latest = NULL;
    ctx->driver.has_left_some = 0;
    if (!at_once)
        cancel_owed_locked(ctx);
}

/* ---- submitting ---- */

/* Tell the peers what was submitted, unless somebody is about to do so. lock held; unlocks. */
static void tell_unlock(struct halay_context *ctx)
{
    int64_t called_us = atomic_load_explicit(&ctx->driver.called_us, memory_order_relaxed);

    if (!ctx->control || !may_take_locked(ctx) || (!thread_sleeps_locked(ctx) && called_us - ctx->now_us < TELL_US)) {
        wake_unlock(ctx, 1);
        return;
    }
    take_role_unlock(ctx, HALAY_DRIVER_WAITER);
    halay_engine_say(ctx); /* no callbacks: who submits may hold the program's locks */
    pthread_mutex_lock(&ctx->lock);
    give_role_locked(ctx);
    note_return(ctx);
    if (pass_on_locked(ctx))
        wake_unlock(ctx, 1);
    else
        pthread_mutex_unlock(&ctx->lock);
}

void halay_driver_submitted_unlock(struct halay_context *ctx, struct halay_entry *entry,
                                   enum halay_attendance attendance)
{
    size_t bytes = entry->request->bytes;
    int64_t now_us = halay_now_us();
    int is_in_time = is_at_once(ctx, now_us) || !atomic_load_explicit(&ctx->driver.is_owed, memory_order_relaxed);

    note_call_locked(ctx, now_us, 0);
    int is_expected =
        attendance == HALAY_WILL_WAIT ||
        (attendance == HALAY_MAY_WAIT && entry->followed >= AT_ONCE_TIMES && is_in_time && may_owe_locked(ctx, bytes));

    ctx->driver.latest = entry;
    if (!is_expected || !may_take_locked(ctx) || ctx->driver.listens) {
        tell_unlock(ctx);
        return;
    }
    owe_locked(ctx, bytes);
    pthread_mutex_unlock(&ctx->lock);
}

/* ---- waiting ---- */

static void wait_for_driver_locked(struct halay_context *ctx, int64_t deadline_us)
{
    atomic_fetch_add_explicit(&ctx->waiting.waiters, 1, memory_order_relaxed);
    wake_now(ctx, wake_locked(ctx)); /* it may lie and accumulate until somebody waits */
    if (deadline_us == HALAY_NEVER) {
        pthread_cond_wait(&ctx->driver.waiter_wakes, &ctx->lock);
    } else {
        struct timespec t = at_us(deadline_us);
        pthread_cond_timedwait(&ctx->driver.waiter_wakes, &ctx->lock, &t);
    }
    atomic_fetch_sub_explicit(&ctx->waiting.waiters, 1, memory_order_relaxed);
}

int halay_driver_wait(struct halay_context *ctx, int (*done)(void *arg), void *arg, int64_t deadline_us)
{
    int is_done;

    pthread_mutex_lock(&ctx->lock);
    note_call_locked(ctx, halay_now_us(), 1);
    while (!(is_done = done(arg)) && !halay_deadline_passed(deadline_us)) {
        if (!may_take_locked(ctx)) {
            wait_for_driver_locked(ctx, deadline_us);
            continue;
        }
        take_role_unlock(ctx, HALAY_DRIVER_WAITER);
        drive(ctx, done, arg, 0, deadline_us); /* nobody robs a waiter */
        pthread_mutex_lock(&ctx->lock);
        give_role_locked(ctx);
    }
    if (!pass_on_locked(ctx)) {
        pthread_mutex_unlock(&ctx->lock);
        return is_done;
    }
    ctx->driver.has_left_some = 1;
    note_return(ctx);
    if (is_done && ctx->driver.waits_followed >= AT_ONCE_TIMES && !ctx->driver.listens) {
        owe_locked(ctx, 0);
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
    while (!atomic_load_explicit(&ctx->driver.is_stopping, memory_order_relaxed)) {
        int is_free = ctx->driver.holder == HALAY_DRIVER_NONE &&
                      !atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed);
        int is_owed = atomic_load_explicit(&ctx->driver.is_owed, memory_order_relaxed);
        if (is_free && ((has_work_locked(ctx) && !is_owed) || halay_now_us() >= ctx->driver.drove_us + park)) {
            take_role_unlock(ctx, HALAY_DRIVER_THREAD);
            int has_role = drive(ctx, NULL, NULL, 1, HALAY_NEVER);
            pthread_mutex_lock(&ctx->lock);
            if (!has_role)
                continue;
            give_role_locked(ctx);
            if (atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed))
                pthread_cond_broadcast(&ctx->driver.waiter_wakes);
            continue;
        }
        struct timespec t = at_us((is_free ? ctx->driver.drove_us : halay_now_us()) + park);
        ctx->driver.thread_is_parked = 1;
        pthread_cond_timedwait(&ctx->driver.thread_wakes, &ctx->lock, &t);
        ctx->driver.thread_is_parked = 0;
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

/* Spinning pays only where whoever is waited for has a processor of its own. The background thread may share its rank's
 * with the program: so it spins no longer there than an answer takes, which is less than to sleep and to be rung
 * costs. */
static void choose_spin(struct halay_context *ctx)
{
    enum { WAITER_US = 100, THREAD_US = 50, THREAD_CROWDED_US = 20 };
    int processors = halay_topology_usable(&ctx->world->topology), ranks = ctx->world->local_size;

    ctx->driver.spin_waiter_us = ctx->driver.spin_thread_us = ctx->world->config.spin_us;
    if (ctx->world->config.spin_us < 0) {
        ctx->driver.spin_waiter_us = processors >= ranks ? WAITER_US : 0;
        ctx->driver.spin_thread_us = processors >= ranks ? THREAD_CROWDED_US : 0;
        if (processors >= 2 * ranks)
            ctx->driver.spin_thread_us = THREAD_US;
    }
}

void halay_driver_init(struct halay_context *ctx)
{
    pthread_mutex_init(&ctx->lock, NULL);
    cond_init(&ctx->driver.thread_wakes);
    cond_init(&ctx->driver.waiter_wakes);
    cond_init(&ctx->driver.idle);
}

void halay_driver_fini(struct halay_context *ctx)
{
    pthread_cond_destroy(&ctx->driver.idle);
    pthread_cond_destroy(&ctx->driver.waiter_wakes);
    pthread_cond_destroy(&ctx->driver.thread_wakes);
    pthread_mutex_destroy(&ctx->lock);
}

enum halay_status halay_driver_start(struct halay_context *ctx)
{
    choose_spin(ctx);
    int error = pthread_create(&ctx->driver.thread, NULL, run_thread, ctx);
    if (!error)
        return HALAY_OK;
    halay_error(ctx->log, "no thread for the engine: %s", strerror(error));
    return HALAY_ERR_SYSTEM;
}

void halay_driver_stop(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    atomic_store_explicit(&ctx->driver.is_stopping, 1, memory_order_relaxed);
    wake_unlock(ctx, 0);
    pthread_join(ctx->driver.thread, NULL);
    while (atomic_load_explicit(&ctx->driver.leaving, memory_order_acquire)) /* no longer than a wake takes */
        sched_yield();
}
