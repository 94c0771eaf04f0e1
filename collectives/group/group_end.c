/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a group: see group_end.h.
 */
#include "collectives/group/group_end.h"
#include "collectives/group/area.h"
#include <stdlib.h>

/* The last of channel 0's tags: no algorithm uses that many. */
static uint64_t farewell_tag(const struct halay_group_end *end)
{
    return halay_tag(end->number, 0, (1u << HALAY_TAG_BITS) - 1);
}

static int is_posted(struct halay_transfer *x)
{
    return atomic_load_explicit(&x->state, memory_order_acquire) == HALAY_TRANSFER_POSTED;
}

enum halay_status halay_group_end_create(int members, struct halay_shared_memory *memory, struct halay_group_end **out)
{
    struct halay_group_end *end = calloc(1, sizeof *end);

    if (!end)
        return HALAY_ERR_NO_MEMORY;
    end->farewell = calloc((size_t)members, sizeof *end->farewell);
    if (!end->farewell) {
        free(end);
        return HALAY_ERR_NO_MEMORY;
    }
    end->offset = HALAY_PRIVATE;
    end->memory = memory;
    if (memory && memory->ops->take_areas(memory, &end->offset) == HALAY_OK)
        end->mine = memory->ops->reach(memory, memory->rank, end->offset, HALAY_GROUP_BYTES);
    *out = end;
    return HALAY_OK;
}

static void take_back_farewells(struct halay_group_end *end, struct halay_link *data)
{
    for (int i = 0; i < end->farewells; i++) {
        struct halay_farewell *f = &end->farewell[i];
        if (is_posted(&f->saying))
            data->ops->cancel(data, &f->saying);
        if (is_posted(&f->hearing))
            data->ops->cancel(data, &f->hearing);
    }
}

void halay_group_end_destroy(struct halay_group_end *end, struct halay_link *data, int gives_areas)
{
    if (!end)
        return;
    take_back_farewells(end, data);
    if (gives_areas && end->mine)
        end->memory->ops->give_areas(end->memory, end->offset);
    free(end->farewell);
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

/* ---- all of them ---- */

/* Nothing more is to be sent or, unless the group failed, to be received. */
static int farewells_are_over(const struct halay_group_end *end)
{
    for (int i = 0; i < end->farewells; i++)
        if (is_posted(&end->farewell[i].saying) ||
            (!end->is_spoilt && !halay_transfer_is_done(&end->farewell[i].hearing)))
            return 0;
    return 1;
}

/* No other member looks at this rank's areas any more. Pairs with count_as_leaver (group.c). */
static int is_left(const struct halay_group_end *end)
{
    return !end->mine || atomic_load_explicit(&end->mine->leavers, memory_order_acquire) == (uint32_t)end->sharers;
}

/* Of a failed group, once its own farewells are sent. */
static void forget(struct halay_group_end *end, const struct halay_route *route)
{
    if (end->is_forgotten)
        return;
    take_back_farewells(end, route->data);
    halay_route_forget(route, end->number);
    end->is_forgotten = 1;
}

void halay_group_ends_sweep(struct halay_group_end **ends, const struct halay_route *route)
{
    struct halay_group_end *end;

    while ((end = *ends)) {
        if (!end->is_spoilt)
            halay_group_end_receive(end, route->data);
        int is_over = farewells_are_over(end);
        if (end->is_spoilt && is_over)
            forget(end, route);
        if (!is_over || !is_left(end)) {
            ends = &end->next;
            continue;
        }
        *ends = end->next;
        halay_group_end_destroy(end, route->data, 1);
    }
}

void halay_group_ends_fini(struct halay_group_end **ends, struct halay_link *data)
{
    struct halay_group_end *end;

    while ((end = *ends)) {
        *ends = end->next;
        halay_group_end_destroy(end, data, 0);
    }
}
