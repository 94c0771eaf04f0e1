/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers: connections to a listening port that have not proved the secret yet. They are read side by side, none is
 * waited for, and each has a short time. When there are too many, the oldest without a right hello is dropped first.
 */
#ifndef HALAY_LAUNCHER_STRANGERS_H
#define HALAY_LAUNCHER_STRANGERS_H

#include "base/net/address.h"
#include "launcher/remote/tunnel.h"
#include <poll.h>
#include <stdint.h>

enum { STRANGERS_FIRST = 2, STRANGERS_ROOM = STRANGERS_FIRST + 256, STRANGERS_HELLOS = 1024, STRANGERS_MARK = 16 };

struct stranger {
    int64_t deadline_us;
    struct halay_answer answer;
};

struct strangers {
    /* The port and what is watched (both borrowed); from STRANGERS_FIRST on, strangers in order of arrival. */
    struct pollfd fds[STRANGERS_ROOM];
    struct stranger at[STRANGERS_ROOM];
    size_t count;                /* including the first two */
    int is_paused;               /* no connection can be accepted: the port is not watched for a moment */
    const unsigned char *secret; /* borrowed */
    /* The last bytes of the newest right hellos: whoever repeats one does not hold the secret. */
    unsigned char hellos[STRANGERS_HELLOS][STRANGERS_MARK];
    size_t heard;
    enum halay_status refused;             /* why the newest was sent away that speaks this protocol; HALAY_OK: none */
    char refused_from[HALAY_ADDRESS_TEXT]; /* its address */
};

/* listener: non-blocking. */
void strangers_init(struct strangers *strangers, int listener, const unsigned char secret[HALAY_SECRET_BYTES]);
void strangers_fini(struct strangers *strangers);

/* From now on the wait also ends when fd becomes readable. -1: no descriptor. */
void strangers_watch(struct strangers *strangers, int fd);

/* Wait, timeout_ms at most, for the next one that proves the secret: 1, its tunnel, whose fd is the caller's to close,
 * and the purpose. 0 if there is none, perhaps before the time is over. */
int strangers_next(struct strangers *strangers, int timeout_ms, struct tunnel *tunnel, uint32_t *purpose);

#endif
