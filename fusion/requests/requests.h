/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: from a pool, ended by the driver, delivered.
 */
#ifndef HALAY_REQUESTS_H
#define HALAY_REQUESTS_H

#include "fusion/state/context.h"
#include "fusion/state/request.h"

/* A request with one reference for the engine and one for the caller; NULL: no memory. */
struct halay_request *halay_request_get_locked(struct halay_context *ctx);
/* One that came from get and was not submitted. */
void halay_request_drop_locked(struct halay_request *request);
/* The steady request of a registered tensor (replay/steady.h), if it is in no plan and nobody else has it: ready to be
 * filled in. NULL: there is none; entry->steady is NULL then. */
struct halay_request *halay_steady_idle_locked(struct halay_entry *entry);
/* The tensor gives it up; not in flight. */
void halay_steady_drop_locked(struct halay_entry *entry);
void halay_request_put(struct halay_request *request);
void halay_request_put_locked(struct halay_request *request);
/* Driver: take it off the list of those that are watched (withdraw.c), if it is on it. */
void halay_request_unwatch(struct halay_request *request);
/* Driver: the request ends; delivered later in this step. text may be NULL; copied. */
void halay_request_end(struct halay_request *request, enum halay_status status, const char *text);
/* Driver, no lock held: the steady requests of a bucket of a plan have ended: callbacks, then waiters. */
void halay_requests_deliver_planned(struct halay_context *ctx, struct halay_plan_bucket *bucket,
                                    struct halay_request *const *requests);
/* Driver: its carrier has brought its result back (carrier.h); delivered later in this step. */
void halay_request_landed(struct halay_request *request);
/* Its name may be submitted again. */
void halay_request_detach_locked(struct halay_request *request);
/* Driver, no lock held: callbacks, then waiters. Returns how many. */
size_t halay_requests_deliver(struct halay_context *ctx);
void halay_requests_free_all(struct halay_context *ctx);

#endif
