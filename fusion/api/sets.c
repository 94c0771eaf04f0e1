/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets, the program's side: changes, which the members request together, and queries.
 *
 * Ranks match by a name: made of the ranks when a set is created, of its number when it is removed. So sets of
 * different ranks may be created at the same time. For the same ranks one call at a time is in flight on a rank, and
 * other blocking calls wait: the n-th matches the n-th.
 */
#include "fusion/run/sets.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "fusion/api/open.h"
#include "fusion/api/submit.h"
#include "fusion/api/wait.h"
#include "fusion/protocol/set_change.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/request.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct halay_process_set *halay_process_set_find(struct halay_context *ctx, int number)
{
    if (!ctx || halay_is_child(ctx))
        return NULL;
    pthread_mutex_lock(&ctx->lock);
    struct halay_process_set *set = halay_process_set_by_number(ctx, number);
    pthread_mutex_unlock(&ctx->lock);
    return set;
}

size_t halay_process_set_numbers(struct halay_context *ctx, int *numbers, size_t room)
{
    size_t count = 0;

    if (!ctx || halay_is_child(ctx))
        return 0;
    pthread_mutex_lock(&ctx->lock);
    for (const struct halay_process_set *set = &ctx->all; set; set = set->next, count++)
        if (count < room)
            numbers[count] = set->number;
    pthread_mutex_unlock(&ctx->lock);
    return count;
}

enum halay_status halay_process_set_read(const struct halay_process_set *set, struct halay_process_set_info *info)
{
    struct halay_process_set_info all = { .ranks = NULL };

    if (!set || !info || !halay_struct_has_size(info))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_process_set_read: no %s", set ? "struct_size" : "set");
    memcpy(&all, info, info->struct_size < sizeof all ? info->struct_size : sizeof all);
    for (int r = 0; all.ranks && r < set->size && (size_t)r < all.room; r++)
        all.ranks[r] = set->ranks ? set->ranks[r] : r;
    all.number = set->number;
    all.size = set->size;
    all.rank = set->rank;
    halay_struct_write(&all, sizeof all, info);
    return HALAY_OK;
}

/* Waits until another thread's call with the same ranks has ended. HALAY_ERR_CLOSED: the context is closing. */
static enum halay_status wait_for_turn(struct halay_context *ctx, const char *name)
{
    size_t length = strlen(name);
    enum halay_status status = HALAY_OK;

    pthread_mutex_lock(&ctx->lock);
    const struct halay_entry *entry =
        (struct halay_entry *)halay_table_find(&ctx->all.names, name, length, halay_table_hash(name, length));
    struct halay_request *request = entry ? entry->request : NULL;
    if (request)
        atomic_fetch_add_explicit(&request->references, 1, memory_order_relaxed); /* in flight: the engine has one */
    pthread_mutex_unlock(&ctx->lock);
    if (request)
        status = halay_wait(request, -1);
    halay_request_free(request);
    return status;
}

/* A change of sets, requested together with the other ranks that it concerns. */
struct change {
    char name[HALAY_NAME_MAX + 1];
    size_t *payload; /* owned */
    size_t count;
    int timeout_ms;
};

static enum halay_status change_submit(struct halay_context *ctx, const struct change *change,
                                       enum halay_attendance attendance, struct halay_request **request)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = change->name,
                                      .collective = HALAY_CHANGE_SETS,
                                      .shape = { change->count },
                                      .splits = change->payload,
                                      .timeout_ms = change->timeout_ms };

    return halay_submit_info(ctx, &info, NULL, NULL, attendance, request);
}

/* Submits a change and waits for its end; logs errors. request (may be NULL): the caller frees it, whatever the
 * result. */
static enum halay_status change_run(struct halay_context *ctx, const struct change *change, int timeout_ms,
                                    struct halay_request **out)
{
    struct halay_request *request = NULL;
    enum halay_status status;

    while ((status = change_submit(ctx, change, HALAY_WILL_WAIT, &request)) == HALAY_ERR_DUPLICATE)
        if ((status = wait_for_turn(ctx, change->name)) == HALAY_ERR_CLOSED)
            break;
    if (status == HALAY_OK)
        status = halay_wait(request, timeout_ms);
    if (status == HALAY_ERR_TIMEOUT)
        halay_error(ctx->log, "process sets: not all ranks have asked for them within %g s", timeout_ms / 1e3);
    else if (*halay_request_text(request))
        halay_error(ctx->log, "%s", halay_request_text(request));
    if (out)
        *out = request;
    else
        halay_request_free(request);
    return status;
}

/* Submits a change without waiting. */
static enum halay_status change_start(struct halay_context *ctx, const struct change *change,
                                      struct halay_request **request)
{
    enum halay_status status = change_submit(ctx, change, HALAY_MAY_WAIT, request);

    if (status == HALAY_ERR_DUPLICATE)
        return halay_refuses(status, "%s: this rank has asked for that, and it is under way", change->name);
    return status;
}

static int compare_ranks(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Sorts the ranks of each set in ascending order. */
static void sort_ranks(size_t *payload, size_t count)
{
    for (size_t at = 1; at < count; at += 1 + payload[at])
        qsort(payload + at + 1, payload[at], sizeof *payload, compare_ranks);
}

static size_t write_list(const struct halay_rank_list *list, size_t *payload)
{
    payload[0] = list->count;
    for (size_t i = 0; i < list->count; i++)
        payload[1 + i] = (size_t)(unsigned)list->ranks[i];
    return 1 + list->count;
}

/* Returns a fault of the lists themselves, whatever other ranks request; NULL: no fault. room: the maximal number of
 * words. */
static const char *lists_fault(const struct halay_rank_list *lists, size_t count, size_t room)
{
    if (count && !lists)
        return "lists is NULL, their number is not 0";
    for (size_t i = 0; i < count; i++) {
        if (lists[i].count && !lists[i].ranks)
            return "ranks is NULL, their number is not 0";
        if (lists[i].count >= room)
            return "more than 8000 ranks";
        room -= 1 + lists[i].count;
    }
    return NULL;
}

static enum halay_status fault_of(struct halay_context *ctx, const struct halay_rank_list *lists, size_t count,
                                  size_t more)
{
    const char *why =
        more < HALAY_PAYLOAD_MAX ? lists_fault(lists, count, HALAY_PAYLOAD_MAX - 1 - more) : "more than 8000 ranks";

    if (why)
        halay_error(ctx->log, "process sets: %s", why);
    return why ? HALAY_ERR_ARGUMENT : HALAY_OK;
}

/* Creates several sets in one call of all ranks: those of the lists, then those of the text, which parses. */
static enum halay_status create_all(struct halay_context *ctx, const struct halay_rank_list *lists, size_t count,
                                    const char *text, int timeout_ms)
{
    size_t most = 1, at = 0, more = 0;

    if (text)
        halay_set_change_parse(text, NULL, &more);
    enum halay_status status = fault_of(ctx, lists, count, more);
    if (status != HALAY_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        most += 1 + lists[i].count;
    struct change change = { .name = HALAY_CHANGE_SETS_NAME,
                             .payload = malloc((most + more) * sizeof *change.payload) };
    if (!change.payload)
        return HALAY_ERR_NO_MEMORY;
    change.payload[at++] = HALAY_SET_MAKE;
    for (size_t i = 0; i < count; i++)
        at += write_list(&lists[i], change.payload + at);
    if (text)
        halay_set_change_parse(text, change.payload + at, &more);
    change.count = at + more;
    sort_ranks(change.payload, change.count);
    status = change_run(ctx, &change, timeout_ms, NULL);
    free(change.payload);
    return status;
}

enum halay_status halay_process_sets_read_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                 size_t count, int *wanted)
{
    const char *text = ctx->world->config.process_sets;
    size_t length = 0;

    *wanted = count || text;
    if (!text || !halay_set_change_parse(text, NULL, &length))
        return fault_of(ctx, lists, count, length);
    halay_error(ctx->log, "HALAY_PROCESS_SETS: '%.100s' is not a list of ranks; expected for example 0,1;2-5", text);
    return HALAY_ERR_CONFIG;
}

enum halay_status halay_process_sets_create_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                   size_t count)
{
    const struct halay_config *config = &ctx->world->config;

    return create_all(ctx, lists, count, config->process_sets, config->start_timeout_ms);
}

/* Writes the fault of these ranks, ascending, or of this rank among them; 0: no fault. */
static int members_fault(const struct halay_context *ctx, const size_t *ranks, size_t count, char *text, size_t size)
{
    int is_member = 0;

    if (!count)
        return snprintf(text, size, "a set has at least one rank");
    for (size_t i = 0; i < count; i++) {
        if (ranks[i] >= (size_t)ctx->size)
            return snprintf(text, size, "%d is not a rank: the job has %d, from 0 on", (int)ranks[i], ctx->size);
        if (i && ranks[i] == ranks[i - 1])
            return snprintf(text, size, "rank %d is in the list twice", (int)ranks[i]);
        is_member |= ranks[i] == (size_t)ctx->rank;
    }
    return is_member ? 0 : snprintf(text, size, "rank %d is not in the list: only its members create a set", ctx->rank);
}

/* Writes the name "process sets [0,3]"; of many ranks the first ones, their number, and a hash that distinguishes them
 * from others. */
static void name_members(const size_t *ranks, size_t count, char *name, size_t size)
{
    size_t at = (size_t)snprintf(name, size, HALAY_CHANGE_SETS_NAME " [");

    for (size_t i = 0; i < count; i++) {
        if (size - at < 80) {
            uint64_t hash = halay_table_hash((const char *)ranks, count * sizeof *ranks);
            snprintf(name + at, size - at, ",...] %zu ranks %016llx", count, (unsigned long long)hash);
            return;
        }
        at += (size_t)snprintf(name + at, size - at, "%s%zu", i ? "," : "", ranks[i]);
    }
    snprintf(name + at, size - at, "]");
}

/* Makes the change that creates this set; logs faults. On success the caller frees change->payload. */
static enum halay_status say_form(struct halay_context *ctx, const int *ranks, size_t count, struct change *change)
{
    struct halay_rank_list list = { ranks, count };
    char why[160];

    enum halay_status status = fault_of(ctx, &list, 1, 0);
    if (status != HALAY_OK)
        return status;
    size_t *payload = malloc((count + 2) * sizeof *payload);
    if (!payload)
        return HALAY_ERR_NO_MEMORY;
    payload[0] = HALAY_SET_FORM;
    sort_ranks(payload, 1 + write_list(&list, payload + 1));
    if (members_fault(ctx, payload + 2, count, why, sizeof why)) {
        halay_error(ctx->log, "process sets: %s", why);
        free(payload);
        return HALAY_ERR_ARGUMENT;
    }
    name_members(payload + 2, count, change->name, sizeof change->name);
    change->payload = payload;
    change->count = count + 2;
    return HALAY_OK;
}

enum halay_status halay_process_set_create_async(struct halay_context *ctx, const int *ranks, size_t count,
                                                 int timeout_ms, struct halay_request **request)
{
    struct change change = { .timeout_ms = timeout_ms };

    if (!ctx || !request || timeout_ms < 0)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_process_set_create_async: %s",
                             !ctx       ? "no context"
                             : !request ? "no place for the request"
                                        : "timeout_ms is negative: 0 means no time limit");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    enum halay_status status = say_form(ctx, ranks, count, &change);
    if (status == HALAY_OK)
        status = change_start(ctx, &change, request);
    free(change.payload);
    return halay_returns(status);
}

enum halay_status halay_process_set_create(struct halay_context *ctx, const int *ranks, size_t count,
                                           struct halay_process_set **set)
{
    struct change change = { .payload = NULL };
    struct halay_request *request = NULL;

    if (!ctx || !set)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_process_set_create: no %s",
                             ctx ? "place for the set" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    if (halay_may_block(ctx, "halay_process_set_create") != HALAY_OK)
        return HALAY_ERR_UNSUPPORTED;
    halay_call_begin(ctx);
    enum halay_status status = say_form(ctx, ranks, count, &change);
    if (status == HALAY_OK)
        status = change_run(ctx, &change, -1, &request);
    if (status == HALAY_OK)
        *set = halay_process_set_find(ctx, request->set_number);
    halay_request_free(request);
    free(change.payload);
    halay_call_end(ctx);
    return halay_returns(status);
}

static int has_requests_locked(const struct halay_process_set *set)
{
    for (size_t i = 0; i < set->names.size; i++)
        for (const struct halay_table_node *node = set->names.chains[i]; node; node = node->next)
            if (((const struct halay_entry *)node)->request)
                return 1;
    return 0;
}

/* Returns why a set cannot be removed; NULL: it can be, and its removal has begun unless it is busy. */
static const char *begin_removal_locked(struct halay_process_set *set, int *is_busy)
{
    if (!set->number)
        return "it is the set of all ranks";
    if (set->rank < 0)
        return "this rank is not a member of it";
    if (set->state != HALAY_SET_OPEN)
        return "it has been removed, or is being removed";
    *is_busy = has_requests_locked(set);
    if (!*is_busy)
        set->state = HALAY_SET_CLOSING;
    return NULL;
}

/* Makes the change that removes this set; logs faults. On success the caller frees change->payload, and the set counts
 * as being removed until the request has ended. */
static enum halay_status say_removal(struct halay_process_set *set, struct change *change)
{
    struct halay_context *ctx = set->ctx;
    size_t *payload = malloc(((size_t)set->size + 2) * sizeof *payload);
    int is_busy = 0;

    if (!payload)
        return HALAY_ERR_NO_MEMORY;
    pthread_mutex_lock(&ctx->lock);
    const char *why = begin_removal_locked(set, &is_busy);
    pthread_mutex_unlock(&ctx->lock);
    if (why) {
        halay_error(ctx->log, "process set %d cannot be removed: %s", set->number, why);
        free(payload);
        return HALAY_ERR_ARGUMENT;
    }
    payload[0] = is_busy ? HALAY_SET_BUSY : HALAY_SET_REMOVE;
    payload[1] = (size_t)set->number;
    for (int r = 0; r < set->size; r++)
        payload[2 + r] = (size_t)set->ranks[r];
    snprintf(change->name, sizeof change->name, HALAY_CHANGE_SETS_NAME " without %d", set->number);
    change->payload = payload;
    change->count = (size_t)set->size + 2;
    return HALAY_OK;
}

/* Reopens a set whose removal has not been submitted. */
static void removal_undo(struct halay_process_set *set)
{
    pthread_mutex_lock(&set->ctx->lock);
    if (set->state == HALAY_SET_CLOSING)
        set->state = HALAY_SET_OPEN;
    pthread_mutex_unlock(&set->ctx->lock);
}

enum halay_status halay_process_set_remove_async(struct halay_process_set *set, int timeout_ms,
                                                 struct halay_request **request)
{
    struct change change = { .timeout_ms = timeout_ms };

    if (!set || !request || timeout_ms < 0)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_process_set_remove_async: %s",
                             !set       ? "no set"
                             : !request ? "no place for the request"
                                        : "timeout_ms is negative: 0 means no time limit");
    if (halay_is_child(set->ctx))
        return halay_refuse_child();
    enum halay_status status = say_removal(set, &change);
    if (status == HALAY_OK) {
        status = change_start(set->ctx, &change, request);
        if (status != HALAY_OK)
            removal_undo(set);
    }
    free(change.payload);
    return halay_returns(status);
}

enum halay_status halay_process_set_remove(struct halay_process_set *set)
{
    struct change change = { .payload = NULL };
    struct halay_request *request = NULL;

    if (!set)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_process_set_remove: no set");
    struct halay_context *ctx = set->ctx;
    if (halay_is_child(ctx))
        return halay_refuse_child();
    if (halay_may_block(ctx, "halay_process_set_remove") != HALAY_OK)
        return HALAY_ERR_UNSUPPORTED;
    halay_call_begin(ctx);
    enum halay_status status = say_removal(set, &change);
    if (status == HALAY_OK) {
        status = change_run(ctx, &change, -1, &request);
        if (!request)
            removal_undo(set);
    }
    halay_request_free(request);
    free(change.payload);
    halay_call_end(ctx);
    return halay_returns(status);
}
