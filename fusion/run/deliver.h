/* SPDX-License-Identifier: Apache-2.0
 *
 * Delivery: the end of requests. Driver only.
 */
#ifndef HALAY_DELIVER_H
#define HALAY_DELIVER_H

#include "fusion/requests/context.h"
#include "fusion/requests/request.h"

struct halay_plan_bucket;

/* Ends a request, which is delivered later in this step. text may be NULL; copied. */
void halay_request_end(struct halay_request *request, enum halay_status status, const char *text);
/* Takes a request whose result its carrier has copied (carrier.h); delivered later in this step. */
void halay_request_landed(struct halay_request *request);
/* Delivers the ended requests: callbacks, then waiters. Returns how many. No lock held. */
size_t halay_requests_deliver(struct halay_context *ctx);
/* Delivers the steady requests of a bucket of a plan, which have ended: callbacks, then waiters. No lock held. */
void halay_requests_deliver_planned(struct halay_context *ctx, struct halay_plan_bucket *bucket,
                                    struct halay_request *const *requests);

#endif
