/* SPDX-License-Identifier: Apache-2.0
 *
 * Deciding: orders and fuses the tensors that the ranks have agreed on.
 *
 *     fresh      AGREE: names get ids
 *     runnable   fused into buckets in rank 0's order of registration (protocol/fuse.h)
 *     chosen     to be dispatched (dispatch.c)
 *     join       after all earlier tensors
 */
#include "fusion/coordinator/coordinator.h"
#include "fusion/coordinator/coordinator_state.h"
#include "fusion/protocol/signature.h"
#include <stdlib.h>

/* Orders by rank 0's registration, so that neighbours there are neighbours in a bucket; names that are not registered
 * follow in the order of arrival. */
static int compare_order(const void *a, const void *b)
{
    const struct halay_tensor_entry *x = *(struct halay_tensor_entry *const *)a,
                                    *y = *(struct halay_tensor_entry *const *)b;
    uint64_t i = x->order ? x->order : UINT64_MAX, j = y->order ? y->order : UINT64_MAX;

    if (i != j)
        return i < j ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void sort_by_order(struct halay_tensor_entry_vector *v)
{
    for (size_t i = 1; i < v->count; i++)
        if (compare_order(&v->entries[i - 1], &v->entries[i]) > 0) {
            qsort(v->entries, v->count, sizeof *v->entries, compare_order);
            return;
        }
}

/* Sends the agreement to the ranks. For an all-to-all each rank gets a payload of its own. */
static enum halay_status emit_agreed(struct halay_coordinator *c, const struct halay_tensor_entry *entry)
{
    size_t size = (size_t)c->options.size, hears = halay_signature_answer_count(&entry->agreed, c->options.size);
    struct halay_item item = { .kind = HALAY_ITEM_AGREE,
                               .name = entry->node.name,
                               .name_length = entry->node.length,
                               .signature = entry->agreed,
                               .id = entry->id,
                               .payload = entry->payload.at,
                               .payload_count = hears };
    enum halay_status status = HALAY_OK;

    if (entry->payload.count == hears || entry->agreed.payload_count)
        return halay_coordinator_emit(c, -1, &item);
    if (halay_payload_resize(&c->column, size) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    item.payload = c->column.at;
    for (size_t r = 0; r < size && status == HALAY_OK; r++) {
        for (size_t from = 0; from < size; from++)
            c->column.at[from] = entry->payload.at[from * size + r];
        status = halay_coordinator_emit(c, (int)r, &item);
    }
    return status;
}

/* Gives new names their ids; those with another signature than before keep theirs. */
static enum halay_status agree_fresh(struct halay_coordinator *c)
{
    enum halay_status status = HALAY_OK;

    sort_by_order(&c->fresh);
    for (size_t i = 0; i < c->fresh.count && status == HALAY_OK; i++) {
        struct halay_tensor_entry *entry = c->fresh.entries[i];
        entry->is_new = 1;
        if (entry->id == (uint32_t)HALAY_NO_ID)
            status = halay_coordinator_assign_id(c, entry);
        else if (entry->forgetting)
            entry->is_revived = 1;
        if (status == HALAY_OK)
            status = emit_agreed(c, entry);
    }
    c->fresh.count = 0;
    return status;
}

/* Chooses the runnable tensors, in order, and their buckets. */
static enum halay_status choose_runnable(struct halay_coordinator *c)
{
    struct halay_fuse fuse = { .threshold = c->options.threshold };
    enum halay_status status = HALAY_OK;

    sort_by_order(&c->runnable);
    for (size_t i = 0; i < c->runnable.count && status == HALAY_OK; i++) {
        struct halay_tensor_entry *entry = c->runnable.entries[i];
        size_t bucket =
            halay_fuse_add(&fuse, halay_signature_kind(&entry->agreed), halay_signature_bytes(&entry->agreed));
        entry->bucket_number = c->buckets_chosen + 1 + bucket;
        status = halay_tensor_entry_push(&c->chosen, entry);
    }
    c->buckets_chosen += fuse.buckets;
    c->runnable.count = 0;
    c->runnable_bytes = 0;
    return status;
}

/* Returns nonzero if no set has anything left to do. */
static int nothing_is_left(const struct halay_coordinator *c)
{
    for (const struct halay_coordinator *set = c; set; set = set->next)
        if (set->waiting.count || set->runnable.count)
            return 0;
    return 1;
}

/* Returns nonzero if a later call may have something to do, even if nothing arrives until then. */
static int is_undecided(const struct halay_coordinator *c)
{
    return c->fresh.count || c->runnable.count || c->chosen.count || c->flush;
}

enum halay_status halay_coordinator_decide_children(struct halay_coordinator *parent, int (*is_idle)(const void *arg),
                                                    int *emitted)
{
    struct halay_coordinator *c = parent->news, *next;
    enum halay_status status = HALAY_OK;

    *emitted = 0;
    parent->news = NULL;
    for (; c; c = next) {
        int one = 0;
        next = c->next_news;
        c->has_news = 0;
        if (status == HALAY_OK)
            status = halay_coordinator_decide(c, is_idle(c->options.arg), &one);
        if (is_undecided(c))
            halay_coordinator_note(c);
        *emitted += one;
    }
    return status;
}

enum halay_status halay_coordinator_decide(struct halay_coordinator *c, int is_idle, int *emitted)
{
    enum halay_status status = HALAY_OK;

    *emitted = 0;
    if (c->fresh.count) {
        *emitted = 1;
        status = agree_fresh(c);
    }
    if (status == HALAY_OK && c->runnable.count &&
        (is_idle || c->flush || halay_coordinator_parent(c)->join || c->runnable_bytes >= c->options.threshold)) {
        c->flush = 0;
        status = choose_runnable(c);
    }
    if (status == HALAY_OK && c->chosen.count) {
        *emitted = 1;
        status = halay_coordinator_dispatch(c);
    }
    if (status == HALAY_OK && c->join) {
        struct halay_tensor_entry *join = c->join;
        c->join = NULL;
        *emitted = 1;
        status = halay_coordinator_choose(c, join);
        if (status == HALAY_OK)
            status = halay_coordinator_dispatch(c);
    }
    if (is_idle)
        c->flush = 0;
    if (status == HALAY_OK)
        status = halay_replay_root_start(c, emitted);
    if (status == HALAY_OK && !c->options.parent && c->left_count == c->options.size && !c->is_done &&
        nothing_is_left(c)) {
        c->is_done = *emitted = 1;
        status = halay_coordinator_emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_DONE });
    }
    return status;
}
