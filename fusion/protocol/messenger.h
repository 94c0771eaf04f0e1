/* SPDX-License-Identifier: Apache-2.0
 *
 * Messenger: carries the engine's messages over a transport that sleeps: between each rank and rank 0, and between
 * ranks that reach each other. Driver only.
 *
 * Items that are appended while a message is under way travel together in the next one: a rank that is busy is not sent
 * more messages, only longer ones.
 */
#ifndef HALAY_MESSENGER_H
#define HALAY_MESSENGER_H

#include "collectives/transport/link.h"
#include "fusion/protocol/messages.h"

struct halay_messenger;

/* link is borrowed until destroy; NULL for a job of one rank. */
enum halay_status halay_messenger_create(struct halay_link *link, int rank, int size, struct halay_log *log,
                                         struct halay_messenger **out);
void halay_messenger_destroy(struct halay_messenger *m); /* NULL is allowed */

/* From now on messages with this rank are exchanged, too; it may leave without an error, and is not sent PINGs. Both
 * call it, in any order; again, it does nothing. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_messenger_reach(struct halay_messenger *m, int rank);
/* Queue an item for peer, a rank that is reached; on rank 0 also -1: every rank. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_messenger_append(struct halay_messenger *m, int peer, const struct halay_item *item);
/* Start to send what is queued and not held up by a message under way; never blocks. */
void halay_messenger_flush(struct halay_messenger *m);

/* Called for each item that has arrived. An error ends halay_messenger_receive, which returns it. */
typedef enum halay_status (*halay_messenger_handler)(void *arg, int rank, const struct halay_item *item);

/*
 * Progress the transport and hand over what has arrived; *messages: how many. HALAY_ERR_FORMAT and HALAY_ERR_VERSION: a
 * peer sent nonsense; *rank says who. HALAY_ERR_PEER: *rank is gone; what it had sent before was handed over.
 */
enum halay_status halay_messenger_receive(struct halay_messenger *m, halay_messenger_handler handler, void *arg,
                                          int *messages, int *rank);

/* Incoming messages no longer matter: cancel the receives, so that peers may leave. What is queued is still sent. */
void halay_messenger_stop_receiving(struct halay_messenger *m);

/* Nonzero if everything that was queued has been taken by its receiver's transport, or never will be. */
int halay_messenger_is_quiet(const struct halay_messenger *m);

/* Messages sent so far (for tests and counters). Any thread. */
uint64_t halay_messenger_sent(struct halay_messenger *m);

/*
 * Is every rank still there? Call it from time to time while somebody waits: peers that have been silent are sent a
 * PING. HALAY_ERR_PEER: *rank has not answered for timeout_us, during which this process was awake. now_us: the clock.
 */
enum halay_status halay_messenger_check(struct halay_messenger *m, int64_t now_us, int64_t timeout_us, int *rank);
/* Nobody waits: forget what was asked. */
void halay_messenger_check_reset(struct halay_messenger *m);

#endif
