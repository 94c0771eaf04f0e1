/* SPDX-License-Identifier: Apache-2.0
 *
 * Wait: checks before and accounting around blocking calls.
 */
#ifndef HALAY_WAIT_H
#define HALAY_WAIT_H

#include "halay.h"

/* Returns HALAY_OK if this thread may wait for the engine (ctx may be NULL). HALAY_ERR_UNSUPPORTED: it is in a
 * callback, for whose return the engine waits; what (a human-readable name of the call) is logged. */
enum halay_status halay_may_block(struct halay_context *ctx, const char *what);

/* Begin and end a blocking call on the context: halay_fini on another thread frees the context only afterwards. ctx may
 * be NULL. */
void halay_call_begin(struct halay_context *ctx);
void halay_call_end(struct halay_context *ctx);
/* Makes all blocking calls return with HALAY_ERR_CLOSED, and waits until they have. Called in halay_fini. */
void halay_calls_end(struct halay_context *ctx);

/* Returns the status of calls in a child of fork. */
enum halay_status halay_refuse_child(void);

#endif
