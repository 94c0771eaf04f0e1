/* SPDX-License-Identifier: Apache-2.0
 *
 * Start: runs halay_init on a thread of its own, which other threads test, wait for or cancel. The thread that learns
 * of its end joins it and frees the start.
 */
#include "fusion/api/start.h"
#include "base/clock.h"
#include "base/error_text.h"
#include "base/fork.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct halay_start {
    const struct halay_options *options; /* borrowed until it has ended */
    pthread_t thread;
    struct halay_boot_watch watch;
    unsigned char *is_parent; /* owned: base/fork.h */
    pthread_mutex_t lock;
    pthread_cond_t ends;
    int has_ended; /* guarded by lock; what follows is written before it is set */
    enum halay_status status;
    struct halay_context *ctx;
    char text[512]; /* of the error */
};

static void *run(void *arg)
{
    struct halay_start *start = arg;

    start->status = halay_init_watched(start->options, &start->watch, &start->ctx);
    snprintf(start->text, sizeof start->text, "%s", halay_error_noted());
    pthread_mutex_lock(&start->lock);
    start->has_ended = 1;
    pthread_cond_broadcast(&start->ends);
    pthread_mutex_unlock(&start->lock);
    return NULL;
}

static void start_destroy(struct halay_start *start)
{
    halay_fork_unmark(start->is_parent);
    pthread_cond_destroy(&start->ends);
    pthread_mutex_destroy(&start->lock);
    free(start);
}

/* Creates the thread, which takes no signal, as signals are the program's. Threads that the engine creates on it
 * inherit this. */
static int create_thread(struct halay_start *start)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&start->thread, NULL, run, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum halay_status halay_init_start(const struct halay_options *options, struct halay_start **out)
{
    pthread_condattr_t attributes;

    if (!out)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_init_start: no place for the start");
    struct halay_start *start = calloc(1, sizeof *start);
    if (!start)
        return halay_returns(HALAY_ERR_NO_MEMORY);
    start->options = options;
    atomic_store_explicit(&start->watch.missing, -1, memory_order_relaxed);
    start->is_parent = halay_fork_mark();
    pthread_mutex_init(&start->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&start->ends, &attributes);
    pthread_condattr_destroy(&attributes);
    int error = create_thread(start);
    if (error) {
        start_destroy(start);
        return halay_refuses(HALAY_ERR_SYSTEM, "no thread for the start: %s", strerror(error));
    }
    *out = start;
    return HALAY_OK;
}

static int wait_for_end(struct halay_start *start, int timeout_ms)
{
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    struct timespec until = { .tv_sec = deadline_us / 1000000, .tv_nsec = deadline_us % 1000000 * 1000 };

    pthread_mutex_lock(&start->lock);
    while (!start->has_ended && !halay_deadline_passed(deadline_us)) {
        if (deadline_us == HALAY_NEVER)
            pthread_cond_wait(&start->ends, &start->lock);
        else
            pthread_cond_timedwait(&start->ends, &start->lock, &until);
    }
    int has_ended = start->has_ended;
    pthread_mutex_unlock(&start->lock);
    return has_ended;
}

enum halay_status halay_init_test(struct halay_start *start, int timeout_ms, struct halay_context **ctx, int *missing)
{
    if (!start || !ctx)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_init_test: no start, or no place for the context");
    if (halay_is_forked(start->is_parent))
        return halay_refuses(HALAY_ERR_UNSUPPORTED, "a child of fork has no start");
    if (!wait_for_end(start, timeout_ms)) {
        if (missing)
            *missing = atomic_load_explicit(&start->watch.missing, memory_order_relaxed);
        return HALAY_IN_PROGRESS;
    }
    pthread_join(start->thread, NULL);
    enum halay_status status = start->status;
    if (status == HALAY_OK)
        *ctx = start->ctx;
    else
        status = halay_refuses(status, "%s", start->text);
    start_destroy(start);
    return status;
}

void halay_init_cancel(struct halay_start *start)
{
    if (!start || halay_is_forked(start->is_parent))
        return;
    atomic_store_explicit(&start->watch.is_canceled, 1, memory_order_relaxed);
    pthread_join(start->thread, NULL);
    if (start->status == HALAY_OK)
        halay_fini(start->ctx);
    start_destroy(start);
}
