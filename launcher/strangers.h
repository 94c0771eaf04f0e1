/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers: who has called a port that listens and not yet shown that he holds the secret. All of them are heard at once, so that one who
 * is silent keeps nobody waiting, and each for a short time; when there are too many the one who has had most time goes.
 */
#ifndef HALAY_LAUNCHER_STRANGERS_H
#define HALAY_LAUNCHER_STRANGERS_H

#include "base/store.h"
#include <poll.h>
#include <stdint.h>

enum { STRANGERS_FIRST = 2, STRANGERS_ROOM = STRANGERS_FIRST + 64 };

struct strangers {
    /* The port and what is watched (both borrowed); then, from STRANGERS_FIRST on, strangers in the order in which they came. */
    struct pollfd fds[STRANGERS_ROOM];
    int64_t deadlines_us[STRANGERS_ROOM]; /* of strangers */
    size_t count;                         /* with the first two */
    const unsigned char *secret;          /* borrowed */
};

/* listener does not block. */
void strangers_init(struct strangers *strangers, int listener, const unsigned char secret[HALAY_SECRET_BYTES]);
void strangers_fini(struct strangers *strangers);

/* From here on what can be read from fd ends the wait, too. -1: nothing. */
void strangers_watch(struct strangers *strangers, int fd);

/* Wait, timeout_ms at most, for the next one who holds the secret: a socket that is the caller's to close, and what it is for. -1 if
 * there is none for now, which may be said before the time is over. */
int strangers_next(struct strangers *strangers, int timeout_ms, unsigned char *purpose);

#endif
