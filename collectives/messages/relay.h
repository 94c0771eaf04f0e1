/* SPDX-License-Identifier: Apache-2.0
 *
 * Relay: data pass from the root to every rank along a tree that the caller gives, in chunks. What broadcasts by
 * messages are made of.
 */
#ifndef HALAY_RELAY_H
#define HALAY_RELAY_H

#include "collectives/schedule/coll.h"

enum { RELAY_CHILDREN = 31, RELAY_WINDOW = 4 };

struct relay {
    int parent; /* rank; -1: the root */
    int child[RELAY_CHILDREN];
    int children;
    size_t bytes, chunk, chunks;
    size_t received;                          /* chunks that are here */
    size_t sent;                              /* chunks that all children were given and have taken */
    size_t posted;                            /* receives posted */
    size_t giving;                            /* sends posted */
    struct halay_transfer recv[RELAY_WINDOW]; /* by chunk modulo the window */
    struct halay_transfer send[RELAY_WINDOW][RELAY_CHILDREN];
};

size_t relay_state_bytes(int size);
/* Of the state, a struct relay, the family is set, all else is zero. */
void relay_start(const struct halay_coll *c);
enum halay_status relay_progress(struct halay_coll *c);
void relay_cancel(struct halay_coll *c);

#endif
