/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinator: one entry for each name.
 *
 *     a rank says READY or ANNOUNCE      arrive       state[rank] is set; the entry waits for the others
 *     the last rank came                 agree        all equal: agreed (has an id, or gets one in decide)
 *                                                     not equal: ERROR to all, the entry is as before
 *     agreed                             -> runnable  deterministic modes: -> its streams, or alone
 *     decide                             AGREE for new ids, then BUCKETs
 *
 * An id whose name is not waiting may be taken back: FORGET to all; when all have answered it is free again. What a
 * rank says with the id before it hears of that still counts: the entry keeps its signature until then. If all ranks
 * agree on the name once more meanwhile, the id is revived: AGREE follows FORGET.
 *
 * Entries are on one of three lists: waiting (some ranks came), resting (nobody came; used longest ago first), or none
 * (agreed, not yet given out).
 *
 * Cleanup: zero-initialised; destroy accepts any state.
 */
#include "fusion/coordinator/coordinator.h"
#include "base/memory.h"
#include "fusion/coordinator/coordinator_impl.h"
#include "fusion/values/members.h"
#include "fusion/values/table.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists and vectors ---- */

static void list_remove(struct entry *e)
{
    if (!e->list)
        return;
    *(e->previous ? &e->previous->next : &e->list->first) = e->next;
    *(e->next ? &e->next->previous : &e->list->last) = e->previous;
    e->list->count--;
    e->list = NULL;
    e->previous = e->next = NULL;
}

static void list_append(struct entry_list *list, struct entry *e)
{
    list_remove(e);
    e->list = list;
    e->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = e;
    list->last = e;
    list->count++;
}

enum halay_status halay_coordinator_push(struct entry_vector *v, struct entry *e)
{
    if (v->count == v->capacity) {
        size_t capacity = v->capacity ? v->capacity * 2 : 64;
        struct entry **grown = realloc(v->entries, capacity * sizeof *grown);
        if (!grown)
            return HALAY_ERR_NO_MEMORY;
        v->entries = grown;
        v->capacity = capacity;
    }
    v->entries[v->count++] = e;
    return HALAY_OK;
}

/* ---- entries ---- */

struct entry *halay_coordinator_entry(struct halay_coordinator *c, const char *name, size_t length)
{
    uint64_t hash = halay_table_hash(name, length);
    struct entry *e = (struct entry *)halay_table_find(&c->names, name, length, hash);

    if (e)
        return e;
    e = calloc(1, sizeof *e + length + 1 + (size_t)c->options.size);
    if (!e)
        return NULL;
    e->state = (unsigned char *)(e + 1);
    char *copy = (char *)e->state + c->options.size;
    memcpy(copy, name, length);
    e->node = (struct halay_table_node){ .name = copy, .length = length, .hash = hash };
    e->id = (uint32_t)HALAY_NO_ID;
    if (halay_table_add(&c->names, &e->node) != HALAY_OK) {
        free(e);
        return NULL;
    }
    return e;
}

void halay_entry_free_announced(const struct halay_coordinator *c, struct entry *e)
{
    for (int r = 0; e->announced && r < c->options.size; r++)
        halay_words_fini(&e->announced[r].words);
    free(e->announced);
    e->announced = NULL;
}

static void entry_free(struct halay_coordinator *c, struct entry *e)
{
    halay_entry_free_announced(c, e);
    halay_words_fini(&e->words);
    free(e->early);
    free(e);
}

/* Free the entry if nothing is known about its name any more. */
static void entry_release(struct halay_coordinator *c, struct entry *e)
{
    if (e->present || e->id != (uint32_t)HALAY_NO_ID || e->bucket)
        return;
    list_remove(e);
    halay_table_remove(&c->names, &e->node);
    halay_arrivals_forget(c, e);
    entry_free(c, e);
}

/* Nobody has come: after it was given out, or after an error. */
static void entry_rest(struct halay_coordinator *c, struct entry *e)
{
    memset(e->state, 0, (size_t)c->options.size);
    if (e->early)
        memset(e->early, 0, 2 * (size_t)c->options.size * sizeof *e->early);
    e->present = e->different = e->absent = e->is_change = 0;
    e->since_us = e->latest_us = 0;
    if (e->id != (uint32_t)HALAY_NO_ID && !e->forgetting)
        list_append(&c->resting, e);
    else
        list_remove(e);
    entry_release(c, e);
}

void halay_coordinator_subject(const struct halay_coordinator *c, const struct entry *e, char *text, size_t size)
{
    if (c->options.number)
        snprintf(text, size, "tensor '%.*s' of process set %d", (int)e->node.length, e->node.name, c->options.number);
    else
        snprintf(text, size, "tensor '%.*s'", (int)e->node.length, e->node.name);
}

/* ---- ids ---- */

static enum halay_status emit(struct halay_coordinator *c, int rank, const struct halay_item *item)
{
    return c->options.emit(c->options.arg, rank, item);
}

static void id_free(struct halay_coordinator *c, struct entry *e)
{
    c->by_id[e->id] = NULL;
    c->free_ids[c->free_count++] = e->id; /* there is room: see assign_id */
    e->id = (uint32_t)HALAY_NO_ID;
    if (!e->list)
        entry_release(c, e);
}

/* Take back the id that was used longest ago. Static buckets keep theirs, and who goes by express. This rank forgets at
 * once, the others answer. */
static enum halay_status forget_oldest(struct halay_coordinator *c)
{
    struct entry *e = c->resting.first;

    while (e && (e->bucket || e->enrolment.place))
        e = e->next;
    if (!e)
        return HALAY_OK;
    uint32_t id = e->id;
    list_remove(e);
    e->enrolment = (struct halay_enrolment){ 0 };
    e->forgetting = c->options.size - 1;
    if (e->forgetting)
        c->ids_forgetting++;
    else
        id_free(c, e);
    return emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_FORGET, .id = id });
}

static enum halay_status forgotten(struct halay_coordinator *c, uint32_t id)
{
    struct entry *e = id < c->ids ? c->by_id[id] : NULL;

    if (!e || !e->forgetting)
        return HALAY_ERR_FORMAT;
    if (--e->forgetting)
        return HALAY_OK;
    c->ids_forgetting--;
    if (!e->is_revived) {
        id_free(c, e); /* may free the entry */
        return HALAY_OK;
    }
    e->is_revived = 0;
    if (!e->present)
        list_append(&c->resting, e);
    return HALAY_OK;
}

static enum halay_status assign_id(struct halay_coordinator *c, struct entry *e)
{
    if (c->ids - c->free_count - c->ids_forgetting >= c->options.ids_max) {
        enum halay_status status = forget_oldest(c);
        if (status != HALAY_OK)
            return status;
    }
    if (c->free_count) {
        e->id = c->free_ids[--c->free_count];
    } else {
        if (c->ids == c->id_capacity) {
            size_t capacity = c->id_capacity ? c->id_capacity * 2 : 256;
            struct entry **by_id = realloc(c->by_id, capacity * sizeof *by_id);
            if (!by_id)
                return HALAY_ERR_NO_MEMORY;
            c->by_id = by_id;
            uint32_t *free_ids = realloc(c->free_ids, capacity * sizeof *free_ids);
            if (!free_ids)
                return HALAY_ERR_NO_MEMORY;
            c->free_ids = free_ids;
            c->id_capacity = capacity;
        }
        e->id = (uint32_t)c->ids++;
    }
    c->by_id[e->id] = e;
    return HALAY_OK;
}

/* ---- what the ranks say ---- */

static enum halay_status fail_left(struct halay_coordinator *c, int rank)
{
    struct halay_coordinator *parent = halay_coordinator_parent(c); /* it is the end for all */
    char text[64];
    int left = halay_coordinator_rank(c, rank), length = snprintf(text, sizeof text, "rank %d has left", left);

    if (parent->has_failed)
        return HALAY_OK;
    parent->has_failed = 1;
    return emit(parent, -1,
                &(struct halay_item){ .kind = HALAY_ITEM_FAIL,
                                      .status = HALAY_ERR_PEER,
                                      .rank = left,
                                      .text = text,
                                      .text_length = (size_t)length });
}

/* A rank that has left cannot come any more: what lacks it never runs. */
static enum halay_status check_left(struct halay_coordinator *c, const struct entry *e)
{
    for (int r = 0; c->left_count && r < c->options.size; r++)
        if (c->left[r] && !e->state[r] && !c->joined[r])
            return fail_left(c, r);
    return HALAY_OK;
}

enum halay_status halay_coordinator_refuse(struct halay_coordinator *c, struct entry *e, enum halay_status why,
                                           const char *text)
{
    if (!e->is_change) /* who called hears of it, on every rank */
        halay_error(c->options.log, "%s", text);
    enum halay_status status = emit(c, -1,
                                    &(struct halay_item){ .kind = HALAY_ITEM_ERROR,
                                                          .name = e->node.name,
                                                          .name_length = e->node.length,
                                                          .status = why,
                                                          .text = text,
                                                          .text_length = strlen(text) });
    struct halay_coordinator_bucket *bucket = e->bucket;
    size_t member = e->member;
    if (e->enrolment.place)
        e->enrolment.round++;
    entry_rest(c, e);
    if (bucket)
        halay_streams_retract(bucket->streams, member);
    return status;
}

/* In which order the ranks said what, kept for a bucket that is sealed later: other ranks may speak of a tensor before
 * rank 0 has submitted it, or before rank 0 has taken it out of the bucket of an earlier registration. */
static enum halay_status note_event(struct halay_coordinator *c, struct entry *e, int rank,
                                    enum halay_stream_event event)
{
    if (!e->early)
        e->early = calloc(2 * (size_t)c->options.size, sizeof *e->early);
    if (!e->early)
        return HALAY_ERR_NO_MEMORY;
    uint64_t *at = &e->early[2 * rank + (event == HALAY_STREAM_WAITED)];
    if (!*at)
        *at = ++c->events;
    return HALAY_OK;
}

/* Agreed: hand it to where it will be given out from. What shares no bucket has nothing to wait for. */
static enum halay_status make_runnable(struct halay_coordinator *c, struct entry *e)
{
    if (e->bucket)
        return HALAY_OK;
    if (e->is_join) {
        c->join = e;
        return HALAY_OK;
    }
    if (c->options.deterministic != HALAY_DETERMINISTIC_OFF || !halay_signature_fuses(&e->agreed))
        return halay_coordinator_choose(c, &e, 1);
    c->runnable_bytes += halay_signature_bytes(&e->agreed);
    return halay_coordinator_push(&c->runnable, e);
}

enum halay_status halay_coordinator_announce(struct halay_coordinator *c, int rank, struct entry *e,
                                             const struct halay_signature *signature, const void *words, size_t count)
{
    if (!e->announced)
        e->announced = calloc((size_t)c->options.size, sizeof *e->announced);
    if (!e->announced || halay_words_set(&e->announced[rank].words, words, count) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    e->announced[rank].signature = *signature;
    e->state[rank] = ENTRY_ANNOUNCED;
    e->different++;
    return HALAY_OK;
}

static int is_as_agreed(const struct entry *e, int rank, const struct halay_item *item)
{
    return !e->is_join && halay_signature_equal(&item->signature, &e->agreed) &&
           (!item->word_count ||
            !memcmp(item->words, halay_entry_words(e, rank, item->word_count), item->word_count * sizeof *e->words.at));
}

enum halay_status halay_coordinator_met(struct halay_coordinator *c, struct entry *e, int *agreed)
{
    enum halay_status status = HALAY_OK;
    int is_refused = 0, is_agreed = 0;

    if (e->present < c->options.size)
        status = halay_coordinator_fill_in(c, e, &is_refused);
    if (status == HALAY_OK && !is_refused)
        status = halay_coordinator_agree(c, e, &is_agreed);
    if (status == HALAY_OK && is_agreed) {
        if (!e->bucket)
            list_remove(e); /* a member of a static bucket may have to wait for the others */
        status = make_runnable(c, e);
    }
    if (agreed)
        *agreed = is_agreed;
    return status;
}

static int goes_by_express(const struct entry *e)
{
    return e->enrolment.place && halay_express_suits(&e->agreed);
}

/* All the others were late: this one has come now. */
static void note_last(struct halay_coordinator *c, struct entry *e, int64_t now_us)
{
    int r = 0;

    while (e->state[r])
        r++;
    e->present++;
    halay_arrivals_note(c, r, e, now_us);
}

void halay_coordinator_round_is_over(struct halay_coordinator *c, uint32_t id, uint64_t round, int64_t now_us)
{
    struct entry *e = c->by_id[id];

    if (round <= e->enrolment.round)
        return;
    e->enrolment.round = round;
    if (e->present == c->options.size - 1)
        note_last(c, e, now_us);
    if (e->present)
        entry_rest(c, e);
}

int halay_coordinator_is_complete(const struct halay_coordinator *c, const struct entry *e)
{
    if (e->present == c->options.size || !c->joined_count || !e->present)
        return e->present == c->options.size;
    for (int r = 0; r < c->options.size; r++)
        if (!e->state[r] && !c->joined[r])
            return 0;
    return 1;
}

/* Can this rank say this now? */
static int may_arrive(const struct halay_coordinator *c, int rank, const struct entry *e, const struct halay_item *item)
{
    if (e->state[rank])
        return 0;
    if (!item)
        return 1;
    if (item->signature.operation >= HALAY_JOIN && c->options.parent)
        return 0; /* joins and sets are the parent's */
    if (item->word_count != halay_signature_said_count(&item->signature, c->options.size))
        return 0;
    return !item->signature.members || halay_signature_fits(&item->signature, item->words, item->word_count);
}

/* The rank is ready; what it says is kept if it is not what was agreed on. */
static enum halay_status record_arrival(struct halay_coordinator *c, int rank, struct entry *e,
                                        const struct halay_item *item)
{
    int has_id = e->id != (uint32_t)HALAY_NO_ID && (!e->forgetting || e->is_revived);

    e->state[rank] = ENTRY_READY;
    if (item && (!has_id || !is_as_agreed(e, rank, item)))
        return halay_coordinator_announce(c, rank, e, &item->signature, item->words, item->word_count);
    if (item || has_id)
        return HALAY_OK;
    /* The rank had not heard that the id is to be forgotten. */
    size_t says = halay_signature_said_count(&e->agreed, c->options.size);
    return halay_coordinator_announce(c, rank, e, &e->agreed, says ? halay_entry_words(e, rank, says) : NULL, says);
}

/* item: what the rank announces; NULL: it is ready for what is agreed. */
static enum halay_status arrive(struct halay_coordinator *c, int rank, struct entry *e, const struct halay_item *item,
                                int64_t now_us)
{
    enum halay_status status = HALAY_OK;
    int agreed = 0;

    if (!may_arrive(c, rank, e, item))
        return HALAY_ERR_FORMAT;
    e->is_change |= (item ? &item->signature : &e->agreed)->operation == HALAY_CHANGE_SETS;
    if (item && item->signature.operation == HALAY_JOIN) {
        e->is_join = 1;
        status = c->joined[rank] ? HALAY_ERR_FORMAT : halay_coordinator_join(c, rank);
        if (status != HALAY_OK)
            return status;
    }
    status = record_arrival(c, rank, e, item);
    if (status != HALAY_OK)
        return status;
    if (++e->present == 1) {
        e->since_us = now_us;
        if (!e->is_join) /* a join may wait for long: that is no stall */
            list_append(&c->waiting, e);
    }
    halay_arrivals_note(c, rank, e, now_us);
    if (goes_by_express(e) && e->present == c->options.size && !e->different) {
        halay_coordinator_round_is_over(c, e->id, e->enrolment.round + 1, now_us); /* all have put it */
        return HALAY_OK;
    }
    if (!halay_coordinator_is_complete(c, e)) {
        status = check_left(c, e);
    } else {
        status = halay_coordinator_met(c, e, &agreed);
        if (!agreed)
            return status; /* the entry may be gone */
    }
    if (status != HALAY_OK || c->options.deterministic == HALAY_DETERMINISTIC_OFF)
        return status;
    status = note_event(c, e, rank, HALAY_STREAM_READY);
    if (status == HALAY_OK && e->bucket)
        status = halay_streams_feed(e->bucket->streams, rank, e->member, HALAY_STREAM_READY);
    return status;
}

static enum halay_status receive_late(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                      int64_t now_us)
{
    struct entry *e = item->id < c->ids ? c->by_id[item->id] : NULL;

    if (!e || !goes_by_express(e) || item->round > e->enrolment.round + 1)
        return HALAY_ERR_FORMAT;
    return item->round <= e->enrolment.round ? HALAY_OK : arrive(c, rank, e, NULL, now_us);
}

static enum halay_status receive_ready(struct halay_coordinator *c, int rank, const struct halay_id_range *range,
                                       int64_t now_us)
{
    for (uint32_t id = range->first; id < range->first + range->count; id++) {
        if (id >= c->ids || !c->by_id[id])
            return HALAY_ERR_FORMAT;
        enum halay_status status = arrive(c, rank, c->by_id[id], NULL, now_us);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* The rank's program waits for something: all that it has submitted so far counts as waited for. */
static enum halay_status receive_waited(struct halay_coordinator *c, int rank)
{
    enum halay_status status = HALAY_OK;

    if (c->options.deterministic == HALAY_DETERMINISTIC_OFF)
        return HALAY_OK;
    for (struct entry *e = c->waiting.first; e && status == HALAY_OK; e = e->next)
        if (e->state[rank])
            status = note_event(c, e, rank, HALAY_STREAM_WAITED);
    for (struct halay_coordinator_bucket *b = c->buckets; b && status == HALAY_OK; b = b->next)
        status = halay_streams_feed(b->streams, rank, HALAY_STREAM_ALL, HALAY_STREAM_WAITED);
    return status;
}

/* The rank submits nothing any more: what waits for it never runs. */
static enum halay_status leave(struct halay_coordinator *c, int rank)
{
    c->left[rank] = 1;
    c->left_count++;
    if (c->joined_count && !c->joined[rank])
        return fail_left(c, rank); /* the others wait for it */
    for (struct entry *e = c->waiting.first; e; e = e->next)
        if (!e->state[rank] && !c->joined[rank])
            return fail_left(c, rank);
    return HALAY_OK;
}

static enum halay_status receive_bye(struct halay_coordinator *c, int rank)
{
    if (c->options.parent || c->left[rank])
        return HALAY_ERR_FORMAT;
    enum halay_status status = emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_LEFT, .rank = rank });
    if (status == HALAY_OK)
        status = leave(c, rank);
    for (struct halay_coordinator *child = c->children; child && status == HALAY_OK; child = child->next)
        for (int r = 0; r < child->options.size && status == HALAY_OK; r++)
            if (child->options.ranks[r] == rank)
                status = leave(child, r);
    return status;
}

enum halay_status halay_coordinator_receive(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                            int64_t now_us)
{
    struct entry *e;

    switch (item->kind) {
    case HALAY_ITEM_READY:
        return receive_ready(c, rank, &item->range, now_us);
    case HALAY_ITEM_LATE:
        return receive_late(c, rank, item, now_us);
    case HALAY_ITEM_ANNOUNCE:
        e = halay_coordinator_entry(c, item->name, item->name_length);
        if (!e)
            return HALAY_ERR_NO_MEMORY;
        if (rank == 0)
            e->order = item->order;
        return arrive(c, rank, e, item, now_us);
    case HALAY_ITEM_WAITED:
        return receive_waited(c, rank);
    case HALAY_ITEM_FLUSH:
        c->flush = 1;
        return HALAY_OK;
    case HALAY_ITEM_FORGET:
        return forgotten(c, item->id);
    case HALAY_ITEM_BYE:
        return receive_bye(c, rank);
    case HALAY_ITEM_DOING:
        if (c->options.parent)
            return HALAY_ERR_FORMAT;
        halay_stalls_answer(c, rank, item);
        return HALAY_OK;
    default:
        return HALAY_ERR_FORMAT;
    }
}

/* ---- giving out ---- */

enum halay_status halay_coordinator_choose(struct halay_coordinator *c, struct entry *const *entries, size_t count)
{
    c->groups++;
    for (size_t i = 0; i < count; i++) {
        entries[i]->group = c->groups;
        enum halay_status status = halay_coordinator_push(&c->chosen, entries[i]);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* By rank 0's order of registration, so that neighbours there are neighbours in a bucket; names that are not registered
 * follow in the order in which they came. */
static int compare_order(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
    uint64_t i = x->order ? x->order : UINT64_MAX, j = y->order ? y->order : UINT64_MAX;

    if (i != j)
        return i < j ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void sort_by_order(struct entry_vector *v)
{
    for (size_t i = 1; i < v->count; i++)
        if (compare_order(&v->entries[i - 1], &v->entries[i]) > 0) {
            qsort(v->entries, v->count, sizeof *v->entries, compare_order);
            return;
        }
}

/* Tell the ranks what they agree on. Of an all-to-all each hears what is for it. */
static enum halay_status emit_agreed(struct halay_coordinator *c, const struct entry *e)
{
    size_t size = (size_t)c->options.size, hears = halay_signature_heard_count(&e->agreed, c->options.size);
    struct halay_item item = { .kind = HALAY_ITEM_AGREE,
                               .name = e->node.name,
                               .name_length = e->node.length,
                               .signature = e->agreed,
                               .id = e->id,
                               .words = e->words.at,
                               .word_count = hears };
    enum halay_status status = HALAY_OK;

    if (e->words.count == hears || e->agreed.words)
        return emit(c, -1, &item);
    if (halay_words_resize(&c->column, size) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    item.words = c->column.at;
    for (size_t r = 0; r < size && status == HALAY_OK; r++) {
        for (size_t from = 0; from < size; from++)
            c->column.at[from] = e->words.at[from * size + r];
        status = emit(c, (int)r, &item);
    }
    return status;
}

/* New names get their ids; those with another signature than before keep theirs. */
static enum halay_status agree_fresh(struct halay_coordinator *c)
{
    enum halay_status status = HALAY_OK;

    sort_by_order(&c->fresh);
    for (size_t i = 0; i < c->fresh.count && status == HALAY_OK; i++) {
        struct entry *e = c->fresh.entries[i];
        if (e->id == (uint32_t)HALAY_NO_ID)
            status = assign_id(c, e);
        else if (e->forgetting)
            e->is_revived = 1;
        if (status == HALAY_OK)
            status = emit_agreed(c, e);
    }
    c->fresh.count = 0;
    return status;
}

static enum halay_status reserve_ranges(struct halay_coordinator *c, size_t count)
{
    if (c->range_capacity >= count)
        return HALAY_OK;
    struct halay_id_range *grown = realloc(c->ranges, count * 2 * sizeof *grown);
    if (!grown)
        return HALAY_ERR_NO_MEMORY;
    c->ranges = grown;
    c->range_capacity = count * 2;
    return HALAY_OK;
}

static enum halay_status emit_bucket(struct halay_coordinator *c, struct entry **entries, size_t count)
{
    int absent = entries[0]->absent;
    size_t ranges = 0;

    if (reserve_ranges(c, count) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        struct halay_id_range *last = ranges ? &c->ranges[ranges - 1] : NULL;
        if (last && entries[i]->id == last->first + last->count)
            last->count++;
        else
            c->ranges[ranges++] = (struct halay_id_range){ entries[i]->id, 1 };
    }
    for (size_t i = 0; i < count; i++) {
        halay_enrolment_count(&entries[i]->enrolment, &entries[i]->agreed, count, &c->enrolled, c->express_places);
        entry_rest(c, entries[i]);
    }
    return emit(c, -1,
                &(struct halay_item){ .kind = HALAY_ITEM_BUCKET,
                                      .absent = absent,
                                      .chunk_shift = c->options.chunk_shift,
                                      .ranges = c->ranges,
                                      .range_count = ranges });
}

static int compare_chosen(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;

    if (x->agreed.priority != y->agreed.priority)
        return x->agreed.priority > y->agreed.priority ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

/* The higher priority first, otherwise as chosen. A group has one priority: its kind says so. */
static void sort_by_priority(struct entry_vector *v)
{
    int is_sorted = 1;

    for (size_t i = 0; i < v->count; i++) {
        v->entries[i]->position = i;
        is_sorted &= i == 0 || v->entries[i - 1]->agreed.priority >= v->entries[i]->agreed.priority;
    }
    if (!is_sorted)
        qsort(v->entries, v->count, sizeof *v->entries, compare_chosen);
}

/* What has been chosen, group by group; what is not divided alike is apart. */
static enum halay_status emit_chosen(struct halay_coordinator *c)
{
    enum halay_status status = HALAY_OK;

    sort_by_priority(&c->chosen);
    for (size_t i = 0, end; i < c->chosen.count && status == HALAY_OK; i = end) {
        const struct entry *first = c->chosen.entries[i];
        for (end = i; end < c->chosen.count && c->chosen.entries[end]->group == first->group &&
                      c->chosen.entries[end]->absent == first->absent;)
            end++;
        status = emit_bucket(c, c->chosen.entries + i, end - i);
    }
    c->chosen.count = 0;
    return status;
}

/* Plan what is runnable into buckets, in order. */
static enum halay_status choose_runnable(struct halay_coordinator *c)
{
    size_t n = c->runnable.count;

    sort_by_order(&c->runnable);
    if (c->plan_capacity < n) {
        free(c->plan);
        free(c->plan_heads);
        c->plan_capacity = 0;
        c->plan = malloc(2 * n * sizeof *c->plan);
        c->plan_heads = malloc((2 * n + 1) * sizeof *c->plan_heads);
        if (!c->plan || !c->plan_heads)
            return HALAY_ERR_NO_MEMORY;
        c->plan_capacity = 2 * n;
    }
    for (size_t i = 0; i < n; i++)
        c->plan[i] = (struct halay_plan_item){ .kind = halay_signature_kind(&c->runnable.entries[i]->agreed),
                                               .bytes = halay_signature_bytes(&c->runnable.entries[i]->agreed) };
    size_t buckets = halay_plan(c->plan, n, c->options.threshold);

    /* Counting sort by bucket: heads[b] is where bucket b's next entry goes. */
    memset(c->plan_heads, 0, (buckets + 1) * sizeof *c->plan_heads);
    for (size_t i = 0; i < n; i++)
        c->plan_heads[c->plan[i].bucket + 1]++;
    for (size_t b = 0; b < buckets; b++)
        c->plan_heads[b + 1] += c->plan_heads[b];
    size_t base = c->chosen.count;
    for (size_t i = 0; i < n; i++)
        if (halay_coordinator_push(&c->chosen, NULL) != HALAY_OK)
            return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        struct entry *e = c->runnable.entries[i];
        e->group = c->groups + 1 + c->plan[i].bucket;
        c->chosen.entries[base + c->plan_heads[c->plan[i].bucket]++] = e;
    }
    c->groups += buckets;
    c->runnable.count = 0;
    c->runnable_bytes = 0;
    return HALAY_OK;
}

/* Nothing is left to be done, in any set. */
static int is_over(const struct halay_coordinator *c)
{
    int over = !c->waiting.count && !c->runnable.count;

    for (const struct halay_coordinator *child = c->children; child; child = child->next)
        over &= is_over(child);
    return over;
}

enum halay_status halay_coordinator_decide(struct halay_coordinator *c, int is_idle, int *emitted)
{
    enum halay_status status = HALAY_OK;

    *emitted = 0;
    if (c->out_of_memory)
        return HALAY_ERR_NO_MEMORY;
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
        status = emit_chosen(c);
    }
    if (status == HALAY_OK && c->join) {
        struct entry *join = c->join;
        c->join = NULL;
        *emitted = 1;
        status = emit_bucket(c, &join, 1);
    }
    if (is_idle)
        c->flush = 0;
    if (status == HALAY_OK && !c->options.parent && c->left_count == c->options.size && !c->is_done && is_over(c)) {
        c->is_done = *emitted = 1;
        status = emit(c, -1, &(struct halay_item){ .kind = HALAY_ITEM_DONE });
    }
    return status;
}

void halay_coordinator_set_sizes(struct halay_coordinator *c, size_t threshold, int chunk_shift)
{
    c->options.threshold = threshold;
    c->options.chunk_shift = chunk_shift;
    for (struct halay_coordinator *child = c->children; child; child = child->next)
        halay_coordinator_set_sizes(child, threshold, chunk_shift);
}

void halay_coordinator_set_express(struct halay_coordinator *c, size_t places)
{
    c->express_places = places;
}

void halay_coordinator_set_ids_max(struct halay_coordinator *c, size_t ids_max)
{
    c->options.ids_max = ids_max;
}

size_t halay_coordinator_waiting(const struct halay_coordinator *c)
{
    size_t waiting = c->waiting.count;

    for (const struct halay_coordinator *child = c->children; child; child = child->next)
        waiting += child->waiting.count;
    return waiting;
}

/* ---- life ---- */

/* The parent tells it from now on who joins and who leaves; who has by now, it hears here. */
static void be_child(struct halay_coordinator *c, struct halay_coordinator *parent)
{
    for (int r = 0; r < c->options.size; r++) {
        c->joined[r] = parent->joined[c->options.ranks[r]];
        c->joined_count += c->joined[r];
        c->left[r] = parent->left[c->options.ranks[r]];
        c->left_count += c->left[r];
    }
    c->next = parent->children;
    parent->children = c;
}

enum halay_status halay_coordinator_create(const struct halay_coordinator_options *options,
                                           struct halay_coordinator **out)
{
    struct halay_coordinator *c = calloc(1, sizeof *c);

    if (!c)
        return HALAY_ERR_NO_MEMORY;
    c->options = *options;
    if (options->parent)
        halay_coordinator_set_sizes(c, options->parent->options.threshold, options->parent->options.chunk_shift);
    c->left = calloc((size_t)options->size, 1);
    c->joined = calloc((size_t)options->size, 1);
    c->arrivals = options->parent ? NULL : calloc((size_t)options->size, sizeof *c->arrivals);
    if (!c->left || !c->joined || (!c->arrivals && !options->parent)) {
        halay_coordinator_destroy(c);
        return HALAY_ERR_NO_MEMORY;
    }
    if (options->parent)
        be_child(c, options->parent);
    *out = c;
    return HALAY_OK;
}

static void unlink_child(struct halay_coordinator *c)
{
    struct halay_coordinator **at = c->options.parent ? &c->options.parent->children : NULL;

    while (at && *at && *at != c)
        at = &(*at)->next;
    if (at && *at)
        *at = c->next;
}

void halay_coordinator_destroy(struct halay_coordinator *c)
{
    struct halay_table_node *node;

    if (!c)
        return;
    unlink_child(c);
    while ((node = halay_table_take(&c->names))) {
        if (c->options.parent)
            halay_arrivals_forget(c, (struct entry *)node);
        entry_free(c, (struct entry *)node);
    }
    halay_table_fini(&c->names);
    halay_coordinator_destroy_buckets(c);
    halay_words_fini(&c->column);
    free(c->fresh.entries);
    free(c->runnable.entries);
    free(c->chosen.entries);
    free(c->by_id);
    free(c->free_ids);
    free(c->ranges);
    free(c->plan);
    free(c->plan_heads);
    free(c->arrivals);
    free(c->joined);
    free(c->left);
    free(c);
}
