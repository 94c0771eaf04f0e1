/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of groups. group_ids.h says when one may be used again.
 */
#include "collectives/group/group_ids.h"
#include "collectives/group/area.h"
#include <stdlib.h>

_Static_assert(HALAY_GROUPS_MAX % 64 == 0, "a bit for each id, in words");

enum halay_status halay_group_ids_take(struct halay_group_ids *ids, struct halay_log *log, int *id)
{
    if (ids->made == HALAY_WORLD_GROUPS)
        return halay_fail(log, HALAY_ERR_UNSUPPORTED, "no more groups of all ranks: a job has %d, ended ones counted",
                          HALAY_WORLD_GROUPS);
    *id = ids->made++;
    return HALAY_OK;
}

void halay_group_ids_limit(struct halay_group_ids *ids, int limit)
{
    if (limit && (!ids->limit || limit < ids->limit))
        ids->limit = limit;
}

int halay_group_ids_most(const struct halay_group_ids *ids)
{
    return (ids->limit ? ids->limit : HALAY_GROUPS_MAX) - HALAY_SUBSET_FIRST;
}

int halay_group_ids_choose(const struct halay_group_ids *ids, const struct halay_id_set *taken)
{
    int count = halay_group_ids_most(ids);
    int after = ids->last < HALAY_SUBSET_FIRST ? 0 : ids->last - HALAY_SUBSET_FIRST + 1;

    for (int i = 0; i < count; i++) {
        int id = HALAY_SUBSET_FIRST + (after + i) % count;
        if (!halay_id_set_has(taken, id))
            return id;
    }
    return -1;
}

/* ---- the end of one group ---- */

/* The last of channel 0's tags: no algorithm uses that many. */
static uint64_t farewell_tag(const struct halay_group_end *end)
{
    return halay_tag(end->id, 0, (1u << HALAY_TAG_BITS) - 1);
}

static int is_posted(struct halay_transfer *x)
{
    return atomic_load_explicit(&x->state, memory_order_acquire) == HALAY_TRANSFER_POSTED;
}

enum halay_status halay_group_end_create(int members, struct halay_group_end **out)
{
    struct halay_group_end *end = calloc(1, sizeof *end);

    if (!end)
        return HALAY_ERR_NO_MEMORY;
    end->witness = calloc((size_t)members, sizeof *end->witness);
    end->farewell = calloc((size_t)members, sizeof *end->farewell);
    if (!end->witness || !end->farewell) {
        halay_group_end_destroy(end, NULL);
        return HALAY_ERR_NO_MEMORY;
    }
    *out = end;
    return HALAY_OK;
}

void halay_group_end_destroy(struct halay_group_end *end, struct halay_link *data)
{
    if (!end)
        return;
    for (int i = 0; i < end->farewells; i++) {
        struct halay_farewell *f = &end->farewell[i];
        if (is_posted(&f->saying))
            data->ops->cancel(data, &f->saying);
        if (is_posted(&f->hearing))
            data->ops->cancel(data, &f->hearing);
    }
    free(end->farewell);
    free(end->witness);
    free(end);
}

void halay_group_end_send(struct halay_group_end *end, struct halay_link *data, const struct halay_close_notice *notice)
{
    for (int i = 0; i < end->farewells; i++) {
        struct halay_farewell *f = &end->farewell[i];
        f->said = *notice;
        f->saying.is_optional = 1;
        data->ops->send(data, f->peer, farewell_tag(end), &f->said, sizeof f->said, &f->saying);
    }
}

void halay_group_end_receive(struct halay_group_end *end, struct halay_link *data)
{
    for (int i = 0; i < end->farewells; i++) {
        struct halay_farewell *f = &end->farewell[i];
        if (f->is_listening++)
            continue;
        f->hearing.is_optional = 1;
        data->ops->recv(data, f->peer, farewell_tag(end), &f->heard, sizeof f->heard, &f->hearing);
    }
}

int halay_group_end_received(struct halay_group_end *end, int rank, struct halay_close_notice *notice)
{
    for (int i = 0; i < end->farewells; i++) {
        struct halay_farewell *f = &end->farewell[i];
        if (f->rank != rank || !halay_transfer_is_done(&f->hearing))
            continue;
        *notice = f->heard;
        return 1;
    }
    return 0;
}

/* ---- all ids ---- */

void halay_group_ids_close(struct halay_group_ids *ids, struct halay_group_end *end)
{
    end->next = ids->ends;
    ids->ends = end;
}

/* Pairs with the stores of publish_end (drive.c) and of release_id here. */
static int witness_has_closed(const struct halay_group_witness *w)
{
    return atomic_load_explicit(&w->area->closed, memory_order_acquire) ||
           atomic_load_explicit(&w->area->releases, memory_order_acquire) != w->releases;
}

/* Nothing more is to be sent and, unless the group failed, nothing more to be received. */
static int farewells_are_over(struct halay_group_end *end)
{
    for (int i = 0; i < end->farewells; i++)
        if (is_posted(&end->farewell[i].saying) ||
            (!end->is_spoilt && !halay_transfer_is_done(&end->farewell[i].hearing)))
            return 0;
    for (int i = 0; i < end->witnesses && !end->is_spoilt; i++)
        if (!witness_has_closed(&end->witness[i]))
            return 0;
    return 1;
}

static void release_id(struct halay_group_ids *ids, struct halay_shared_memory *shared, int id)
{
    ids->releases[id]++;
    if (shared) {
        struct halay_area *area = shared->ops->area(shared, shared->rank, id * HALAY_CHANNELS);
        shared->ops->clear(shared, id * HALAY_CHANNELS, HALAY_CHANNELS);
        atomic_store_explicit(&area->releases, ids->releases[id], memory_order_release);
    }
    halay_id_set_put(&ids->taken, id, 0);
}

void halay_group_ids_sweep(struct halay_group_ids *ids, struct halay_link *data, struct halay_shared_memory *shared)
{
    struct halay_group_end **link = &ids->ends, *end;

    while ((end = *link)) {
        if (!end->is_spoilt)
            halay_group_end_receive(end, data);
        if (!farewells_are_over(end)) {
            link = &end->next;
            continue;
        }
        *link = end->next;
        if (!end->is_spoilt)
            release_id(ids, shared, end->id);
        halay_group_end_destroy(end, data);
    }
}

int halay_group_ids_waiting(const struct halay_group_ids *ids)
{
    int waiting = 0;

    for (const struct halay_group_end *end = ids->ends; end; end = end->next)
        waiting += !end->is_spoilt;
    return waiting;
}

void halay_group_ids_fini(struct halay_group_ids *ids, struct halay_link *data)
{
    while (ids->ends) {
        struct halay_group_end *end = ids->ends;
        ids->ends = end->next;
        halay_group_end_destroy(end, data);
    }
}
