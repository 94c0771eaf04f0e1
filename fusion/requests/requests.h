/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: the pool.
 */
#ifndef HALAY_REQUESTS_H
#define HALAY_REQUESTS_H

#include "fusion/requests/context.h"
#include "fusion/requests/request.h"

/* Returns a request with one reference for the engine and one for the caller; NULL: no memory. */
struct halay_request *halay_request_get_locked(struct halay_context *ctx);
/* Frees a request of halay_request_get_locked that was not submitted. */
void halay_request_drop_locked(struct halay_request *request);
/* Resets a request, except what it keeps for its next use. */
void halay_request_reset(struct halay_request *request);
void halay_request_put(struct halay_request *request);
void halay_request_put_locked(struct halay_request *request);
/* Removes a request from the list of watched ones (withdraw.c), if it is on it. Driver. */
void halay_request_unwatch(struct halay_request *request);
void halay_requests_free_all(struct halay_context *ctx);

#endif
