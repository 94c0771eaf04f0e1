/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending: connections to a listening port that have not proved the secret yet. They are read side by side, none is
 * waited for, and each has a short time. When there are too many, the oldest without a right hello is dropped first.
 */
#ifndef HALAY_LAUNCHER_PENDING_H
#define HALAY_LAUNCHER_PENDING_H

#include "base/net/address.h"
#include "launcher/remote/tunnel.h"
#include <poll.h>
#include <stdint.h>

enum { PENDING_FIRST = 2, PENDING_ROOM = PENDING_FIRST + 256, PENDING_HELLOS = 1024, PENDING_MARK = 16 };

struct pending_one {
    int64_t deadline_us;
    struct halay_answer answer;
};

struct pending {
    /* The port and what is watched (both borrowed); from PENDING_FIRST on, connections in order of arrival. */
    struct pollfd fds[PENDING_ROOM];
    struct pending_one at[PENDING_ROOM];
    size_t count;                /* including the first two */
    int is_paused;               /* no connection can be accepted: the port is not watched for a moment */
    const unsigned char *secret; /* borrowed */
    /* The last bytes of the newest right hellos: a caller that repeats one does not hold the secret. */
    unsigned char hellos[PENDING_HELLOS][PENDING_MARK];
    size_t hello_count;
    enum halay_status refused;             /* the last refusal of a caller that speaks this protocol; HALAY_OK: none */
    char refused_from[HALAY_ADDRESS_TEXT]; /* its address */
};

/* listener: non-blocking. */
void pending_init(struct pending *pending, int listener, const unsigned char secret[HALAY_SECRET_BYTES]);
void pending_fini(struct pending *pending);

/* Lets pending_next also return when fd becomes readable. -1: no descriptor. */
void pending_watch(struct pending *pending, int fd);

/* Waits, timeout_ms at most, for the next connection that proves the secret. Returns 1, its tunnel, whose fd is the
 * caller's to close, and the purpose; 0 without one, perhaps before the time is over. */
int pending_next(struct pending *pending, int timeout_ms, struct tunnel *tunnel, uint32_t *purpose);

#endif
