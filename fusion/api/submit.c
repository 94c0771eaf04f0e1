/* SPDX-License-Identifier: Apache-2.0
 *
 * Submission, on the program's threads. It takes the lock once: it finds or makes the name's entry, marks it as in
 * flight and queues an event for the driver, in order. Nothing is sent here.
 */
#include "fusion/api/submit.h"
#include "base/clock.h"
#include "base/error_text.h"
#include "fusion/api/describe.h"
#include "fusion/api/naming.h"
#include "fusion/api/wait.h"
#include "fusion/engine/driver.h"
#include "fusion/observe/recorder.h"
#include "fusion/protocol/signature_payload.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/names.h"
#include "fusion/requests/requests.h"
#include "fusion/requests/tensor.h"
#include <stdlib.h>
#include <string.h>

static const char in_flight_text[] = "a tensor of that name is in flight already";

/* ---- steady submissions (replay/steady.h) ---- */

/* Queues a complete bucket of a plan. Without memory for the event the driver finds it at its next look at the plan. */
static void queue_ready_locked(struct halay_context *ctx, struct halay_plan_bucket *ready)
{
    (void)halay_queue_push_locked(&ctx->queue, &(struct halay_event){ .kind = HALAY_EVENT_READY, .ready = ready });
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

/* Submits a registered tensor of a plan, without a lock unless it is the last of its bucket. Returns 0 if it has to be
 * submitted the usual way. */
static int submit_steady(struct halay_tensor *tensor, halay_callback callback, void *arg, struct halay_request **out)
{
    struct halay_context *ctx = tensor->ctx;
    struct halay_request *r = halay_recording(ctx) ? NULL : claim_steady(tensor, out != NULL);

    if (!r)
        return 0;
    struct halay_plan_bucket *ready = halay_steady_commit(r, tensor->in, tensor->out, callback, arg);
    if (out)
        *out = r;
    if (ready) {
        pthread_mutex_lock(&ctx->lock);
        queue_ready_locked(ctx, ready);
        halay_driver_submitted_unlock(ctx, tensor->entry, tensor->bytes, callback ? HALAY_CALLS_BACK : HALAY_MAY_WAIT);
    }
    return 1;
}

/* Returns HALAY_OK if submissions are accepted. */
static enum halay_status check_open_locked(const struct halay_context *ctx)
{
    if (ctx->status != HALAY_OK)
        return halay_refuses(ctx->status, "%s", ctx->text);
    return ctx->is_closing ? halay_refuses(HALAY_ERR_CLOSED, "this rank is in halay_fini") : HALAY_OK;
}

/* Prepares access to the data on devices, unless submissions are refused anyway. */
static enum halay_status cargo_prepare(struct halay_context *ctx, const char *name, const struct halay_buffers *buffers,
                                       struct halay_submission *s)
{
    s->cargo = NULL;
    if (!halay_carrier_is_wanted(ctx, s->placing))
        return HALAY_OK;
    pthread_mutex_lock(&ctx->lock);
    enum halay_status status = check_open_locked(ctx);
    pthread_mutex_unlock(&ctx->lock);
    return status == HALAY_OK ? ctx->carrier->ops->prepare(ctx, name, buffers, s) : status;
}

/* Writes the payload that is sent with the signature. */
static enum halay_status write_payload(const struct halay_tensor *tensor, const struct halay_submission *s,
                                       struct halay_payload *payload)
{
    size_t says = halay_signature_sent_count(s->signature, s->set->size);

    if (!s->info)
        return halay_payload_set(payload, tensor->payload.at, says);
    if (halay_payload_resize(payload, says) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    halay_signature_write_payload(s->info, s->set->size, payload->at);
    return HALAY_OK;
}

/* Sets the buffers of a group's tensors. */
static enum halay_status take_buffers(const struct halay_tensor *tensor, const struct halay_submission *s,
                                      struct halay_request *request)
{
    size_t members = s->signature->members;

    if (members > request->buffer_capacity) {
        struct halay_buffers *grown = realloc(request->buffers, members * sizeof *grown);
        if (!grown)
            return HALAY_ERR_NO_MEMORY;
        request->buffers = grown;
        request->buffer_capacity = members;
    }
    if (members && s->info)
        halay_members_buffers(s->info, request->buffers);
    else if (members)
        memcpy(request->buffers, tensor->buffers, members * sizeof *tensor->buffers);
    return HALAY_OK;
}

/* Returns HALAY_OK if the tensor can be submitted now. *why: the text of the error, if there is one. */
static enum halay_status check_entry_locked(const struct halay_entry *entry, const struct halay_submission *s,
                                            const char **why)
{
    int is_change = s->signature->collective == HALAY_CHANGE_SETS;

    if (entry->request) {
        *why = is_change    ? NULL /* sets.c: waits, and submits again */
               : s->unnamed ? "too many collectives without a name are in flight"
                            : in_flight_text;
        return HALAY_ERR_DUPLICATE;
    }
    if (entry->tensor && entry->tensor->is_stale) {
        *why = "it was registered for other ranks: unregister it, and register it again";
        return HALAY_ERR_ARGUMENT;
    }
    *why = halay_set_refusal_locked(s->set);
    if (!*why)
        return HALAY_OK;
    return is_change ? HALAY_ERR_UNSUPPORTED : HALAY_ERR_ARGUMENT; /* as the other ranks get */
}

static enum halay_status fill_locked(struct halay_request *request, struct halay_entry *entry,
                                     const struct halay_submission *s)
{
    const struct halay_tensor *tensor = entry->tensor;

    if (write_payload(tensor, s, &request->payload) != HALAY_OK || take_buffers(tensor, s, request) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    request->set = s->set;
    request->entry = entry;
    request->signature = *s->signature;
    request->count = s->count;
    request->bytes = s->bytes;
    request->in = s->in;
    request->out = s->out;
    request->out_bytes = s->out_bytes;
    request->callback = s->callback;
    request->arg = s->arg;
    request->timeout_ms = s->timeout_ms;
    request->expires_us = s->timeout_ms ? halay_deadline_us(s->timeout_ms) : 0;
    request->order = tensor ? tensor->order : 0;
    if (s->cargo)
        s->cargo->carrier->ops->apply_locked(s->cargo, request);
    return HALAY_OK;
}

/* Ensures that the tensor's steady request, if any, is not submitted as well. *why: the text of the error. */
static enum halay_status take_turn_locked(struct halay_entry *entry, const char **why)
{
    struct halay_request *steady = atomic_load_explicit(&entry->steady, memory_order_relaxed);

    if (!steady || !halay_steady_is_in_plan(steady))
        return HALAY_OK;
    if (halay_steady_is_held(steady) && !halay_steady_is_in_flight(steady)) {
        halay_steady_drop_locked(entry);
        return HALAY_OK;
    }
    if (halay_steady_take_turn_locked(steady))
        return HALAY_OK;
    *why = in_flight_text;
    return HALAY_ERR_DUPLICATE;
}

/* Prepares a request, in flight for its name but not yet for the driver. *why: the error, if there is a text for it. */
static enum halay_status prepare_locked(struct halay_context *ctx, struct halay_entry *entry,
                                        const struct halay_submission *s, const char **why)
{
    enum halay_status status = check_entry_locked(entry, s, why);

    if (status != HALAY_OK)
        return status;
    struct halay_request *request = halay_request_get_locked(ctx);
    if (!request)
        return HALAY_ERR_NO_MEMORY;
    status = fill_locked(request, entry, s);
    if (status == HALAY_OK)
        status = take_turn_locked(entry, why);
    if (status != HALAY_OK) {
        halay_request_drop_locked(request);
        return status;
    }
    entry->request = request;
    return HALAY_OK;
}

static void take_back_locked(struct halay_entry *entry)
{
    struct halay_request *steady = atomic_load_explicit(&entry->steady, memory_order_relaxed);

    if (steady && halay_steady_is_in_plan(steady))
        halay_steady_unclaim(steady);
    halay_request_drop_locked(entry->request);
    entry->request = NULL;
}

/* Passes a prepared request to the driver; the queue has room. Cannot fail. */
static void commit_locked(struct halay_context *ctx, struct halay_entry *entry, struct halay_request **out)
{
    struct halay_request *request = entry->request;

    halay_queue_push_locked(&ctx->queue, &(struct halay_event){ .kind = HALAY_EVENT_SUBMITTED, .request = request });
    ctx->queue.is_joined = request->signature.collective == HALAY_JOIN;
    request->ordinal = ++entry->submissions;
    request->hash = entry->node.hash;
    if (halay_recording(ctx))
        halay_record_submitted(ctx, request);
    if (out)
        *out = request;
    else
        atomic_store_explicit(&request->references, 1, memory_order_relaxed);
}

static void count_submitted_locked(struct halay_context *ctx, size_t count)
{
    atomic_fetch_add_explicit(&ctx->queue.in_flight, count, memory_order_relaxed);
    halay_count(&ctx->meters->tally.submissions, count);
}

/* Makes the entry's steady request from a submission; it is in no plan. NULL: no memory. */
static struct halay_request *make_steady_locked(struct halay_entry *entry, const struct halay_submission *s)
{
    struct halay_request *r = halay_steady_idle_locked(entry);

    if (!r && !(r = halay_request_get_locked(entry->set->ctx)))
        return NULL;
    atomic_store_explicit(&r->references, 1, memory_order_relaxed);
    if (fill_locked(r, entry, s) != HALAY_OK) {
        atomic_store_explicit(&entry->steady, NULL, memory_order_relaxed);
        halay_request_drop_locked(r);
        return NULL;
    }
    r->hash = entry->node.hash;
    atomic_store_explicit(&entry->steady, r, memory_order_release);
    return r;
}

/* Returns the steady request of a tensor of a plan, which is created if necessary, if this submission can be by it.
 * NULL: it is an ordinary one. */
static struct halay_request *get_steady_locked(struct halay_entry *entry, const struct halay_submission *s)
{
    uint64_t order = entry->tensor ? entry->tensor->order : 0;
    const char *why;

    if (!halay_replay_takes_steady_locked(entry) || s->cargo || s->timeout_ms || halay_recording(entry->set->ctx) ||
        (s->info && s->signature->payload_count) || !halay_signature_equal(&entry->agreed, s->signature) ||
        check_entry_locked(entry, s, &why) != HALAY_OK)
        return NULL;
    struct halay_request *r = atomic_load_explicit(&entry->steady, memory_order_relaxed);
    if (r && halay_steady_is_in_plan(r)) {
        if (halay_steady_is_in_flight(r) || r->out_bytes != s->out_bytes)
            return NULL;
        if (!halay_steady_is_held(r) && r->order == order)
            return r;
        halay_steady_drop_locked(entry); /* the program has kept it, and owns it from now on; or the name's
                                            registration is another one */
    }
    r = make_steady_locked(entry, s);
    if (!r || !halay_request_is_agreed(r)) /* it may have been registered anew, as another tensor */
        return NULL;
    halay_replay_attach_locked(entry, r);
    return r;
}

/* Submits an entry. *is_news: the driver has to know. *why: the error, if there is a text for it. */
static enum halay_status submit_locked(struct halay_context *ctx, struct halay_entry *entry,
                                       const struct halay_submission *s, struct halay_request **out, int *is_news,
                                       const char **why)
{
    struct halay_request *r = get_steady_locked(entry, s);

    if (r && halay_steady_claim(r, out != NULL)) {
        struct halay_plan_bucket *ready = halay_steady_commit(r, s->in, s->out, s->callback, s->arg);
        *is_news = ready != NULL;
        if (out)
            *out = r;
        if (ready)
            queue_ready_locked(ctx, ready);
        return HALAY_OK;
    }
    *is_news = 1;
    enum halay_status status = halay_queue_reserve_locked(&ctx->queue, 1);
    if (status == HALAY_OK)
        status = prepare_locked(ctx, entry, s, why);
    if (status != HALAY_OK)
        return status;
    commit_locked(ctx, entry, out);
    count_submitted_locked(ctx, 1);
    return HALAY_OK;
}

/* Wakes the driver for what was submitted, if necessary. lock held; unlocks. */
static void submitted_unlock(struct halay_context *ctx, struct halay_entry *entry, const struct halay_submission *s,
                             enum halay_attendance attendance, int is_news)
{
    if (is_news)
        halay_driver_submitted_unlock(ctx, entry, s->bytes, attendance);
    else
        pthread_mutex_unlock(&ctx->lock);
}

static struct halay_submission submission_of(const struct halay_tensor *tensor, halay_callback callback, void *arg)
{
    return (struct halay_submission){ .signature = &tensor->signature,
                                      .count = tensor->count,
                                      .bytes = tensor->bytes,
                                      .in = tensor->in,
                                      .out = tensor->out,
                                      .out_bytes = tensor->out_bytes,
                                      .callback = callback,
                                      .arg = arg,
                                      .timeout_ms = tensor->timeout_ms,
                                      .placing = &tensor->placing,
                                      .set = tensor->set };
}

/* Ends a submission that was refused. lock held; unlocks. */
static void give_up_unlock(struct halay_context *ctx, struct halay_cargo *cargo)
{
    if (cargo)
        ctx->carrier->ops->put_locked(cargo);
    pthread_mutex_unlock(&ctx->lock);
}

enum halay_status halay_submit(struct halay_tensor *tensor, halay_callback callback, void *arg,
                               struct halay_request **request)
{
    if (!tensor || (!callback && !request))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_submit: no %s",
                             tensor ? "callback, and no place for the request" : "tensor");
    struct halay_context *ctx = tensor->ctx;
    if (halay_is_child(ctx))
        return halay_refuse_child();
    if (submit_steady(tensor, callback, arg, request))
        return HALAY_OK;
    struct halay_submission s = submission_of(tensor, callback, arg);
    const char *why = NULL;
    enum halay_status status = HALAY_OK;
    int is_news;
    if (halay_carrier_is_loaded(ctx))
        status = cargo_prepare(ctx, tensor->entry->node.name, tensor->buffers, &s);
    if (status != HALAY_OK)
        return halay_returns(status);
    pthread_mutex_lock(&ctx->lock);
    status = check_open_locked(ctx);
    if (status == HALAY_OK)
        status = submit_locked(ctx, tensor->entry, &s, request, &is_news, &why);
    if (status == HALAY_OK)
        submitted_unlock(ctx, tensor->entry, &s, callback ? HALAY_CALLS_BACK : HALAY_MAY_WAIT, is_news);
    else
        give_up_unlock(ctx, s.cargo);
    if (why)
        halay_info_say_fault(ctx, tensor->set, tensor->entry->node.name, why);
    return halay_returns(status);
}

/* Prepares access to the data of several tensors; *all is NULL if none needs it. All or none. */
static enum halay_status cargo_prepare_many(struct halay_context *ctx, struct halay_tensor *const *tensors,
                                            size_t count, struct halay_cargo ***all)
{
    enum halay_status status = HALAY_OK;
    size_t done = 0;

    *all = NULL;
    if (!halay_carrier_is_loaded(ctx)) /* halay_register has loaded it, if it is needed */
        return HALAY_OK;
    struct halay_cargo **cargo = calloc(count, sizeof *cargo);
    if (!cargo)
        return HALAY_ERR_NO_MEMORY;
    for (; done < count && status == HALAY_OK; done++) {
        struct halay_submission s = submission_of(tensors[done], NULL, NULL);
        status = cargo_prepare(ctx, tensors[done]->entry->node.name, tensors[done]->buffers, &s);
        cargo[done] = s.cargo;
    }
    if (status == HALAY_OK) {
        *all = cargo;
        return HALAY_OK;
    }
    pthread_mutex_lock(&ctx->lock);
    for (size_t i = 0; i < done; i++)
        if (cargo[i])
            ctx->carrier->ops->put_locked(cargo[i]);
    pthread_mutex_unlock(&ctx->lock);
    free(cargo);
    return status;
}

/* Prepares all or none. *fault: the refused one. cargo, which may be NULL, loses what has passed to a request. */
static enum halay_status prepare_many_locked(struct halay_context *ctx, struct halay_tensor *const *tensors,
                                             size_t count, halay_callback callback, void *arg,
                                             struct halay_cargo **cargo, const struct halay_tensor **fault,
                                             const char **why)
{
    enum halay_status status = check_open_locked(ctx);
    size_t done = 0;

    if (status == HALAY_OK)
        status = halay_queue_reserve_locked(&ctx->queue, count);
    for (; done < count && status == HALAY_OK; done++) {
        struct halay_submission s = submission_of(tensors[done], callback, arg);
        s.cargo = cargo ? cargo[done] : NULL;
        *fault = tensors[done];
        status = prepare_locked(ctx, tensors[done]->entry, &s, why);
        if (cargo && status == HALAY_OK)
            cargo[done] = NULL;
    }
    if (status == HALAY_OK || !done)
        return status;
    for (done--; done > 0; done--)
        take_back_locked(tensors[done - 1]->entry);
    return status;
}

/* Claims all of them, or none. */
static int claim_many(struct halay_tensor *const *tensors, size_t count, int holds)
{
    size_t claimed = 0;

    while (claimed < count && claim_steady(tensors[claimed], holds))
        claimed++;
    if (claimed == count)
        return 1;
    while (claimed)
        halay_steady_unclaim(atomic_load_explicit(&tensors[--claimed]->entry->steady, memory_order_relaxed));
    return 0;
}

/* Returns nonzero if all of them can be claimed from now on, as far as this thread knows. */
static int attach_many_locked(struct halay_tensor *const *tensors, size_t count)
{
    if (check_open_locked(tensors[0]->ctx) != HALAY_OK)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct halay_submission s = submission_of(tensors[i], NULL, NULL);
        if (!get_steady_locked(tensors[i]->entry, &s))
            return 0;
    }
    return 1;
}

/* Submits all or none, as submit_steady does, but with the lock held: a thread that waited for it between the two steps
 * of a submission would wait for the driver, which holds it and waits for that submission when it leaves the plan. */
static int submit_many_steady(struct halay_tensor *const *tensors, size_t count, halay_callback callback, void *arg,
                              struct halay_request **out)
{
    struct halay_context *ctx = tensors[0]->ctx;
    size_t bytes = 0, last = count;

    if (halay_recording(ctx) || halay_carrier_is_loaded(ctx))
        return 0;
    pthread_mutex_lock(&ctx->lock);
    if (!(claim_many(tensors, count, out != NULL) ||
          (attach_many_locked(tensors, count) && claim_many(tensors, count, out != NULL)))) {
        pthread_mutex_unlock(&ctx->lock);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct halay_request *r = atomic_load_explicit(&tensors[i]->entry->steady, memory_order_relaxed);
        struct halay_plan_bucket *ready = halay_steady_commit(r, tensors[i]->in, tensors[i]->out, callback, arg);
        if (out)
            out[i] = r;
        bytes += tensors[i]->bytes;
        if (!ready)
            continue;
        last = i;
        queue_ready_locked(ctx, ready);
    }
    if (last < count)
        halay_driver_submitted_unlock(ctx, tensors[last]->entry, bytes, callback ? HALAY_CALLS_BACK : HALAY_MAY_WAIT);
    else
        pthread_mutex_unlock(&ctx->lock);
    return 1;
}

enum halay_status halay_submit_many(struct halay_tensor *const *tensors, size_t count, halay_callback callback,
                                    void *arg, struct halay_request **requests)
{
    const struct halay_tensor *fault = NULL;
    struct halay_cargo **cargo;
    const char *why = NULL;
    size_t bytes = 0;

    if ((count && !tensors) || (!callback && !requests))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_submit_many: no %s",
                             count && !tensors ? "tensors" : "callback, and no place for the requests");
    for (size_t i = 0; i < count; i++)
        if (!tensors[i] || tensors[i]->ctx != tensors[0]->ctx)
            return halay_refuses(HALAY_ERR_ARGUMENT, "halay_submit_many: tensor %zu is %s", i,
                                 tensors[i] ? "of another context" : "NULL");
    if (!count)
        return HALAY_OK;
    struct halay_context *ctx = tensors[0]->ctx;
    if (halay_is_child(ctx))
        return halay_refuse_child();
    if (submit_many_steady(tensors, count, callback, arg, requests))
        return HALAY_OK;
    enum halay_status status = cargo_prepare_many(ctx, tensors, count, &cargo);
    if (status != HALAY_OK)
        return halay_returns(status);
    pthread_mutex_lock(&ctx->lock);
    status = prepare_many_locked(ctx, tensors, count, callback, arg, cargo, &fault, &why);
    if (status == HALAY_OK) {
        for (size_t i = 0; i < count; i++) {
            commit_locked(ctx, tensors[i]->entry, requests ? &requests[i] : NULL);
            bytes += tensors[i]->bytes;
        }
        count_submitted_locked(ctx, count);
        halay_driver_submitted_unlock(ctx, tensors[count - 1]->entry, bytes,
                                      callback ? HALAY_CALLS_BACK : HALAY_MAY_WAIT);
    } else {
        for (size_t i = 0; cargo && i < count; i++)
            if (cargo[i])
                ctx->carrier->ops->put_locked(cargo[i]);
        pthread_mutex_unlock(&ctx->lock);
    }
    free(cargo);
    if (why)
        halay_info_say_fault(ctx, fault->set, fault->entry->node.name, why);
    return halay_returns(status);
}

/* Returns why the name cannot be submitted like this; NULL: it can. */
static const char *refusal_locked(const struct halay_entry *entry, const struct halay_signature *signature)
{
    return entry->tensor && !halay_signature_equal(&entry->tensor->signature, signature)
               ? "it is registered with another operation, type, shape, reduction or root"
               : NULL;
}

/* Submits a description that has been checked. *why: the error, if there is a text for it. */
static enum halay_status submit_checked(struct halay_context *ctx, struct halay_process_set *names,
                                        struct halay_submission *s, size_t length, enum halay_attendance attendance,
                                        struct halay_request **request, const char **why)
{
    uint64_t hash = s->unnamed ? 0 : halay_table_hash(s->info->name, length);
    struct halay_entry *entry = NULL;
    int is_news;

    enum halay_status status = cargo_prepare(ctx, s->info->name, NULL, s);
    if (status != HALAY_OK)
        return status;
    pthread_mutex_lock(&ctx->lock);
    status = check_open_locked(ctx);
    if (s->unnamed) {
        length = halay_unnamed_print_next_locked(names, s->signature->collective, s->unnamed);
        hash = halay_table_hash(s->unnamed, length);
    }
    if (status == HALAY_OK && !(entry = halay_entry_get_locked(names, s->info->name, length, hash)))
        status = HALAY_ERR_NO_MEMORY;
    if (status == HALAY_OK && (*why = refusal_locked(entry, s->signature)))
        status = HALAY_ERR_ARGUMENT;
    if (status == HALAY_OK) {
        status = submit_locked(ctx, entry, s, request, &is_news, why);
        if (status != HALAY_OK)
            halay_entry_release_locked(entry);
        else if (s->unnamed)
            halay_unnamed_count_locked(names, s->signature->collective);
    }
    if (status == HALAY_OK)
        submitted_unlock(ctx, entry, s, attendance, is_news);
    else
        give_up_unlock(ctx, s->cargo);
    return status;
}

enum halay_status halay_submit_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    halay_callback callback, void *arg, enum halay_attendance attendance,
                                    struct halay_request **request)
{
    struct halay_signature signature;
    struct halay_naming naming;
    struct halay_tensor_info own;
    size_t count, length;
    const char *why = NULL;

    if (!ctx || (!callback && !request))
        return halay_refuses(HALAY_ERR_ARGUMENT, "a submission: no %s",
                             ctx ? "callback, and no place for the request" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    enum halay_status status = halay_naming_make(ctx, info, &naming);
    if (status != HALAY_OK)
        return halay_returns(status);
    halay_naming_unnamed(&naming);
    info = halay_info_trim(ctx, naming.info, &own);
    status = halay_info_check(ctx, info, &signature, &count, &length);
    if (status != HALAY_OK)
        return halay_returns(status);
    struct halay_placing placing = halay_info_placing(info);
    struct halay_submission s = { .signature = &signature,
                                  .info = info,
                                  .count = count,
                                  .bytes = halay_info_bytes(info, count),
                                  .in = halay_info_input(info),
                                  .out = info->out,
                                  .callback = callback,
                                  .arg = arg,
                                  .timeout_ms = info->timeout_ms,
                                  .placing = &placing,
                                  .set = halay_info_set(ctx, info),
                                  .unnamed = naming.unnamed };
    s.out_bytes = halay_room_at_out(halay_info_set(ctx, info), info, s.bytes);
    status = submit_checked(ctx, naming.names, &s, length, attendance, request, &why);
    if (why && info->collective == HALAY_CHANGE_SETS)
        halay_error(ctx->log, "process sets: %s", why);
    else if (why)
        halay_info_say_fault(ctx, halay_info_set(ctx, info), info->name, why);
    return halay_returns(status);
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
