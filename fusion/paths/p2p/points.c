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
 * order, so both come to the same pairs (paths/p2p/offers.h), and to the same words where type or size differ: nothing
 * more is said. A receive that was submitted first costs no trip: the sender has its offer, and data follow its own at
 * once. What meets nobody waits; its peer's offers lie here in the order in which they came.
 *
 * A receive from any rank is offered to nobody. It listens to all, and once it finds a send that has met nothing it
 * becomes a receive from that rank: its offer is made then, and the sender needs to know nothing of this. A receive
 * from one rank goes first, as that rank may have its offer already.
 *
 * A request ends when its data have moved and its own offer is out: a rank that leaves then leaves nobody waiting.
 * Large data go in chunks, one after the other under one tag.
 *
 * Offers are listened for once this rank has submitted something for the peer, or has heard from rank 0 that the peer
 * says something which needs an answer (LISTEN), and until the engine ends; looked at only while something is under
 * way. They go over the memory of the node where both ranks are on one, else over what carries the data between nodes.
 */
#include "fusion/paths/p2p/points_impl.h"
#include "fusion/requests/requests.h"
#include "fusion/state/entry.h"
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)16 << 20)
enum { NUMBERS = 1 << HALAY_TAG_BITS };

static int is_posted(struct halay_transfer *x)
{
    return atomic_load_explicit(&x->state, memory_order_acquire) == HALAY_TRANSFER_POSTED;
}

static uint64_t tag_of(uint64_t number)
{
    return halay_tag(HALAY_AGREEMENT_GROUP, 1, number ? 1 + (uint32_t)(number % (NUMBERS - 1)) : 0);
}

/* ---- peers ---- */

static void listen_to(struct peer *p)
{
    p->hearing.is_optional = 1; /* it may leave without another one */
    halay_route_recv(p->route, p->rank, tag_of(0), &p->arriving, sizeof p->arriving, &p->hearing);
}

static struct halay_points *points_get(struct halay_context *ctx)
{
    if (!ctx->driven.points)
        ctx->driven.points = calloc(1, sizeof *ctx->driven.points);
    return ctx->driven.points;
}

struct peer *halay_points_peer(struct halay_context *ctx, int rank)
{
    struct halay_world *world = ctx->world;
    struct halay_points *points = points_get(ctx);

    for (struct peer *p = points ? points->first : NULL; p; p = p->next)
        if (p->rank == rank)
            return p;
    struct peer *p = points ? calloc(1, sizeof *p) : NULL;
    if (!p)
        return NULL;
    p->rank = rank;
    p->route = &world->route;
    p->next = points->first;
    points->first = p;
    listen_to(p);
    return p;
}

static int is_due(const struct peer *p)
{
    return p->due > p->heard_last;
}

enum halay_status halay_points_listen(struct halay_context *ctx, int rank, uint64_t due)
{
    struct peer *p = halay_points_peer(ctx, rank);

    if (!p)
        return HALAY_ERR_NO_MEMORY;
    int was_due = is_due(p);
    p->due = due > p->due ? due : p->due;
    ctx->driven.points->busy += is_due(p) && !was_due;
    return HALAY_OK;
}

/* ---- saying ---- */

static void say_first(struct peer *p)
{
    if (p->unsaid)
        halay_route_send(p->route, p->rank, tag_of(0), &p->unsaid->offer, sizeof p->unsaid->offer, &p->saying);
}

void halay_points_say(struct halay_context *ctx, struct peer *p, struct halay_offered *word)
{
    word->offer.number = ++p->made;
    halay_offers_append(&p->unsaid, word);
    ctx->driven.points->busy++;
    if (word == p->unsaid)
        say_first(p);
}

/* ---- pairs ---- */

static void move_chunk(struct peer *p, struct point *point)
{
    struct halay_request *r = point->request;
    size_t left = r->bytes - point->moved, bytes = left < CHUNK ? left : CHUNK;

    if (r->signature.collective == HALAY_SEND)
        halay_route_send(p->route, p->rank, point->tag, (const char *)r->in + point->moved, bytes, &point->transfer);
    else
        halay_route_recv(p->route, p->rank, point->tag, (char *)r->out + point->moved, bytes, &point->transfer);
    point->moved += bytes;
}

/* This one has met that offer. */
static void pair(struct halay_context *ctx, struct peer *p, struct point *point, const struct halay_offer *theirs)
{
    const struct halay_offer *mine = &point->own.offer;
    int sends = mine->collective == HALAY_SEND;
    char text[HALAY_POINT_NAME_MAX + 240];

    point->own.next = p->moving;
    p->moving = &point->own;
    point->request->has_met = 1;
    if (mine->count != theirs->count || mine->dtype != theirs->dtype) {
        point->status = HALAY_ERR_MISMATCH;
        halay_offers_print_mismatch(sends ? mine : theirs, sends ? ctx->rank : p->rank, sends ? theirs : mine,
                                    sends ? p->rank : ctx->rank, text, sizeof text);
        point->text = strdup(text);
        point->moved = point->request->bytes;
        return;
    }
    point->tag = tag_of(sends ? mine->number : theirs->number);
    if (point->request->bytes)
        move_chunk(p, point);
}

/* It is offered to this peer: it meets what the peer has offered, or waits for it. */
static void offer_to(struct halay_context *ctx, struct peer *p, struct point *point, struct halay_offered *word)
{
    struct halay_offered **met = halay_offers_find(&p->heard, &point->own.offer), *theirs;

    word->offer = point->own.offer;
    halay_points_say(ctx, p, word);
    point->own.offer.number = word->offer.number;
    if (!*met) {
        halay_offers_append(&p->waiting, &point->own);
        return;
    }
    theirs = halay_offers_take(met);
    pair(ctx, p, point, &theirs->offer);
    free(theirs);
}

/* A receive from any rank has found a send of this peer. */
static void become_peers(struct halay_context *ctx, struct peer *p, struct point *point)
{
    struct halay_offered *word = point->unsaid;

    point->unsaid = NULL;
    point->request->meeting.peer = p->rank;
    offer_to(ctx, p, point, word);
}

static enum halay_status take_offer(struct halay_context *ctx, struct peer *p, const struct halay_offer *offer)
{
    struct halay_offered **met = halay_offers_find(&p->waiting, offer);

    if (*met) {
        pair(ctx, p, (struct point *)halay_offers_take(met), offer);
        return HALAY_OK;
    }
    struct halay_offered *heard = calloc(1, sizeof *heard);
    if (!heard)
        return HALAY_ERR_NO_MEMORY;
    heard->offer = *offer;
    halay_offers_append(&p->heard, heard);
    met = halay_offers_find(&ctx->driven.points->any, offer);
    if (*met)
        become_peers(ctx, p, (struct point *)halay_offers_take(met));
    return HALAY_OK;
}

static enum halay_status hear(struct halay_context *ctx, struct peer *p)
{
    const struct halay_offer *word = &p->arriving;
    int was_due = is_due(p);

    if (!halay_offer_is_valid(word) || word->number != p->heard_last + 1)
        return HALAY_ERR_FORMAT;
    p->heard_last++;
    ctx->driven.points->busy -= was_due && !is_due(p);
    return word->kind == HALAY_OFFER ? take_offer(ctx, p, word) : halay_points_take_word(ctx, p, word);
}

/* ---- submission ---- */

static struct halay_offer offer_of(const struct halay_request *r)
{
    struct halay_offer offer = { .count = r->count,
                                 .tag = r->meeting.tag,
                                 .set = r->meeting.set->number,
                                 .is_tagged = !r->meeting.name_length,
                                 .collective = r->signature.collective,
                                 .dtype = r->signature.dtype,
                                 .name_length = (uint16_t)r->meeting.name_length };

    memcpy(offer.name, r->entry->node.name, r->meeting.name_length);
    return offer;
}

/* Listen to all others of its set. */
static enum halay_status listen_to_all(struct halay_context *ctx, const struct halay_process_set *set)
{
    for (int r = 0; r < set->size; r++) {
        int rank = set->ranks ? set->ranks[r] : r;
        if (rank != ctx->rank && !halay_points_peer(ctx, rank))
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

/* It meets what one of them has said before, or waits. */
static void receive_from_any(struct halay_context *ctx, struct point *point, struct halay_offered *word)
{
    struct peer *p = ctx->driven.points->first;

    point->unsaid = word;
    while (p && !*halay_offers_find(&p->heard, &point->own.offer))
        p = p->next;
    if (p)
        become_peers(ctx, p, point);
    else
        halay_offers_append(&ctx->driven.points->any, &point->own);
}

enum halay_status halay_points_submitted(struct halay_context *ctx, struct halay_request *request)
{
    int is_any = request->meeting.peer == HALAY_ANY_RANK;
    struct peer *p = is_any ? NULL : halay_points_peer(ctx, request->meeting.peer);
    struct point *point = calloc(1, sizeof *point);
    struct halay_offered *word = calloc(1, sizeof *word);
    int listens = is_any ? listen_to_all(ctx, request->meeting.set) == HALAY_OK : p != NULL;

    if (!listens || !point || !word) {
        free(point);
        free(word);
        return HALAY_ERR_NO_MEMORY;
    }
    point->request = request;
    point->own.offer = offer_of(request);
    point->since_us = ctx->driven.now_us;
    ctx->driven.points->busy++;
    if (is_any)
        receive_from_any(ctx, point, word);
    else
        offer_to(ctx, p, point, word);
    halay_count(&ctx->observers.meters->tally.bytes, request->bytes);
    return HALAY_OK;
}

/* ---- progress ---- */

static void point_free(struct point *point)
{
    free(point->text);
    free(point->unsaid);
    free(point);
}

void halay_points_end(struct halay_context *ctx, struct point *point, enum halay_status status, const char *text)
{
    halay_request_end(point->request, status, text);
    point_free(point);
    ctx->driven.points->busy--;
}

static size_t end_moved(struct halay_context *ctx, struct peer *p)
{
    size_t did = 0;

    for (struct halay_offered **at = &p->moving; *at;) {
        struct point *point = (struct point *)*at;
        if (point->transfer.bytes && !halay_transfer_is_done(&point->transfer)) {
            at = &point->own.next;
        } else if (point->moved < point->request->bytes) {
            move_chunk(p, point);
            at = &point->own.next;
            did++;
        } else if (p->said < point->own.offer.number) {
            at = &point->own.next;
        } else {
            halay_offers_take(at);
            halay_points_end(ctx, point, point->status, point->text);
            did++;
        }
    }
    return did;
}

static enum halay_status progress_peer(struct halay_context *ctx, struct peer *p, size_t *did)
{
    enum halay_status status = HALAY_OK;

    while (p->unsaid && halay_transfer_is_done(&p->saying)) {
        free(halay_offers_take(&p->unsaid));
        p->said++;
        ctx->driven.points->busy--;
        ++*did;
        say_first(p);
    }
    while (status == HALAY_OK && halay_transfer_is_done(&p->hearing)) {
        status = hear(ctx, p);
        ++*did;
        listen_to(p);
    }
    *did += end_moved(ctx, p);
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
    enum halay_status status = halay_route_progress(&ctx->world->route, NULL, ctx->size, rank);
    for (struct peer *p = ctx->driven.points->first; p && status == HALAY_OK; p = p->next)
        status = progress_peer(ctx, p, did);
    *did += status == HALAY_OK ? halay_points_end_left(ctx) : 0;
    return status;
}

/* ---- the end ---- */

static void cancel(struct halay_transfer *x)
{
    if (is_posted(x))
        halay_route_cancel(x);
}

static void free_words(struct halay_offered *list)
{
    while (list)
        free(halay_offers_take(&list));
}

static void free_points(struct peer *p, struct halay_offered *list)
{
    while (list) {
        struct point *point = (struct point *)halay_offers_take(&list);
        if (p)
            cancel(&point->transfer);
        point_free(point);
    }
}

void halay_points_abandon(struct halay_context *ctx)
{
    struct halay_points *points = ctx->driven.points;

    for (struct peer *p = points ? points->first : NULL, *next; p; p = next) {
        next = p->next;
        cancel(&p->saying);
        cancel(&p->hearing);
        free_points(p, p->waiting);
        free_points(p, p->moving);
        free_words(p->heard);
        free_words(p->unsaid);
        free(p);
    }
    if (points)
        free_points(NULL, points->any);
    free(points);
    ctx->driven.points = NULL;
}
