/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawal, a rank's side: requests that their program cancels, or whose time is over. The coordinator decides
 * whether it is too late (fusion/coordinator/withdraw.h). Driver only.
 */
#ifndef HALAY_RANK_WITHDRAW_H
#define HALAY_RANK_WITHDRAW_H

#include "fusion/protocol/messages.h"
#include "fusion/state/context.h"
#include "fusion/state/request.h"

/* The driver has it: if it has a time-out, watch it. */
void halay_withdraw_watch(struct halay_context *ctx, struct halay_request *request);
/* Its program cancels it. */
void halay_withdraw_cancel(struct halay_context *ctx, struct halay_request *request);
/* Those whose time is over. Returns how many. */
size_t halay_withdraw_overdue(struct halay_context *ctx);

#endif
