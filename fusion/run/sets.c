/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets: their creation and removal.
 *
 *     a member's program                members                                 driver of every rank
 *       halay_process_set_create   ->     each requests the same               ->   a number, a coordinator (rank 0)
 *       halay_process_set_remove          (negotiated like a tensor of all        in its place among all ranks'
 *                                         ranks; others' programs take no         collectives: a group, or the end
 *                                         part: join.c)
 *
 * So every rank makes the same sets in the same order with the same numbers; a number is never used again. The sets of
 * halay_init are requested by all ranks, members or not. The members of a set make its group among themselves, one set
 * after the other, while their drivers continue with everything else.
 *
 * The struct of a removed set is kept until the context ends, so that a program that still uses it gets an error.
 */
#include "fusion/run/sets.h"
#include "base/memory.h"
#include "collectives/api/group_subset.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/observe/recorder.h"
#include "fusion/protocol/set_change.h"
#include "fusion/replay/plan.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/names.h"
#include "fusion/run/deliver.h"
#include "fusion/run/execution.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- all of them ---- */

struct halay_process_set *halay_process_set_by_number(struct halay_context *ctx, int number)
{
    if (!number)
        return &ctx->all;
    return number > 0 && (size_t)number < ctx->set_room ? ctx->by_number[number] : NULL;
}

void halay_process_sets_fail(struct halay_context *ctx, int failed_rank)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->group)
            halay_group_fail(set->group, ctx->status, halay_process_set_rank_of(set, failed_rank));
}

void halay_process_sets_check(struct halay_context *ctx)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->group)
            halay_group_check(set->group);
    ctx->carrier->ops->check(ctx);
}

enum halay_status halay_process_sets_status(const struct halay_context *ctx)
{
    enum halay_status status = HALAY_OK;

    for (const struct halay_process_set *set = &ctx->all; set && status == HALAY_OK; set = set->next)
        status = set->group ? halay_group_failure(set->group, NULL) : HALAY_OK;
    return status;
}

/* ---- creation and removal ---- */

/* Notes whether rank 0 must listen at all times, because it coordinates sets of which it is not a member. */
static void note_listening_locked(struct halay_context *ctx)
{
    ctx->listens = 0;
    for (const struct halay_process_set *set = ctx->all.next; set; set = set->next)
        ctx->listens |= set->coordinator && set->rank < 0;
}

/* Makes room for one more number. */
static enum halay_status reserve_number(struct halay_context *ctx)
{
    size_t number = (size_t)ctx->execution->sets_made + 1, before = ctx->set_room;
    enum halay_status status = HALAY_OK;

    if (number >= INT_MAX)
        return halay_fail(ctx->log, HALAY_ERR_UNSUPPORTED, "process sets: there have been %d", INT_MAX - 1);
    if (number < before)
        return HALAY_OK;
    pthread_mutex_lock(&ctx->lock);
    while (status == HALAY_OK && ctx->set_room <= number)
        status = halay_list_grow(&ctx->by_number, ctx->set_room, &ctx->set_room, sizeof(struct halay_process_set *));
    for (size_t i = before; i < ctx->set_room; i++)
        ctx->by_number[i] = NULL;
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

/* Adds a set without its group. */
static enum halay_status append_set(struct halay_context *ctx, const uint64_t *ranks, size_t count)
{
    struct halay_process_set **last = &ctx->all.next, *set = calloc(1, sizeof *set);
    int *copy = malloc(count * sizeof *copy);

    if (!set || !copy || reserve_number(ctx) != HALAY_OK)
        goto err_free;
    for (size_t i = 0; i < count; i++)
        copy[i] = (int)ranks[i];
    halay_process_set_init(set, ctx, (int)count, -1);
    set->ranks = copy;
    set->rank = halay_process_set_rank_of(set, ctx->rank);
    set->number = ctx->execution->sets_made + 1;
    if (ctx->all.coordinator && halay_coordinator_create_child(ctx->all.coordinator, set->number, copy, set->size, set,
                                                               &set->coordinator) != HALAY_OK)
        goto err_free;
    ctx->execution->sets_made++;
    while (*last)
        last = &(*last)->next;
    pthread_mutex_lock(&ctx->lock);
    *last = set;
    ctx->by_number[set->number] = set;
    note_listening_locked(ctx);
    pthread_mutex_unlock(&ctx->lock);
    return HALAY_OK;

err_free:
    free(copy);
    free(set);
    return HALAY_ERR_NO_MEMORY;
}

/* Forgets the ids of a set that ends; names that are not needed otherwise are freed. */
static void forget_all_locked(struct halay_process_set *set)
{
    for (size_t id = 0; id < set->id_capacity; id++)
        if (set->by_id[id]) {
            set->by_id[id]->id = (uint32_t)HALAY_NO_ID;
            halay_entry_release_locked(set->by_id[id]);
        }
}

/* Frees the parts that only an existing set has. */
static void end_life(struct halay_process_set *set)
{
    halay_replay_end(set);
    halay_group_close(set->group);
    halay_coordinator_destroy(set->coordinator);
    free(set->by_id);
    set->group = NULL;
    set->coordinator = NULL;
    set->by_id = NULL;
    set->id_capacity = 0;
}

static void remove_set(struct halay_process_set *set)
{
    struct halay_context *ctx = set->ctx;
    struct halay_process_set **at = &ctx->all.next;

    while (*at != set)
        at = &(*at)->next;
    halay_replay_end(set);
    pthread_mutex_lock(&ctx->lock);
    *at = set->next;
    ctx->by_number[set->number] = NULL;
    set->next = ctx->removed;
    ctx->removed = set;
    set->state = HALAY_SET_REMOVED;
    forget_all_locked(set);
    note_listening_locked(ctx);
    pthread_mutex_unlock(&ctx->lock);
    end_life(set);
}

/* Returns the number of sets in the payload. */
static int sets_in(const uint64_t *payload, size_t count)
{
    int sets = 0;

    for (size_t at = 1; at < count; at += 1 + (size_t)payload[at])
        sets++;
    return sets;
}

enum halay_status halay_process_sets_prepare(struct halay_context *ctx, struct halay_request *request)
{
    const uint64_t *payload = request->payload.at;
    size_t count = request->payload.count;
    enum halay_status status = HALAY_OK;
    char text[200];

    ctx->execution->is_changing = 1;
    request->set_number = 0;
    if (payload[0] > HALAY_SET_FORM || halay_set_change_fault(payload, count, ctx->size, text, sizeof text))
        return HALAY_OK;
    request->set_number = ctx->execution->sets_made + 1;
    for (size_t at = 1; at < count && status == HALAY_OK; at += 1 + (size_t)payload[at])
        status = append_set(ctx, payload + at + 1, (size_t)payload[at]);
    return status;
}

/* Makes the groups of prepared sets, in order of number: members of several sets make them in the same order. */
enum halay_status halay_process_sets_progress(struct halay_context *ctx, struct halay_request *request)
{
    int end = request->set_number + sets_in(request->payload.at, request->payload.count);

    for (; ctx->execution->making_number < end; ctx->execution->making_number++) {
        struct halay_process_set *set = halay_process_set_by_number(ctx, ctx->execution->making_number);
        enum halay_status status = HALAY_OK;
        if (!ctx->execution->making)
            status = halay_group_making_start(ctx->all.group, set->ranks, set->size, &ctx->execution->making);
        if (ctx->execution->making)
            status = halay_group_making_progress(ctx->execution->making, &set->group);
        if (status != HALAY_OK)
            return status;
        halay_group_making_end(ctx->execution->making);
        ctx->execution->making = NULL;
        if (set->group && halay_recording(ctx))
            halay_record_set(ctx, set);
    }
    return HALAY_OK;
}

enum halay_status halay_process_sets_change(struct halay_context *ctx, struct halay_request *request)
{
    const uint64_t *payload = request->payload.at;
    char text[200];

    ctx->execution->is_changing = 0;
    if (halay_set_change_fault(payload, request->payload.count, ctx->size, text, sizeof text)) {
        if (!request->is_part) /* no caller waits for a part */
            halay_request_end(request, HALAY_ERR_ARGUMENT, text);
        return HALAY_OK;
    }
    if (payload[0] <= HALAY_SET_FORM) {
        ctx->execution->making_number = request->set_number;
        return halay_process_sets_progress(ctx, request);
    }
    struct halay_process_set *set = halay_process_set_by_number(ctx, (int)payload[1]);
    if (!set)
        return HALAY_ERR_FORMAT; /* all ranks have sent the number of an existing set */
    remove_set(set);
    return HALAY_OK;
}

int halay_process_sets_may_change(struct halay_context *ctx, const struct halay_request *request)
{
    const uint64_t *payload = request->payload.at;
    const struct halay_process_set *set =
        payload[0] == HALAY_SET_REMOVE ? halay_process_set_by_number(ctx, (int)payload[1]) : NULL;

    if (set && (set->running || set->waiting))
        return 0; /* a part of this rank, which has joined */
    return !ctx->execution->making;
}

void halay_process_sets_abandon(struct halay_context *ctx)
{
    halay_group_making_end(ctx->execution->making);
    ctx->execution->making = NULL;
    ctx->execution->is_changing = 0;
}

void halay_process_sets_end(struct halay_context *ctx)
{
    struct halay_process_set *set;

    halay_process_sets_abandon(ctx);
    while ((set = ctx->all.next)) {
        end_life(set);
        pthread_mutex_lock(&ctx->lock);
        ctx->all.next = set->next;
        set->state = HALAY_SET_REMOVED;
        set->next = ctx->removed;
        ctx->removed = set;
        pthread_mutex_unlock(&ctx->lock);
    }
    end_life(&ctx->all);
    pthread_mutex_lock(&ctx->lock);
    free(ctx->by_number);
    ctx->by_number = NULL;
    ctx->set_room = 0;
    pthread_mutex_unlock(&ctx->lock);
}
