/* SPDX-License-Identifier: Apache-2.0
 *
 * Set: the descriptors of a transport, one wait for all of them, and one timer. Never blocks by itself: a sleeper polls
 * the set's descriptor, which is readable when any of them is ready or the timer has run out.
 */
#ifndef HALAY_TCP_SET_H
#define HALAY_TCP_SET_H

#include "base/log.h"
#include "halay_types.h"
#include <stdint.h>
#include <sys/epoll.h>

enum { HALAY_TCP_BATCH = 64 };

/* Embedded in what owns the descriptor. */
struct halay_tcp_watch {
    int fd;          /* borrowed while it is in the set */
    uint32_t events; /* that are watched; 0: it is not in the set */
    void (*ready)(struct halay_tcp_watch *watch, uint32_t events);
};

struct halay_tcp_set {
    struct halay_log *log; /* borrowed */
    int epoll, timer;      /* owned; -1: none */
    int64_t timer_us;      /* when it runs out, HALAY_NEVER: it does not */
    struct epoll_event batch[HALAY_TCP_BATCH];
    int count; /* of the batch that is being handed out */
};

/* HALAY_ERR_SYSTEM, logged. fini accepts a set of which both descriptors are -1. */
enum halay_status halay_tcp_set_init(struct halay_log *log, struct halay_tcp_set *set);
void halay_tcp_set_fini(struct halay_tcp_set *set);

/* From now on these events; 0: takes it out. Inside a turn, too: a watch that was taken out is not called any more.
 * HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_tcp_set_watch(struct halay_tcp_set *set, struct halay_tcp_watch *watch, uint32_t events);
/* Calls what is ready. */
void halay_tcp_set_turn(struct halay_tcp_set *set);
/* When a sleep has to end; HALAY_NEVER: no such time. */
void halay_tcp_set_alarm(struct halay_tcp_set *set, int64_t at_us);

#endif
