/* SPDX-License-Identifier: Apache-2.0
 *
 * Loop: one poll a turn over an array that each turn fills anew.
 *
 * poll, not epoll: what a program waits for depends on what has room, so most of the list may differ each turn, and a
 * set of the kernel's would have to be kept in step with it. poll also takes plain files, such as a redirected standard
 * input, and a forked process shares nothing of it.
 */
#include "base/loop.h"
#include "base/clock.h"
#include "base/memory.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void halay_loop_init(struct halay_loop *loop)
{
    *loop = (struct halay_loop){ 0 };
}

void halay_loop_fini(struct halay_loop *loop)
{
    free(loop->fds);
    free(loop->entries);
    free(loop->deadlines);
    halay_loop_init(loop);
}

void halay_loop_watch(struct halay_loop *loop, int fd, short events, void (*call)(void *context), void *context)
{
    assert(!loop->is_calling);
    if (fd < 0 || !events)
        return;
    if (halay_list_grow(&loop->fds, loop->count, &loop->fd_room, sizeof *loop->fds) ||
        halay_list_grow(&loop->entries, loop->count, &loop->entry_room, sizeof *loop->entries)) {
        loop->has_failed = 1;
        return;
    }
    loop->fds[loop->count] = (struct pollfd){ .fd = fd, .events = events };
    loop->entries[loop->count++] = (struct halay_loop_entry){ call, context, HALAY_NEVER };
}

void halay_loop_remove(struct halay_loop *loop, int fd)
{
    for (size_t i = 0; i < loop->count; i++)
        if (loop->fds[i].fd == fd)
            loop->fds[i] = (struct pollfd){ .fd = -1 };
}

void halay_loop_until(struct halay_loop *loop, int64_t due_us, void (*call)(void *context), void *context)
{
    size_t i = loop->deadline_count;

    assert(!loop->is_calling);
    if (due_us == HALAY_NEVER)
        return;
    if (halay_list_grow(&loop->deadlines, i, &loop->deadline_room, sizeof *loop->deadlines)) {
        loop->has_failed = 1;
        return;
    }
    for (; i && loop->deadlines[i - 1].due_us > due_us; i--)
        loop->deadlines[i] = loop->deadlines[i - 1];
    loop->deadlines[i] = (struct halay_loop_entry){ call, context, due_us };
    loop->deadline_count++;
}

static void call_entry(const struct halay_loop_entry *entry)
{
    if (entry->call)
        entry->call(entry->context);
}

static void call_ready(struct halay_loop *loop)
{
    for (size_t i = 0; i < loop->count; i++)
        if (loop->fds[i].revents)
            call_entry(&loop->entries[i]);
    for (size_t i = 0; i < loop->deadline_count && halay_deadline_passed(loop->deadlines[i].due_us); i++)
        call_entry(&loop->deadlines[i]);
}

enum halay_status halay_loop_turn(struct halay_loop *loop, int64_t due_us)
{
    const int64_t first_us = loop->deadline_count ? loop->deadlines[0].due_us : HALAY_NEVER;
    enum halay_status status = loop->has_failed ? HALAY_ERR_NO_MEMORY : HALAY_OK;
    int ready = 0;

    if (status == HALAY_OK)
        ready = poll(loop->fds, (nfds_t)loop->count, halay_deadline_left_ms(due_us < first_us ? due_us : first_us));
    else
        errno = ENOMEM;
    if (ready < 0 && errno != EINTR)
        status = HALAY_ERR_SYSTEM;
    if (status == HALAY_OK) {
        loop->is_calling = 1;
        call_ready(loop);
        loop->is_calling = 0;
        if (!ready && halay_deadline_passed(due_us))
            status = HALAY_ERR_TIMEOUT;
    }
    loop->count = loop->deadline_count = 0;
    loop->has_failed = 0;
    return status;
}

int halay_signals_open(const sigset_t *signals, sigset_t *before)
{
    return pthread_sigmask(SIG_BLOCK, signals, before) ? -1 : signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int halay_signals_take(int fd, struct signalfd_siginfo *info)
{
    return read(fd, info, sizeof *info) == (ssize_t)sizeof *info;
}
