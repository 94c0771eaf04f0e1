/* SPDX-License-Identifier: Apache-2.0
 *
 * Failure: the end of the engine, once; the first cause stays. Driver only.
 */
#ifndef HALAY_FAIL_H
#define HALAY_FAIL_H

#include "fusion/state/context.h"

/* The engine is over: every request in flight ends with status and text, later submissions get status. The first cause
 * is kept. Tells the other ranks what it can. rank: whose fault, or -1. */
void halay_engine_fail(struct halay_context *ctx, enum halay_status status, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Somebody has left: what was under way has completed. */
void halay_engine_drained(struct halay_context *ctx);
/* A peer is gone: says "has left" or "has died". */
void halay_engine_fail_peer(struct halay_context *ctx, int rank);
/* The same, but if the cause is not known, wait for another rank to name it. judge: in each step from then on. */
void halay_engine_peer_is_gone(struct halay_context *ctx, int rank);
void halay_engine_judge(struct halay_context *ctx);

#endif
