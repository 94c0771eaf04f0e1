/* SPDX-License-Identifier: Apache-2.0
 *
 * Steady submissions: those of tensors that count in a plan, without a lock; by name with the lock that protects the
 * table of names.
 *
 * A tensor of a plan has one request, the steady one, for all turns. Its word has all that changes:
 *
 *     63..4 turn    the last turn in which the tensor was submitted; a turn number is used by one plan only
 *     8 MOVED       the request is not in a plan: it is an ordinary one (requests/requests.c)
 *     4 DONE        with MOVED: the turn was released when the request left its plan; it ends with that turn
 *     2 HELD        the program has the request, and has not freed it
 *     1 BUSY        a thread is between the two steps of a submission
 *
 *     submit   word: turn t -> t + 1, BUSY     only if t turns of the bucket are released: else it is in flight
 *              bucket: missing - 1             the thread that makes it 0 gives the bucket to the driver
 *              word: not BUSY
 *     driver   bucket: missing = count, released = t + 1; calls the callbacks; completed = t + 1
 *     test     completed >= turn
 *     leave    word: MOVED, as soon as it is not BUSY; if it is in flight, it continues as an ordinary request
 *
 * So no request is touched when its bucket completes. tests/fusion/test_submit_model.c explores the orders.
 */
#ifndef HALAY_STEADY_H
#define HALAY_STEADY_H

#include "fusion/requests/entry.h"
#include "fusion/requests/request.h"

struct halay_plan_bucket;

/* The two steps of a submission, any thread, no lock. claim returns 0 if the request cannot be submitted now: it is in
 * flight, is held, or is not in a plan. holds: the program keeps the request. commit, which takes the data's addresses
 * anew, returns the bucket if this submission completed it, for the caller to give to the driver; otherwise NULL.
 * unclaim takes a claim back. */
int halay_steady_claim(struct halay_request *request, int holds);
struct halay_plan_bucket *halay_steady_commit(struct halay_request *request, const void *in, void *out,
                                              halay_callback callback, void *arg);
void halay_steady_unclaim(struct halay_request *request);
/* Returns the status of any request, for the program. Any thread, no lock. */
enum halay_status halay_request_status(struct halay_request *request);
/* Frees the program's steady request. Returns 0 if it is an ordinary one: the caller drops the reference. Any thread.
 * */
int halay_steady_free(struct halay_request *request);
static inline int halay_steady_is_in_plan(struct halay_request *request)
{
    return !(atomic_load_explicit(&request->word, memory_order_acquire) & HALAY_STEADY_MOVED);
}
/* Returns nonzero if the request is in a plan and in flight. */
int halay_steady_is_in_flight(struct halay_request *request);
/* Returns nonzero if its turn was complete when it left its plan: it has ended. */
static inline int halay_steady_is_done(struct halay_request *request)
{
    return (atomic_load_explicit(&request->word, memory_order_acquire) & HALAY_STEADY_DONE) != 0;
}
/* Removes the request from its plan. Returns nonzero if it is in flight: then it stays in the plan if `stays`,
 * otherwise the caller makes it its entry's request. If it is held and not in flight, it is the program's alone. */
int halay_steady_leave_locked(struct halay_request *request, int stays);
static inline int halay_steady_is_held(struct halay_request *request)
{
    return (atomic_load_explicit(&request->word, memory_order_relaxed) & HALAY_STEADY_HELD) != 0;
}

/* ---- of an entry ---- */

/* Returns the entry's steady request, or NULL. With the lock, or by the driver. */
static inline struct halay_request *halay_steady_of(const struct halay_entry *entry)
{
    return atomic_load_explicit(&((struct halay_entry *)entry)->steady, memory_order_relaxed);
}
/* Returns the request by which a tensor of a plan can be submitted steadily; order: of its registration. *is_new: it is
 * to be filled, and attached; otherwise it may be in flight. NULL: the tensor is in no plan that takes it, or the
 * program keeps its request, which is in flight; or no memory. */
struct halay_request *halay_steady_get_locked(struct halay_entry *entry, uint64_t order, int *is_new);
/* Makes a request the tensor's steady request in its plan. */
void halay_steady_attach_locked(struct halay_entry *entry, struct halay_request *request);
/* Drops the tensor's steady request, if it has one. Returns 0 if that is in flight in a plan: it stays. */
int halay_steady_drop_locked(struct halay_entry *entry);

#endif
