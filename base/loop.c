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
#include <unistd.h>

void halay_loop_init(struct halay_loop *loop)
{
    *loop = (struct halay_loop){ .due_us = HALAY_NEVER };
}

void halay_loop_fini(struct halay_loop *loop)
{
    free(loop->fds);
    free(loop->calls);
    halay_loop_init(loop);
}

void halay_loop_watch(struct halay_loop *loop, int fd, short events, void (*call)(void *context), void *context)
{
    assert(!loop->is_calling);
    if (fd < 0)
        return;
    if (halay_list_grow(&loop->fds, loop->count, &loop->fd_room, sizeof *loop->fds) ||
        halay_list_grow(&loop->calls, loop->count, &loop->call_room, sizeof *loop->calls)) {
        loop->has_failed = 1;
        return;
    }
    loop->fds[loop->count] = (struct pollfd){ .fd = fd, .events = events };
    loop->calls[loop->count++] = (struct halay_loop_call){ call, context };
}

void halay_loop_until(struct halay_loop *loop, int64_t due_us)
{
    assert(!loop->is_calling);
    if (due_us < loop->due_us)
        loop->due_us = due_us;
}

static void call_ready(struct halay_loop *loop)
{
    loop->is_calling = 1;
    for (size_t i = 0; i < loop->count; i++)
        if (loop->fds[i].revents && loop->calls[i].call)
            loop->calls[i].call(loop->calls[i].context);
    loop->is_calling = 0;
}

enum halay_status halay_loop_turn(struct halay_loop *loop, int64_t due_us)
{
    enum halay_status status = loop->has_failed ? HALAY_ERR_NO_MEMORY : HALAY_OK;
    int ready = 0;

    halay_loop_until(loop, due_us);
    if (status == HALAY_OK)
        ready = poll(loop->fds, (nfds_t)loop->count, halay_deadline_left_ms(loop->due_us));
    else
        errno = ENOMEM;
    if (ready < 0 && errno != EINTR)
        status = HALAY_ERR_SYSTEM;
    else if (status == HALAY_OK && !ready && halay_deadline_passed(due_us))
        status = HALAY_ERR_TIMEOUT;
    else if (status == HALAY_OK)
        call_ready(loop);
    loop->count = 0;
    loop->due_us = HALAY_NEVER;
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
