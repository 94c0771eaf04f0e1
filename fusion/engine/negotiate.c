/* SPDX-License-Identifier: Apache-2.0
 *
 * Negotiation, this rank's side: submissions are sent to the coordinator, and its decisions are carried out.
 *
 *     submitted -> carrier, if its data are on devices
 *     submitted -> READY id (the name has one for the same signature) or ANNOUNCE -> coordinator
 *     coordinator -> AGREE: ids.c; BUCKET: bucket.c; ERROR, FAIL: requests end; LEFT, DONE: the end of the job
 *
 * On rank 0 the coordinator is called directly; an item that it emits for all is applied here for this rank, and goes
 * to the messenger for the others. Nothing in this file calls the coordinator from within its own emit.
 */
#include "fusion/engine/negotiate.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/engine/engine.h"
#include "fusion/engine/fail.h"
#include "fusion/engine/withdraw.h"
#include "fusion/observe/stacks.h"
#include "fusion/protocol/messenger.h"
#include "fusion/replay/branch.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/reasons.h"
#include "fusion/replay/replay.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/ids.h"
#include "fusion/requests/path.h"
#include "fusion/requests/requests.h"
#include "fusion/run/bucket.h"
#include "fusion/run/deliver.h"
#include "fusion/run/sets.h"
#include <stdlib.h>
#include <string.h>

/* ---- this rank's submissions ---- */

static void send_ready(struct halay_context *ctx, struct halay_request *r)
{
    halay_count(&ctx->meters->tally.cache_hits, 1);
    halay_send_item(
        r->set, &(struct halay_item){ .kind = HALAY_ITEM_READY, .set = r->set->number, .range = { r->entry->id, 1 } });
}

static void send_announce(struct halay_context *ctx, const struct halay_request *r)
{
    const struct halay_entry *e = r->entry;

    halay_count(&ctx->meters->tally.negotiations, 1);
    halay_send_item(r->set, &(struct halay_item){ .kind = HALAY_ITEM_ANNOUNCE,
                                                  .set = r->set->number,
                                                  .name = e->node.name,
                                                  .name_length = e->node.length,
                                                  .signature = r->signature,
                                                  .payload = r->payload.at,
                                                  .payload_count = r->payload.count,
                                                  .order = r->order });
}

static void send_submitted(struct halay_context *ctx, struct halay_request *r)
{
    struct halay_path *path = halay_request_path(r);

    if (path) {
        halay_engine_expect_ok(ctx, path->ops->submit(path, r), path->ops->failed);
        halay_withdraw_watch(ctx, r);
        return;
    }
    halay_request_move(r, HALAY_LIFE_SENT);
    r->sequence = ++ctx->engine->sent;
    if (halay_request_is_agreed(r))
        send_ready(ctx, r);
    else
        send_announce(ctx, r);
    halay_withdraw_watch(ctx, r);
}

/* Cancels a request. The event's reference ends here. */
static void take_cancel(struct halay_context *ctx, struct halay_request *r, int is_open)
{
    if (halay_steady_is_in_flight(r))
        halay_replay_break(r->set, HALAY_BREAK_TAKEN); /* the request is an ordinary one now */
    if (is_open && !halay_steady_is_in_plan(r) && !halay_steady_is_done(r))
        halay_withdraw_cancel(ctx, r);
    halay_request_put(r);
}

/* Takes an event of the program's threads. */
static void take_event(struct halay_context *ctx, const struct halay_event *e)
{
    int is_open = ctx->status == HALAY_OK;

    if (is_open && halay_replay_take(ctx, e)) {
        if (e->kind == HALAY_EVENT_SUBMITTED)
            halay_withdraw_watch(ctx, e->request);
        return;
    }
    if (e->kind == HALAY_EVENT_SUBMITTED && is_open) /* otherwise the failure has ended the request */
        send_submitted(ctx, e->request);
    else if (e->kind == HALAY_EVENT_CANCELED)
        take_cancel(ctx, e->request, is_open);
}

/* Takes an event, or defers it if it has to wait for its data, or for an earlier event that does. */
static void take_or_defer(struct halay_context *ctx, const struct halay_event *e)
{
    int is_plain = e->kind == HALAY_EVENT_SUBMITTED && !e->request->cargo && !ctx->carrier->deferred_count,
        is_deferred = 0;
    enum halay_status status = HALAY_OK;

    if (ctx->status == HALAY_OK && !is_plain)
        status = ctx->carrier->ops->defer(ctx, e, &is_deferred);
    halay_engine_expect_ok(ctx, status, ctx->carrier->ops->unreachable);
    if (!is_deferred)
        take_event(ctx, e);
}

static size_t take_submitted(struct halay_context *ctx)
{
    if (!atomic_load_explicit(&ctx->queue.has_events, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&ctx->lock);
    struct halay_events batch = ctx->queue.submitted;
    ctx->queue.submitted = ctx->queue.batch;
    ctx->queue.submitted.count = 0;
    ctx->queue.batch = batch;
    atomic_store_explicit(&ctx->queue.has_events, 0, memory_order_relaxed);
    int is_aborted = ctx->queue.is_aborted;
    pthread_mutex_unlock(&ctx->lock);

    if (is_aborted) /* the reason is set once */
        halay_engine_fail(ctx, HALAY_ERR_CANCELED, ctx->rank, "aborted: %s", ctx->queue.reason);
    for (size_t i = 0; i < batch.count; i++)
        take_or_defer(ctx, &batch.events[i]);
    return batch.count + (size_t)is_aborted;
}

static size_t take_all(struct halay_context *ctx, struct halay_events *list)
{
    size_t did = list->count;

    for (size_t i = 0; i < did; i++)
        take_event(ctx, &list->events[i]);
    list->count = 0;
    return did;
}

/* Takes the events that were deferred: by a plan that has ended, until their data have arrived, or until no set has a
 * plan. */
static size_t take_resubmitted(struct halay_context *ctx)
{
    struct halay_queue *queue = &ctx->queue;
    size_t did = take_all(ctx, &queue->resubmitted);

    if (!queue->changes.count || !halay_replay_all_off(ctx))
        return did;
    struct halay_events changes = queue->changes;
    queue->changes = queue->resubmitted; /* empty: taking a change may defer the next one */
    queue->resubmitted = changes;
    return did + take_all(ctx, &queue->resubmitted);
}

size_t halay_negotiate_submitted(struct halay_context *ctx)
{
    size_t did = take_resubmitted(ctx);

    did += take_submitted(ctx);
    if (!ctx->carrier->deferred_count)
        return did;
    halay_engine_expect_ok(ctx, ctx->carrier->ops->release(ctx), ctx->carrier->ops->unreachable);
    return did + take_resubmitted(ctx);
}

/* Sends an item of a plan up the tree, except the answer to PLAN, which must follow all that this rank has sent to the
 * coordinator. */
static void send_replay(struct halay_process_set *set, const struct halay_item *item)
{
    if (set->coordinator || item->kind == HALAY_ITEM_PLAN)
        halay_send_item(set, item);
    else
        halay_engine_expect_ok(set->ctx, halay_branch_send_up(set, item), "a message failed");
}

size_t halay_negotiate_replay(struct halay_context *ctx)
{
    struct halay_item item;
    size_t did = 0;

    if (ctx->status != HALAY_OK)
        return 0;
    halay_engine_expect_ok(ctx, halay_replay_look(ctx), "a plan failed");
    for (struct halay_process_set *set = &ctx->all; set && ctx->status == HALAY_OK; set = set->next)
        for (; ctx->status == HALAY_OK && halay_replay_next_item(set, &item); did++)
            send_replay(set, &item);
    return did;
}

static void send_flush(struct halay_context *ctx)
{
    /* If nothing is running here, little is running on rank 0, which then dispatches ready tensors anyway. */
    if (!atomic_load_explicit(&ctx->waiting.flush_wanted, memory_order_relaxed) ||
        !atomic_exchange_explicit(&ctx->waiting.flush_wanted, 0, memory_order_relaxed))
        return;
    for (struct halay_process_set *set = &ctx->all; set && ctx->execution->running_count; set = set->next)
        if (set->running && halay_replay_is_off(set) &&
            (!set->ranks || set->ranks[0] == 0)) /* in other sets nothing accumulates */
            halay_send_item(set, &(struct halay_item){ .kind = HALAY_ITEM_FLUSH, .set = set->number });
}

/* ---- the coordinator's decisions ---- */

/* Makes an item that describes what this rank's program does, with its name in `name`. */
static struct halay_item make_doing(struct halay_context *ctx, char *name)
{
    struct halay_item item = { .kind = HALAY_ITEM_DOING, .name = name };

    pthread_mutex_lock(&ctx->lock);
    const struct halay_request *request = atomic_load_explicit(&ctx->waiting.waited, memory_order_relaxed);
    if (atomic_load_explicit(&ctx->is_closing, memory_order_relaxed))
        item.doing = HALAY_DOING_LEAVES;
    else if (atomic_load_explicit(&ctx->waiting.calls, memory_order_relaxed))
        item.doing = HALAY_DOING_WAITS;
    if (item.doing == HALAY_DOING_WAITS && request && request->entry) {
        item.name_length = request->entry->node.length;
        memcpy(name, request->entry->node.name, item.name_length);
        item.set = request->set->number;
    }
    pthread_mutex_unlock(&ctx->lock);
    return item;
}

void halay_negotiate_stalls(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    char name[HALAY_NAME_MAX];
    struct halay_item own = make_doing(ctx, name);

    enum halay_status status =
        halay_coordinator_look_for_stalls(ctx->all.coordinator, ctx->now_us, (int64_t)config->stall_check_ms * 1000,
                                          (int64_t)config->stall_shutdown_ms * 1000, &own);
    if (halay_coordinator_asks_rank0(ctx->all.coordinator))
        halay_stacks_show(ctx);
    halay_engine_expect_ok(ctx, status, "negotiation failed");
}

static enum halay_status send_doing(struct halay_context *ctx)
{
    char name[HALAY_NAME_MAX];
    struct halay_item item = make_doing(ctx, name);

    return ctx->all.coordinator ? HALAY_ERR_FORMAT : halay_messenger_append(ctx->messenger, 0, &item);
}

static void end_mismatched(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_context *ctx = set->ctx;
    uint64_t hash = halay_table_hash(item->name, item->name_length);
    char text[HALAY_TEXT_MAX + 1];

    memcpy(text, item->text, item->text_length);
    text[item->text_length] = 0;
    pthread_mutex_lock(&ctx->lock);
    struct halay_entry *e = (struct halay_entry *)halay_table_find(&set->names, item->name, item->name_length, hash);
    struct halay_request *request = e ? e->request : NULL;
    pthread_mutex_unlock(&ctx->lock);
    if (request)
        halay_request_end(request, item->status, text);
}

static int is_of_tree(enum halay_item_kind kind)
{
    return kind >= HALAY_ITEM_BREAK;
}

/* Returns nonzero if the item concerns a set that has been removed here, and its sender may not know that yet. A set in
 * which a tensor is in flight is not removed, so the other items cannot be late. */
static int is_late(const struct halay_context *ctx, const struct halay_item *item)
{
    return item->set <= ctx->execution->sets_made &&
           (item->kind == HALAY_ITEM_FORGET || item->kind == HALAY_ITEM_FLUSH || item->kind == HALAY_ITEM_WITHDRAW ||
            item->kind >= HALAY_ITEM_PLANNED);
}

static enum halay_status take_resume(struct halay_process_set *set, const struct halay_item *item);

/* Applies an item about one set's tensors. */
static enum halay_status apply_to(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_context *ctx = set->ctx;
    enum halay_status status;

    if (set->rank < 0)
        return HALAY_ERR_FORMAT;
    if (!is_of_tree(item->kind) && halay_replay_is_early(set))
        return halay_items_append(&set->replay->early, item);
    switch (item->kind) {
    case HALAY_ITEM_BREAK:
    case HALAY_ITEM_ENTERED:
    case HALAY_ITEM_SETTLED:
        return ctx->rank ? halay_replay_gather(set, item) : HALAY_ERR_FORMAT;
    case HALAY_ITEM_AGREE:
        return halay_ids_agree(set, item);
    case HALAY_ITEM_BUCKET:
        return halay_bucket_add(set, item);
    case HALAY_ITEM_ERROR:
        end_mismatched(set, item);
        return HALAY_OK;
    case HALAY_ITEM_PLANNED:
    case HALAY_ITEM_PLAN:
    case HALAY_ITEM_FREEZE:
    case HALAY_ITEM_COMPLETE:
        return halay_replay_receive(set, item);
    case HALAY_ITEM_RESUME:
        return take_resume(set, item);
    case HALAY_ITEM_FORGET:
        status = halay_ids_forget(set, item->id);
        if (status == HALAY_OK && !ctx->all.coordinator)
            status = halay_messenger_append(ctx->messenger, 0, item);
        return status;
    default:
        return HALAY_ERR_FORMAT;
    }
}

/* Applies the items that the coordinator has sent between SETTLED and RESUME. */
static enum halay_status take_early(struct halay_process_set *set)
{
    struct halay_items early = set->replay->early;
    enum halay_status status = HALAY_OK;
    struct halay_item item;

    set->replay->early = (struct halay_items){ 0 };
    for (size_t at = 0; at < early.used && status == HALAY_OK;) {
        status = halay_item_read(early.data, early.used, &at, set->ctx->size, &item);
        if (status == HALAY_OK)
            status = apply_to(set, &item);
    }
    halay_items_fini(&early);
    return status;
}

static enum halay_status take_resume(struct halay_process_set *set, const struct halay_item *item)
{
    enum halay_status status = halay_replay_receive(set, item);

    if (status == HALAY_OK)
        return take_early(set);
    if (status != halay_group_failure(set->group, NULL))
        return status;
    halay_engine_fail_group(set, status, "a plan cannot be left"); /* the sender is not the cause */
    return HALAY_OK;
}

static enum halay_status apply_item(struct halay_context *ctx, const struct halay_item *item)
{
    struct halay_process_set *set;

    switch (item->kind) {
    case HALAY_ITEM_FAIL:
        if (!ctx->all.coordinator)
            ctx->engine->has_sent_fail = 1; /* the sender sends it to the others */
        ctx->has_lost_sums = item->status == HALAY_ERR_CLOSED;
        halay_engine_fail(ctx, HALAY_ERR_PEER, item->rank, "%.*s", (int)item->text_length, item->text);
        return HALAY_OK;
    case HALAY_ITEM_LEFT:
        ctx->left[item->rank] = 1;
        return HALAY_OK;
    case HALAY_ITEM_ASK:
        if (item->shows_stacks)
            halay_stacks_show(ctx);
        return send_doing(ctx);
    case HALAY_ITEM_DONE:
        ctx->engine->is_done = 1;
        halay_messenger_stop_receiving(ctx->messenger);
        return HALAY_OK;
    default:
        set = halay_process_set_by_number(ctx, item->set);
        return set ? apply_to(set, item) : is_late(ctx, item) ? HALAY_OK : HALAY_ERR_FORMAT;
    }
}

/* ---- items from other ranks ---- */

/* Passes an item to the coordinator of its set, on rank 0; items without a set to the parent. */
static enum halay_status receive_as_coordinator(struct halay_context *ctx, int rank, const struct halay_item *item)
{
    int number = item->kind == HALAY_ITEM_DOING ? 0 : item->set;
    struct halay_process_set *set = halay_process_set_by_number(ctx, number);

    if (!set && is_late(ctx, item))
        return HALAY_OK;
    int member = set ? halay_process_set_rank_of(set, rank) : -1;
    return member < 0 ? HALAY_ERR_FORMAT : halay_coordinator_receive(set->coordinator, member, item, ctx->now_us);
}

/* Notes that a rank has sent this one messages of a path. */
static enum halay_status listen_to(struct halay_context *ctx, int rank, uint64_t due)
{
    enum halay_status status = HALAY_OK;

    for (struct halay_path *path = ctx->paths; path && status == HALAY_OK; path = path->next)
        status = path->ops->listen(path, rank, due);
    return status;
}

/* Takes the report that a rank has sent another one a message which it must receive; rank 0 forwards it. */
static enum halay_status take_listen(struct halay_context *ctx, int rank, const struct halay_item *item)
{
    if (item->rank == (ctx->all.coordinator ? rank : ctx->rank))
        return HALAY_ERR_FORMAT;
    if (!ctx->all.coordinator)
        return listen_to(ctx, item->rank, item->number);
    if (item->rank == 0)
        return listen_to(ctx, rank, item->number);
    return halay_messenger_append(
        ctx->messenger, item->rank,
        &(struct halay_item){ .kind = HALAY_ITEM_LISTEN, .rank = rank, .number = item->number });
}

enum halay_status halay_negotiate_receive(void *arg, int rank, const struct halay_item *item)
{
    struct halay_context *ctx = arg;

    if (ctx->status != HALAY_OK)
        return HALAY_OK; /* the engine has failed: items are only taken off the transport */
    if (item->kind == HALAY_ITEM_LISTEN)
        return take_listen(ctx, rank, item);
    if (!ctx->all.coordinator)
        return rank == 0 || is_of_tree(item->kind) ? apply_item(ctx, item) : HALAY_ERR_FORMAT;
    if (item->kind == HALAY_ITEM_FAIL)
        return apply_item(ctx, item); /* a rank that cannot continue */
    return receive_as_coordinator(ctx, rank, item);
}

/* Sends to one of the set's ranks, or to all (-1): to the others by the messenger, and to this one. */
static enum halay_status send_to_set(struct halay_process_set *set, int rank, const struct halay_item *item)
{
    struct halay_context *ctx = set->ctx;
    enum halay_status status = HALAY_OK;
    int is_mine = rank < 0 ? set->rank >= 0 : rank == set->rank;

    if (is_of_tree(item->kind)) {
        status = halay_branch_send_down(set, item);
        return status == HALAY_OK && is_mine ? apply_item(ctx, item) : status;
    }
    for (int r = 0; set->ranks && r < set->size && status == HALAY_OK; r++)
        if ((rank < 0 || rank == r) && set->ranks[r] != 0)
            status = halay_messenger_append(ctx->messenger, set->ranks[r], item);
    if (!set->ranks && rank != 0)
        status = halay_messenger_append(ctx->messenger, rank, item);
    return status == HALAY_OK && is_mine ? apply_item(ctx, item) : status;
}

enum halay_status halay_negotiate_emit(void *arg, int rank, const struct halay_item *item)
{
    struct halay_process_set *set = arg;

    if (item->kind == HALAY_ITEM_FAIL)
        set->ctx->engine->has_sent_fail = 1;
    if (!set->number)
        return send_to_set(set, rank, item);
    struct halay_item about = *item;
    about.set = set->number;
    return send_to_set(set, rank, &about);
}

/* ---- leaving ---- */

int halay_negotiate_leave(struct halay_context *ctx)
{
    send_flush(ctx);
    if (ctx->engine->has_sent_bye || ctx->status != HALAY_OK)
        return 0;
    /* Once the context is closing no events are added: all earlier submissions have been sent. */
    if (!atomic_load_explicit(&ctx->is_closing, memory_order_acquire) ||
        atomic_load_explicit(&ctx->queue.has_events, memory_order_relaxed) || ctx->queue.resubmitted.count ||
        ctx->queue.changes.count || ctx->carrier->deferred_count)
        return 0;
    if (!halay_replay_all_off(ctx)) {
        halay_replay_break_all(ctx, HALAY_BREAK_CHANGE);
        return 0;
    }
    ctx->engine->has_sent_bye = 1;
    if (ctx->status == HALAY_OK)
        halay_send_item(&ctx->all, &(struct halay_item){ .kind = HALAY_ITEM_BYE });
    return 1;
}
