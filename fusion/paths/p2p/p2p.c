/* SPDX-License-Identifier: Apache-2.0
 *
 * P2p: a send of one rank matches a receive of another, without the coordinator and without any other rank.
 *
 *     rank 0: send, to 1            rank 1: receive, from 0
 *       | offer: a send, 8 f32  -->   |                        each sends the other its offer at submission
 *       |   <-- offer: a receive ...  |
 *       | both find the same pair     |                        the n-th send of a key matches the n-th receive of it
 *       | data ------------------->   |                        under a tag that is the number of the send's offer
 *
 * The key is the process set and the name, or without a name the tag. Both sides see the same offers in the same order,
 * so both form the same pairs (offers.h), and the same text where type or size differ: no further message is needed. A
 * receive that was submitted first costs no round trip: the sender has its offer, and sends data directly after its
 * own. A point without a matching offer waits; offers of the peer without a matching point are kept in the order of
 * arrival.
 *
 * A receive from any rank is offered to no rank. It listens to all ranks, and once it finds an unmatched send it
 * becomes a receive from that rank: then its offer is made, and the sender notices nothing of this. A receive from one
 * given rank has precedence, as that rank may have its offer already.
 *
 * A request ends when its data have moved and its own offer has been sent: a rank that leaves then leaves no rank
 * waiting. Large data are sent in chunks, one after the other with one tag.
 *
 * A rank listens to a peer once it has submitted a send or receive for it, or rank 0 has reported (LISTEN) that the
 * peer sends a message which needs an answer, and until the engine ends. It checks for arrivals only while a request is
 * in flight. Messages go through the memory of the node if both ranks are on one, otherwise over the transport between
 * nodes.
 */
#include "fusion/paths/p2p/p2p_impl.h"
#include "fusion/requests/entry.h"
#include "fusion/run/deliver.h"
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)16 << 20)
enum { NUMBERS = 1 << HALAY_TAG_BITS };

static uint64_t tag_of(uint64_t number)
{
    return halay_tag(HALAY_AGREEMENT_GROUP, 1, number ? 1 + (uint32_t)(number % (NUMBERS - 1)) : 0);
}

/* ---- peers ---- */

static void listen_to(struct peer *p)
{
    p->receiving.is_optional = 1; /* the peer may leave without another one */
    halay_route_recv(p->route, p->rank, tag_of(0), &p->arriving, sizeof p->arriving, &p->receiving);
}

struct peer *halay_p2p_peer(struct p2p *p2p, int rank)
{
    for (struct peer *p = p2p->peers; p; p = p->next)
        if (p->rank == rank)
            return p;
    struct peer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->rank = rank;
    p->route = &p2p->path.ctx->world->route;
    p->next = p2p->peers;
    p2p->peers = p;
    listen_to(p);
    return p;
}

static int is_due(const struct peer *p)
{
    return p->due > p->received_last;
}

static enum halay_status p2p_listen(struct halay_path *path, int rank, uint64_t due)
{
    struct p2p *p2p = p2p_of(path);
    struct peer *p = halay_p2p_peer(p2p, rank);

    if (!p)
        return HALAY_ERR_NO_MEMORY;
    int was_due = is_due(p);
    p->due = due > p->due ? due : p->due;
    p2p->busy += is_due(p) && !was_due;
    return HALAY_OK;
}

/* ---- messages ---- */

static void send_first(struct peer *p)
{
    if (p->unsent)
        halay_route_send(p->route, p->rank, tag_of(0), &p->unsent->offer, sizeof p->unsent->offer, &p->sending);
}

void halay_p2p_send(struct p2p *p2p, struct peer *p, struct halay_offered *message)
{
    message->offer.number = ++p->made;
    halay_offers_append(&p->unsent, message);
    p2p->busy++;
    if (message == p->unsent)
        send_first(p);
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

/* Pairs the point with an offer that matches. */
static void point_pair(struct p2p *p2p, struct peer *p, struct point *point, const struct halay_offer *theirs)
{
    const struct halay_offer *mine = &point->own.offer;
    int sends = mine->collective == HALAY_SEND, rank = p2p->path.ctx->rank;
    char text[HALAY_POINT_NAME_MAX + 240];

    point->own.next = p->moving;
    p->moving = &point->own;
    halay_request_move(point->request, HALAY_LIFE_RUNNING);
    if (mine->count != theirs->count || mine->dtype != theirs->dtype) {
        point->status = HALAY_ERR_MISMATCH;
        halay_offers_print_mismatch(sends ? mine : theirs, sends ? rank : p->rank, sends ? theirs : mine,
                                    sends ? p->rank : rank, text, sizeof text);
        point->text = strdup(text);
        point->moved = point->request->bytes;
        return;
    }
    point->tag = tag_of(sends ? mine->number : theirs->number);
    if (point->request->bytes)
        move_chunk(p, point);
}

/* Offers the point to this peer: matches an offer of the peer, or waits. */
static void offer_to(struct p2p *p2p, struct peer *p, struct point *point, struct halay_offered *message)
{
    struct halay_offered **met = halay_offers_find(&p->received, &point->own.offer);

    message->offer = point->own.offer;
    halay_p2p_send(p2p, p, message);
    point->own.offer.number = message->offer.number;
    if (!*met) {
        halay_offers_append(&p->waiting, &point->own);
        return;
    }
    struct halay_offered *theirs = halay_offers_take(met);
    point_pair(p2p, p, point, &theirs->offer);
    free(theirs);
}

/* Turns a receive from any rank into one from this peer, whose send it has found. */
static void become_peers(struct p2p *p2p, struct peer *p, struct point *point)
{
    struct halay_offered *message = point->pending;

    point->pending = NULL;
    point->request->other_rank = p->rank;
    offer_to(p2p, p, point, message);
}

static enum halay_status take_offer(struct p2p *p2p, struct peer *p, const struct halay_offer *offer)
{
    struct halay_offered **met = halay_offers_find(&p->waiting, offer);

    if (*met) {
        point_pair(p2p, p, (struct point *)halay_offers_take(met), offer);
        return HALAY_OK;
    }
    struct halay_offered *received = calloc(1, sizeof *received);
    if (!received)
        return HALAY_ERR_NO_MEMORY;
    received->offer = *offer;
    halay_offers_append(&p->received, received);
    met = halay_offers_find(&p2p->any, offer);
    if (*met)
        become_peers(p2p, p, (struct point *)halay_offers_take(met));
    return HALAY_OK;
}

static enum halay_status message_receive(struct p2p *p2p, struct peer *p)
{
    const struct halay_offer *message = &p->arriving;
    int was_due = is_due(p);

    if (!halay_offer_is_valid(message) || message->number != p->received_last + 1)
        return HALAY_ERR_FORMAT;
    p->received_last++;
    p2p->busy -= was_due && !is_due(p);
    return message->kind == HALAY_OFFER ? take_offer(p2p, p, message) : halay_p2p_take(p2p, p, message);
}

/* ---- submission ---- */

static struct halay_offer offer_of(const struct halay_request *r)
{
    const uint64_t *payload = r->payload.at;
    struct halay_offer offer = { .count = r->count,
                                 .tag = (int64_t)payload[P2P_TAG],
                                 .set = r->set->number,
                                 .is_tagged = !payload[P2P_NAME_LENGTH],
                                 .collective = r->signature.collective,
                                 .dtype = r->signature.dtype,
                                 .name_length = (uint16_t)payload[P2P_NAME_LENGTH] };

    memcpy(offer.name, r->entry->node.name, offer.name_length);
    return offer;
}

/* Listens to all other ranks of the set. */
static enum halay_status listen_to_all(struct p2p *p2p, const struct halay_process_set *set)
{
    for (int r = 0; r < set->size; r++) {
        int rank = set->ranks ? set->ranks[r] : r;
        if (rank != p2p->path.ctx->rank && !halay_p2p_peer(p2p, rank))
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

/* Matches the point with an offer that a rank has sent before, or lets it wait. */
static void receive_from_any(struct p2p *p2p, struct point *point, struct halay_offered *message)
{
    struct peer *p = p2p->peers;

    point->pending = message;
    while (p && !*halay_offers_find(&p->received, &point->own.offer))
        p = p->next;
    if (p)
        become_peers(p2p, p, point);
    else
        halay_offers_append(&p2p->any, &point->own);
}

static enum halay_status p2p_submit(struct halay_path *path, struct halay_request *request)
{
    struct p2p *p2p = p2p_of(path);
    int rank = (int)(int64_t)request->payload.at[P2P_PEER], is_any = rank == HALAY_ANY_RANK;
    struct peer *p = is_any ? NULL : halay_p2p_peer(p2p, rank);
    struct point *point = calloc(1, sizeof *point);
    struct halay_offered *message = calloc(1, sizeof *message);
    int listens = is_any ? listen_to_all(p2p, request->set) == HALAY_OK : p != NULL;

    request->other_rank = rank;
    if (!listens || !point || !message) {
        free(point);
        free(message);
        return HALAY_ERR_NO_MEMORY;
    }
    point->request = request;
    point->own.offer = offer_of(request);
    point->since_us = p2p->path.ctx->now_us;
    p2p->busy++;
    if (is_any)
        receive_from_any(p2p, point, message);
    else
        offer_to(p2p, p, point, message);
    halay_count(&path->ctx->meters->tally.bytes, request->bytes);
    return HALAY_OK;
}

/* ---- progress ---- */

static void point_free(struct point *point)
{
    free(point->text);
    free(point->pending);
    free(point);
}

void halay_p2p_end(struct p2p *p2p, struct point *point, enum halay_status status, const char *text)
{
    halay_request_end(point->request, status, text);
    point_free(point);
    p2p->busy--;
}

static size_t end_moved(struct p2p *p2p, struct peer *p)
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
        } else if (p->sent < point->own.offer.number) {
            at = &point->own.next;
        } else {
            halay_offers_take(at);
            halay_p2p_end(p2p, point, point->status, point->text);
            did++;
        }
    }
    return did;
}

static enum halay_status progress_peer(struct p2p *p2p, struct peer *p, size_t *did)
{
    enum halay_status status = HALAY_OK;

    while (p->unsent && halay_transfer_is_done(&p->sending)) {
        free(halay_offers_take(&p->unsent));
        p->sent++;
        p2p->busy--;
        ++*did;
        send_first(p);
    }
    while (status == HALAY_OK && halay_transfer_is_done(&p->receiving)) {
        status = message_receive(p2p, p);
        ++*did;
        listen_to(p);
    }
    *did += end_moved(p2p, p);
    return status;
}

static enum halay_status p2p_progress(struct halay_path *path, size_t *did, int *rank)
{
    struct p2p *p2p = p2p_of(path);
    struct halay_context *ctx = path->ctx;

    *rank = -1;
    if (!p2p->busy)
        return HALAY_OK;
    enum halay_status status = halay_route_progress(&ctx->world->route, NULL, ctx->size, rank);
    for (struct peer *p = p2p->peers; p && status == HALAY_OK; p = p->next)
        status = progress_peer(p2p, p, did);
    *did += status == HALAY_OK ? halay_p2p_end_left(p2p) : 0;
    return status;
}

/* ---- the end ---- */

static void transfer_cancel(struct halay_transfer *x)
{
    if (atomic_load_explicit(&x->state, memory_order_acquire) == HALAY_TRANSFER_POSTED)
        halay_route_cancel(x);
}

static void free_messages(struct halay_offered *list)
{
    while (list)
        free(halay_offers_take(&list));
}

static void free_points(struct peer *p, struct halay_offered *list)
{
    while (list) {
        struct point *point = (struct point *)halay_offers_take(&list);
        if (p)
            transfer_cancel(&point->transfer);
        point_free(point);
    }
}

static void p2p_abandon(struct halay_path *path)
{
    struct p2p *p2p = p2p_of(path);

    for (struct peer *p = p2p->peers, *next; p; p = next) {
        next = p->next;
        transfer_cancel(&p->sending);
        transfer_cancel(&p->receiving);
        free_points(p, p->waiting);
        free_points(p, p->moving);
        free_messages(p->received);
        free_messages(p->unsent);
        free(p);
    }
    free_points(NULL, p2p->any);
    p2p->peers = NULL;
    p2p->any = NULL;
    p2p->busy = 0;
    p2p->reported_us = 0;
}

static void p2p_destroy(struct halay_path *path)
{
    free(p2p_of(path));
}

static const struct halay_path_ops ops = { .failed = "a send or receive failed",
                                           .name = halay_p2p_name,
                                           .submit = p2p_submit,
                                           .withdraw = halay_p2p_withdraw,
                                           .listen = p2p_listen,
                                           .progress = p2p_progress,
                                           .look = halay_p2p_look,
                                           .abandon = p2p_abandon,
                                           .destroy = p2p_destroy };

struct halay_path *halay_p2p_create(void)
{
    struct p2p *p2p = calloc(1, sizeof *p2p);

    if (!p2p)
        return NULL;
    p2p->path.ops = &ops;
    return &p2p->path;
}
