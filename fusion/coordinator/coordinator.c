/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinator: one tensor entry for each name.
 *
 *     a rank sends READY or ANNOUNCE     arrive.c     state[rank] is set; the entry waits for the others
 *     the last rank arrived              complete.c   agree.c compares their announcements
 *                                                     all equal: agreed (has an id, or gets one in decide)
 *                                                     not equal: ERROR to all (agree.c), the entry is as before
 *     agreed                             complete.c   runnable, or dispatched alone
 *     a rank withdraws it                withdraw.c   ERROR to those that have arrived, later to the others
 *     decide                             decide.c     AGREE for new ids (id_pool.c), then BUCKETs (dispatch.c)
 *
 * Cleanup: zero-initialised; destroy accepts any state.
 */
#include "fusion/coordinator/coordinator.h"
#include "fusion/coordinator/coordinator_state.h"
#include <stdlib.h>
#include <string.h>

enum halay_status halay_coordinator_receive(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                            int64_t now_us)
{
    if (halay_replay_root_ignores(c, item->kind))
        return HALAY_OK;
    switch (item->kind) {
    case HALAY_ITEM_READY:
        return halay_coordinator_ready(c, rank, &item->range, now_us);
    case HALAY_ITEM_ANNOUNCE:
        return halay_coordinator_announce(c, rank, item, now_us);
    case HALAY_ITEM_WITHDRAW:
        return halay_coordinator_withdraw(c, rank, item);
    case HALAY_ITEM_FLUSH:
        c->flush = 1;
        halay_coordinator_note(c);
        return HALAY_OK;
    case HALAY_ITEM_PLAN:
    case HALAY_ITEM_BREAK:
    case HALAY_ITEM_ENTERED:
    case HALAY_ITEM_SETTLED:
        return halay_replay_root_receive(c, item);
    case HALAY_ITEM_FORGET:
        return halay_coordinator_id_forgotten(c, item->id);
    case HALAY_ITEM_BYE:
        return halay_coordinator_leave(c, rank);
    case HALAY_ITEM_DOING:
        if (c->options.parent)
            return HALAY_ERR_FORMAT;
        halay_stalls_answer(c, rank, item);
        return HALAY_OK;
    default:
        return HALAY_ERR_FORMAT;
    }
}

size_t halay_coordinator_waiting(const struct halay_coordinator *c)
{
    size_t waiting = 0;

    for (const struct halay_coordinator *set = c; set; set = set->next)
        waiting += set->waiting.count;
    return waiting;
}

enum halay_status halay_coordinator_emit_error(struct halay_coordinator *c, int rank,
                                               const struct halay_tensor_entry *entry, enum halay_status why,
                                               const char *text)
{
    return halay_coordinator_emit(c, rank,
                                  &(struct halay_item){ .kind = HALAY_ITEM_ERROR,
                                                        .name = entry->node.name,
                                                        .name_length = entry->node.length,
                                                        .status = why,
                                                        .text = text,
                                                        .text_length = strlen(text) });
}

enum halay_status halay_coordinator_fail(struct halay_coordinator *c, int rank, const char *text)
{
    struct halay_coordinator *parent = halay_coordinator_parent(c);
    struct halay_item item = {
        .kind = HALAY_ITEM_FAIL, .status = HALAY_ERR_PEER, .rank = rank, .text = text, .text_length = strlen(text)
    };

    if (parent->has_failed)
        return HALAY_OK;
    parent->has_failed = 1;
    return halay_coordinator_emit(parent, -1, &item);
}

enum halay_status halay_coordinator_create(const struct halay_coordinator_options *options,
                                           struct halay_coordinator **out)
{
    struct halay_coordinator *c = calloc(1, sizeof *c);

    if (!c)
        return HALAY_ERR_NO_MEMORY;
    c->options = *options;
    halay_capture_reset(&c->replay.capture);
    if (options->parent) {
        c->next = options->parent->next;
        options->parent->next = c;
    } else if (!(c->arrivals = calloc((size_t)options->size, sizeof *c->arrivals))) {
        halay_coordinator_destroy(c);
        return HALAY_ERR_NO_MEMORY;
    }
    *out = c;
    return HALAY_OK;
}

enum halay_status halay_coordinator_create_child(struct halay_coordinator *parent, int number, const int *ranks,
                                                 int size, void *arg, struct halay_coordinator **out)
{
    struct halay_coordinator_options options = parent->options;

    options.parent = parent;
    options.number = number;
    options.ranks = ranks;
    options.size = size;
    options.arg = arg;
    return halay_coordinator_create(&options, out);
}

static void unlink_child(struct halay_coordinator *c)
{
    struct halay_coordinator *before = c->options.parent;

    while (before && before->next != c)
        before = before->next;
    if (before)
        before->next = c->next;
    struct halay_coordinator **news = &halay_coordinator_parent(c)->news;
    while (*news && *news != c)
        news = &(*news)->next_news;
    if (*news)
        *news = c->next_news;
}

void halay_coordinator_destroy(struct halay_coordinator *c)
{
    if (!c)
        return;
    unlink_child(c);
    halay_coordinator_free_withdrawals(c);
    halay_coordinator_free_entries(c);
    halay_replay_root_fini(c);
    halay_payload_fini(&c->column);
    free(c->fresh.entries);
    free(c->runnable.entries);
    free(c->chosen.entries);
    free(c->by_id);
    free(c->free_ids);
    free(c->ranges);
    free(c->arrivals);
    free(c);
}
