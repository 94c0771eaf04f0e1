/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: the pool, and the queue of events.
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

/* Reserves room for this number of further events: pushing them cannot fail until the lock is released. */
enum halay_status halay_queue_reserve_locked(struct halay_queue *queue, size_t count);
/* Appends to a list of the driver's own. */
enum halay_status halay_events_append(struct halay_events *list, const struct halay_event *event);
/* Pushes an event for the driver; the lock is held. */
enum halay_status halay_queue_push_locked(struct halay_queue *queue, const struct halay_event *event);
/* Frees all events. */
void halay_queue_clear(struct halay_queue *queue);

#endif
