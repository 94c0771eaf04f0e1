/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a group: see group_end.h.
 */
#include "collectives/group/group_end.h"
#include "collectives/group/area.h"
#include <stdlib.h>

static uint64_t notice_tag(const struct halay_group_end *end)
{
    return halay_tag(end->number, 0, 0);
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
    end->apart = calloc((size_t)members, sizeof *end->apart);
    if (!end->apart) {
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

static void take_back_notices(struct halay_group_end *end, struct halay_link *data)
{
    for (int i = 0; i < end->apart_count; i++) {
        struct halay_member_end *f = &end->apart[i];
        if (is_posted(&f->sending))
            data->ops->cancel(data, &f->sending);
        if (is_posted(&f->receiving))
            data->ops->cancel(data, &f->receiving);
    }
}

void halay_group_end_destroy(struct halay_group_end *end, struct halay_link *data, int gives_areas)
{
    if (!end)
        return;
    take_back_notices(end, data);
    if (gives_areas && end->mine)
        end->memory->ops->give_areas(end->memory, end->offset);
    free(end->apart);
    free(end);
}

void halay_group_end_send(struct halay_group_end *end, struct halay_link *data, const struct halay_close_notice *notice)
{
    for (int i = 0; i < end->apart_count; i++) {
        struct halay_member_end *f = &end->apart[i];
        f->sent = *notice;
        f->sending.is_optional = 1;
        data->ops->send(data, f->peer, notice_tag(end), &f->sent, sizeof f->sent, &f->sending);
    }
}

void halay_group_end_receive(struct halay_group_end *end, struct halay_link *data)
{
    for (int i = 0; i < end->apart_count; i++) {
        struct halay_member_end *f = &end->apart[i];
        if (f->is_receiving++)
            continue;
        f->receiving.is_optional = 1;
        data->ops->recv(data, f->peer, notice_tag(end), &f->received, sizeof f->received, &f->receiving);
    }
}

int halay_group_end_received(struct halay_group_end *end, int rank, struct halay_close_notice *notice)
{
    for (int i = 0; i < end->apart_count; i++) {
        struct halay_member_end *f = &end->apart[i];
        if (f->rank != rank || !halay_transfer_is_done(&f->receiving))
            continue;
        *notice = f->received;
        return 1;
    }
    return 0;
}

/* ---- all of them ---- */

/* Nothing more is to be sent or, unless the group failed, to be received. */
static int notices_are_over(const struct halay_group_end *end)
{
    for (int i = 0; i < end->apart_count; i++)
        if (is_posted(&end->apart[i].sending) || (!end->is_spoilt && !halay_transfer_is_done(&end->apart[i].receiving)))
            return 0;
    return 1;
}

/* No other member looks at this rank's areas any more. Pairs with count_as_leaver (group.c). */
static int is_left(const struct halay_group_end *end)
{
    return !end->mine || atomic_load_explicit(&end->mine->leavers, memory_order_acquire) == (uint32_t)end->sharers;
}

/* Has the links forget a failed group, once its own notices are sent. */
static void end_forget(struct halay_group_end *end, const struct halay_route *route)
{
    if (end->is_forgotten)
        return;
    take_back_notices(end, route->data);
    halay_route_forget(route, (struct halay_group_range){ end->number, end->number });
    halay_route_forget(route, (struct halay_group_range){ end->collectives, end->collectives });
    end->is_forgotten = 1;
}

void halay_group_ends_sweep(struct halay_group_end **ends, const struct halay_route *route)
{
    struct halay_group_end *end;

    while ((end = *ends)) {
        if (!end->is_spoilt)
            halay_group_end_receive(end, route->data);
        int is_over = notices_are_over(end);
        if (end->is_spoilt && is_over)
            end_forget(end, route);
        if (!is_over || !is_left(end)) {
            ends = &end->next;
            continue;
        }
        if (end->has_p2p)
            end_forget(end, route);
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
