/* SPDX-License-Identifier: Apache-2.0
 *
 * Wait: who may.
 */
#ifndef HALAY_WAIT_H
#define HALAY_WAIT_H

#include "halay.h"

/* HALAY_OK: this thread may wait for the engine (ctx may be NULL). HALAY_ERR_UNSUPPORTED: it is in a callback, for
 * whose return the engine waits; what (a call, for people) is logged. */
enum halay_status halay_may_block(struct halay_context *ctx, const char *what);

/* A call that waits begins, and has done with the context: halay_fini on another thread frees it afterwards. ctx may be
 * NULL. */
void halay_call_begin(struct halay_context *ctx);
void halay_call_end(struct halay_context *ctx);
/* In halay_fini: such calls return at once, with HALAY_ERR_CLOSED. Waits until they have. */
void halay_calls_end(struct halay_context *ctx);

/* What a call returns in a child of fork. */
enum halay_status halay_refuse_child(void);

#endif
