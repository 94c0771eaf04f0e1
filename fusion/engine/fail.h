/* SPDX-License-Identifier: Apache-2.0
 *
 * Failure: the end of the engine, once; the first cause is kept. Driver only.
 */
#ifndef HALAY_FAIL_H
#define HALAY_FAIL_H

#include "fusion/requests/context.h"

/* Ends the engine: every request in flight ends with status and text, later submissions get status. The first cause is
 * kept. Reports it to the other ranks if possible. rank: the failed rank, or -1. */
void halay_engine_fail(struct halay_context *ctx, enum halay_status status, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Fails with "WHAT on rank R: STATUS" unless this rank's status is HALAY_OK. */
void halay_engine_expect_ok(struct halay_context *ctx, enum halay_status status, const char *what);
/* Ends the engine after a rank has left: the collectives in flight have completed. */
void halay_engine_drained(struct halay_context *ctx);
/* Fails because a peer is gone: reports "has left" or "has died". */
void halay_engine_fail_peer(struct halay_context *ctx, int rank);
/* Fails because a peer is gone; if the cause is unknown, waits for another rank to report it. check_suspect is called
 * in each step from then on. */
void halay_engine_peer_is_gone(struct halay_context *ctx, int rank);
void halay_engine_check_suspect(struct halay_context *ctx);
/* Fails because the set's group is closed, or no longer matches the other ranks': as expect_ok, or because a peer is
 * gone. */
void halay_engine_fail_group(struct halay_process_set *set, enum halay_status status, const char *what);

#endif
