/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance: what every transport has to do, as one suite. Each rank calls conformance_run with its own transport and
 * bootstrap, in a thread or process of its own; the suite finds out from the transport what it can and tests that.
 */
#ifndef HALAY_CONFORMANCE_H
#define HALAY_CONFORMANCE_H

#include "collectives/transport/bell.h"
#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/shared_memory.h"

struct conformance {
    struct halay_link *link;
    struct halay_bell *bell; /* the rank sleeps on it, and what arrives rings it */
    struct halay_boot *boot;
    unsigned seed;  /* equal on all ranks; printed when something fails */
    size_t large;   /* bytes of the largest messages; 0: 3 MiB */
    int iterations; /* of the stress of sleep and wake; 0: 2000 */
};

/* All cases that leave the transport whole: order, overtaking, sizes, many in flight, unexpected messages, cancel,
 * memory, sleep and wake. */
void conformance_run(struct conformance *c);

/* Ranks exchange messages without end; the victim calls die(arg) in the middle of it (and returns from here if die
 * does). The others must get HALAY_ERR_PEER and its number. */
void conformance_death(struct conformance *c, int victim, void (*die)(void *arg), void *arg);

/* The last rank sends, then leaves (its link is closed and c->link NULL after return); the others still get what it
 * sent, and then HALAY_ERR_PEER for what it did not. */
void conformance_leave(struct conformance *c);

/* The end of a sleep that began with halay_bell_arm: unless there is something to do at once. */
static inline void conformance_sleep(struct halay_link *link, struct halay_bell *bell, uint32_t token, long us)
{
    long armed_us = link->ops->arm(link);

    if (armed_us)
        halay_bell_sleep(bell, token, us < 0 || us > armed_us ? armed_us : us);
    halay_bell_disarm(bell);
}

/* How many checks of the suite failed in this process, so far. */
int conformance_failed(void);

#endif
