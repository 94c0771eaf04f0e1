/* SPDX-License-Identifier: Apache-2.0
 *
 * Set: epoll, level-triggered, so that the set reports again what a turn leaves, and a timerfd in it.
 */
#include "collectives/transport/connect/tcp_set.h"
#include "base/clock.h"
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum halay_status halay_tcp_set_init(struct halay_log *log, struct halay_tcp_set *set)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

    *set = (struct halay_tcp_set){ .log = log, .timer_us = HALAY_NEVER };
    set->epoll = epoll_create1(EPOLL_CLOEXEC);
    set->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (set->epoll >= 0 && set->timer >= 0 && epoll_ctl(set->epoll, EPOLL_CTL_ADD, set->timer, &event) == 0)
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_SYSTEM, "cannot wait for connections: %s", strerror(errno));
}

void halay_tcp_set_fini(struct halay_tcp_set *set)
{
    if (set->epoll >= 0)
        close(set->epoll);
    if (set->timer >= 0)
        close(set->timer);
    set->epoll = set->timer = -1;
}

enum halay_status halay_tcp_set_watch(struct halay_tcp_set *set, struct halay_tcp_watch *watch, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = watch };
    int what = !events ? EPOLL_CTL_DEL : watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (events == watch->events)
        return HALAY_OK;
    if (!events)
        for (int i = 0; i < set->count; i++)
            if (set->batch[i].data.ptr == watch)
                set->batch[i].data.ptr = NULL;
    watch->events = events;
    if (epoll_ctl(set->epoll, what, watch->fd, &event) == 0)
        return HALAY_OK;
    return halay_fail(set->log, HALAY_ERR_SYSTEM, "cannot wait for a connection: %s", strerror(errno));
}

void halay_tcp_set_turn(struct halay_tcp_set *set)
{
    set->count = epoll_wait(set->epoll, set->batch, HALAY_TCP_BATCH, 0);
    for (int i = 0; i < set->count; i++) {
        struct halay_tcp_watch *watch = set->batch[i].data.ptr;
        if (watch) /* NULL: the timer, whose owner looks at the clock, or taken out meanwhile */
            watch->ready(watch, set->batch[i].events);
    }
    set->count = 0;
}

void halay_tcp_set_alarm(struct halay_tcp_set *set, int64_t at_us)
{
    struct itimerspec at = { 0 };

    if (at_us == set->timer_us)
        return;
    set->timer_us = at_us;
    if (at_us != HALAY_NEVER) {
        int64_t us = at_us > 0 ? at_us : 1; /* all zero would stop it */
        at.it_value = (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
    }
    if (timerfd_settime(set->timer, TFD_TIMER_ABSTIME, &at, NULL) < 0)
        halay_warning(set->log, "setting a timer: %s", strerror(errno));
}
