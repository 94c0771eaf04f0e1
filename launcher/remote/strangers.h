/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers: who has called a port that listens and not yet shown that he holds the secret. All of them are heard at
 * once, none is waited for, and each has a short time. When there are too many, one who has said nothing right yet goes
 * first, and of those the oldest.
 */
#ifndef HALAY_LAUNCHER_STRANGERS_H
#define HALAY_LAUNCHER_STRANGERS_H

#include "launcher/remote/call.h"
#include <poll.h>
#include <stdint.h>

enum { STRANGERS_FIRST = 2, STRANGERS_ROOM = STRANGERS_FIRST + 256, STRANGERS_HELLOS = 1024, STRANGERS_MARK = 16 };

struct stranger {
    int64_t deadline_us;
    struct halay_answer answer;
};

struct strangers {
    /* The port and what is watched (both borrowed); then, from STRANGERS_FIRST on, strangers in the order in which they
     * came. */
    struct pollfd fds[STRANGERS_ROOM];
    struct stranger at[STRANGERS_ROOM];
    size_t count;                /* with the first two */
    const unsigned char *secret; /* borrowed */
    /* The last bytes of each right hello that has been heard: who repeats one is none who holds the secret. The newest
     * are kept. */
    unsigned char hellos[STRANGERS_HELLOS][STRANGERS_MARK];
    size_t heard;
};

/* listener does not block. */
void strangers_init(struct strangers *strangers, int listener, const unsigned char secret[HALAY_SECRET_BYTES]);
void strangers_fini(struct strangers *strangers);

/* From here on what can be read from fd ends the wait, too. -1: nothing. */
void strangers_watch(struct strangers *strangers, int fd);

/* Wait, timeout_ms at most, for the next one who holds the secret: 1, call->fd, which is the caller's to close, and
 * what it is for. 0 if there is none for now, which may be said before the time is over. */
int strangers_next(struct strangers *strangers, int timeout_ms, struct call *call, unsigned char *purpose);

#endif
