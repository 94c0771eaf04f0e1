/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of one host as the launcher knows them, in a memory file that they inherit: how often each has begun a
 * start, whether it accepts connections of others in it, where it can be reached, and whether it has ended. So the
 * ranks of a host find each other without the store, in whatever namespaces they are.
 *
 * Launcher: create, ended, close. Rank: open, begin, the rest, close; one thread, but a rank reads what others write.
 */
#ifndef HALAY_HOST_RANKS_H
#define HALAY_HOST_RANKS_H

#include "base/log.h"
#include <stddef.h>
#include <stdint.h>

struct halay_host_ranks_shared;

struct halay_host_ranks {
    struct halay_host_ranks_shared *shared; /* owned: mapped; NULL: not open */
    size_t bytes;
    int fd;           /* the launcher's: the file, owned, closed on exec; -1: none */
    int first, count; /* the host's ranks */
    int block;        /* number of ranks of rank 0's host */
    int rank;         /* this one */
    uint32_t number;  /* of this rank's start */
};

enum halay_host_rank_state {
    HALAY_HOST_RANK_ABSENT,    /* has not begun this start */
    HALAY_HOST_RANK_BEGUN,     /* does not accept connections yet, as far as it will at all */
    HALAY_HOST_RANK_ACCEPTS,   /* accepts connections */
    HALAY_HOST_RANK_ELSEWHERE, /* has begun it, but local sockets do not reach it: another network or user */
    HALAY_HOST_RANK_GONE,      /* has left this start, or ended */
};

/* Creates the file; ranks inherit self->fd. HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_host_ranks_create(struct halay_log *log, int first, int count, int block,
                                          struct halay_host_ranks *self);
/* Marks a rank as ended, or as one whose program did not start. Does nothing without a file, or for another host's
 * rank. */
void halay_host_ranks_ended(const struct halay_host_ranks *self, int rank);

/* fd stays the caller's. Errors are logged. */
enum halay_status halay_host_ranks_open(struct halay_log *log, int fd, int rank, int size,
                                        struct halay_host_ranks *self);
/* Begins this rank's next start, the number of which is self->number then. */
void halay_host_ranks_begin(struct halay_host_ranks *self);
/* This rank accepts connections from now on. */
void halay_host_ranks_accept(struct halay_host_ranks *self);
/* This rank ends its start without having come to others, and has put into the store why. */
void halay_host_ranks_leave(struct halay_host_ranks *self);
/* Returns nonzero if this is a rank of this host. */
int halay_host_ranks_has(const struct halay_host_ranks *self, int rank);
/* *seen: for wait. */
enum halay_host_rank_state halay_host_ranks_look(const struct halay_host_ranks *self, int rank, uint32_t *seen);
/* Waits until what look has seen of this rank changes, or the time is over. */
void halay_host_ranks_wait(const struct halay_host_ranks *self, int rank, uint32_t seen, int timeout_ms);
void halay_host_ranks_close(struct halay_host_ranks *self);

#endif
