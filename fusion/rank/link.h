/* SPDX-License-Identifier: Apache-2.0
 *
 * Link: the engine's messages between this rank and those it talks to, over a transport that sleeps. Every rank talks
 * to rank 0, rank 0 to every rank. Used by the driver only.
 *
 * Items that are appended while a message is under way travel together in the next one: a rank that is busy is not sent
 * more messages, only longer ones.
 */
#ifndef HALAY_LINK_H
#define HALAY_LINK_H

#include "collectives/transport/transport.h"
#include "fusion/values/messages.h"

struct halay_link;

/* t is borrowed until destroy; NULL for a job of one rank. */
enum halay_status halay_link_create(struct halay_transport *t, int rank, int size, struct halay_log *log,
                                    struct halay_link **out);
void halay_link_destroy(struct halay_link *link); /* NULL is allowed */

/* Queue an item for peer (another rank), who may be -1: everybody. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_link_append(struct halay_link *link, int peer, const struct halay_item *item);
/* Start to send what is queued and not held up by a message under way; never blocks. */
void halay_link_flush(struct halay_link *link);

/* Called for each item that has arrived. An error ends halay_link_receive, which returns it. */
typedef enum halay_status (*halay_link_handler)(void *arg, int rank, const struct halay_item *item);

/*
 * Progress the transport and hand over what has arrived; *messages: how many. HALAY_ERR_FORMAT and HALAY_ERR_VERSION: a
 * peer sent nonsense; *rank says who. HALAY_ERR_PEER: *rank is gone; what it had sent before was handed over.
 */
enum halay_status halay_link_receive(struct halay_link *link, halay_link_handler handler, void *arg, int *messages,
                                     int *rank);

/* Nothing that comes matters any more: take the receives back, so that peers may leave. What is queued is still
 * sent. */
void halay_link_stop_receiving(struct halay_link *link);

/* Nonzero if everything that was queued has been taken by its receiver's transport, or never will be. */
int halay_link_is_quiet(struct halay_link *link);

/* Messages sent so far (for tests and counters). Any thread. */
uint64_t halay_link_sent(struct halay_link *link);

/*
 * Is everybody still there? Call it from time to time while somebody waits: peers that have been silent are sent a
 * PING. HALAY_ERR_PEER: *rank has not answered for timeout_us, during which this process was awake. now_us: the clock.
 */
enum halay_status halay_link_check(struct halay_link *link, int64_t now_us, int64_t timeout_us, int *rank);
/* Nobody waits: forget what was asked. */
void halay_link_check_reset(struct halay_link *link);

#endif
