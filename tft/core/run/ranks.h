/* SPDX-License-Identifier: Apache-2.0
 *
 * What all ranks have to know: that one of them was asked to stop, that one has failed, a document that rank 0 has read
 * from files which the other hosts need not have. Every rank makes each call that takes a context, in the same order;
 * with one rank these do nothing.
 */
#ifndef HALAY_TFT_RANKS_H
#define HALAY_TFT_RANKS_H

#include "base/log.h"
#include "halay.h"
#include <jansson.h>
#include <stdatomic.h>

/* Returns the default number of this rank's compute threads: its share of its host's cores, 1 or more. */
int tft_rank_threads(struct halay_log *log, const struct halay_context *ctx);

/* A request that the calculation which polls it end, with what it has. The reason is a number above 0, a signal's for
 * example. Zero-initialise. Lock-free, so that a signal handler may ask; relaxed, since it publishes no other
 * memory. */
struct tft_stop {
    atomic_int reason;
};

void tft_stop_ask(struct tft_stop *stop, int reason);
/* Returns the reason, 0 without a reason or if stop is NULL. From any thread. */
int tft_stop_asked(const struct tft_stop *stop);
/* Shares what one rank was asked: it counts for all. *reason: the largest, the same on all ranks; 0: none. Blocks until
 * all ranks have called it. */
enum halay_status tft_stop_share(struct halay_context *ctx, struct tft_stop *stop, int *reason);

/* Returns HALAY_OK only if every rank's status is that: otherwise the rank's own error, or HALAY_ERR_PEER where another
 * has failed. */
enum halay_status tft_agree(struct halay_context *ctx, const char *name, enum halay_status status);
/* Shares a document of rank 0, which has one if its status is HALAY_OK. *document: on the other ranks a new reference,
 * NULL on error. */
enum halay_status tft_share_document(struct halay_log *log, struct halay_context *ctx, const char *name,
                                     enum halay_status status, json_t **document);

#endif
