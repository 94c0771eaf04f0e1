/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets: some ranks of the job, or all of them, with what they have to themselves; made and removed.
 *
 *     a rank's program                  all ranks                               driver
 *       halay_process_set_create   ->     the same is asked for everywhere   ->   a number, a coordinator (rank 0)
 *       halay_process_set_remove          (negotiated like a tensor)              in its place among all ranks'
 *                                                                                 collectives: a group, or the end
 *
 * So every rank makes the same sets in the same order and counts the same numbers; a number is never used again. The
 * members of a set make its group among themselves, one set after the other, while their drivers go on with all else.
 *
 * A set that was removed keeps its struct until the context ends, so that a program that still uses it gets an error.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "fusion/engine.h"
#include "fusion/values/set_words.h"
#include "fusion/values/signature.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = UINT16_MAX, MEMBERSHIPS_MAX = HALAY_GROUPS_MAX - HALAY_SUBSET_FIRST };

void halay_process_set_init(struct halay_process_set *set, struct halay_context *ctx, int size, int rank)
{
    *set = (struct halay_process_set){ .ctx = ctx, .size = size, .rank = rank };
    set->waiting_last = &set->waiting;
}

/* What only a set that lives has. */
static void end_life(struct halay_process_set *set)
{
    halay_group_destroy(set->group);
    halay_coordinator_destroy(set->coordinator);
    free(set->by_id);
    set->group = NULL;
    set->coordinator = NULL;
    set->by_id = NULL;
    set->id_capacity = 0;
}

static void set_free(struct halay_process_set *set)
{
    end_life(set);
    halay_names_free_all(set);
    free(set->ranks);
    free(set);
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
}

void halay_process_sets_fini(struct halay_context *ctx)
{
    for (struct halay_process_set *set = ctx->removed, *next; set; set = next) {
        next = set->next;
        set_free(set);
    }
    ctx->removed = NULL;
    halay_names_free_all(&ctx->all);
}

/* ---- questions ---- */

int halay_process_set_rank_of(const struct halay_process_set *set, int rank)
{
    if (!set->ranks)
        return rank < set->size ? rank : -1;
    for (int r = 0; r < set->size; r++)
        if (set->ranks[r] == rank)
            return r;
    return -1;
}

struct halay_process_set *halay_process_set_by_number(struct halay_context *ctx, int number)
{
    struct halay_process_set *set = &ctx->all;

    while (set && set->number != number)
        set = set->next;
    return set;
}

void halay_process_set_print_ranks(const struct halay_process_set *set, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int r = 0; r < set->size && used < size; r++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", r ? "," : "", set->ranks ? set->ranks[r] : r);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

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

int halay_process_set_number(const struct halay_process_set *set)
{
    return set->number;
}

int halay_process_set_size(const struct halay_process_set *set)
{
    return set->size;
}

int halay_process_set_rank(const struct halay_process_set *set)
{
    return set->rank;
}

int halay_process_set_is_included(const struct halay_process_set *set)
{
    return set->rank >= 0;
}

void halay_process_set_ranks(const struct halay_process_set *set, int *ranks)
{
    for (int r = 0; r < set->size; r++)
        ranks[r] = set->ranks ? set->ranks[r] : r;
}

/* ---- all of them; driver only ---- */

void halay_process_sets_fail(struct halay_context *ctx, int culprit)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->group)
            halay_group_fail(set->group, ctx->status, halay_process_set_rank_of(set, culprit));
}

void halay_process_sets_check(struct halay_context *ctx)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->group)
            halay_group_check(set->group);
}

enum halay_status halay_process_sets_status(const struct halay_context *ctx)
{
    enum halay_status status = HALAY_OK;

    for (const struct halay_process_set *set = &ctx->all; set && status == HALAY_OK; set = set->next)
        status = set->group ? halay_group_status(set->group, NULL) : HALAY_OK;
    return status;
}

/* ---- making and removing; driver only ---- */

/* Rank 0 serves sets that it is no member of: then it has to hear of them although nothing of its own is in flight. */
static void note_listening_locked(struct halay_context *ctx)
{
    ctx->listens = 0;
    for (const struct halay_process_set *set = ctx->all.next; set; set = set->next)
        ctx->listens |= set->coordinator && set->rank < 0;
}

static enum halay_status make_coordinator(struct halay_process_set *set)
{
    struct halay_coordinator_options options = set->ctx->coordinator_options;

    options.parent = set->ctx->coordinator;
    options.size = set->size;
    options.number = set->number;
    options.ranks = set->ranks;
    options.arg = set;
    return halay_coordinator_create(&options, &set->coordinator);
}

/* All but the group. */
static enum halay_status add_set(struct halay_context *ctx, const uint64_t *ranks, size_t count)
{
    struct halay_process_set **last = &ctx->all.next, *set = calloc(1, sizeof *set);
    int *copy = malloc(count * sizeof *copy);

    if (!set || !copy)
        goto err_free;
    for (size_t i = 0; i < count; i++)
        copy[i] = (int)ranks[i];
    halay_process_set_init(set, ctx, (int)count, -1);
    set->ranks = copy;
    set->rank = halay_process_set_rank_of(set, ctx->rank);
    set->number = ctx->sets_made + 1;
    if (ctx->coordinator && make_coordinator(set) != HALAY_OK)
        goto err_free;
    ctx->sets_made++;
    while (*last)
        last = &(*last)->next;
    pthread_mutex_lock(&ctx->lock);
    *last = set;
    note_listening_locked(ctx);
    pthread_mutex_unlock(&ctx->lock);
    return HALAY_OK;

err_free:
    free(copy);
    free(set);
    return HALAY_ERR_NO_MEMORY;
}

/* Ids end with the set: names that nothing else needs are freed. */
static void forget_all_locked(struct halay_process_set *set)
{
    for (size_t id = 0; id < set->id_capacity; id++)
        if (set->by_id[id]) {
            set->by_id[id]->id = (uint32_t)HALAY_NO_ID;
            halay_entry_release_locked(set->by_id[id]);
        }
}

static void remove_set(struct halay_process_set *set)
{
    struct halay_context *ctx = set->ctx;
    struct halay_process_set **at = &ctx->all.next;

    while (*at != set)
        at = &(*at)->next;
    pthread_mutex_lock(&ctx->lock);
    *at = set->next;
    set->next = ctx->removed;
    ctx->removed = set;
    set->state = HALAY_SET_REMOVED;
    forget_all_locked(set);
    note_listening_locked(ctx);
    pthread_mutex_unlock(&ctx->lock);
    end_life(set);
}

/* How many sets the words ask for. */
static int sets_in(const uint64_t *words, size_t count)
{
    int sets = 0;

    for (size_t at = 1; at < count; at += 1 + (size_t)words[at])
        sets++;
    return sets;
}

/* A rank is in so many groups at most. Nonzero: *text says which would be in more. */
static int memberships_fault(struct halay_context *ctx, const uint64_t *words, size_t count, char *text, size_t size)
{
    int made = ctx->sets_made + sets_in(words, count);

    for (int rank = 0; rank < ctx->size; rank++) {
        int in = 0;
        for (const struct halay_process_set *set = ctx->all.next; set; set = set->next)
            in += halay_process_set_rank_of(set, rank) >= 0;
        for (size_t at = 1; at < count; at += 1 + (size_t)words[at])
            for (size_t i = 0; i < words[at]; i++)
                in += words[at + 1 + i] == (uint64_t)rank;
        if (in > MEMBERSHIPS_MAX)
            return snprintf(text, size, "process sets: rank %d would be in more than %d", rank, MEMBERSHIPS_MAX);
    }
    if (made > NUMBER_MAX)
        return snprintf(text, size, "process sets: no more in this job, there have been %d", ctx->sets_made);
    return 0;
}

enum halay_status halay_process_sets_prepare(struct halay_context *ctx, struct halay_request *request)
{
    const uint64_t *words = request->words.at;
    size_t count = request->words.count;
    enum halay_status status = HALAY_OK;
    char text[200];

    ctx->is_changing = 1;
    request->set_number = 0;
    if (words[0] != HALAY_SET_MAKE || halay_set_words_fault(words, count, ctx->size, text, sizeof text) ||
        memberships_fault(ctx, words, count, text, sizeof text))
        return HALAY_OK;
    request->set_number = ctx->sets_made + 1;
    for (size_t at = 1; at < count && status == HALAY_OK; at += 1 + (size_t)words[at])
        status = add_set(ctx, words + at + 1, (size_t)words[at]);
    return status;
}

/* Those that were prepared get their groups, in order of number: members of several meet in the same order. */
enum halay_status halay_process_sets_progress(struct halay_context *ctx, struct halay_request *request)
{
    int end = request->set_number + sets_in(request->words.at, request->words.count);

    for (; ctx->making_number < end; ctx->making_number++) {
        struct halay_process_set *set = halay_process_set_by_number(ctx, ctx->making_number);
        enum halay_status status = HALAY_OK;
        if (!ctx->making)
            status = halay_group_making_start(ctx->all.group, set->ranks, set->size, &ctx->making);
        if (ctx->making)
            status = halay_group_making_progress(ctx->making, &set->group);
        if (status != HALAY_OK)
            return status;
        halay_group_making_end(ctx->making);
        ctx->making = NULL;
        if (set->group && halay_recording(&ctx->recorder))
            halay_record_set(ctx, set);
    }
    return HALAY_OK;
}

void halay_process_sets_abandon(struct halay_context *ctx)
{
    halay_group_making_end(ctx->making);
    ctx->making = NULL;
    ctx->is_changing = 0;
}

static enum halay_status make_groups(struct halay_context *ctx, struct halay_request *request)
{
    char text[200];

    if (!request->set_number) {
        memberships_fault(ctx, request->words.at, request->words.count, text, sizeof text);
        halay_request_end(request, HALAY_ERR_UNSUPPORTED, text);
        return HALAY_OK;
    }
    ctx->making_number = request->set_number;
    return halay_process_sets_progress(ctx, request);
}

enum halay_status halay_process_sets_change(struct halay_context *ctx, struct halay_request *request)
{
    const uint64_t *words = request->words.at;
    char text[200];

    ctx->is_changing = 0;
    if (halay_set_words_fault(words, request->words.count, ctx->size, text, sizeof text)) {
        halay_request_end(request, HALAY_ERR_ARGUMENT, text);
        return HALAY_OK;
    }
    if (words[0] == HALAY_SET_MAKE)
        return make_groups(ctx, request);
    struct halay_process_set *set = halay_process_set_by_number(ctx, (int)words[1]);
    if (!set)
        return HALAY_ERR_FORMAT; /* all ranks have said the number of one that lives */
    remove_set(set);
    return HALAY_OK;
}

int halay_process_sets_may_change(struct halay_context *ctx, const struct halay_request *request)
{
    const uint64_t *words = request->words.at;
    const struct halay_process_set *set =
        words[0] == HALAY_SET_REMOVE ? halay_process_set_by_number(ctx, (int)words[1]) : NULL;

    if (set && (set->running || set->waiting))
        return 0; /* what this rank takes part in as it has joined */
    return !ctx->making;
}

/* ---- the program's side ---- */

/* Ask for it together with all other ranks; blocks. Says what went wrong. *number (NULL: not wanted): of the first one
 * made. */
static enum halay_status ask(struct halay_context *ctx, const size_t *words, size_t count, int timeout_ms, int *number)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = HALAY_CHANGE_SETS_NAME,
                                      .operation = HALAY_CHANGE_SETS,
                                      .shape = { count },
                                      .splits = words };
    struct halay_request *request;

    enum halay_status status = halay_may_block(ctx, "a change of process sets");
    if (status == HALAY_OK)
        status = halay_submit_info(ctx, &info, NULL, NULL, 0, &request);
    if (status != HALAY_OK)
        return status;
    status = halay_wait(request, timeout_ms);
    if (status == HALAY_ERR_TIMEOUT)
        halay_error(ctx->log, "process sets: not all ranks have asked for them within %g s", timeout_ms / 1e3);
    else if (*halay_request_text(request))
        halay_error(ctx->log, "%s", halay_request_text(request));
    if (status == HALAY_OK && number)
        *number = request->set_number;
    halay_request_free(request);
    return status;
}

static int compare_words(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Ascending, in each set. */
static void sort_ranks(size_t *words, size_t count)
{
    for (size_t at = 1; at < count; at += 1 + words[at])
        qsort(words + at + 1, words[at], sizeof *words, compare_words);
}

static size_t say_list(const struct halay_rank_list *list, size_t *words)
{
    words[0] = list->count;
    for (size_t i = 0; i < list->count; i++)
        words[1 + i] = (size_t)(unsigned)list->ranks[i];
    return 1 + list->count;
}

/* What nobody can ask for, whatever the others do. NULL: nothing. room: words that there may be. */
static const char *lists_fault(const struct halay_rank_list *lists, size_t count, size_t room)
{
    if (count && !lists)
        return "there is a number of lists, and no lists";
    for (size_t i = 0; i < count; i++) {
        if (lists[i].count && !lists[i].ranks)
            return "there is a number of ranks, and no ranks";
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
        more < HALAY_WORDS_MAX ? lists_fault(lists, count, HALAY_WORDS_MAX - 1 - more) : "more than 8000 ranks";

    if (why)
        halay_error(ctx->log, "process sets: %s", why);
    return why ? HALAY_ERR_ARGUMENT : HALAY_OK;
}

/* One call for several sets: those of the lists, then those of the text, which parses. *number: of the first one. */
static enum halay_status create_all(struct halay_context *ctx, const struct halay_rank_list *lists, size_t count,
                                    const char *text, int timeout_ms, int *number)
{
    size_t most = 1, at = 0, more = 0;

    if (text)
        halay_set_words_parse(text, NULL, &more);
    enum halay_status status = fault_of(ctx, lists, count, more);
    if (status != HALAY_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        most += 1 + lists[i].count;
    size_t *words = malloc((most + more) * sizeof *words);
    if (!words)
        return HALAY_ERR_NO_MEMORY;
    words[at++] = HALAY_SET_MAKE;
    for (size_t i = 0; i < count; i++)
        at += say_list(&lists[i], words + at);
    if (text)
        halay_set_words_parse(text, words + at, &more);
    sort_ranks(words, at + more);
    status = ask(ctx, words, at + more, timeout_ms, number);
    free(words);
    return status;
}

enum halay_status halay_process_sets_read_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                 size_t count, int *wanted)
{
    const char *text = ctx->world->config.process_sets;
    size_t words = 0;

    *wanted = count || text;
    if (!text || !halay_set_words_parse(text, NULL, &words))
        return fault_of(ctx, lists, count, words);
    halay_error(ctx->log, "HALAY_PROCESS_SETS: '%.100s' is no list of ranks; write for example 0,1;2-5", text);
    return HALAY_ERR_CONFIG;
}

enum halay_status halay_process_sets_create_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                   size_t count)
{
    const struct halay_config *config = &ctx->world->config;

    return create_all(ctx, lists, count, config->process_sets, config->start_timeout_ms, NULL);
}

enum halay_status halay_process_set_create(struct halay_context *ctx, const int *ranks, size_t count,
                                           struct halay_process_set **set)
{
    struct halay_rank_list list = { ranks, count };
    int number;

    if (!ctx || !set)
        return HALAY_ERR_ARGUMENT;
    if (halay_is_child(ctx))
        return HALAY_ERR_UNSUPPORTED;
    enum halay_status status = create_all(ctx, &list, 1, NULL, -1, &number);
    if (status == HALAY_OK)
        *set = halay_process_set_find(ctx, number);
    return status;
}

static int has_requests_locked(const struct halay_process_set *set)
{
    for (size_t i = 0; i < set->names.size; i++)
        for (const struct halay_table_node *node = set->names.chains[i]; node; node = node->next)
            if (((const struct halay_entry *)node)->request)
                return 1;
    return 0;
}

enum halay_status halay_process_set_remove(struct halay_process_set *set)
{
    if (!set)
        return HALAY_ERR_ARGUMENT;
    struct halay_context *ctx = set->ctx;
    size_t words[] = { HALAY_SET_REMOVE, (size_t)set->number };

    if (halay_is_child(ctx))
        return HALAY_ERR_UNSUPPORTED;
    pthread_mutex_lock(&ctx->lock);
    int can = set->number && set->state == HALAY_SET_OPEN;
    if (can && has_requests_locked(set))
        words[0] = HALAY_SET_BUSY;
    else if (can)
        set->state = HALAY_SET_CLOSING;
    pthread_mutex_unlock(&ctx->lock);
    if (!can) {
        halay_error(ctx->log, "process sets: %d is not removed, %s", set->number,
                    set->number ? "it has been, or is about to be" : "it is that of all ranks");
        return HALAY_ERR_ARGUMENT;
    }
    enum halay_status status = ask(ctx, words, 2, -1, NULL);
    pthread_mutex_lock(&ctx->lock);
    if (status != HALAY_OK && set->state == HALAY_SET_CLOSING)
        set->state = HALAY_SET_OPEN;
    pthread_mutex_unlock(&ctx->lock);
    return status;
}
