/* SPDX-License-Identifier: Apache-2.0
 *
 * Cycle: who drives the engine, when, and where it sleeps. The only file of the library that creates a thread.
 *
 * One thread at a time has the driver's role. A thread in halay_wait takes it when it is free, or asks the background
 * thread for it; so in a program that submits and waits no other thread runs at all. When the waiter has what it wanted it
 * gives the role to the next waiter, or, if something is still in flight, to the background thread.
 *
 *     background thread                                waiter
 *       drives while something is in flight              role free: takes it, drives until its request has ended
 *       nothing in flight: sleeps in the transport       role taken by the thread: rings it, sleeps on waiter_wakes
 *         with the role, so that peers reach it          role taken by a waiter: sleeps on waiter_wakes
 *       a waiter asks: gives the role away and parks
 *         on thread_wakes; goes back to the transport
 *         when nobody has driven for park_us()
 *
 * While the thread is parked and nobody waits, nobody listens to peers. That is all right: nothing is in flight here, so no
 * peer can need more than an answer to a PING, and the thread parks for a quarter of the time they give it at most.
 *
 * No wake-up is lost: the driver arms the transport, then does a whole step, then sleeps; whoever has news stores it first
 * and then rings. Where data travel over a transport that cannot sleep, the driver polls while collectives are under way.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/relax.h"
#include "fusion/engine.h"
#include <limits.h>
#include <sched.h>
#include <string.h>

#define PARK_US 1000000     /* how long the thread stays parked after a waiter drove, at most */
#define CHECK_US 100000     /* peers and stalls are looked at this often while something is pending */
#define PENDING_SLEEP_US 500000 /* the longest sleep while something is pending */

/* ---- one step ---- */

static void fail_link(struct halay_context *ctx, enum halay_status status, int rank)
{
    if (ctx->status != HALAY_OK || ctx->is_done)
        return; /* after the end everybody may go */
    if (status == HALAY_ERR_PEER)
        halay_engine_fail_peer(ctx, rank);
    else if (status == HALAY_ERR_FORMAT || status == HALAY_ERR_VERSION)
        halay_engine_fail(ctx, status, rank, "rank %d sent a message that is no message of this engine: %s", rank,
                          halay_status_string(status));
    else
        halay_engine_fail(ctx, status, ctx->rank, "control messages failed on rank %d: %s", ctx->rank,
                          halay_status_string(status));
}

static int is_pending(const struct halay_context *ctx)
{
    return atomic_load_explicit(&ctx->in_flight, memory_order_relaxed) ||
           (ctx->coordinator && halay_coordinator_waiting(ctx->coordinator));
}

/* Who is dead, who is silent, what stalls. */
static void look_after(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    int rank = -1;

    if (ctx->status != HALAY_OK || ctx->is_done)
        return;
    if (ctx->size > 1 && halay_world_check_peers(ctx->world, &rank) != HALAY_OK) {
        halay_engine_fail_peer(ctx, rank);
        return;
    }
    if (!is_pending(ctx)) {
        halay_link_check_reset(ctx->link);
        return;
    }
    if (ctx->now_us - ctx->checked_us < CHECK_US)
        return;
    ctx->checked_us = ctx->now_us;
    if (ctx->running_count)
        halay_group_check(ctx->group);
    if (ctx->running_count && halay_group_status(ctx->group, NULL) != HALAY_OK) {
        halay_buckets_progress(ctx); /* they meet its end */
        return;
    }
    if (config->peer_timeout_ms > 0 &&
        halay_link_check(ctx->link, ctx->now_us, (int64_t)config->peer_timeout_ms * 1000, &rank) != HALAY_OK)
        halay_engine_fail(ctx, HALAY_ERR_PEER, rank, "rank %d has not answered for %g s", rank,
                          config->peer_timeout_ms / 1e3);
    if (ctx->status == HALAY_OK && ctx->coordinator)
        halay_negotiate_stalls(ctx);
    halay_link_flush(ctx->link);
}

static int decide(struct halay_context *ctx)
{
    int emitted = 0;

    if (!ctx->coordinator || ctx->status != HALAY_OK)
        return 0;
    enum halay_status status = halay_coordinator_decide(ctx->coordinator, !ctx->running && !ctx->waiting, &emitted);
    if (status != HALAY_OK)
        halay_engine_fail(ctx, status, ctx->rank, "negotiation failed on rank %d: %s", ctx->rank,
                          halay_status_string(status));
    return emitted;
}

/* May halay_fini go on? */
static void look_whether_left(struct halay_context *ctx)
{
    if (!ctx->said_bye && ctx->status == HALAY_OK)
        return;
    int is_over = (ctx->status != HALAY_OK && !ctx->is_draining) ||
                  (ctx->is_done && !atomic_load_explicit(&ctx->in_flight, memory_order_relaxed));
    if (is_over && halay_link_is_quiet(ctx->link))
        atomic_store_explicit(&ctx->has_left, 1, memory_order_release);
}

int halay_engine_step(struct halay_context *ctx)
{
    int messages = 0, rank = -1;
    size_t did;

    ctx->now_us = halay_now_us();
    did = halay_negotiate_submitted(ctx);
    enum halay_status status = halay_link_receive(ctx->link, halay_negotiate_receive, ctx, &messages, &rank);
    if (status != HALAY_OK)
        fail_link(ctx, status, rank);
    did += (size_t)messages;
    halay_count(&ctx->tally.messages_received, (uint64_t)messages);
    halay_count(&ctx->tally.steps, 1);
    did += (size_t)decide(ctx);
    halay_negotiate_leave(ctx);
    halay_link_flush(ctx->link);
    if (ctx->status == HALAY_OK || ctx->is_draining)
        did += halay_buckets_progress(ctx);
    did += halay_requests_deliver(ctx);
    if (!did) {
        look_after(ctx);
        did = ctx->ended != NULL; /* to be delivered before anybody sleeps */
    }
    if (atomic_load_explicit(&ctx->is_closing, memory_order_relaxed))
        look_whether_left(ctx);
    return did > 0;
}

/* ---- sleeping ---- */

static int is_wanted_elsewhere(struct halay_context *ctx, int is_thread)
{
    return is_thread && (atomic_load_explicit(&ctx->waiters, memory_order_relaxed) ||
                         atomic_load_explicit(&ctx->is_stopping, memory_order_relaxed));
}

static long sleep_us(struct halay_context *ctx, int64_t deadline_us)
{
    int64_t left = halay_deadline_left_us(deadline_us);
    int64_t longest = is_pending(ctx) || atomic_load_explicit(&ctx->is_closing, memory_order_relaxed) ? PENDING_SLEEP_US
                                                                                                      : HALAY_NEVER;
    if (ctx->world->config.peer_timeout_ms > 0 && longest > (int64_t)ctx->world->config.peer_timeout_ms * 250)
        longest = longest == HALAY_NEVER ? longest : (int64_t)ctx->world->config.peer_timeout_ms * 250;
    if (left < longest)
        longest = left;
    return longest == HALAY_NEVER ? -1 : (long)longest;
}

static struct timespec at_us(int64_t us)
{
    return (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
}

/* A job of one rank without a control transport: nobody rings but this process. */
static void sleep_here(struct halay_context *ctx, int is_thread, int64_t deadline_us)
{
    int64_t until = halay_now_us() + PARK_US;
    struct timespec t = at_us(deadline_us < until ? deadline_us : until);

    pthread_mutex_lock(&ctx->lock);
    if (!ctx->submitted.count && !is_wanted_elsewhere(ctx, is_thread) &&
        !atomic_load_explicit(&ctx->is_closing, memory_order_relaxed))
        pthread_cond_timedwait(&ctx->idle, &ctx->lock, &t);
    pthread_mutex_unlock(&ctx->lock);
}

static void sleep_once(struct halay_context *ctx, int (*done)(void *arg), void *arg, int is_thread, int64_t deadline_us)
{
    struct halay_transport *t = ctx->control;

    if (!t) {
        sleep_here(ctx, is_thread, deadline_us);
        return;
    }
    uint32_t token = t->ops->arm(t);
    if (halay_engine_step(ctx) || (done && done(arg)) || is_wanted_elsewhere(ctx, is_thread))
        t->ops->disarm(t);
    else
        t->ops->sleep(t, token, sleep_us(ctx, deadline_us));
}

/* Drive until done(arg), the deadline, or, for the background thread, until somebody else wants the role. */
static void drive(struct halay_context *ctx, int (*done)(void *arg), void *arg, int is_thread, int64_t deadline_us)
{
    long spin_us = is_thread ? ctx->spin_thread_us : ctx->spin_waiter_us;
    int64_t idle_since = 0;

    for (;;) {
        if (halay_engine_step(ctx)) {
            idle_since = 0;
            if (done && done(arg))
                return;
            continue;
        }
        if ((done && done(arg)) || is_wanted_elsewhere(ctx, is_thread) ||
            (deadline_us != HALAY_NEVER && ctx->now_us >= deadline_us))
            return;
        if (ctx->running_count && ctx->world->data != ctx->control) {
            sched_yield(); /* its news ring no bell */
            continue;
        }
        if (spin_us > 0 && atomic_load_explicit(&ctx->in_flight, memory_order_relaxed)) {
            if (!idle_since)
                idle_since = ctx->now_us;
            if (ctx->now_us - idle_since < spin_us) {
                halay_relax();
                continue;
            }
        }
        halay_count(&ctx->tally.sleeps, 1);
        sleep_once(ctx, done, arg, is_thread, deadline_us);
        idle_since = 0;
    }
}

/* ---- the role ---- */

enum halay_wake halay_cycle_wake_needed_locked(const struct halay_context *ctx)
{
    return ctx->driver == HALAY_DRIVER_NONE ? HALAY_WAKE_THREAD : HALAY_WAKE_DRIVER;
}

void halay_cycle_wake_now(struct halay_context *ctx, enum halay_wake wake)
{
    if (wake == HALAY_WAKE_THREAD)
        pthread_cond_signal(&ctx->thread_wakes);
    else if (ctx->control)
        ctx->control->ops->wake(ctx->control);
    else
        pthread_cond_broadcast(&ctx->idle);
}

void halay_cycle_wake(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    enum halay_wake wake = halay_cycle_wake_needed_locked(ctx);
    pthread_mutex_unlock(&ctx->lock);
    halay_cycle_wake_now(ctx, wake);
}

static int has_work_locked(const struct halay_context *ctx)
{
    return ctx->submitted.count || atomic_load_explicit(&ctx->in_flight, memory_order_relaxed) ||
           atomic_load_explicit(&ctx->is_closing, memory_order_relaxed);
}

/* Whoever leaves while the role is free wakes who may need it, whether it had the role itself or was only offered it: the
 * thread, giving the role away, wakes waiters alone, and they may all be done by then. */
static void pass_on_locked(struct halay_context *ctx)
{
    if (ctx->driver != HALAY_DRIVER_NONE)
        return;
    if (atomic_load_explicit(&ctx->waiters, memory_order_relaxed))
        pthread_cond_signal(&ctx->waiter_wakes);
    else if (has_work_locked(ctx))
        pthread_cond_signal(&ctx->thread_wakes);
}

int halay_cycle_wait(struct halay_context *ctx, int (*done)(void *arg), void *arg, int64_t deadline_us)
{
    int is_done;

    pthread_mutex_lock(&ctx->lock);
    while (!(is_done = done(arg)) && !halay_deadline_passed(deadline_us)) {
        if (ctx->driver == HALAY_DRIVER_NONE) {
            ctx->driver = HALAY_DRIVER_WAITER;
            pthread_mutex_unlock(&ctx->lock);
            drive(ctx, done, arg, 0, deadline_us);
            pthread_mutex_lock(&ctx->lock);
            ctx->driver = HALAY_DRIVER_NONE;
            ctx->drove_us = ctx->now_us;
            continue;
        }
        atomic_fetch_add_explicit(&ctx->waiters, 1, memory_order_relaxed);
        if (ctx->driver == HALAY_DRIVER_THREAD)
            halay_cycle_wake_now(ctx, HALAY_WAKE_DRIVER);
        if (deadline_us == HALAY_NEVER) {
            pthread_cond_wait(&ctx->waiter_wakes, &ctx->lock);
        } else {
            struct timespec t = at_us(deadline_us);
            pthread_cond_timedwait(&ctx->waiter_wakes, &ctx->lock, &t);
        }
        atomic_fetch_sub_explicit(&ctx->waiters, 1, memory_order_relaxed);
    }
    pass_on_locked(ctx);
    pthread_mutex_unlock(&ctx->lock);
    return is_done;
}

/* How long the thread stays out of the way after a drive: a fraction of what peers allow for an answer to a PING. */
static int64_t park_us(const struct halay_context *ctx)
{
    int64_t quarter = (int64_t)ctx->world->config.peer_timeout_ms * 250;

    return quarter > 0 && quarter < PARK_US ? quarter : PARK_US;
}

static void *run_thread(void *arg)
{
    struct halay_context *ctx = arg;
    int64_t park = park_us(ctx);

    pthread_mutex_lock(&ctx->lock);
    while (!atomic_load_explicit(&ctx->is_stopping, memory_order_relaxed)) {
        int is_free = ctx->driver == HALAY_DRIVER_NONE && !atomic_load_explicit(&ctx->waiters, memory_order_relaxed);
        if (is_free && (has_work_locked(ctx) || halay_now_us() >= ctx->drove_us + park)) {
            ctx->driver = HALAY_DRIVER_THREAD;
            pthread_mutex_unlock(&ctx->lock);
            drive(ctx, NULL, NULL, 1, HALAY_NEVER);
            pthread_mutex_lock(&ctx->lock);
            ctx->driver = HALAY_DRIVER_NONE;
            ctx->drove_us = ctx->now_us;
            if (atomic_load_explicit(&ctx->waiters, memory_order_relaxed))
                pthread_cond_broadcast(&ctx->waiter_wakes);
            continue;
        }
        struct timespec t = at_us((is_free ? ctx->drove_us : halay_now_us()) + park);
        pthread_cond_timedwait(&ctx->thread_wakes, &ctx->lock, &t);
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
 * with the program: so it spins no longer there than an answer takes, which is less than to sleep and to be rung costs. */
static void choose_spin(struct halay_context *ctx)
{
    enum { WAITER_US = 100, THREAD_US = 50, THREAD_CROWDED_US = 20 };
    int processors = halay_topology_usable(&ctx->world->topology), ranks = ctx->world->local_size;

    ctx->spin_waiter_us = ctx->spin_thread_us = ctx->world->config.spin_us;
    if (ctx->world->config.spin_us < 0) {
        ctx->spin_waiter_us = processors >= ranks ? WAITER_US : 0;
        ctx->spin_thread_us = processors >= 2 * ranks ? THREAD_US : processors >= ranks ? THREAD_CROWDED_US : 0;
    }
}

enum halay_status halay_cycle_start(struct halay_context *ctx)
{
    pthread_mutex_init(&ctx->lock, NULL);
    cond_init(&ctx->thread_wakes);
    cond_init(&ctx->waiter_wakes);
    cond_init(&ctx->idle);
    choose_spin(ctx);
    int error = pthread_create(&ctx->thread, NULL, run_thread, ctx);
    if (error) {
        halay_error(ctx->log, "no thread for the engine: %s", strerror(error));
        pthread_cond_destroy(&ctx->idle);
        pthread_cond_destroy(&ctx->waiter_wakes);
        pthread_cond_destroy(&ctx->thread_wakes);
        pthread_mutex_destroy(&ctx->lock);
        return HALAY_ERR_SYSTEM;
    }
    return HALAY_OK;
}

void halay_cycle_stop(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    atomic_store_explicit(&ctx->is_stopping, 1, memory_order_relaxed);
    enum halay_wake wake = halay_cycle_wake_needed_locked(ctx);
    pthread_mutex_unlock(&ctx->lock);
    halay_cycle_wake_now(ctx, wake);
    pthread_join(ctx->thread, NULL);
}
