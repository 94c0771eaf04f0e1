/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets: their creation and removal. Driver only, unless stated otherwise.
 */
#ifndef HALAY_SETS_H
#define HALAY_SETS_H

#include "fusion/requests/context.h"
#include "fusion/requests/request.h"

/* Returns the existing set of that number, or NULL. lock held, or driver. */
struct halay_process_set *halay_process_set_by_number(struct halay_context *ctx, int number);
/* Closes the groups of all sets, with the context's status. failed_rank: the one that the others report, -1: this
 * rank. Driver only. */
void halay_process_sets_fail(struct halay_context *ctx, int failed_rank);
/* Checks the peers; HALAY_OK if the groups of all sets work. Driver only. */
void halay_process_sets_check(struct halay_context *ctx);
enum halay_status halay_process_sets_status(const struct halay_context *ctx);
/* Prepares a change of sets that all ranks have agreed on and that is queued. Sets that it creates exist from now on,
 * since faster members already send messages about them. Driver only. */
enum halay_status halay_process_sets_prepare(struct halay_context *ctx, struct halay_request *request);
/* Makes a change that all ranks have agreed on; ends the request if that is impossible. HALAY_IN_PROGRESS: groups are
 * being made, and progress reports their end. abandon: their request has ended. Driver only. */
enum halay_status halay_process_sets_change(struct halay_context *ctx, struct halay_request *request);
enum halay_status halay_process_sets_progress(struct halay_context *ctx, struct halay_request *request);
void halay_process_sets_abandon(struct halay_context *ctx);
/* Returns nonzero if the change may be made now. Driver only. */
int halay_process_sets_may_change(struct halay_context *ctx, const struct halay_request *request);
/* Removes all sets except that of all ranks, of which only the names are left. The engine has stopped. */
void halay_process_sets_end(struct halay_context *ctx);

#endif
