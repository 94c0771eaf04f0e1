/* SPDX-License-Identifier: Apache-2.0
 *
 * Submission, on the program's threads. Nothing is sent here.
 *
 * A registered tensor of a plan is submitted by its steady request without the lock (replay/steady.h). Every other
 * submission takes the lock once, and has two steps, so that of several tensors all or none are submitted:
 *
 *     prepare   finds or makes the name's entry; claims the tensor's steady request, or fills an ordinary one, which
 *               is in flight for its name from now on
 *     commit    counts the steady request in its plan, or queues the ordinary one for the driver, in order: cannot fail
 */
#include "fusion/api/submit.h"
#include "base/clock.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "fusion/api/describe.h"
#include "fusion/api/wait.h"
#include "fusion/engine/driver.h"
#include "fusion/observe/recorder.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/names.h"
#include "fusion/requests/path.h"
#include "fusion/requests/requests.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* A call that submits tensors of one context. */
struct call {
    struct halay_context *ctx;
    halay_callback callback;
    void *arg;
    enum halay_attendance attendance;
    int records_all;            /* each submission is recorded: none is steady */
    struct halay_request **out; /* [number of tensors]; NULL: the program does not keep the requests */
    struct halay_cargo **cargo; /* [number of tensors], of those that are not prepared; NULL: all data are the host's */
    /* The last entry of which the driver has to know, or NULL. */
    struct halay_entry *news;
    size_t bytes;    /* of all committed tensors */
    size_t ordinary; /* how many of them are by ordinary requests */
    /* The error, if there is a text for it, and the tensor that it is about; NULL: none in particular. */
    const char *why;
    const struct halay_tensor *fault;
};

static struct call call_of(struct halay_context *ctx, halay_callback callback, void *arg, struct halay_request **out)
{
    return (struct call){ .ctx = ctx,
                          .callback = callback,
                          .arg = arg,
                          .attendance = callback ? HALAY_CALLS_BACK : HALAY_MAY_WAIT,
                          .records_all = halay_recording_all(ctx),
                          .out = out };
}

/* ---- checks ---- */

/* Returns HALAY_OK if the engine accepts submissions. */
static enum halay_status check_open_locked(struct call *call)
{
    const struct halay_context *ctx = call->ctx;

    if (ctx->status == HALAY_OK && !ctx->is_closing)
        return HALAY_OK;
    call->why = ctx->status != HALAY_OK ? ctx->text : "this rank is in halay_fini";
    return ctx->status != HALAY_OK ? ctx->status : HALAY_ERR_CLOSED;
}

static enum halay_status refuse_tensor(struct call *call, const struct halay_tensor *tensor, enum halay_status status,
                                       const char *why)
{
    call->why = why;
    call->fault = tensor;
    return status;
}

static enum halay_status refuse_in_flight(struct call *call, const struct halay_tensor *tensor)
{
    if (tensor->signature.collective == HALAY_CHANGE_SETS)
        return HALAY_ERR_DUPLICATE; /* sets.c: waits, and submits again */
    return refuse_tensor(call, tensor, HALAY_ERR_DUPLICATE,
                         tensor->naming && tensor->naming->unnamed ? "too many collectives without a name are in flight"
                                                                   : "a tensor of that name is in flight already");
}

/* Returns HALAY_OK if the tensor can be submitted now. */
static enum halay_status check_locked(struct call *call, const struct halay_tensor *tensor)
{
    const struct halay_tensor *registered = tensor->entry->tensor;
    const char *why = halay_set_refusal_locked(tensor->set);

    if (registered && registered != tensor && !halay_signature_equal(&registered->signature, &tensor->signature))
        return refuse_tensor(call, tensor, HALAY_ERR_ARGUMENT,
                             "it is registered with another operation, type, shape, reduction or root");
    if (tensor->entry->request)
        return refuse_in_flight(call, tensor);
    if (registered && registered->is_stale)
        why = "it was registered for other ranks: unregister it, and register it again";
    if (!why)
        return HALAY_OK;
    /* As the other ranks get. */
    return refuse_tensor(call, tensor,
                         tensor->signature.collective == HALAY_CHANGE_SETS ? HALAY_ERR_UNSUPPORTED : HALAY_ERR_ARGUMENT,
                         why);
}

/* ---- prepare ---- */

/* Writes the payload that is sent with the signature, and the buffers of a group. */
static enum halay_status fill_contents(struct halay_request *r, const struct halay_tensor *tensor)
{
    size_t members = tensor->signature.members;

    if (halay_payload_resize(&r->payload, tensor->payload.count) != HALAY_OK ||
        halay_list_reserve(&r->buffers, members, &r->buffer_capacity, sizeof *r->buffers) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    if (tensor->naming)
        halay_tensor_write(tensor, r->payload.at, r->buffers);
    else if (tensor->payload.count)
        memcpy(r->payload.at, tensor->payload.at, tensor->payload.count * sizeof *r->payload.at);
    if (!tensor->naming && members)
        memcpy(r->buffers, tensor->buffers, members * sizeof *r->buffers);
    return HALAY_OK;
}

static enum halay_status fill_request(struct halay_request *r, const struct halay_tensor *tensor,
                                      const struct call *call)
{
    if (fill_contents(r, tensor) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    r->set = tensor->set;
    r->entry = tensor->entry;
    r->signature = tensor->signature;
    r->count = tensor->count;
    r->bytes = tensor->bytes;
    r->in = tensor->in;
    r->out = tensor->out;
    r->out_bytes = tensor->out_bytes;
    r->callback = call->callback;
    r->arg = call->arg;
    r->timeout_ms = tensor->timeout_ms;
    r->expires_us = tensor->timeout_ms ? halay_deadline_us(tensor->timeout_ms) : 0;
    r->order = tensor->order;
    r->hash = tensor->entry->node.hash;
    return HALAY_OK;
}

/* Claims a registered tensor's steady request. NULL: it cannot be submitted by that now. Any thread, no lock. */
static struct halay_request *claim_steady(const struct halay_tensor *tensor, int holds)
{
    struct halay_request *r = atomic_load_explicit(&tensor->entry->steady, memory_order_acquire);

    if (!r || !halay_steady_claim(r, holds))
        return NULL;
    if (r->order == tensor->order)
        return r;
    halay_steady_unclaim(r); /* it was made before the registration */
    return NULL;
}

/* Returns nonzero if this submission can be by a steady request. */
static int may_be_steady_locked(const struct halay_tensor *tensor, const struct call *call)
{
    const struct halay_entry *entry = tensor->entry;

    return !tensor->timeout_ms && !call->records_all && !(tensor->naming && tensor->payload.count) &&
           halay_signature_equal(&entry->agreed, &tensor->signature) &&
           halay_payload_equal(&entry->sent, tensor->payload.at, tensor->payload.count);
}

/* Gets the request of a tensor that can be submitted: its steady one, or an ordinary one. *is_new: it is to be filled.
 */
static enum halay_status get_request_locked(struct call *call, const struct halay_tensor *tensor, int may_be_steady,
                                            struct halay_request **out, int *is_new)
{
    struct halay_entry *entry = tensor->entry;

    *out = may_be_steady ? halay_steady_get_locked(entry, tensor->order, is_new) : NULL;
    if (*out)
        return HALAY_OK;
    if (!halay_steady_drop_locked(entry))
        return refuse_in_flight(call, tensor);
    *is_new = 1;
    *out = entry->request = halay_request_get_locked(tensor->ctx);
    return *out ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

/* Takes the request of a tensor that can be submitted, and fills it if it is new; a steady one is claimed. */
static enum halay_status take_request_locked(struct call *call, const struct halay_tensor *tensor, int may_be_steady,
                                             struct halay_request **out)
{
    struct halay_entry *entry = tensor->entry;

    for (;;) {
        int is_new = 0;
        enum halay_status status = get_request_locked(call, tensor, may_be_steady, out, &is_new);
        if (status != HALAY_OK)
            return status;
        if (is_new && fill_request(*out, tensor, call) != HALAY_OK) {
            entry->request = NULL;
            halay_request_drop_locked(*out);
            return HALAY_ERR_NO_MEMORY;
        }
        if (*out == entry->request)
            return HALAY_OK;
        if (is_new)
            halay_steady_attach_locked(entry, *out);
        if (halay_steady_claim(*out, call->out != NULL))
            return HALAY_OK;
        if (halay_steady_is_in_flight(*out))
            return refuse_in_flight(call, tensor);
        sched_yield(); /* its turn is over, but the thread that submitted it has not taken BUSY back yet */
    }
}

static enum halay_status prepare_locked(struct call *call, struct halay_tensor *tensor, struct halay_cargo **cargo)
{
    struct halay_request *r = tensor->naming || call->records_all ? NULL : claim_steady(tensor, call->out != NULL);

    if (!r) {
        enum halay_status status = check_locked(call, tensor);
        if (status == HALAY_OK)
            status = take_request_locked(call, tensor, !*cargo && may_be_steady_locked(tensor, call), &r);
        if (status != HALAY_OK)
            return status;
        if (*cargo)
            r->ctx->carrier->ops->apply_locked(*cargo, r);
        *cargo = NULL;
    }
    tensor->prepared = r;
    return HALAY_OK;
}

static void take_back_locked(struct halay_tensor *tensor)
{
    if (halay_steady_is_in_plan(tensor->prepared)) {
        halay_steady_unclaim(tensor->prepared);
        return;
    }
    halay_request_drop_locked(tensor->prepared);
    tensor->entry->request = NULL;
}

static enum halay_status prepare_all_locked(struct call *call, struct halay_tensor *const *tensors, size_t count)
{
    enum halay_status status = check_open_locked(call);
    struct halay_cargo *none = NULL;
    size_t done = 0;

    if (status == HALAY_OK)
        status = halay_queue_reserve_locked(&call->ctx->queue, count);
    while (status == HALAY_OK && done < count) {
        status = prepare_locked(call, tensors[done], call->cargo ? &call->cargo[done] : &none);
        done += status == HALAY_OK;
    }
    while (status != HALAY_OK && done)
        take_back_locked(tensors[--done]);
    return status;
}

/* ---- commit ---- */

/* Gives the driver an event; the queue has room, or the event is one that the driver finds without it. */
static void push_locked(struct call *call, struct halay_entry *entry, const struct halay_event *event)
{
    (void)halay_queue_push_locked(&call->ctx->queue, event);
    call->news = entry;
}

static void commit_ordinary_locked(struct call *call, const struct halay_tensor *tensor)
{
    struct halay_request *r = tensor->prepared;

    push_locked(call, tensor->entry, &(struct halay_event){ .kind = HALAY_EVENT_SUBMITTED, .request = r });
    call->ordinary++;
    call->ctx->queue.is_joined = r->signature.collective == HALAY_JOIN;
    r->ordinal = ++tensor->entry->submissions;
    if (call->records_all)
        halay_record_submitted(call->ctx, r);
    if (!call->out)
        atomic_store_explicit(&r->references, 1, memory_order_relaxed);
}

/* Commits a prepared tensor; i: its number in the call. */
static void commit_locked(struct call *call, const struct halay_tensor *tensor, size_t i)
{
    struct halay_request *r = tensor->prepared;
    struct halay_plan_bucket *ready;

    if (call->out)
        call->out[i] = r;
    call->bytes += tensor->bytes;
    if (!halay_steady_is_in_plan(r))
        commit_ordinary_locked(call, tensor);
    else if ((ready = halay_steady_commit(r, tensor->in, tensor->out, call->callback, call->arg)))
        push_locked(call, tensor->entry, &(struct halay_event){ .kind = HALAY_EVENT_READY, .ready = ready });
}

/* Hands what was committed to the driver, and counts it. lock held; unlocks. */
static void hand_over_unlock(struct call *call)
{
    struct halay_context *ctx = call->ctx;

    if (call->ordinary) {
        atomic_fetch_add_explicit(&ctx->queue.in_flight, call->ordinary, memory_order_relaxed);
        halay_count(&ctx->meters->tally.submissions, call->ordinary);
    }
    if (call->news)
        halay_driver_submitted_unlock(ctx, call->news, call->bytes, call->attendance);
    else
        pthread_mutex_unlock(&ctx->lock);
}

/* ---- calls ---- */

/* Prepares access to the data on devices, unless submissions are refused anyway. */
static enum halay_status load_cargo(struct call *call, struct halay_tensor *const *tensors, size_t count)
{
    enum halay_status status;

    pthread_mutex_lock(&call->ctx->lock);
    status = check_open_locked(call);
    pthread_mutex_unlock(&call->ctx->lock);
    if (status == HALAY_OK && !(call->cargo = calloc(count, sizeof(struct halay_cargo *))))
        status = HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < count && status == HALAY_OK; i++)
        status = call->ctx->carrier->ops->prepare(tensors[i], &call->cargo[i]);
    return status;
}

static void drop_cargo_locked(struct call *call, size_t count)
{
    for (size_t i = 0; call->cargo && i < count; i++)
        if (call->cargo[i])
            call->ctx->carrier->ops->put_locked(call->cargo[i]);
}

/* Ends a call that was refused with its text. */
static void say_why(const struct call *call, enum halay_status status)
{
    const struct halay_tensor *t = call->fault;

    if (!t)
        halay_refuses(status, "%s", call->why);
    else if (t->signature.collective == HALAY_CHANGE_SETS)
        halay_error(call->ctx->log, "process sets: %s", call->why);
    else
        halay_info_say_fault(call->ctx, t->set, t->name, call->why);
}

/* Submits all tensors, or none. */
static enum halay_status submit_all_locked(struct call *call, struct halay_tensor *const *tensors, size_t count)
{
    enum halay_status status = prepare_all_locked(call, tensors, count);

    for (size_t i = 0; i < count && status == HALAY_OK; i++)
        commit_locked(call, tensors[i], i);
    return status;
}

/* Finds or makes the entry of a name, and submits the tensor. */
static enum halay_status submit_named_locked(struct call *call, struct halay_tensor *tensor)
{
    struct halay_naming *n = tensor->naming;

    if (n->unnamed) {
        n->length = halay_unnamed_print_next_locked(n->names, tensor->signature.collective, n->unnamed);
        n->hash = halay_table_hash(n->unnamed, n->length);
    }
    tensor->entry = halay_entry_get_locked(n->names, tensor->name, n->length, n->hash);
    if (!tensor->entry)
        return HALAY_ERR_NO_MEMORY;
    tensor->order = tensor->entry->tensor ? tensor->entry->tensor->order : 0;
    enum halay_status status = submit_all_locked(call, &tensor, 1);
    if (status != HALAY_OK)
        halay_entry_release_locked(tensor->entry);
    else if (n->unnamed)
        halay_unnamed_count_locked(n->names, tensor->signature.collective);
    return status;
}

/* Begins a call: prepares access to data on devices, and locks. If one of several tensors needs the carrier,
 * halay_register has loaded it. */
static enum halay_status begin_lock(struct call *call, struct halay_tensor *const *tensors, size_t count)
{
    enum halay_status status = HALAY_OK;

    if (halay_carrier_is_wanted(call->ctx, &tensors[0]->placing))
        status = load_cargo(call, tensors, count);
    pthread_mutex_lock(&call->ctx->lock);
    return status;
}

/* Ends a call: hands what was submitted to the driver, or drops what was prepared. lock held; unlocks. */
static enum halay_status end_unlock(struct call *call, enum halay_status status, size_t count)
{
    if (status == HALAY_OK) {
        hand_over_unlock(call);
    } else {
        drop_cargo_locked(call, count);
        pthread_mutex_unlock(&call->ctx->lock);
    }
    free(call->cargo);
    if (call->why)
        say_why(call, status);
    return halay_returns(status);
}

static enum halay_status submit_all(struct call *call, struct halay_tensor *const *tensors, size_t count)
{
    enum halay_status status = begin_lock(call, tensors, count);

    if (status == HALAY_OK)
        status = submit_all_locked(call, tensors, count);
    return end_unlock(call, status, count);
}

enum halay_status halay_submit(struct halay_tensor *tensor, halay_callback callback, void *arg,
                               struct halay_request **request)
{
    if (!tensor || (!callback && !request))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_submit: no %s",
                             tensor ? "callback, and no place for the request" : "tensor");
    if (halay_is_child(tensor->ctx))
        return halay_refuse_child();
    struct halay_request *r = halay_recording_all(tensor->ctx) ? NULL : claim_steady(tensor, request != NULL);
    if (!r) {
        struct call call = call_of(tensor->ctx, callback, arg, request);
        return submit_all(&call, &tensor, 1);
    }
    struct halay_plan_bucket *ready = halay_steady_commit(r, tensor->in, tensor->out, callback, arg);
    if (request)
        *request = r;
    if (ready) {
        struct call call = call_of(tensor->ctx, callback, arg, request);
        pthread_mutex_lock(&call.ctx->lock);
        call.bytes = tensor->bytes;
        push_locked(&call, tensor->entry, &(struct halay_event){ .kind = HALAY_EVENT_READY, .ready = ready });
        hand_over_unlock(&call);
    }
    return HALAY_OK;
}

enum halay_status halay_submit_many(struct halay_tensor *const *tensors, size_t count, halay_callback callback,
                                    void *arg, struct halay_request **requests)
{
    if ((count && !tensors) || (!callback && !requests))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_submit_many: no %s",
                             count && !tensors ? "tensors" : "callback, and no place for the requests");
    for (size_t i = 0; i < count; i++)
        if (!tensors[i] || tensors[i]->ctx != tensors[0]->ctx)
            return halay_refuses(HALAY_ERR_ARGUMENT, "halay_submit_many: tensor %zu is %s", i,
                                 tensors[i] ? "of another context" : "NULL");
    if (!count)
        return HALAY_OK;
    if (halay_is_child(tensors[0]->ctx))
        return halay_refuse_child();
    struct call call = call_of(tensors[0]->ctx, callback, arg, requests);
    return submit_all(&call, tensors, count);
}

enum halay_status halay_submit_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    halay_callback callback, void *arg, enum halay_attendance attendance,
                                    struct halay_request **request)
{
    struct halay_naming naming;
    struct halay_tensor tensor, *only = &tensor;

    if (!ctx || (!callback && !request))
        return halay_refuses(HALAY_ERR_ARGUMENT, "a submission: no %s",
                             ctx ? "callback, and no place for the request" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    enum halay_status status = halay_describe(ctx, info, 1, &naming, &tensor);
    if (status != HALAY_OK)
        return halay_returns(status);
    struct call call = call_of(ctx, callback, arg, request);
    call.attendance = attendance;
    status = begin_lock(&call, &only, 1);
    if (status == HALAY_OK)
        status = submit_named_locked(&call, &tensor);
    return end_unlock(&call, status, 1);
}

enum halay_status halay_submit_named(struct halay_context *ctx, const struct halay_tensor_info *info,
                                     halay_callback callback, void *arg, struct halay_request **request)
{
    struct halay_tensor_info known;

    if (!ctx)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_submit_named: no context");
    enum halay_status status = halay_info_read(ctx, info, &known);
    if (status != HALAY_OK)
        return halay_returns(status);
    return halay_submit_info(ctx, &known, callback, arg, callback ? HALAY_CALLS_BACK : HALAY_MAY_WAIT, request);
}
