/* SPDX-License-Identifier: Apache-2.0
 *
 * Messenger: carries the engine's messages over a transport that sleeps: between each rank and rank 0, and between
 * ranks that reach each other. Driver only.
 *
 * Items that are appended while a message is under way travel together in the next one. So a busy rank is sent longer
 * messages, not more.
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

/* Opens the exchange of messages with one more rank, which may leave without an error and is not sent PINGs. Both ranks
 * call it, in any order; a second call does nothing. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_messenger_reach(struct halay_messenger *m, int rank);
/* Queues an item for peer, which is rank 0 or was reached; on rank 0 any rank, and -1 for every rank.
 * HALAY_ERR_NO_MEMORY. */
enum halay_status halay_messenger_append(struct halay_messenger *m, int peer, const struct halay_item *item);
/* Starts to send the queued items of each peer that has no message under way. Never blocks. */
void halay_messenger_flush(struct halay_messenger *m);

/* Called for each item that has arrived. An error ends halay_messenger_receive, which returns it. */
typedef enum halay_status (*halay_messenger_handler)(void *arg, int rank, const struct halay_item *item);

/* Progresses the transport and hands over the items that have arrived; *messages: the number of messages.
 * HALAY_ERR_FORMAT, HALAY_ERR_VERSION: rank *rank sent an invalid message. HALAY_ERR_PEER: rank *rank is gone; the
 * items that it sent before have been handed over. */
enum halay_status halay_messenger_receive(struct halay_messenger *m, halay_messenger_handler handler, void *arg,
                                          int *messages, int *rank);

/* Cancels all receives, so that peers may leave. Items that are queued are still sent. */
void halay_messenger_stop_receiving(struct halay_messenger *m);

/* Returns nonzero if the transports of the receivers have taken all queued items, or never will. */
int halay_messenger_is_quiet(const struct halay_messenger *m);

/* Returns the number of messages sent so far, for tests and counters. Any thread. */
uint64_t halay_messenger_sent(struct halay_messenger *m);

/* Checks for silent peers and sends them a PING. Called from time to time while something is pending. HALAY_ERR_PEER:
 * rank *rank has not answered for timeout_us, during which this process was awake. now_us: the clock. */
enum halay_status halay_messenger_check(struct halay_messenger *m, int64_t now_us, int64_t timeout_us, int *rank);
/* Forgets silence and PINGs, because nothing is pending. */
void halay_messenger_check_reset(struct halay_messenger *m);

#endif
