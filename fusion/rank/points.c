/* SPDX-License-Identifier: Apache-2.0
 *
 * Points: a send of one rank meets a receive of another, without the coordinator and without any other rank.
 *
 *     rank 0: send, to 1            rank 1: receive, from 0
 *       | offer: a send, 8 f32  -->   |                        each tells the other what it has submitted, when it has
 *       |   <-- offer: a receive ...  |
 *       | both find the same pair     |                        the n-th send of a key meets the n-th receive of it
 *       | data ------------------->   |                        under a tag that is the number of the send's offer
 *
 * The key is the process set and the name, or without a name the tag. Both sides see the same offers in the same
 * order, so both come to the same pairs, and to the same words where type or size differ: nothing more is said. A
 * receive that was submitted first costs no trip: the sender has its offer, and data follow its own at once. What meets
 * nobody waits; its peer's offers lie here in the order in which they came.
 *
 * A request ends when its data have moved and its own offer is out: a rank that leaves then leaves nobody waiting.
 * Large data go in fragments, one after the other under one tag.
 *
 * Offers are listened for once this rank has submitted something for the peer, and until the engine ends; looked at
 * only while something is under way. They go over the memory of the node where both ranks are on one, else over what
 * carries the data between nodes.
 */
#include "fusion/rank/points.h"
#include "fusion/rank/requests.h"
#include "fusion/state/entry.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAGMENT ((size_t)16 << 20)
#define LEFT_US 1000000 /* how long after a farewell an offer may still arrive that was made before it */
enum { NUMBERS = 1 << HALAY_TAG_BITS };

/* What one rank tells another; between processes of one build on machines of one kind (messages.h). */
struct offer {
    uint64_t number; /* of the sender's offers to this peer, from 1 */
    uint64_t count;  /* elements */
    int64_t tag;
    int32_t set, is_tagged;
    uint16_t collective, dtype, name_length, unused;
    char name[HALAY_POINT_NAME_MAX];
};

struct note {
    struct note *next;
    struct offer offer;
};

/* A request of this rank's. */
struct point {
    struct point *next;
    struct halay_request *request;
    struct offer offer;
    uint32_t tag;             /* of its data */
    size_t moved;             /* bytes, of whole fragments */
    enum halay_status status; /* how it will end */
    char *text;               /* owned, or NULL */
    struct halay_transfer transfer;
};

struct peer {
    struct peer *next;
    int rank, number;               /* in the job, and in t */
    struct halay_transport *t;      /* borrowed */
    struct point *waiting, *moving; /* owned: they have met nobody, in order; they have */
    struct note *heard;             /* owned: offers that have met nobody, in order */
    struct note *unsaid;            /* owned: offers that are not out, in order; the first is being said */
    uint64_t made, said;            /* offers of this rank's; of these, out */
    struct halay_transfer saying, hearing;
    struct offer arriving;
    int64_t left_us; /* when it was seen to have left; 0: it has not */
};

struct halay_points {
    struct peer *first;
    size_t busy; /* points, and notes unsaid */
};

static int is_posted(struct halay_transfer *x)
{
    return atomic_load_explicit(&x->state, memory_order_acquire) == HALAY_TRANSFER_POSTED;
}

static uint32_t tag_of(uint64_t number)
{
    return halay_tag(HALAY_AGREEMENT_GROUP, 1, number ? 1 + (uint32_t)(number % (NUMBERS - 1)) : 0);
}

/* ---- peers ---- */

static void listen_to(struct peer *p)
{
    p->hearing.is_optional = 1; /* it may leave without another one */
    p->t->ops->recv(p->t, p->number, tag_of(0), &p->arriving, sizeof p->arriving, &p->hearing);
}

static struct peer *peer_get(struct halay_context *ctx, int rank)
{
    struct halay_world *world = ctx->world;
    struct halay_points *points = ctx->driven.points;

    if (!points)
        points = ctx->driven.points = calloc(1, sizeof *points);
    for (struct peer *p = points ? points->first : NULL; p; p = p->next)
        if (p->rank == rank)
            return p;
    struct peer *p = points ? calloc(1, sizeof *p) : NULL;
    if (!p)
        return NULL;
    int is_near = world->node && world->node_of[rank] == world->node_of[ctx->rank];
    p->rank = rank;
    p->t = is_near ? world->node : world->data;
    p->number = is_near ? world->node_rank[rank] : rank;
    p->next = points->first;
    points->first = p;
    listen_to(p);
    return p;
}

/* ---- pairs ---- */

static int meets(const struct offer *a, const struct offer *b)
{
    return a->collective != b->collective && a->set == b->set && a->is_tagged == b->is_tagged && a->tag == b->tag &&
           a->name_length == b->name_length && !memcmp(a->name, b->name, a->name_length);
}

static char *print_mismatch(const struct offer *send, int sender, const struct offer *receive, int receiver)
{
    char key[HALAY_POINT_NAME_MAX + 32], text[HALAY_POINT_NAME_MAX + 240];

    if (send->is_tagged)
        snprintf(key, sizeof key, "tag %lld", (long long)send->tag);
    else
        snprintf(key, sizeof key, "tensor '%.*s'", (int)send->name_length, send->name);
    snprintf(text, sizeof text, "%s: rank %d sends %llu %s, rank %d receives %llu %s", key, sender,
             (unsigned long long)send->count, halay_dtype_name((enum halay_dtype)send->dtype), receiver,
             (unsigned long long)receive->count, halay_dtype_name((enum halay_dtype)receive->dtype));
    return strdup(text);
}

static void move_fragment(struct peer *p, struct point *point)
{
    struct halay_request *r = point->request;
    size_t left = r->bytes - point->moved, bytes = left < FRAGMENT ? left : FRAGMENT;

    if (r->signature.collective == HALAY_SEND)
        p->t->ops->send(p->t, p->number, point->tag, (const char *)r->in + point->moved, bytes, &point->transfer);
    else
        p->t->ops->recv(p->t, p->number, point->tag, (char *)r->out + point->moved, bytes, &point->transfer);
    point->moved += bytes;
}

/* This one has met that offer. */
static void pair(struct halay_context *ctx, struct peer *p, struct point *point, const struct offer *theirs)
{
    const struct offer *mine = &point->offer;
    int sends = mine->collective == HALAY_SEND;

    point->next = p->moving;
    p->moving = point;
    if (mine->count != theirs->count || mine->dtype != theirs->dtype) {
        point->status = HALAY_ERR_MISMATCH;
        point->text =
            sends ? print_mismatch(mine, ctx->rank, theirs, p->rank) : print_mismatch(theirs, p->rank, mine, ctx->rank);
        point->moved = point->request->bytes;
        return;
    }
    point->tag = tag_of(sends ? mine->number : theirs->number);
    if (point->request->bytes)
        move_fragment(p, point);
}

static void pair_or_wait(struct halay_context *ctx, struct peer *p, struct point *point)
{
    struct note **at = &p->heard;
    struct point **last = &p->waiting;

    while (*at && !meets(&point->offer, &(*at)->offer))
        at = &(*at)->next;
    if (*at) {
        struct note *note = *at;
        *at = note->next;
        pair(ctx, p, point, &note->offer);
        free(note);
        return;
    }
    while (*last)
        last = &(*last)->next;
    *last = point;
}

/* An offer has come. */
static enum halay_status take_offer(struct halay_context *ctx, struct peer *p, const struct offer *offer)
{
    struct point **at = &p->waiting;
    struct note **last = &p->heard;

    if ((offer->collective != HALAY_SEND && offer->collective != HALAY_RECEIVE) || offer->dtype >= HALAY_DTYPE_COUNT ||
        offer->name_length > sizeof offer->name)
        return HALAY_ERR_FORMAT;
    while (*at && !meets(&(*at)->offer, offer))
        at = &(*at)->next;
    if (*at) {
        struct point *point = *at;
        *at = point->next;
        pair(ctx, p, point, offer);
        return HALAY_OK;
    }
    struct note *note = calloc(1, sizeof *note);
    if (!note)
        return HALAY_ERR_NO_MEMORY;
    note->offer = *offer;
    while (*last)
        last = &(*last)->next;
    *last = note;
    return HALAY_OK;
}

/* ---- saying ---- */

static void say_first(struct peer *p)
{
    if (p->unsaid)
        p->t->ops->send(p->t, p->number, tag_of(0), &p->unsaid->offer, sizeof p->unsaid->offer, &p->saying);
}

static void say(struct peer *p, struct note *note)
{
    struct note **last = &p->unsaid;

    while (*last)
        last = &(*last)->next;
    *last = note;
    if (note == p->unsaid)
        say_first(p);
}

static struct offer offer_of(const struct halay_request *r, uint64_t number)
{
    struct offer offer = { .number = number,
                           .count = r->count,
                           .tag = r->tag,
                           .set = r->set_number,
                           .is_tagged = !r->name_length,
                           .collective = r->signature.collective,
                           .dtype = r->signature.dtype,
                           .name_length = (uint16_t)r->name_length };

    memcpy(offer.name, r->entry->node.name, r->name_length);
    return offer;
}

enum halay_status halay_points_submitted(struct halay_context *ctx, struct halay_request *request)
{
    struct peer *p = peer_get(ctx, request->peer);
    struct point *point = p ? calloc(1, sizeof *point) : NULL;
    struct note *note = p ? calloc(1, sizeof *note) : NULL;

    if (!point || !note) {
        free(point);
        free(note);
        return HALAY_ERR_NO_MEMORY;
    }
    point->request = request;
    point->offer = note->offer = offer_of(request, ++p->made);
    ctx->driven.points->busy += 2;
    say(p, note);
    pair_or_wait(ctx, p, point);
    halay_count(&ctx->observers.tally.bytes, request->bytes);
    return HALAY_OK;
}

/* ---- progress ---- */

static size_t end_points(struct halay_context *ctx, struct peer *p)
{
    size_t did = 0;

    for (struct point **at = &p->moving; *at;) {
        struct point *point = *at;
        if (point->transfer.bytes && !halay_transfer_is_done(&point->transfer)) {
            at = &point->next;
        } else if (point->moved < point->request->bytes) {
            move_fragment(p, point);
            at = &point->next;
            did++;
        } else if (p->said < point->offer.number) {
            at = &point->next;
        } else {
            *at = point->next;
            halay_request_end(point->request, point->status, point->text);
            free(point->text);
            free(point);
            ctx->driven.points->busy--;
            did++;
        }
    }
    return did;
}

/* What it could have met would have come by now. */
static size_t end_left(struct halay_context *ctx, struct peer *p)
{
    char text[48];
    size_t did = 0;

    if (!ctx->driven.negotiation.left[p->rank] || !p->waiting)
        return 0;
    if (!p->left_us)
        p->left_us = ctx->driven.now_us;
    if (ctx->driven.now_us - p->left_us < LEFT_US)
        return 0;
    snprintf(text, sizeof text, "rank %d has left", p->rank);
    for (struct point *point; (point = p->waiting); did++) {
        p->waiting = point->next;
        halay_request_end(point->request, HALAY_ERR_PEER, text);
        free(point);
        ctx->driven.points->busy--;
    }
    return did;
}

static enum halay_status progress_peer(struct halay_context *ctx, struct peer *p, size_t *did)
{
    enum halay_status status = HALAY_OK;

    while (p->unsaid && halay_transfer_is_done(&p->saying)) {
        struct note *note = p->unsaid;
        p->unsaid = note->next;
        p->said++;
        free(note);
        ctx->driven.points->busy--;
        ++*did;
        say_first(p);
    }
    while (status == HALAY_OK && halay_transfer_is_done(&p->hearing)) {
        status = take_offer(ctx, p, &p->arriving);
        ++*did;
        listen_to(p);
    }
    *did += end_points(ctx, p) + end_left(ctx, p);
    return status;
}

static enum halay_status progress_transport(struct halay_context *ctx, struct halay_transport *t, int *rank)
{
    enum halay_status status = t ? t->ops->progress(t) : HALAY_OK;

    *rank = -1;
    for (int r = 0; status == HALAY_ERR_PEER && r < ctx->size; r++)
        if (t == ctx->world->data ? r == t->failed_peer
                                  : ctx->world->node_of[r] == ctx->world->node_of[ctx->rank] &&
                                        ctx->world->node_rank[r] == t->failed_peer)
            *rank = r;
    return status;
}

int halay_points_are_busy(const struct halay_context *ctx)
{
    return ctx->driven.points && ctx->driven.points->busy;
}

enum halay_status halay_points_progress(struct halay_context *ctx, size_t *did, int *rank)
{
    *rank = -1;
    if (!halay_points_are_busy(ctx))
        return HALAY_OK;
    enum halay_status status = progress_transport(ctx, ctx->world->data, rank);
    if (status == HALAY_OK)
        status = progress_transport(ctx, ctx->world->node, rank);
    for (struct peer *p = ctx->driven.points->first; p && status == HALAY_OK; p = p->next)
        status = progress_peer(ctx, p, did);
    return status;
}

/* ---- the end ---- */

static void cancel(struct peer *p, struct halay_transfer *x)
{
    if (is_posted(x))
        p->t->ops->cancel(p->t, x);
}

static void free_notes(struct note *note)
{
    for (struct note *next; note; note = next) {
        next = note->next;
        free(note);
    }
}

static void free_points(struct peer *p, struct point *point)
{
    for (struct point *next; point; point = next) {
        next = point->next;
        cancel(p, &point->transfer);
        free(point->text);
        free(point);
    }
}

void halay_points_abandon(struct halay_context *ctx)
{
    struct halay_points *points = ctx->driven.points;

    for (struct peer *p = points ? points->first : NULL, *next; p; p = next) {
        next = p->next;
        cancel(p, &p->saying);
        cancel(p, &p->hearing);
        free_points(p, p->waiting);
        free_points(p, p->moving);
        free_notes(p->heard);
        free_notes(p->unsaid);
        free(p);
    }
    free(points);
    ctx->driven.points = NULL;
}
