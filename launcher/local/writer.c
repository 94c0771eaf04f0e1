/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer: a list of outlets, and a queue of those that have something to write or to close.
 *
 *     owner --- outlet_put ---> outlet's pending bytes --- taken whole ---> thread --- write(2) ---> descriptor
 *
 * The thread holds the lock only to take bytes and to note results. All signals are blocked in it: those of the process
 * are for others, and a pipe without a reader is an error of write. Descriptors that the writer does not own
 * may be non-blocking and are written to in pieces that a pipe takes whole, since another program may write in between.
 *
 * A process may be forked while the thread runs: it allocates nothing, and writer_create returns once it has begun,
 * since what a thread begins with may allocate.
 *
 * A thread that is stuck in a write cannot be ended; writer_destroy then leaves everything to it.
 */
#include "launcher/local/writer.h"
#include "base/clock.h"
#include "launcher/common/buffer.h"
#include "launcher/common/report.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { HIGH_FD = 32 }; /* low numbers are for what ranks inherit: shell scripts use the numbers up to 9 as they like */

struct outlet {
    struct writer *writer; /* borrowed */
    struct outlet *next;   /* of all; guarded by lock */
    struct outlet *later;  /* of the queue; guarded by lock */
    char *name;            /* owned */
    int fd, owns;
    struct buffer pending;               /* guarded by lock */
    int is_queued, is_closing, is_ended; /* guarded by lock */
    int error, is_reported;              /* guarded by lock */
    atomic_int has_failed;               /* stored with the lock held, after error; loaded by the owner without it */
};

struct writer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;   /* something is queued, or the end; nothing is queued or written */
    struct outlet *outlets;      /* owned; guarded by lock */
    struct outlet *first, *last; /* the queue; guarded by lock */
    struct outlet *busy;         /* what the thread writes; guarded by lock */
    int has_begun, ends;         /* guarded by lock */
    int is_given_up;             /* the owner's */
    size_t room;                 /* set once before start */
    int wake_fd;                 /* owned, since the thread may outlive the caller's; set once before start */
    atomic_size_t waiting;       /* bytes put and not written; decides only whether the owner reads on */
    atomic_int failures;         /* not taken yet; counted with the lock held */
    struct outlet *reported;     /* its failure was taken last; the owner's */
};

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void wake_owner(const struct writer *writer)
{
    if (writer->wake_fd >= 0 && eventfd_write(writer->wake_fd, 1) < 0)
        return; /* the counter is full: the owner is about to wake */
}

/* These bytes are written or dropped. */
static void count_done(struct writer *writer, size_t count)
{
    const size_t before = atomic_fetch_sub(&writer->waiting, count);

    if (before >= writer->room && before - count < writer->room)
        wake_owner(writer);
}

static size_t count_piece(const struct outlet *outlet, const char *bytes, size_t count)
{
    if (outlet->owns || count <= PIPE_BUF)
        return count;
    const char *newline = memrchr(bytes, '\n', PIPE_BUF);
    return newline ? (size_t)(newline - bytes) + 1 : PIPE_BUF;
}

/* Returns 0 or the errno of the write that failed. */
static int write_all(struct outlet *outlet, const char *bytes, size_t count)
{
    int error = 0;

    while (count && !error && !atomic_load(&outlet->has_failed)) {
        const ssize_t n = write(outlet->fd, bytes, count_piece(outlet, bytes, count));
        if (n >= 0) {
            count_done(outlet->writer, (size_t)n);
            bytes += n;
            count -= (size_t)n;
        } else if (errno == EAGAIN) {
            error = poll(&(struct pollfd){ .fd = outlet->fd, .events = POLLOUT }, 1, -1) < 0 ? errno : 0;
        } else if (errno != EINTR) {
            error = errno;
        }
    }
    count_done(outlet->writer, count);
    return error;
}

static void fail_locked(struct outlet *outlet, int error)
{
    count_done(outlet->writer, outlet->pending.count);
    outlet->pending.count = 0;
    if (atomic_load(&outlet->has_failed))
        return;
    outlet->error = error;
    atomic_store(&outlet->has_failed, 1);
    atomic_fetch_add(&outlet->writer->failures, 1);
    wake_owner(outlet->writer);
}

/* Takes what is pending, and writes it. bytes: an empty buffer, which is used again. */
static void serve_locked(struct outlet *outlet, struct buffer *bytes)
{
    struct writer *writer = outlet->writer;
    const struct buffer taken = outlet->pending;

    outlet->pending = *bytes;
    const int closes = outlet->is_closing && outlet->owns;
    pthread_mutex_unlock(&writer->lock);
    int error = write_all(outlet, taken.bytes, taken.count);
    if (closes && close(outlet->fd) < 0 && !error && errno != EINTR) /* as a network's file system reports errors */
        error = errno;
    pthread_mutex_lock(&writer->lock);
    *bytes = taken;
    bytes->count = 0;
    if (error)
        fail_locked(outlet, error);
    outlet->is_ended |= closes;
}

static struct outlet *take_first_locked(struct writer *writer)
{
    struct outlet *outlet = writer->first;

    if (outlet) {
        writer->first = outlet->later;
        outlet->is_queued = 0;
    }
    return outlet;
}

static void *run_writer(void *arg)
{
    struct writer *writer = arg;
    struct buffer bytes = { 0 };

    pthread_mutex_lock(&writer->lock);
    writer->has_begun = 1;
    pthread_cond_signal(&writer->done);
    while (!writer->ends) {
        writer->busy = take_first_locked(writer);
        if (writer->busy) {
            serve_locked(writer->busy, &bytes);
            writer->busy = NULL;
        } else {
            pthread_cond_signal(&writer->done);
            pthread_cond_wait(&writer->work, &writer->lock);
        }
    }
    pthread_mutex_unlock(&writer->lock);
    buffer_fini(&bytes);
    return NULL;
}

/* ---- outlets ----------------------------------------------------------------------------------------------------- */

static void queue_locked(struct outlet *outlet)
{
    struct writer *writer = outlet->writer;

    if (outlet->is_queued)
        return;
    outlet->is_queued = 1;
    outlet->later = NULL;
    if (writer->first)
        writer->last->later = outlet;
    else
        writer->first = outlet;
    writer->last = outlet;
    pthread_cond_signal(&writer->work);
}

static void outlet_free(struct outlet *outlet)
{
    buffer_fini(&outlet->pending);
    free(outlet->name);
    free(outlet);
}

/* Frees the outlets that are closed and have nothing more to report. */
static void sweep_locked(struct writer *writer)
{
    for (struct outlet **at = &writer->outlets, *outlet; (outlet = *at);) {
        if (outlet->is_ended && !outlet->is_queued && outlet != writer->busy && outlet != writer->reported &&
            (!outlet->has_failed || outlet->is_reported)) {
            *at = outlet->next;
            outlet_free(outlet);
        } else {
            at = &outlet->next;
        }
    }
}

struct outlet *writer_open(struct writer *writer, int fd, int owns, const char *name)
{
    struct outlet *outlet = calloc(1, sizeof *outlet);
    char *copy = strdup(name);

    if (!outlet || !copy) {
        free(outlet);
        free(copy);
        report_no_memory();
        return NULL;
    }
    *outlet = (struct outlet){ .writer = writer, .name = copy, .fd = fd, .owns = owns };
    pthread_mutex_lock(&writer->lock);
    sweep_locked(writer);
    outlet->next = writer->outlets;
    writer->outlets = outlet;
    pthread_mutex_unlock(&writer->lock);
    return outlet;
}

void outlet_put(struct outlet *outlet, const char *bytes, size_t count)
{
    struct writer *writer = outlet->writer;

    if (!count || atomic_load(&outlet->has_failed))
        return;
    atomic_fetch_add(&writer->waiting, count);
    pthread_mutex_lock(&writer->lock);
    if (writer->is_given_up)
        fail_locked(outlet, 0);
    if (!outlet->has_failed && buffer_append(&outlet->pending, bytes, count))
        queue_locked(outlet);
    else
        count_done(writer, count);
    pthread_mutex_unlock(&writer->lock);
}

int outlet_has_failed(const struct outlet *outlet)
{
    return atomic_load(&outlet->has_failed);
}

void outlet_close(struct outlet *outlet)
{
    pthread_mutex_lock(&outlet->writer->lock);
    outlet->is_closing = 1;
    outlet->is_ended |= !outlet->owns;
    queue_locked(outlet);
    pthread_mutex_unlock(&outlet->writer->lock);
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */

int writer_is_full(const struct writer *writer)
{
    return !writer->is_given_up && atomic_load(&writer->waiting) >= writer->room;
}

int writer_take_failure(struct writer *writer, struct writer_failure *failure)
{
    writer->reported = NULL;
    if (!atomic_load(&writer->failures))
        return 0;
    pthread_mutex_lock(&writer->lock);
    for (struct outlet *outlet = writer->outlets; outlet && !writer->reported; outlet = outlet->next)
        if (outlet->has_failed && !outlet->is_reported)
            writer->reported = outlet;
    if (writer->reported) {
        writer->reported->is_reported = 1;
        atomic_fetch_sub(&writer->failures, 1);
        *failure = (struct writer_failure){ writer->reported->name, writer->reported->error };
    }
    pthread_mutex_unlock(&writer->lock);
    return writer->reported != NULL;
}

/* Returns nonzero when all is written, 0 if nothing is for that time. */
static int await_done_locked(struct writer *writer, int patience_ms)
{
    size_t left = atomic_load(&writer->waiting);
    int64_t due_us = halay_deadline_us(patience_ms);

    while (writer->first || writer->busy) {
        const struct timespec due = { .tv_sec = due_us / 1000000, .tv_nsec = due_us % 1000000 * 1000 };
        if (due_us == HALAY_NEVER)
            pthread_cond_wait(&writer->done, &writer->lock);
        else
            pthread_cond_timedwait(&writer->done, &writer->lock, &due);
        const size_t now_left = atomic_load(&writer->waiting);
        if (now_left == left && halay_deadline_passed(due_us))
            return !writer->first && !writer->busy;
        if (now_left != left)
            due_us = halay_deadline_us(patience_ms);
        left = now_left;
    }
    return 1;
}

void writer_finish(struct writer *writer, int patience_ms)
{
    pthread_mutex_lock(&writer->lock);
    if (!writer->is_given_up && !await_done_locked(writer, patience_ms)) {
        writer->is_given_up = 1;
        for (struct outlet *outlet = writer->outlets; outlet; outlet = outlet->next)
            if (outlet == writer->busy || outlet->is_queued)
                fail_locked(outlet, 0);
    }
    pthread_mutex_unlock(&writer->lock);
}

static struct writer *writer_free(struct writer *writer)
{
    for (struct outlet *outlet = writer->outlets, *next; outlet; outlet = next) {
        next = outlet->next;
        if (outlet->owns && !outlet->is_ended)
            close(outlet->fd);
        outlet_free(outlet);
    }
    if (writer->wake_fd >= 0)
        close(writer->wake_fd);
    pthread_cond_destroy(&writer->done);
    pthread_cond_destroy(&writer->work);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
    return NULL;
}

/* 0 or an errno. */
static int start_thread(struct writer *writer)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int error = pthread_create(&writer->thread, NULL, run_writer, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&writer->lock);
    while (!error && !writer->has_begun)
        pthread_cond_wait(&writer->done, &writer->lock);
    pthread_mutex_unlock(&writer->lock);
    return error;
}

struct writer *writer_create(size_t room, int wake_fd)
{
    struct writer *writer = calloc(1, sizeof *writer);
    pthread_condattr_t monotonic;

    if (!writer) {
        report_no_memory();
        return NULL;
    }
    writer->room = room;
    writer->wake_fd = wake_fd < 0 ? -1 : fcntl(wake_fd, F_DUPFD_CLOEXEC, HIGH_FD);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->work, NULL);
    pthread_cond_init(&writer->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = wake_fd >= 0 && writer->wake_fd < 0 ? errno : 0;
    if (!error)
        error = start_thread(writer);
    if (error) {
        report("cannot create a thread: %s", strerror(error));
        return writer_free(writer);
    }
    pthread_setname_np(writer->thread, "halayrun-writer");
    return writer;
}

void writer_destroy(struct writer *writer)
{
    if (!writer)
        return;
    pthread_mutex_lock(&writer->lock);
    writer->ends = 1;
    const int is_stuck = writer->busy != NULL;
    pthread_cond_signal(&writer->work);
    pthread_mutex_unlock(&writer->lock);
    if (is_stuck) {
        pthread_detach(writer->thread);
        return;
    }
    pthread_join(writer->thread, NULL);
    writer_free(writer);
}
