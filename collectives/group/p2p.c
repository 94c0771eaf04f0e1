/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and receives in a group: one message each, which the link matches with its counterpart by peer and tag, the
 * n-th send with the n-th receive.
 *
 *     tag     63..32 group   31..24 channel   23..0 the program's tag
 *     channel    8 data   9, 10 what sender and receiver call, in the checking mode
 *
 * The group is number p2p_number, not that of its collectives: it has channel 0 for close notices (group_end.c).
 *
 * In the checking mode both ranks first send each other type and count, and data on a device are first copied to the
 * host (detour.h). The data of one tag are posted in the order of the calls, so that what differs is skipped on both
 * sides alike.
 *
 * A member that gives up ends all sends and receives of the others. One that closes its group in peace may have sent
 * before what is still on its way, since messages overtake the notice: those with it are given up once nothing has
 * arrived for LEFT_US.
 *
 * A handle is the collective in front of the struct; it has no channel. Structs are used again, so nothing is allocated
 * once there have been as many as are under way at a time.
 */
#include "collectives/group/p2p.h"
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/group/detour.h"
#include "halay_tools.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT_US = 2000000 };
enum channel { DATA = HALAY_CHANNELS, SENDER, RECEIVER };
enum stage { SIGNING, SIGNED, MOVING, RETURNING };

struct signature {
    uint64_t dtype, count;
};

struct halay_p2p {
    struct halay_coll coll; /* first: the program's handle */
    struct halay_p2p *next; /* under way, in the order of start */
    struct halay_p2p *more; /* of all that there are */
    int is_taken;           /* from start to end */
    enum stage stage;
    struct halay_p2p_call call;
    void *place; /* of the data on the host: the program's or the detour's */
    size_t bytes;
    struct signature mine, theirs;
    struct halay_transfer data, signing[2];
};

static struct halay_p2p *p2p_of(struct halay_coll *coll)
{
    return (struct halay_p2p *)coll;
}

/* ---- messages ---- */

static void p2p_send(struct halay_p2p *p, enum channel channel, const void *data, size_t bytes,
                     struct halay_transfer *x)
{
    const struct halay_group *group = p->coll.group;

    if (bytes)
        halay_route_send(&group->world->route, halay_group_world_rank(group, p->call.peer),
                         halay_tag(group->p2p_number, channel, p->call.tag), data, bytes, x);
}

static void p2p_receive(struct halay_p2p *p, enum channel channel, void *data, size_t bytes, struct halay_transfer *x)
{
    const struct halay_group *group = p->coll.group;

    if (bytes)
        halay_route_recv(&group->world->route, halay_group_world_rank(group, p->call.peer),
                         halay_tag(group->p2p_number, channel, p->call.tag), data, bytes, x);
}

static void post_data(struct halay_p2p *p)
{
    p->stage = MOVING;
    if (p->call.is_send)
        p2p_send(p, DATA, p->place, p->bytes, &p->data);
    else
        p2p_receive(p, DATA, p->place, p->bytes, &p->data);
}

static void post_signatures(struct halay_p2p *p)
{
    enum channel own = p->call.is_send ? SENDER : RECEIVER, other = p->call.is_send ? RECEIVER : SENDER;

    p->stage = SIGNING;
    p->mine = (struct signature){ (uint64_t)p->call.dtype, p->call.count };
    p2p_receive(p, other, &p->theirs, sizeof p->theirs, &p->signing[0]);
    p2p_send(p, own, &p->mine, sizeof p->mine, &p->signing[1]);
}

/* ---- life ---- */

/* One that is free, or a new one. NULL: no memory. */
static struct halay_p2p *p2p_take(struct halay_group *group)
{
    struct halay_p2p *p = group->p2p_all;

    while (p && p->is_taken)
        p = p->more;
    if (p)
        return p;
    p = halay_aligned_alloc(HALAY_CACHE_LINE, halay_round_up(sizeof *p, HALAY_CACHE_LINE));
    if (!p)
        return NULL;
    p->more = group->p2p_all;
    group->p2p_all = p;
    return p;
}

static void p2p_append(struct halay_group *group, struct halay_p2p *p)
{
    struct halay_p2p **last = &group->p2p_first;

    while (*last)
        last = &(*last)->next;
    *last = p;
}

/* Returns nonzero if an earlier one of the same peer, tag and direction has not posted its data. */
static int has_predecessor(const struct halay_p2p *p)
{
    for (const struct halay_p2p *q = p->coll.group->p2p_first; q != p; q = q->next)
        if (q->call.is_send == p->call.is_send && q->call.peer == p->call.peer && q->call.tag == p->call.tag &&
            q->stage < MOVING)
            return 1;
    return 0;
}

/* Takes a detour if the data are on a device. */
static enum halay_status p2p_place(struct halay_p2p *p)
{
    struct halay_group *group = p->coll.group;
    size_t in_bytes = p->call.is_send ? p->bytes : 0, out_bytes = p->bytes - in_bytes;
    struct halay_detour_arrays a = { p->call.data, p->call.data, in_bytes, out_bytes, 0 };

    p->place = p->call.data;
    enum halay_status status = group->world->devices ? halay_detour_take(group, &a, &p->coll.detour) : HALAY_OK;
    if (status != HALAY_OK || !p->coll.detour)
        return status;
    p->place = p->call.is_send ? a.in : a.out;
    p->coll.detour->in = (struct halay_detour_copy){ a.in, p->call.data, in_bytes };
    p->coll.detour->out[0] = (struct halay_detour_copy){ p->call.data, a.out, out_bytes };
    return HALAY_OK;
}

static enum halay_status p2p_start(struct halay_group *group, const struct halay_p2p_call *call, size_t bytes,
                                   struct halay_coll **coll)
{
    struct halay_p2p *p = p2p_take(group);

    if (!p)
        return halay_fail(group->world->log, HALAY_ERR_NO_MEMORY, "no memory for a %s",
                          call->is_send ? "send" : "receive");
    struct halay_p2p *more = p->more;
    memset(p, 0, sizeof *p);
    p->more = more;
    p->call = *call;
    p->bytes = bytes;
    halay_coll_init(&p->coll, group);
    enum halay_status status = halay_group_take_error(group, p2p_place(p));
    if (status != HALAY_OK)
        return status;
    p->is_taken = 1;
    p2p_append(group, p);
    if (group->is_checked)
        post_signatures(p);
    else if (p->bytes && (p->coll.detour || has_predecessor(p)))
        p->stage = SIGNED;
    else
        post_data(p);
    *coll = &p->coll;
    return HALAY_OK;
}

enum halay_status halay_p2p_start(struct halay_group *group, const struct halay_p2p_call *call, size_t bytes,
                                  struct halay_coll **coll)
{
    halay_call_enter(group->world);
    enum halay_status status = group->status; /* it may have been aborted meanwhile */

    if (status == HALAY_OK)
        status = p2p_start(group, call, bytes, coll);
    halay_call_leave(group->world);
    return status;
}

enum halay_status halay_p2p_release(struct halay_coll *coll)
{
    struct halay_p2p *p = p2p_of(coll);

    if (!p->is_taken)
        return HALAY_ERR_ARGUMENT;
    p->is_taken = 0;
    return HALAY_OK;
}

void halay_p2p_free_all(struct halay_group *group)
{
    struct halay_p2p *p;

    while ((p = group->p2p_all)) {
        group->p2p_all = p->more;
        free(p);
    }
}

/* ---- progress ---- */

static void signature_print(const struct signature *what, char *text, size_t size)
{
    snprintf(text, size, "%llu of type %s", (unsigned long long)what->count,
             halay_dtype_name((enum halay_dtype)what->dtype));
}

static void report_difference(const struct halay_p2p *p)
{
    const struct halay_group *group = p->coll.group;
    char mine[64], theirs[64];

    signature_print(&p->mine, mine, sizeof mine);
    signature_print(&p->theirs, theirs, sizeof theirs);
    halay_error(group->world->log, "%s under tag %u: rank %d %s %s, rank %d %s %s",
                p->call.is_send ? "send" : "receive", p->call.tag, halay_group_world_rank(group, group->rank),
                p->call.is_send ? "sends" : "receives", mine, halay_group_world_rank(group, p->call.peer),
                p->call.is_send ? "receives" : "sends", theirs);
}

/* Posts the data if they are there, and it is their turn. */
static enum halay_status p2p_go(struct halay_p2p *p)
{
    enum halay_status status = p->coll.detour ? halay_detour_go_in(p->coll.detour) : HALAY_OK;

    if (status != HALAY_OK || p->stage != SIGNED || has_predecessor(p))
        return status == HALAY_OK ? HALAY_IN_PROGRESS : status;
    coll_advanced(&p->coll);
    if (memcmp(&p->mine, &p->theirs, sizeof p->mine) != 0) {
        report_difference(p);
        return HALAY_ERR_MISMATCH;
    }
    post_data(p);
    return HALAY_OK;
}

static enum halay_status p2p_step(struct halay_p2p *p)
{
    if (p->stage == SIGNING && coll_is_settled(&p->signing[0]) && coll_is_settled(&p->signing[1])) {
        p->stage = SIGNED;
        coll_advanced(&p->coll);
    }
    enum halay_status status = p->stage < MOVING ? p2p_go(p) : HALAY_OK;
    if (status != HALAY_OK)
        return status;
    if (p->stage == MOVING && !coll_is_settled(&p->data))
        return HALAY_IN_PROGRESS;
    p->stage = RETURNING;
    return p->coll.detour ? halay_detour_go_out(p->coll.detour) : HALAY_OK;
}

void halay_p2p_progress(struct halay_group *group)
{
    struct halay_p2p **at = &group->p2p_first, *p;

    while ((p = *at)) {
        enum halay_status status = p2p_step(p);
        if (status == HALAY_IN_PROGRESS) {
            at = &p->next;
            continue;
        }
        halay_group_take_error(group, status);
        if (group->status != HALAY_OK)
            return;
        p->coll.status = status;
        coll_advanced(&p->coll);
        *at = p->next;
    }
}

/* ---- the end of the group ---- */

void halay_p2p_cancel(struct halay_group *group)
{
    for (struct halay_p2p *p = group->p2p_first; p; p = p->next) {
        coll_take_back(&p->coll, &p->signing[0]);
        coll_take_back(&p->coll, &p->signing[1]);
        coll_take_back(&p->coll, &p->data);
    }
}

void halay_p2p_fail(struct halay_group *group, enum halay_status status)
{
    for (struct halay_p2p *p = group->p2p_first; p; p = p->next) {
        p->coll.status = status;
        coll_advanced(&p->coll);
    }
    group->p2p_first = NULL;
}

/* How far those with this rank have come; 0: none is under way. */
static uint64_t progress_with(const struct halay_group *group, int rank)
{
    uint64_t moved = 0;

    for (const struct halay_p2p *p = group->p2p_first; p; p = p->next)
        if (p->call.peer == rank && p->stage != RETURNING)
            moved += 1 + p->data.moved;
    return moved;
}

int halay_p2p_misses(struct halay_group *group, int rank, const struct halay_close_notice *notice)
{
    struct halay_p2p_left *left = &group->p2p_left;
    uint64_t moved = progress_with(group, rank);

    if (notice->status != HALAY_ERR_CLOSED)
        return group->p2p_first != NULL;
    if (!moved)
        return 0;
    if (!left->since_us || left->work != group->work + moved)
        *left = (struct halay_p2p_left){ .since_us = halay_now_us(), .work = group->work + moved };
    return halay_now_us() - left->since_us >= LEFT_US;
}

void halay_p2p_print(const struct halay_group *group, char *text, size_t size)
{
    const struct halay_p2p *p = group->p2p_first;

    *text = 0;
    if (p)
        snprintf(text, size, "%s rank %d under tag %u", p->call.is_send ? "send to" : "receive from",
                 halay_group_world_rank(group, p->call.peer), p->call.tag);
}
