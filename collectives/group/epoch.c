/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs of a group: see epoch.h.
 *
 * Counters. A rank proposes for each channel the highest number that it has counted to or published: a collective may
 * publish numbers before it counts them (alltoall_shared.c). So none that any rank has published is above the agreed
 * one, and what the next collective waits for is published by that collective only. What this rank publishes itself
 * becomes the agreed number, since the next collective may wait for all before it (a slot that is used again).
 *
 * Numbers of groups for epochs are of a range of their own, from HALAY_EPOCHS_FIRST on: a group that is being made can
 * not get one of them. A rank has the links forget all numbers that it will not use again; those are the ones below its
 * next number that no open group has. One that was proposed may have been agreed on, though others have been entered
 * since: those are left alone.
 */
#include "collectives/group/epoch.h"
#include "collectives/group/area.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/group/group_end.h"

static struct halay_area *own_area(const struct halay_group *group, const struct halay_channel *channel)
{
    return group->memory ? channel->areas[group->rank] : NULL;
}

static void raise_value(uint64_t *value, uint64_t least)
{
    *value = *value < least ? least : *value;
}

/* ---- propose ---- */

static void propose_channel(const struct halay_group *group, const struct halay_channel *channel, uint64_t *counts)
{
    struct halay_area *area = own_area(group, channel);

    counts[HALAY_EPOCH_CHUNKS] = channel->numbers.chunks;
    counts[HALAY_EPOCH_ONESHOTS] = channel->numbers.oneshots;
    counts[HALAY_EPOCH_BARRIERS] = channel->numbers.barriers;
    if (!area)
        return;
    _Atomic uint64_t *const published[] = { &area->arrived, &area->filled, &area->done, &area->taken };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        raise_value(&counts[HALAY_EPOCH_CHUNKS], atomic_load_explicit(published[i], memory_order_relaxed));
}

void halay_group_epoch_propose(struct halay_group *group, struct halay_group_epoch *out)
{
    assert(!group->under_way);
    group->proposed = group->world->next_epoch;
    *out = (struct halay_group_epoch){ .value[HALAY_EPOCH_NUMBER] = group->proposed };
    for (int k = 0; k < HALAY_CHANNELS; k++) {
        const struct halay_channel *channel = &group->channels[k];
        if (channel->next >= HALAY_CHANNELS) /* one after the highest that was started here */
            raise_value(&out->value[HALAY_EPOCH_NEXT], channel->next - HALAY_CHANNELS + 1);
        propose_channel(group, channel, &out->value[HALAY_EPOCH_COUNTERS + k * HALAY_EPOCH_COUNTS]);
    }
}

/* ---- renew ---- */

static void forget_range(struct halay_world *world, uint64_t first, uint64_t last)
{
    halay_route_forget(&world->route, (struct halay_group_range){ (uint32_t)first, (uint32_t)last });
}

/* Returns the lowest number from `first` on that may still be used here, or end if that is lower. */
static uint64_t find_live(const struct halay_world *world, uint64_t first, uint64_t end)
{
    for (const struct halay_group *g = world->groups; g; g = g->next) {
        const uint64_t numbers[] = { g->number, g->p2p_number };
        for (int i = 0; i < 2; i++)
            end = numbers[i] >= first && numbers[i] < end ? numbers[i] : end;
    }
    for (const struct halay_group_end *e = world->ends; e; e = e->next)
        end = e->number >= first && e->number < end && !e->is_forgotten ? e->number : end;
    return end;
}

static void forget_all_but_live(struct halay_world *world, uint64_t first, uint64_t end)
{
    while (first < end) {
        uint64_t live = find_live(world, first, end);
        if (live > first)
            forget_range(world, first, live - 1);
        first = live + 1;
    }
}

static void forget_dead(struct halay_world *world)
{
    uint64_t end = world->next_epoch;

    for (const struct halay_group *g = world->groups; g; g = g->next)
        end = g->proposed && g->proposed < end ? g->proposed : end;
    forget_all_but_live(world, HALAY_WORLD_GROUP, HALAY_WORLD_GROUP + 1);
    forget_all_but_live(world, HALAY_GROUPS_FIRST, world->next_group);
    forget_all_but_live(world, HALAY_EPOCHS_FIRST, end);
}

static void renew_channel(const struct halay_group *group, struct halay_channel *channel, uint64_t next,
                          const uint64_t *counts)
{
    struct halay_area *area = own_area(group, channel);
    uint64_t chunks = counts[HALAY_EPOCH_CHUNKS];

    channel->is_taken = 0;
    channel->next = next + ((uint64_t)channel->index - next) % HALAY_CHANNELS;
    channel->numbers = (struct halay_channel_numbers){ .chunks = chunks,
                                                       .oneshots = counts[HALAY_EPOCH_ONESHOTS],
                                                       .all_read = counts[HALAY_EPOCH_ONESHOTS],
                                                       .barriers = counts[HALAY_EPOCH_BARRIERS] };
    if (!area)
        return;
    _Atomic uint64_t *const published[] = { &area->arrived, &area->filled, &area->done, &area->taken };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        atomic_store_explicit(published[i], chunks, memory_order_release);
    atomic_store_explicit(&area->read, counts[HALAY_EPOCH_ONESHOTS], memory_order_release);
    atomic_store_explicit(&area->barrier, counts[HALAY_EPOCH_BARRIERS], memory_order_release);
    atomic_store_explicit(&area->next, channel->next, memory_order_relaxed);
}

enum halay_status halay_group_renew(struct halay_group *group, const struct halay_group_epoch *agreed)
{
    struct halay_world *world = group->world;
    uint64_t number = agreed->value[HALAY_EPOCH_NUMBER];

    assert(!group->under_way && number >= HALAY_EPOCHS_FIRST);
    group->proposed = 0;
    raise_value(&world->next_epoch, number + 1);
    if (number > UINT32_MAX && group->status == HALAY_OK) {
        halay_error(world->log, "a group cannot be renewed: this job has used all 2^31 numbers");
        halay_group_fail(group, HALAY_ERR_UNSUPPORTED, -1);
    }
    if (group->status != HALAY_OK) {
        if (number <= UINT32_MAX)
            forget_range(world, number, number);
        return group->status;
    }
    forget_range(world, group->number, group->number);
    group->number = (uint32_t)number;
    group->next_number = agreed->value[HALAY_EPOCH_NEXT];
    for (int k = 0; k < HALAY_CHANNELS; k++)
        renew_channel(group, &group->channels[k], group->next_number,
                      &agreed->value[HALAY_EPOCH_COUNTERS + k * HALAY_EPOCH_COUNTS]);
    forget_dead(world);
    return HALAY_OK;
}
