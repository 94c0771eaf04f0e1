/* SPDX-License-Identifier: Apache-2.0
 *
 * Relay: data pass from the root to everybody along a tree that the caller gives, in chunks. What broadcasts by
 * messages are made of.
 */
#ifndef HALAY_RELAY_H
#define HALAY_RELAY_H

#include "collectives/schedule/coll.h"

enum { HALAY_RELAY_CHILDREN = 31, HALAY_RELAY_WINDOW = 4 };

struct halay_relay {
    int parent; /* rank; -1: the root */
    int child[HALAY_RELAY_CHILDREN];
    int children;
    size_t bytes, chunk, chunks;
    size_t received;                                /* chunks that are here */
    size_t sent;                                    /* chunks that all children were given and have taken */
    size_t posted;                                  /* receives posted */
    size_t giving;                                  /* sends posted */
    struct halay_transfer recv[HALAY_RELAY_WINDOW]; /* by chunk modulo the window */
    struct halay_transfer send[HALAY_RELAY_WINDOW][HALAY_RELAY_CHILDREN];
};

/* The family is set, all else is zero. */
void halay_relay_start(const struct halay_coll *c, struct halay_relay *relay);
enum halay_status halay_relay_progress(struct halay_coll *c, struct halay_relay *relay);
void halay_relay_cancel(struct halay_coll *c, struct halay_relay *relay);

#endif
