/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay, a rank's side (the protocol: fusion/protocol/replay.h).
 *
 *     off       the set negotiates
 *     planned   submissions count down the plan's buckets:    filling -> ready -> running -> (complete) filling
 *     broken    this rank has to leave: BREAK is sent, and submissions of the program are deferred from now on
 *     frozen    FREEZE was received: no bucket is entered any more; ENTERED is sent once the buckets dispatched before
 *               the plan have been started
 *     settling  COMPLETE was received: buckets that not all ranks have entered are taken back; SETTLED is sent when no
 *               bucket is running
 *
 * ENTERED and SETTLED are sent once those of the ranks below this one have been received, and FREEZE, COMPLETE and
 * RESUME are forwarded to these ranks (branch.h).
 *
 * RESUME ends the plan. Requests that have not ended are then sent to the coordinator: first those that counted in the
 * plan, in order of submission, then the deferred ones.
 */
#include "fusion/replay/replay.h"
#include "base/memory.h"
#include "fusion/replay/branch.h"
#include "fusion/replay/plan.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/requests.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int halay_replay_is_off(const struct halay_process_set *set)
{
    return !set->replay || set->replay->state == PLAN_OFF;
}

int halay_replay_is_leaving(const struct halay_context *ctx)
{
    for (const struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->replay && set->replay->state > PLAN_PLANNED)
            return 1;
    return 0;
}

int halay_replay_all_off(const struct halay_context *ctx)
{
    for (const struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (!halay_replay_is_off(set))
            return 0;
    return 1;
}

/* ---- submissions ---- */

/* Counts a submission of a tensor of the plan, whose signature is the agreed one. */
static void count_submission(struct halay_replay *p, struct halay_request *r)
{
    struct halay_plan_bucket *b = r->entry->planned;

    halay_request_move(r, HALAY_LIFE_PLANNED);
    r->sequence = ++p->submissions;
    b->ordinary++;
    if (atomic_fetch_sub_explicit(&b->missing, 1, memory_order_acq_rel) == 1)
        halay_plan_set_ready(b);
}

static void keep_event(struct halay_context *ctx, struct halay_events *list, const struct halay_event *e)
{
    if (halay_events_append(list, e) != HALAY_OK)
        ctx->queue.failed = HALAY_ERR_NO_MEMORY;
}

void halay_replay_break(struct halay_process_set *set, enum halay_break_reason reason)
{
    struct halay_replay *p = set->replay;

    if (!p || p->state != PLAN_PLANNED)
        return;
    p->state = PLAN_BROKEN;
    p->reason = reason;
    halay_plan_leave(p);
}

void halay_replay_break_all(struct halay_context *ctx, enum halay_break_reason reason)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        halay_replay_break(set, reason);
}

static void take_submission(struct halay_replay *p, const struct halay_event *e)
{
    struct halay_request *r = e->request;

    if (p->state == PLAN_PLANNED && r->entry->planned && halay_request_is_agreed(r)) {
        count_submission(p, r);
        return;
    }
    halay_replay_break(p->set, HALAY_BREAK_OTHER);
    if (r->life == HALAY_LIFE_SENT)
        halay_request_move(r, HALAY_LIFE_QUEUED);
    keep_event(p->set->ctx, &p->kept, e);
}

/* Defers a join or a change of process sets until no set has a plan. Returns 0 if none has one. */
static int keep_change(struct halay_context *ctx, const struct halay_event *e)
{
    if (halay_replay_all_off(ctx) && !ctx->queue.changes.count)
        return 0;
    halay_replay_break_all(ctx, HALAY_BREAK_CHANGE);
    keep_event(ctx, &ctx->queue.changes, e);
    return 1;
}

/* Handles the last steady submission of a bucket, unless the plan has been left in the meantime. */
static int take_ready(struct halay_plan_bucket *b)
{
    if (b->plan->state == PLAN_PLANNED && b->state == HALAY_PLAN_FILLING &&
        !atomic_load_explicit(&b->missing, memory_order_acquire))
        halay_plan_set_ready(b);
    return 1;
}

int halay_replay_take(struct halay_context *ctx, const struct halay_event *e)
{
    if (e->kind == HALAY_EVENT_READY)
        return take_ready(e->ready);
    if (e->kind != HALAY_EVENT_SUBMITTED || e->request->entry->set->path)
        return 0;
    if (e->request->signature.collective >= HALAY_JOIN)
        return keep_change(ctx, e);
    if (halay_replay_is_off(e->request->set))
        return 0;
    take_submission(e->request->set->replay, e);
    return 1;
}

/* ---- the coordinator's messages ---- */

static int by_sequence(const void *a, const void *b)
{
    const struct halay_request *x = *(struct halay_request *const *)a, *y = *(struct halay_request *const *)b;

    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Lists the set's requests in this state, in the order in which they entered it. *out: owned by the caller. */
static enum halay_status list_requests(struct halay_process_set *set, enum halay_life life, struct halay_request ***out,
                                       size_t *count)
{
    struct halay_context *ctx = set->ctx;
    size_t room = 0;

    *out = NULL;
    *count = 0;
    pthread_mutex_lock(&ctx->lock);
    for (size_t i = 0; i < set->names.size; i++)
        for (struct halay_table_node *node = set->names.chains[i]; node; node = node->next) {
            struct halay_request *r = ((struct halay_entry *)node)->request;
            if (!r || r->life != life)
                continue;
            if (halay_list_grow(out, *count, &room, sizeof(struct halay_request *)) != HALAY_OK) {
                pthread_mutex_unlock(&ctx->lock);
                return HALAY_ERR_NO_MEMORY;
            }
            (*out)[(*count)++] = r;
        }
    pthread_mutex_unlock(&ctx->lock);
    if (*count)
        qsort(*out, *count, sizeof(struct halay_request *), by_sequence);
    return HALAY_OK;
}

/* Returns nonzero if a join is in flight. A later one arrives as an event. */
static int has_joined(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    int is_joined = ctx->queue.is_joined;
    pthread_mutex_unlock(&ctx->lock);
    return is_joined;
}

/* Handles PLAN: the plan is in force. */
static enum halay_status plan_begin(struct halay_process_set *set, uint32_t epoch)
{
    struct halay_replay *p = set->replay;
    struct halay_context *ctx = set->ctx;
    struct halay_request **sent;
    size_t count;

    if (!p || !p->count || p->state != PLAN_OFF || epoch != p->epoch + 1)
        return HALAY_ERR_FORMAT;
    enum halay_status status = halay_branch_reach(set);
    if (status == HALAY_OK)
        status = list_requests(set, HALAY_LIFE_SENT, &sent, &count);
    if (status != HALAY_OK)
        return status;
    p->state = PLAN_PLANNED;
    p->epoch = epoch;
    p->is_answer_due = 1;
    halay_plan_begin(p);
    for (size_t i = 0; i < count && status == HALAY_OK; i++) /* the coordinator ignores them: it had sent PLAN before */
        take_submission(p, &(struct halay_event){ .kind = HALAY_EVENT_SUBMITTED, .request = sent[i] });
    free(sent);
    if (atomic_load_explicit(&ctx->is_closing, memory_order_relaxed) || has_joined(ctx) || ctx->queue.changes.count)
        halay_replay_break(set, HALAY_BREAK_CHANGE);
    return status;
}

/* Lists the events to be taken again, in order: requests that counted in the plan and have not ended, then the
 * deferred events. */
static enum halay_status list_resubmitted(struct halay_replay *p)
{
    struct halay_events *resubmitted = &p->set->ctx->queue.resubmitted;
    struct halay_request **unfinished;
    size_t count;
    enum halay_status status = list_requests(p->set, HALAY_LIFE_PLANNED, &unfinished, &count);

    for (size_t i = 0; i < count && status == HALAY_OK; i++) {
        halay_request_move(unfinished[i], HALAY_LIFE_QUEUED);
        unfinished[i]->collective = 0;
        status = halay_events_append(resubmitted,
                                     &(struct halay_event){ .kind = HALAY_EVENT_SUBMITTED, .request = unfinished[i] });
    }
    for (size_t i = 0; i < p->kept.count && status == HALAY_OK; i++)
        status = halay_events_append(resubmitted, &p->kept.events[i]);
    p->kept.count = 0;
    free(unfinished);
    return status;
}

/* Handles RESUME: the set negotiates again. */
static enum halay_status plan_end(struct halay_replay *p, const struct halay_item *item)
{
    struct halay_group_epoch epoch;

    memcpy(epoch.value, item->payload, sizeof epoch.value);
    enum halay_status status = halay_group_renew(p->set->group, &epoch);
    if (status != HALAY_OK)
        return status;
    p->set->collectives = p->collectives_base + (epoch.value[HALAY_EPOCH_NEXT] - p->base);
    status = list_resubmitted(p);
    halay_plan_clear(p);
    return status;
}

/* Enters a state that collects answers of another kind. */
static void set_state(struct halay_replay *p, enum plan_state state)
{
    p->state = state;
    p->has_answered = p->answered = 0;
    p->answers.ranks = 0;
}

/* Handles FREEZE, COMPLETE or RESUME. */
static enum halay_status take_order(struct halay_replay *p, const struct halay_item *item)
{
    if (item->kind == HALAY_ITEM_FREEZE && p->state < PLAN_FROZEN) {
        if (p->state == PLAN_PLANNED)
            halay_plan_leave(p);
        set_state(p, PLAN_FROZEN);
    } else if (item->kind == HALAY_ITEM_COMPLETE && p->state == PLAN_FROZEN && p->answered &&
               item->payload_count == HALAY_ENTERED_NUMBERS) {
        set_state(p, PLAN_SETTLING);
        memcpy(p->first, item->payload, sizeof p->first);
    } else if (item->kind == HALAY_ITEM_RESUME && p->state == PLAN_SETTLING && p->answered &&
               item->payload_count == HALAY_EPOCH_VALUES) {
        return plan_end(p, item);
    } else {
        return HALAY_ERR_FORMAT;
    }
    return HALAY_OK;
}

enum halay_status halay_replay_receive(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_replay *p = set->replay;

    if (item->kind == HALAY_ITEM_PLANNED)
        return halay_plan_add(set, item);
    if (item->kind == HALAY_ITEM_PLAN)
        return plan_begin(set, item->epoch);
    if (!p || p->state == PLAN_OFF || item->epoch != p->epoch)
        return HALAY_ERR_FORMAT;
    enum halay_status status = set->ctx->rank ? halay_branch_send_down(set, item) : HALAY_OK;
    return status == HALAY_OK ? take_order(p, item) : status;
}

int halay_replay_is_early(const struct halay_process_set *set)
{
    const struct halay_replay *p = set->replay;

    return p && p->state == PLAN_SETTLING && p->answered;
}

/* ---- answers ---- */

/* Forwards a BREAK of a rank below this one. This rank may not have received PLAN yet. */
static enum halay_status pass_break(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_replay *p = set->replay;
    int is_off = halay_replay_is_off(set);

    if (item->epoch != (p ? p->epoch : 0) + (uint32_t)is_off)
        return HALAY_ERR_FORMAT;
    if (p && (p->state >= PLAN_FROZEN || p->broken_epoch == item->epoch))
        return HALAY_OK;
    if (p)
        p->broken_epoch = item->epoch;
    return halay_branch_send_up(set, item);
}

enum halay_status halay_replay_gather(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_replay *p = set->replay;

    if (item->kind == HALAY_ITEM_BREAK)
        return pass_break(set, item);
    if (!p || item->epoch != p->epoch || p->answered ||
        p->state != (item->kind == HALAY_ITEM_ENTERED ? PLAN_FROZEN : PLAN_SETTLING))
        return HALAY_ERR_FORMAT;
    return halay_answers_add(&p->answers, item, halay_branch_ranks(set) - !p->has_answered);
}

/* Adds this rank's own answer: ENTERED, with the first collective of each channel that it has not entered, or SETTLED.
 * */
static void add_own_answer(struct halay_replay *p, enum halay_item_kind kind)
{
    struct halay_group_epoch numbers = { { 0 } };
    struct halay_item item = {
        .kind = kind, .ranks = 1, .payload = numbers.value, .payload_count = halay_answers_count(kind)
    };

    if (kind == HALAY_ITEM_SETTLED) {
        halay_group_epoch_propose(p->set->group, &numbers);
    } else {
        memcpy(numbers.value, p->next, sizeof p->next);
        numbers.value[HALAY_ENTERED_BASE] = p->base;
    }
    p->has_answered = 1;
    halay_answers_add(&p->answers, &item, INT_MAX); /* its length is right */
}

/* Takes the merged answer to be sent. Returns nonzero once: when this rank and all below it have answered. */
static int take_answers(struct halay_process_set *set, struct halay_item *item)
{
    struct halay_replay *p = set->replay;
    int is_quiet = !set->running && !set->waiting;

    if (p->state < PLAN_FROZEN || p->answered)
        return 0;
    item->kind = p->state == PLAN_FROZEN ? HALAY_ITEM_ENTERED : HALAY_ITEM_SETTLED;
    if (!p->has_answered && (p->state == PLAN_FROZEN ? p->is_active : is_quiet))
        add_own_answer(p, item->kind);
    item->ranks = p->answers.ranks;
    item->payload = p->answers.numbers;
    item->payload_count = halay_answers_count(item->kind);
    p->answered = p->answers.ranks == halay_branch_ranks(set);
    return p->answered;
}

int halay_replay_next_item(struct halay_process_set *set, struct halay_item *item)
{
    struct halay_replay *p = set->replay;

    if (halay_replay_is_off(set))
        return 0;
    *item = (struct halay_item){ .set = set->number, .epoch = p->epoch };
    if (p->is_answer_due) {
        p->is_answer_due = 0;
        item->kind = HALAY_ITEM_PLAN;
        return 1;
    }
    if (p->state == PLAN_BROKEN && p->broken_epoch != p->epoch) {
        p->broken_epoch = p->epoch;
        item->kind = HALAY_ITEM_BREAK;
        item->reason = p->reason;
        item->rank = set->ctx->rank;
        return 1;
    }
    return take_answers(set, item);
}
