/* SPDX-License-Identifier: Apache-2.0
 *
 * Detour; detour.h.
 *
 * On the host the arrays have the places that they have on the device: in inside of out, or out inside of in, if it is
 * done in place. Of an all-to-all a rank may keep its own part where it is: that is in no copy.
 *
 * Detours are used again, so nothing is allocated once there have been as many as are under way at a time, and as
 * large ones.
 */
#include "collectives/group/detour.h"
#include "base/clock.h"
#include "base/memory.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- where the data are ---- */

static int find_owner(const struct halay_devices *devices, const void *ptr, size_t bytes)
{
    return bytes ? halay_devices_table(devices)->owner(&devices->host, ptr) : -1;
}

static void print_place(int device, char *text, size_t size)
{
    if (device < 0)
        snprintf(text, size, "in the host's memory");
    else
        snprintf(text, size, "on device %d", device);
}

/* *device: -1 for the host. */
static enum halay_status find_device(struct halay_group *group, const struct halay_detour_arrays *a, int *device)
{
    const struct halay_devices *devices = group->world->devices;
    int in_on = find_owner(devices, a->in, a->in_bytes);
    int out_on = a->in == a->out && a->in_bytes ? in_on : find_owner(devices, a->out, a->out_bytes);
    char in[40], out[40];

    *device = a->in_bytes ? in_on : out_on;
    if (!a->in_bytes || !a->out_bytes || in_on == out_on)
        return HALAY_OK;
    print_place(in_on, in, sizeof in);
    print_place(out_on, out, sizeof out);
    return halay_fail(group->world->log, HALAY_ERR_ARGUMENT,
                      "in is %s and out is %s: the data of a call are in the host's memory or on one device", in, out);
}

/* Returns nonzero if b is in a. */
static int is_inside(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;

    return q >= p && q + b_bytes <= p + a_bytes;
}

/* Returns the bytes that are needed on the host, and where in them the arrays begin. */
static size_t lay_out(const struct halay_detour_arrays *a, size_t *in_at, size_t *out_at)
{
    *in_at = *out_at = 0;
    if (!a->in_bytes || !a->out_bytes)
        return a->in_bytes + a->out_bytes;
    if (is_inside(a->out, a->out_bytes, a->in, a->in_bytes)) {
        *in_at = (size_t)(a->in - a->out);
        return a->out_bytes;
    }
    if (is_inside(a->in, a->in_bytes, a->out, a->out_bytes)) {
        *out_at = (size_t)(a->out - a->in);
        return a->in_bytes;
    }
    if (a->is_elementwise)
        return a->in_bytes;
    *out_at = halay_round_up(a->in_bytes, HALAY_TRANSIT_LINE);
    return *out_at + a->out_bytes;
}

/* ---- detours that a group has ---- */

static enum halay_status detour_create(struct halay_group *group, struct halay_device *device,
                                       struct halay_detour **out)
{
    struct halay_detour *d = calloc(1, sizeof *d);

    if (!d)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = halay_transit_init(&d->transit, group->world->devices, device);
    if (status != HALAY_OK) {
        halay_transit_fini(&d->transit);
        free(d);
        return status;
    }
    d->group = group;
    d->next = group->detours;
    group->detours = d;
    *out = d;
    return HALAY_OK;
}

/* Returns the free one of the device with the least memory that suffices, else one that has to grow, else NULL. */
static struct halay_detour *find_free(const struct halay_group *group, const struct halay_device *device, size_t bytes)
{
    struct halay_detour *best = NULL;

    for (struct halay_detour *d = group->detours; d; d = d->next) {
        if (d->is_taken || d->transit.device != device)
            continue;
        int has_room = d->transit.capacity >= bytes, best_has = best && best->transit.capacity >= bytes;
        if (!best || (has_room && (!best_has || d->transit.capacity < best->transit.capacity)))
            best = d;
    }
    return best;
}

static enum halay_status detour_get(struct halay_group *group, int number, size_t bytes, struct halay_detour **out)
{
    struct halay_device *device;
    size_t capacity;

    enum halay_status status = halay_devices_get(group->world->devices, number, &device);
    if (status != HALAY_OK)
        return status;
    struct halay_detour *d = find_free(group, device, bytes);
    if (!d)
        status = detour_create(group, device, &d);
    if (status == HALAY_OK && d->transit.capacity < bytes) {
        halay_transit_class(bytes, &capacity);
        halay_transit_block_put(&d->transit, group, 0);
        status = halay_transit_block_get(&d->transit, group, capacity);
    }
    if (status == HALAY_OK)
        *out = d;
    return status;
}

enum halay_status halay_detour_take(struct halay_group *group, struct halay_detour_arrays *a, struct halay_detour **out)
{
    const struct halay_world *world = group->world;
    struct halay_detour *d;
    size_t in_at, out_at;
    int device;

    *out = NULL;
    enum halay_status status = find_device(group, a, &device);
    if (status != HALAY_OK || device < 0)
        return status;
    status = detour_get(group, device, lay_out(a, &in_at, &out_at), &d);
    if (status == HALAY_OK)
        status =
            halay_transit_follow(&d->transit, 1, world->stream ? world->stream(world->stream_arg, device) : NULL, NULL);
    if (status != HALAY_OK)
        return status;
    d->transit.state = HALAY_TRANSIT_FOLLOWS;
    d->is_taken = 1;
    d->is_back = 0;
    d->in = d->out[0] = d->out[1] = (struct halay_detour_copy){ 0 };
    a->in = a->in_bytes ? (char *)d->transit.block + in_at : NULL;
    a->out = a->out_bytes ? (char *)d->transit.block + out_at : NULL;
    *out = d;
    return HALAY_OK;
}

/* For waits: they look for a device, which wakes no thread (halay_world_arm). */
static void set_moving(struct halay_detour *d, int is_moving)
{
    struct halay_world *world = d->group->world;

    if (is_moving != d->is_moving) {
        world->moving += is_moving ? 1 : -1;
        world->moved_us = halay_now_us();
    }
    d->is_moving = is_moving;
}

void halay_detour_put(struct halay_detour *d)
{
    if (!d)
        return;
    set_moving(d, 0);
    if (d->transit.state == HALAY_TRANSIT_MOVES || d->transit.is_lost)
        halay_transit_block_put(&d->transit, d->group, halay_deadline_us(HALAY_TRANSIT_CLOSE_MS));
    d->transit.state = HALAY_TRANSIT_STILL;
    d->is_taken = 0;
}

void halay_detour_free_all(struct halay_group *group)
{
    struct halay_detour *d;

    while ((d = group->detours)) {
        group->detours = d->next;
        set_moving(d, 0);
        halay_transit_block_put(&d->transit, group, halay_deadline_us(HALAY_TRANSIT_CLOSE_MS));
        halay_transit_fini(&d->transit);
        free(d);
    }
}

/* ---- copies ---- */

static enum halay_status start_copies(struct halay_detour *d, const struct halay_detour_copy *copies, size_t count,
                                      void *stream)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < count && status == HALAY_OK; i++)
        if (copies[i].bytes)
            status = halay_transit_copy(&d->transit, copies[i].to, copies[i].from, copies[i].bytes, stream);
    return halay_transit_record(&d->transit, stream, status);
}

static enum halay_status look_for_copies(struct halay_detour *d)
{
    enum halay_status status = HALAY_OK;

    if (d->transit.state == HALAY_TRANSIT_MOVES)
        status = halay_transit_look(&d->transit, &d->transit.moved);
    set_moving(d, status == HALAY_IN_PROGRESS);
    return status;
}

enum halay_status halay_detour_go_in(struct halay_detour *d)
{
    if (d->transit.state == HALAY_TRANSIT_FOLLOWS) {
        enum halay_status status = halay_transit_look(&d->transit, &d->transit.follows);
        if (status == HALAY_OK)
            status = start_copies(d, &d->in, 1, d->transit.device->in);
        if (status != HALAY_OK) {
            set_moving(d, status == HALAY_IN_PROGRESS);
            return status;
        }
    }
    return look_for_copies(d);
}

enum halay_status halay_detour_go_out(struct halay_detour *d)
{
    if (!d->is_back) {
        d->is_back = 1;
        enum halay_status status = start_copies(d, d->out, sizeof d->out / sizeof *d->out, d->transit.device->out);
        if (status != HALAY_OK)
            return status;
    }
    return look_for_copies(d);
}

/* ---- collectives ---- */

static enum halay_status in_progress(struct halay_coll *c)
{
    enum halay_status status = halay_detour_go_in(c->detour);

    if (status != HALAY_OK)
        return status;
    coll_advanced(c);
    return halay_coll_go(c);
}

static enum halay_status out_progress(struct halay_coll *c)
{
    return halay_detour_go_out(c->detour);
}

/* Nothing is posted: there is nothing to cancel. */
static const struct halay_algorithm_ops in_ops = { .progress = in_progress };
static const struct halay_algorithm_ops out_ops = { .progress = out_progress };

/* Stands for the algorithm until the data are there; for reports. */
static const struct halay_algorithm arriving = { .name = "copy from the device", .file = "detour", .ops = &in_ops };

void halay_detour_enter(struct halay_coll *c)
{
    c->algorithm = &arriving;
    c->ops = &in_ops;
    set_moving(c->detour, 1);
}

enum halay_status halay_detour_leave(struct halay_coll *c)
{
    if (c->ops == &out_ops)
        return HALAY_OK;
    c->ops = &out_ops;
    c->status = HALAY_IN_PROGRESS; /* one rank alone has completed it at once */
    coll_advanced(c);
    return out_progress(c);
}

/* The part of out that this rank keeps: of an all-to-all of which in has nothing for this rank. */
static struct halay_span find_kept(const struct halay_coll *c)
{
    if (c->operation != HALAY_COLL_ALLTOALL || c->in_starts[c->rank + 1] != c->in_starts[c->rank])
        return (struct halay_span){ 0 };
    return coll_block_span(c, c->rank);
}

/* device, host: the arrays there. */
static void set_copies(const struct halay_coll *c, struct halay_detour *d, const struct halay_detour_arrays *device,
                       const struct halay_detour_arrays *host)
{
    int is_broadcast = c->operation == HALAY_COLL_BROADCAST, is_root = c->rank == c->root;
    struct halay_span kept = find_kept(c);
    size_t first = kept.start * c->element, next = (kept.start + kept.length) * c->element;

    if (!is_broadcast || is_root)
        d->in = (struct halay_detour_copy){ host->in, device->in, device->in_bytes };
    if (is_broadcast && is_root)
        return;
    if (!kept.length)
        first = next = 0;
    d->out[0] = (struct halay_detour_copy){ device->out, host->out, first };
    if (device->out_bytes > next)
        d->out[1] = (struct halay_detour_copy){ device->out + next, host->out + next, device->out_bytes - next };
}

enum halay_status halay_detour_prepare(struct halay_coll *c)
{
    struct halay_detour_arrays device = {
        .in_bytes = c->in.count * c->element,
        .out_bytes = c->out.count * c->element,
        .is_elementwise = c->operation == HALAY_COLL_ALLREDUCE || c->operation == HALAY_COLL_ALLREDUCE_ADASUM ||
                          c->operation == HALAY_COLL_REDUCE,
    };

    if (c->is_list || !(device.in_bytes + device.out_bytes))
        return HALAY_OK;
    device.in = c->in.pieces[0].data;
    device.out = c->out.pieces[0].data;
    struct halay_detour_arrays host = device;
    enum halay_status status = halay_detour_take(c->group, &host, &c->detour);
    if (status != HALAY_OK || !c->detour)
        return status;
    set_copies(c, c->detour, &device, &host);
    c->in_piece.data = host.in;
    if (c->out.pieces != &c->in_piece)
        c->out_piece.data = host.out;
    return HALAY_OK;
}
