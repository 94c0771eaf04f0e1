/* SPDX-License-Identifier: Apache-2.0
 *
 * Link: one receive is always posted for each peer; one message at a time is under way to each peer.
 *
 *     receive: frame -> (rest, if the header says that there is more) -> items handed over -> next frame
 *     send:    items queued -> as many whole ones as fit in a message -> frame (-> rest)
 *
 * Frame and rest are under two tags of the group that is kept for control. A PING is answered here.
 *
 * Silence is counted in looks that are at most LOOK_MAX_US apart: a process that was stopped itself does not blame
 * others.
 *
 * Cleanup: zero-initialised; destroy accepts any state.
 */
#include "fusion/rank/link.h"
#include "base/clock.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_FRAME = 0, TAG_REST = 1 };
#define LOOK_MAX_US 2000000

struct link_peer {
    int is_used;
    unsigned char *in; /* owned, [in_room]: grows to the longest message, as does the other */
    size_t in_room;
    struct halay_transfer in_transfer;
    int in_posted, in_rest; /* a receive is posted; it is the rest's */
    struct halay_message_header in_header;
    uint32_t in_number;

    struct halay_items queued;
    unsigned char *out; /* owned, [out_room] */
    size_t out_room;
    struct halay_transfer out_frame, out_rest;
    int out_posted, out_rest_posted;
    uint32_t out_number;

    int heard;         /* since the last look */
    int64_t silent_us; /* awake and unanswered */
    int is_asked;      /* a PING is under way */
};

struct halay_link {
    struct halay_transport *t; /* borrowed */
    struct halay_log *log;     /* borrowed */
    int rank, size;
    struct link_peer *peers; /* owned: count of them; rank 0 speaks to all, the others to rank 0 alone */
    int count;
    enum halay_status status; /* no memory, or the transport's; kept. A lost peer is none: others are reached */
    int is_deaf;              /* nothing is received any more */
    int is_behind;            /* a receive was posted that no progress has looked at */
    _Atomic uint64_t sent;    /* a counter; relaxed */
    int64_t looked_us;        /* the last look; 0: none */
};

/* Room for so many bytes; what is there stays. */
static enum halay_status grow(unsigned char **buffer, size_t *room, size_t bytes)
{
    if (bytes <= *room)
        return HALAY_OK;
    unsigned char *grown = realloc(*buffer, bytes);
    if (!grown)
        return HALAY_ERR_NO_MEMORY;
    *buffer = grown;
    *room = bytes;
    return HALAY_OK;
}

enum halay_status halay_link_create(struct halay_transport *t, int rank, int size, struct halay_log *log,
                                    struct halay_link **out)
{
    struct halay_link *link = calloc(1, sizeof *link);

    if (!link)
        return HALAY_ERR_NO_MEMORY;
    *link = (struct halay_link){ .t = t, .log = log, .rank = rank, .size = size, .count = rank ? 1 : size };
    link->peers = calloc((size_t)link->count, sizeof *link->peers);
    if (!link->peers)
        goto err_destroy;
    for (int r = 0; r < link->count; r++) {
        struct link_peer *peer = &link->peers[r];
        peer->is_used = t && r != rank;
        if (peer->is_used && (grow(&peer->in, &peer->in_room, HALAY_FRAME_BYTES) != HALAY_OK ||
                              grow(&peer->out, &peer->out_room, HALAY_FRAME_BYTES) != HALAY_OK))
            goto err_destroy;
    }
    *out = link;
    return HALAY_OK;

err_destroy:
    halay_link_destroy(link);
    return HALAY_ERR_NO_MEMORY;
}

void halay_link_destroy(struct halay_link *link)
{
    if (!link)
        return;
    for (int r = 0; link->peers && r < link->count; r++) {
        struct link_peer *peer = &link->peers[r];
        if (peer->in_posted)
            link->t->ops->cancel(link->t, &peer->in_transfer);
        if (peer->out_posted)
            link->t->ops->cancel(link->t, &peer->out_frame);
        if (peer->out_rest_posted)
            link->t->ops->cancel(link->t, &peer->out_rest);
        free(peer->in);
        free(peer->out);
        halay_items_fini(&peer->queued);
    }
    free(link->peers);
    free(link);
}

enum halay_status halay_link_append(struct halay_link *link, int to, const struct halay_item *item)
{
    int end = to < 0 || to >= link->count ? link->count : to + 1;

    for (int r = to < 0 ? 0 : to; r < end; r++)
        if (link->peers[r].is_used) {
            enum halay_status status = halay_items_append(&link->peers[r].queued, item);
            if (status != HALAY_OK)
                return status;
        }
    return HALAY_OK;
}

static int is_lost(const struct halay_link *link, int r)
{
    return link->t->lost[r];
}

static int out_is_done(struct link_peer *peer)
{
    if (peer->out_posted && halay_transfer_is_done(&peer->out_frame))
        peer->out_posted = 0;
    if (peer->out_rest_posted && halay_transfer_is_done(&peer->out_rest))
        peer->out_rest_posted = 0;
    return !peer->out_posted && !peer->out_rest_posted;
}

static void send_next(struct halay_link *link, int r)
{
    struct link_peer *peer = &link->peers[r];
    size_t bytes = halay_items_fitting(&peer->queued, HALAY_MESSAGE_MAX - HALAY_MESSAGE_HEADER);
    size_t whole = HALAY_MESSAGE_HEADER + bytes;

    link->status = grow(&peer->out, &peer->out_room, whole);
    if (link->status != HALAY_OK)
        return;
    halay_message_put_header(peer->out, &(struct halay_message_header){ (uint32_t)whole, ++peer->out_number });
    memcpy(peer->out + HALAY_MESSAGE_HEADER, peer->queued.data, bytes);
    halay_items_drop(&peer->queued, bytes);
    if (whole < HALAY_FRAME_BYTES)
        memset(peer->out + whole, 0, HALAY_FRAME_BYTES - whole);
    peer->out_posted = 1;
    link->t->ops->send(link->t, r, halay_tag(HALAY_CONTROL_GROUP, 0, TAG_FRAME), peer->out, HALAY_FRAME_BYTES,
                       &peer->out_frame);
    if (whole > HALAY_FRAME_BYTES) {
        peer->out_rest_posted = 1;
        link->t->ops->send(link->t, r, halay_tag(HALAY_CONTROL_GROUP, 0, TAG_REST), peer->out + HALAY_FRAME_BYTES,
                           whole - HALAY_FRAME_BYTES, &peer->out_rest);
    }
    atomic_fetch_add_explicit(&link->sent, 1, memory_order_relaxed);
}

void halay_link_flush(struct halay_link *link)
{
    for (int r = 0; link->status == HALAY_OK && r < link->count; r++) {
        struct link_peer *peer = &link->peers[r];
        if (peer->is_used && !is_lost(link, r) && peer->queued.used && out_is_done(peer))
            send_next(link, r);
    }
}

void halay_link_stop_receiving(struct halay_link *link)
{
    link->is_deaf = 1;
    for (int r = 0; r < link->count; r++)
        if (link->peers[r].in_posted) {
            link->t->ops->cancel(link->t, &link->peers[r].in_transfer);
            link->peers[r].in_posted = 0;
        }
}

int halay_link_is_quiet(struct halay_link *link)
{
    if (link->status != HALAY_OK)
        return 1;
    for (int r = 0; r < link->count; r++) {
        struct link_peer *peer = &link->peers[r];
        if (peer->is_used && !is_lost(link, r) && (peer->queued.used || !out_is_done(peer)))
            return 0;
    }
    return 1;
}

uint64_t halay_link_sent(struct halay_link *link)
{
    return atomic_load_explicit(&link->sent, memory_order_relaxed);
}

static void post_receive(struct halay_link *link, int r)
{
    struct link_peer *peer = &link->peers[r];

    peer->in_posted = 1;
    if (peer->in_rest)
        link->t->ops->recv(link->t, r, halay_tag(HALAY_CONTROL_GROUP, 0, TAG_REST), peer->in + HALAY_FRAME_BYTES,
                           peer->in_header.bytes - HALAY_FRAME_BYTES, &peer->in_transfer);
    else
        link->t->ops->recv(link->t, r, halay_tag(HALAY_CONTROL_GROUP, 0, TAG_FRAME), peer->in, HALAY_FRAME_BYTES,
                           &peer->in_transfer);
}

static enum halay_status handle_message(struct halay_link *link, int r, halay_link_handler handler, void *arg)
{
    struct link_peer *peer = &link->peers[r];
    enum halay_status status = HALAY_OK;

    for (size_t at = HALAY_MESSAGE_HEADER; at < peer->in_header.bytes && status == HALAY_OK;) {
        struct halay_item item;
        status = halay_item_read(peer->in, peer->in_header.bytes, &at, link->size, &item);
        if (status != HALAY_OK)
            return status;
        if (item.kind == HALAY_ITEM_PING)
            status = halay_link_append(link, r, &(struct halay_item){ .kind = HALAY_ITEM_PONG });
        else if (item.kind != HALAY_ITEM_PONG)
            status = handler(arg, r, &item);
    }
    return status;
}

/* Take what has arrived from one peer. *messages grows by those that were handed over. */
static enum halay_status receive_from(struct halay_link *link, int r, halay_link_handler handler, void *arg,
                                      int *messages)
{
    struct link_peer *peer = &link->peers[r];
    enum halay_status status;

    while (peer->in_posted && halay_transfer_is_done(&peer->in_transfer)) {
        peer->in_posted = 0;
        peer->heard = 1;
        if (!peer->in_rest) {
            status = halay_message_get_header(peer->in, &peer->in_header);
            if (status == HALAY_OK && peer->in_header.number != ++peer->in_number)
                status = HALAY_ERR_FORMAT;
            if (status == HALAY_OK)
                status = grow(&peer->in, &peer->in_room, peer->in_header.bytes);
            if (status != HALAY_OK)
                return status;
            if (peer->in_header.bytes > HALAY_FRAME_BYTES) {
                peer->in_rest = 1;
                link->is_behind = 1; /* it may be there already, and what came before its receive rings no bell again */
                post_receive(link, r);
                continue;
            }
        }
        peer->in_rest = 0;
        ++*messages;
        status = handle_message(link, r, handler, arg);
        if (link->status == HALAY_OK && !link->is_deaf)
            post_receive(link, r);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* Progress once and take what is there from everybody; *messages grows. */
static enum halay_status look(struct halay_link *link, halay_link_handler handler, void *arg, int *messages, int *rank)
{
    enum halay_status progress = link->status == HALAY_OK ? link->t->ops->progress(link->t) : HALAY_OK;

    link->is_behind = 0;
    if (progress != HALAY_ERR_PEER)
        link->status = link->status != HALAY_OK ? link->status : progress;
    for (int r = 0; r < link->count; r++) {
        if (!link->peers[r].is_used)
            continue;
        enum halay_status status = receive_from(link, r, handler, arg, messages);
        if (status != HALAY_OK) {
            *rank = r;
            return status;
        }
    }
    if (link->status == HALAY_OK && progress == HALAY_OK)
        return HALAY_OK;
    *rank = link->t->failed_peer;
    return link->status != HALAY_OK ? link->status : progress;
}

enum halay_status halay_link_receive(struct halay_link *link, halay_link_handler handler, void *arg, int *messages,
                                     int *rank)
{
    enum halay_status status;

    *messages = 0;
    if (!link->t)
        return HALAY_OK;
    for (int r = 0; r < link->count && link->status == HALAY_OK && !link->is_deaf; r++)
        if (link->peers[r].is_used && !link->peers[r].in_posted)
            post_receive(link, r);
    do
        status = look(link, handler, arg, messages, rank);
    while (status == HALAY_OK && link->is_behind);
    return status;
}

enum halay_status halay_link_check(struct halay_link *link, int64_t now_us, int64_t timeout_us, int *rank)
{
    int64_t passed = link->looked_us ? now_us - link->looked_us : 0;

    link->looked_us = now_us;
    if (passed > LOOK_MAX_US)
        passed = LOOK_MAX_US / 2;
    for (int r = 0; r < link->count; r++) {
        struct link_peer *peer = &link->peers[r];
        if (!peer->is_used)
            continue;
        if (peer->heard) {
            peer->heard = peer->is_asked = 0;
            peer->silent_us = 0;
            continue;
        }
        peer->silent_us += passed;
        if (peer->silent_us >= timeout_us) {
            *rank = r;
            return HALAY_ERR_PEER;
        }
        if (!peer->is_asked && peer->silent_us >= timeout_us / 4) {
            peer->is_asked = 1;
            if (halay_link_append(link, r, &(struct halay_item){ .kind = HALAY_ITEM_PING }) != HALAY_OK)
                return HALAY_ERR_NO_MEMORY;
        }
    }
    return HALAY_OK;
}

void halay_link_check_reset(struct halay_link *link)
{
    if (!link->looked_us)
        return;
    link->looked_us = 0;
    for (int r = 0; r < link->count; r++) {
        link->peers[r].silent_us = 0;
        link->peers[r].is_asked = 0;
        link->peers[r].heard = 0;
    }
}
