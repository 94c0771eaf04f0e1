/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets: all of them; made and removed. Driver only, where not said otherwise.
 */
#ifndef HALAY_SETS_H
#define HALAY_SETS_H

#include "fusion/state/context.h"
#include "fusion/state/request.h"

/* The one of that number, if it lives, or NULL. lock held, or driver. */
struct halay_process_set *halay_process_set_by_number(struct halay_context *ctx, int number);
/* Driver only: close the groups of all sets, with the context's status. culprit: whom others are to blame, -1: this
 * rank. */
void halay_process_sets_fail(struct halay_context *ctx, int culprit);
/* Driver only: look at the peers; HALAY_OK if the groups of all sets live. */
void halay_process_sets_check(struct halay_context *ctx);
enum halay_status halay_process_sets_status(const struct halay_context *ctx);
/* Driver only: a request on which all ranks agree is in line. Sets that it makes exist from now on, since members that
 * are faster speak of them. */
enum halay_status halay_process_sets_prepare(struct halay_context *ctx, struct halay_request *request);
/* Driver only: do what this request asks for, on which all ranks agree; it is ended here if that is not possible.
 * HALAY_IN_PROGRESS: groups are being made, progress says when they are. abandon: nobody waits for them any more. */
enum halay_status halay_process_sets_change(struct halay_context *ctx, struct halay_request *request);
enum halay_status halay_process_sets_progress(struct halay_context *ctx, struct halay_request *request);
void halay_process_sets_abandon(struct halay_context *ctx);
/* Driver only: may it be done now? */
int halay_process_sets_may_change(struct halay_context *ctx, const struct halay_request *request);
/* All but that of all ranks are removed, and that has nothing left but its names. The engine has stopped. */
void halay_process_sets_end(struct halay_context *ctx);

#endif
