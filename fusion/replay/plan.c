/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan: PLANNED makes its buckets, which live as long as the context. In each turn they fill, are entered, complete.
 */
#include "fusion/replay/plan.h"
#include "base/memory.h"
#include "fusion/observe/recorder.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/entry.h"
#include <stdlib.h>
#include <string.h>

/* ---- make and clear ---- */

static struct halay_replay *get_replay(struct halay_process_set *set)
{
    if (!set->replay)
        set->replay = calloc(1, sizeof *set->replay);
    if (set->replay)
        set->replay->set = set;
    return set->replay;
}

/* Reserves room for one more bucket, of this number of tensors. */
static enum halay_status plan_reserve(struct halay_replay *p, size_t tensors)
{
    while (p->entry_capacity < p->entry_count + tensors)
        if (halay_list_grow(&p->entries, p->entry_capacity, &p->entry_capacity, sizeof(struct halay_entry *)) !=
            HALAY_OK)
            return HALAY_ERR_NO_MEMORY;
    if (halay_list_grow(&p->buckets, p->made, &p->capacity, sizeof(struct halay_plan_bucket *)) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    if (p->count < p->made)
        return HALAY_OK;
    struct halay_plan_bucket *b = halay_aligned_alloc(64, sizeof *b);
    if (!b)
        return HALAY_ERR_NO_MEMORY;
    memset(b, 0, sizeof *b);
    b->plan = p;
    p->buckets[p->made++] = b;
    return HALAY_OK;
}

enum halay_status halay_plan_add(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_replay *p = get_replay(set);
    size_t tensors = 0;

    if (!p)
        return HALAY_ERR_NO_MEMORY;
    if (p->state != PLAN_OFF)
        return HALAY_ERR_FORMAT;
    for (size_t i = 0; i < item->range_count; i++)
        tensors += item->ranges[i].count;
    if (!tensors || plan_reserve(p, tensors) != HALAY_OK)
        return tensors ? HALAY_ERR_NO_MEMORY : HALAY_ERR_FORMAT;
    for (size_t i = 0; i < item->range_count; i++)
        for (uint32_t k = 0; k < item->ranges[i].count; k++) {
            struct halay_entry *entry = halay_entry_by_id(set, item->ranges[i].first + k);
            if (!entry || !halay_signature_can_replay(&entry->agreed))
                return HALAY_ERR_FORMAT;
            p->entries[p->entry_count++] = entry;
        }
    p->buckets[p->count]->has_vote = item->has_vote;
    const struct halay_signature *last = &p->entries[p->entry_count - 1]->agreed;
    p->buckets[p->count]->is_on_devices = last->is_on_devices && set->ctx->carrier->ops->may_take(set, last);
    p->buckets[p->count++]->count = tensors;
    return HALAY_OK;
}

/* Begins a new turn of a bucket. The caller then advances `released`, unless the plan has been left. */
static void turn_begin(struct halay_plan_bucket *b)
{
    b->state = HALAY_PLAN_FILLING;
    b->ordinary = 0;
    b->seen_missing = b->count;
    b->since_us = b->plan->set->ctx->now_us;
    atomic_store_explicit(&b->has_callbacks, 0, memory_order_relaxed);
    atomic_store_explicit(&b->missing, b->count, memory_order_relaxed);
}

/* Counts steady submissions, once the driver knows them. */
static void count_steady(const struct halay_replay *p, size_t count)
{
    struct halay_context *ctx = p->set->ctx;

    atomic_fetch_add_explicit(&ctx->queue.in_flight, count, memory_order_relaxed);
    halay_count(&ctx->meters->tally.planned_submissions, count);
}

/* Removes the steady requests of a bucket from the plan. Those in flight become their entries' requests, and count as
 * in flight. */
static void bucket_leave_locked(struct halay_plan_bucket *b)
{
    struct halay_replay *p = b->plan;

    b->is_open = 0;
    for (size_t i = 0; i < b->count; i++) {
        struct halay_request *r = halay_steady_of(b->entries[i]);
        if (!r || !halay_steady_is_in_plan(r))
            continue;
        const struct halay_request *ordinary = b->entries[i]->request;
        int is_in_flight = halay_steady_leave_locked(r, 0) && (!ordinary || ordinary->life == HALAY_LIFE_ENDED);
        atomic_fetch_add_explicit(&r->references, is_in_flight + halay_steady_is_held(r), memory_order_relaxed);
        if (!is_in_flight)
            continue;
        b->entries[i]->request = r;
        halay_request_move(r, HALAY_LIFE_PLANNED);
        r->sequence = ++p->submissions;
        r->submitted_ns = r->started_ns = 0;
        r->collective = b->state == HALAY_PLAN_RUNNING ? p->collectives_base + (b->number - p->base) + 1 : 0;
        if (b->state == HALAY_PLAN_FILLING) /* otherwise it has been counted */
            count_steady(p, 1);
    }
}

void halay_plan_leave(struct halay_replay *p)
{
    struct halay_context *ctx = p->set->ctx;

    pthread_mutex_lock(&ctx->lock);
    for (size_t i = 0; i < p->count; i++)
        bucket_leave_locked(p->buckets[i]);
    pthread_mutex_unlock(&ctx->lock);
    halay_record_plan(ctx, -1);
}

void halay_plan_clear(struct halay_replay *p)
{
    struct halay_context *ctx = p->set->ctx;

    if (p->state == PLAN_PLANNED)
        halay_plan_leave(p);
    pthread_mutex_lock(&ctx->lock);
    for (size_t i = 0; i < p->entry_count; i++)
        p->entries[i]->planned = NULL;
    pthread_mutex_unlock(&ctx->lock);
    for (size_t i = 0; i < p->count; i++) {
        uint64_t completed = atomic_load_explicit(&p->buckets[i]->completed, memory_order_relaxed);
        p->turn = completed + 2 > p->turn ? completed + 2 : p->turn;
    }
    p->state = PLAN_OFF;
    p->count = p->entry_count = 0;
    p->ready = NULL;
    p->is_active = p->is_answer_due = p->answered = 0;
}

/* Begins a bucket of the plan. Its tensors are the plan's from number `at` on. */
static void bucket_begin_locked(struct halay_replay *p, struct halay_plan_bucket *b, size_t at)
{
    b->entries = p->entries + at;
    for (size_t k = 0; k < b->count; k++)
        b->entries[k]->planned = b;
    b->is_open = 1;
    turn_begin(b);
    atomic_store_explicit(&b->is_changed, 1, memory_order_relaxed);
    atomic_store_explicit(&b->completed, p->turn, memory_order_relaxed);
    atomic_store_explicit(&b->released, p->turn, memory_order_release);
}

void halay_plan_begin(struct halay_replay *p)
{
    struct halay_context *ctx = p->set->ctx;
    size_t at = 0;

    p->ready_end = &p->ready;
    pthread_mutex_lock(&ctx->lock);
    for (size_t i = 0; i < p->count; at += p->buckets[i++]->count)
        bucket_begin_locked(p, p->buckets[i], at);
    pthread_mutex_unlock(&ctx->lock);
    halay_record_plan(ctx, 1);
}

/* ---- turns ---- */

void halay_plan_set_ready(struct halay_plan_bucket *b)
{
    struct halay_replay *p = b->plan;

    b->state = HALAY_PLAN_READY;
    b->since_us = p->set->ctx->now_us;
    count_steady(p, b->count - b->ordinary);
    b->next_ready = NULL;
    *p->ready_end = b;
    p->ready_end = &b->next_ready;
}

void halay_replay_activate(struct halay_process_set *set)
{
    struct halay_replay *p = set->replay;

    p->is_active = 1;
    p->busy = 0;
    p->base = halay_group_next(set->group);
    p->collectives_base = set->collectives;
    for (uint64_t n = p->base; n < p->base + HALAY_CHANNELS; n++)
        p->next[n % HALAY_CHANNELS] = n;
    for (size_t i = 0; i < p->count; i++)
        p->buckets[i]->number = p->base + i;
}

int halay_replay_is_inactive(const struct halay_process_set *set)
{
    return set->replay && set->replay->state != PLAN_OFF && !set->replay->is_active;
}

int halay_replay_has_ready(const struct halay_process_set *set)
{
    const struct halay_replay *p = set->replay;

    return p && p->ready && (p->state == PLAN_PLANNED || p->state == PLAN_BROKEN);
}

/* Returns the number of the first bucket on devices that this rank has not entered. */
static uint64_t first_on_devices(const struct halay_replay *p)
{
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < p->count; i++)
        if (p->buckets[i]->is_on_devices && p->buckets[i]->state != HALAY_PLAN_RUNNING && p->buckets[i]->number < first)
            first = p->buckets[i]->number;
    return first;
}

/* Returns nonzero if this rank has to enter another bucket first: an earlier one of its channel or, if it is on
 * devices, an earlier one on devices, because all ranks enter those in the same order. *first: first_on_devices, 0: not
 * looked for yet. */
static int must_wait(const struct halay_plan_bucket *b, uint64_t *first)
{
    if (b->is_on_devices && !*first)
        *first = first_on_devices(b->plan);
    return (b->is_on_devices && b->number > *first) || b->number != b->plan->next[b->number % HALAY_CHANNELS];
}

static unsigned channel_bit(const struct halay_plan_bucket *b)
{
    return 1u << b->number % HALAY_CHANNELS;
}

struct halay_plan_bucket *halay_replay_next(struct halay_process_set *set)
{
    struct halay_replay *p = set->replay;

    if (!halay_replay_has_ready(set) || !p->is_active)
        return NULL;
    uint64_t first = 0;
    for (struct halay_plan_bucket **at = &p->ready; *at; at = &(*at)->next_ready) {
        struct halay_plan_bucket *b = *at;
        if (must_wait(b, &first) || (p->busy & channel_bit(b)) || !halay_group_can_start_at(set->group, b->number))
            continue;
        *at = b->next_ready;
        if (!*at)
            p->ready_end = at;
        b->state = HALAY_PLAN_RUNNING;
        b->since_us = set->ctx->now_us;
        p->next[b->number % HALAY_CHANNELS] += HALAY_CHANNELS;
        p->busy |= channel_bit(b);
        halay_group_start_at(set->group, b->number);
        return b;
    }
    return NULL;
}

int halay_replay_is_same(struct halay_plan_bucket *b)
{
    int was_changed = atomic_exchange_explicit(&b->is_changed, b->ordinary != 0, memory_order_relaxed);

    return b->bucket && !b->ordinary && !was_changed;
}

struct halay_bucket *halay_replay_take_back(struct halay_process_set *set)
{
    struct halay_replay *p = set->replay;

    for (size_t i = 0; p && p->state == PLAN_SETTLING && i < p->count; i++) {
        struct halay_plan_bucket *b = p->buckets[i];
        if (b->state != HALAY_PLAN_RUNNING || b->number < p->first[b->number % HALAY_CHANNELS])
            continue;
        b->state = HALAY_PLAN_READY;
        return b->bucket;
    }
    return NULL;
}

int halay_replay_ended(struct halay_plan_bucket *b)
{
    struct halay_replay *p = b->plan;

    p->busy &= ~channel_bit(b);
    b->number += p->count;
    if (p->state != PLAN_PLANNED)
        turn_begin(b); /* its requests are ordinary ones now */
    return p->state == PLAN_PLANNED;
}

struct halay_request *halay_replay_request(const struct halay_plan_bucket *b, size_t i)
{
    struct halay_request *ordinary = b->entries[i]->request; /* one that has ended is of the turn before */

    return ordinary && ordinary->life != HALAY_LIFE_ENDED ? ordinary : halay_steady_of(b->entries[i]);
}

/* Collects the callbacks of a turn, before its tensors may be submitted again. Returns their number. Without
 * memory it is 0, and the plan fails. */
static size_t take_callbacks(struct halay_plan_bucket *b, struct halay_request *const *requests)
{
    struct halay_replay *p = b->plan;
    size_t count = 0;

    for (size_t i = 0; i < b->count; i++) {
        struct halay_request *r = requests[i];
        if (!halay_steady_is_in_plan(r) || !r->callback)
            continue;
        if (halay_list_grow(&p->callbacks, count, &p->callback_room, sizeof *p->callbacks) != HALAY_OK) {
            p->set->ctx->queue.failed = HALAY_ERR_NO_MEMORY;
            return 0;
        }
        p->callbacks[count++] = (struct plan_callback){ r->callback, r->arg };
    }
    return count;
}

size_t halay_replay_deliver(struct halay_plan_bucket *b, struct halay_request *const *requests,
                            void (*call)(struct halay_context *ctx, halay_callback callback, void *arg))
{
    struct halay_replay *p = b->plan;
    struct halay_context *ctx = p->set->ctx;
    uint64_t turn = atomic_load_explicit(&b->released, memory_order_relaxed) + 1;
    size_t steady = b->count - b->ordinary;
    size_t callbacks = atomic_load_explicit(&b->has_callbacks, memory_order_relaxed) ? take_callbacks(b, requests) : 0;

    atomic_fetch_sub_explicit(&ctx->queue.in_flight, steady, memory_order_relaxed);
    turn_begin(b);
    atomic_store_explicit(&b->released, turn, memory_order_release);
    for (size_t i = 0; i < callbacks; i++)
        call(ctx, p->callbacks[i].callback, p->callbacks[i].arg);
    atomic_store_explicit(&b->completed, turn, memory_order_release);
    return steady;
}

/* ---- the end ---- */

void halay_replay_drop(struct halay_context *ctx)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->replay) {
            halay_plan_clear(set->replay);
            set->replay->kept.count = 0;
            set->replay->early.used = 0;
        }
    ctx->queue.changes.count = 0;
}

void halay_replay_end(struct halay_process_set *set)
{
    struct halay_replay *p = set->replay;
    struct halay_context *ctx = set->ctx;

    if (!p)
        return;
    halay_plan_clear(p);
    p->next_ended = ctx->ended_plans;
    ctx->ended_plans = p;
    set->replay = NULL;
}

static void replay_free(struct halay_replay *p)
{
    for (size_t i = 0; i < p->made; i++)
        free(p->buckets[i]);
    free(p->callbacks);
    free(p->kept.events);
    halay_items_fini(&p->early);
    free(p->buckets);
    free(p->entries);
    free(p);
}

void halay_replay_free_all(struct halay_context *ctx)
{
    for (struct halay_replay *p = ctx->ended_plans, *next; p; p = next) {
        next = p->next_ended;
        replay_free(p);
    }
}
