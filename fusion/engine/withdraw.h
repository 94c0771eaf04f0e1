/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawal, a rank's side: requests that their program cancels, or whose time limit has expired. The coordinator
 * decides whether it is too late (fusion/coordinator/withdraw.c). Driver only.
 */
#ifndef HALAY_RANK_WITHDRAW_H
#define HALAY_RANK_WITHDRAW_H

#include "fusion/requests/context.h"
#include "fusion/requests/request.h"

/* Watches a request with a time limit that the driver has taken. */
void halay_withdraw_watch(struct halay_context *ctx, struct halay_request *request);
/* Withdraws a request that its program cancels. */
void halay_withdraw_cancel(struct halay_context *ctx, struct halay_request *request);
/* Withdraws requests whose time limit has expired. Returns how many. */
size_t halay_withdraw_overdue(struct halay_context *ctx);

#endif
