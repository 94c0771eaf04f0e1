/* SPDX-License-Identifier: Apache-2.0
 *
 * Loop: waits for descriptors, deadlines, signals and the ends of children, and makes the calls that belong to them.
 *
 * A loop has no lasting list: before each turn its owner names everything the turn is to wait for, and the turn ends
 * with an empty list. A descriptor that is closed between two turns is therefore not named again, and there is nothing
 * to remove or modify elsewhere. A child's end is SIGCHLD, one of the signals.
 *
 *     while (wants_more(job)) {
 *         halay_loop_watch(&loop, job->signals, POLLIN, take_signals, job);
 *         if (has_room(job))
 *             halay_loop_watch(&loop, job->input, POLLIN, read_input, job);
 *         halay_loop_until(&loop, job->grace_us);
 *         if (halay_loop_turn(&loop, HALAY_NEVER) != HALAY_OK)
 *             break;
 *         if (halay_deadline_passed(job->grace_us))
 *             end_grace(job);
 *     }
 *
 * One thread at a time uses a loop. Nothing is logged.
 */
#ifndef HALAY_BASE_LOOP_H
#define HALAY_BASE_LOOP_H

#include "halay_types.h"
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/signalfd.h>

struct halay_loop_call {
    void (*call)(void *context); /* NULL: only ends the wait */
    void *context;
};

struct halay_loop {
    struct pollfd *fds;            /* owned: (count) */
    struct halay_loop_call *calls; /* owned: (count), one for each of fds */
    size_t count, fd_room, call_room;
    int64_t due_us; /* when the wait ends; HALAY_NEVER */
    int has_failed; /* no memory for a descriptor of this turn */
    int is_calling;
};

/* The storage is the caller's, as are descriptors and contexts. */
void halay_loop_init(struct halay_loop *loop);
void halay_loop_fini(struct halay_loop *loop); /* zeros are allowed */

/* Waits for these events of poll in the next turn. fd -1: nothing. A descriptor that is closed counts as ready: the
 * call finds EBADF. */
void halay_loop_watch(struct halay_loop *loop, int fd, short events, void (*call)(void *context), void *context);
/* Ends the wait of the next turn by then (HALAY_NEVER: nothing). */
void halay_loop_until(struct halay_loop *loop, int64_t due_us);

/* Waits once, until due_us at most, then makes each call whose descriptor is ready, in the order they were named, each
 * once, also if one before it has closed the descriptor. Then the list is empty. A call names nothing and does not take
 * a turn. A signal handler may end the wait early. HALAY_ERR_TIMEOUT: due_us has passed and no descriptor was ready.
 * HALAY_ERR_NO_MEMORY and HALAY_ERR_SYSTEM: see errno; no call was made. */
enum halay_status halay_loop_turn(struct halay_loop *loop, int64_t due_us);

/* Blocks these signals for this thread and returns a descriptor, closed by the caller, that they can be taken from; -1:
 * see errno. Those that were blocked and pending before can be taken, too. before: the mask until then; may be NULL. */
int halay_signals_open(const sigset_t *signals, sigset_t *before);
/* Takes the next signal. Returns 0 without one. */
int halay_signals_take(int fd, struct signalfd_siginfo *info);

#endif
