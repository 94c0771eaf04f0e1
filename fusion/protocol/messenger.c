/* SPDX-License-Identifier: Apache-2.0
 *
 * Messenger: one receive is always posted for each peer; one message at a time is under way to each peer.
 *
 *     receive: frame -> (rest, if the header announces more) -> items handed over -> next frame
 *     send:    items queued -> as many whole ones as fit in a message -> frame (-> rest)
 *
 * Rank 0 has a receive for each other rank. A step in which nothing arrives, and nothing is queued, visits none of
 * them, so its cost does not depend on the number of ranks.
 *
 * Frame and rest have two tags of the control group. A PING is answered here.
 *
 * Silence is the sum of the times between checks. A time above LOOK_MAX_US counts as half of that, and none counts for
 * more than half of the timeout. So a process that was itself stopped sends its peers a PING before it reports one as
 * lost.
 *
 * Cleanup: zero-initialised; destroy accepts any state.
 */
#include "fusion/protocol/messenger.h"
#include "base/memory.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_FRAME = 0, TAG_REST = 1 };
#define LOOK_MAX_US 2000000

struct messenger_peer {
    int rank;
    int is_optional;   /* neither it nor this rank is rank 0: it may leave, and is sent no PINGs */
    unsigned char *in; /* owned, [in_room]: grows to the longest message, as does out */
    size_t in_room;
    struct halay_transfer in_transfer;
    int in_posted, in_rest; /* a receive is posted; it is for the rest of a message */
    struct halay_message_header in_header;
    uint32_t in_number;

    struct halay_items queued;
    struct messenger_peer *next_unsent; /* while is_unsent: in the list of those with queued items */
    int is_unsent;
    unsigned char *out; /* owned, [out_room] */
    size_t out_room;
    struct halay_transfer out_frame, out_rest;
    uint32_t out_number;

    int has_received;  /* a message has arrived since the last check */
    int64_t silent_us; /* time without a message, while this process was awake */
    int is_asked;      /* a PING has been sent and not answered */
};

struct halay_messenger {
    struct halay_link *link; /* borrowed */
    struct halay_log *log;   /* borrowed */
    int rank, size;
    struct messenger_peer *
        *peers; /* owned, as is each: on rank 0 all others, else rank 0 and those that were reached */
    size_t count, capacity;
    enum halay_status status;      /* the first error, except the loss of a peer: others can still be reached */
    int has_stopped;               /* receiving has stopped */
    int must_progress;             /* a receive was posted after the last progress */
    struct messenger_peer *unsent; /* newest first, so that the deepest branches of a tree are sent to first */
    uint64_t arrivals, seen;       /* parts of messages that have arrived; of these, those that were handled */
    size_t posted;                 /* peers for which a receive was posted */
    _Atomic uint64_t sent;         /* a counter; relaxed */
    int64_t looked_us;             /* time of the last check; 0: none */
};

/* Grows a buffer to at least this number of bytes, and keeps its contents. */
static enum halay_status grow_buffer(unsigned char **buffer, size_t *room, size_t bytes)
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

/* Adds a peer, in memory of its own: its transfers must not be moved. */
static enum halay_status add_peer(struct halay_messenger *m, int rank)
{
    if (halay_list_grow(&m->peers, m->count, &m->capacity, sizeof(struct messenger_peer *)) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    struct messenger_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return HALAY_ERR_NO_MEMORY;
    peer->rank = rank;
    peer->is_optional = m->rank != 0 && rank != 0;
    peer->in_transfer.is_optional = peer->is_optional;
    m->peers[m->count++] = peer;
    enum halay_status status = grow_buffer(&peer->in, &peer->in_room, HALAY_FRAME_BYTES);
    return status == HALAY_OK ? grow_buffer(&peer->out, &peer->out_room, HALAY_FRAME_BYTES) : status;
}

enum halay_status halay_messenger_create(struct halay_link *link, int rank, int size, struct halay_log *log,
                                         struct halay_messenger **out)
{
    struct halay_messenger *m = calloc(1, sizeof *m);

    if (!m)
        return HALAY_ERR_NO_MEMORY;
    *m = (struct halay_messenger){ .link = link, .log = log, .rank = rank, .size = size };
    for (int r = rank ? 0 : 1; link && r < (rank ? 1 : size); r++)
        if (add_peer(m, r) != HALAY_OK) {
            halay_messenger_destroy(m);
            return HALAY_ERR_NO_MEMORY;
        }
    *out = m;
    return HALAY_OK;
}

/* Returns the peer of a rank, or NULL. On rank 0 peers are in order; other ranks have few. */
static struct messenger_peer *find_peer(const struct halay_messenger *m, int rank)
{
    if (!m->rank)
        return rank > 0 && (size_t)rank <= m->count ? m->peers[rank - 1] : NULL;
    for (size_t i = 0; i < m->count; i++)
        if (m->peers[i]->rank == rank)
            return m->peers[i];
    return NULL;
}

enum halay_status halay_messenger_reach(struct halay_messenger *m, int rank)
{
    return !m->link || rank == m->rank || find_peer(m, rank) ? HALAY_OK : add_peer(m, rank);
}

/* Returns nonzero if the transfer was posted and is not done. */
static int is_under_way(const struct halay_transfer *x)
{
    return atomic_load_explicit(&x->state, memory_order_acquire) == HALAY_TRANSFER_POSTED;
}

void halay_messenger_destroy(struct halay_messenger *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        struct messenger_peer *peer = m->peers[i];
        if (peer->in_posted)
            m->link->ops->cancel(m->link, &peer->in_transfer);
        if (is_under_way(&peer->out_frame))
            m->link->ops->cancel(m->link, &peer->out_frame);
        if (is_under_way(&peer->out_rest))
            m->link->ops->cancel(m->link, &peer->out_rest);
        free(peer->in);
        free(peer->out);
        halay_items_fini(&peer->queued);
        free(peer);
    }
    free(m->peers);
    free(m);
}

static enum halay_status queue_item(struct halay_messenger *m, struct messenger_peer *peer,
                                    const struct halay_item *item)
{
    if (!peer->is_unsent) {
        peer->is_unsent = 1;
        peer->next_unsent = m->unsent;
        m->unsent = peer;
    }
    return halay_items_append(&peer->queued, item);
}

enum halay_status halay_messenger_append(struct halay_messenger *m, int to, const struct halay_item *item)
{
    enum halay_status status = HALAY_OK;

    if (to >= 0) {
        struct messenger_peer *peer = find_peer(m, to);
        return peer ? queue_item(m, peer, item) : HALAY_ERR_ARGUMENT;
    }
    for (size_t i = 0; i < m->count && status == HALAY_OK; i++)
        status = queue_item(m, m->peers[i], item);
    return status;
}

static int is_lost(const struct halay_messenger *m, const struct messenger_peer *peer)
{
    return m->link->lost[peer->rank];
}

/* Returns nonzero if no message to the peer is under way. */
static int out_is_done(const struct messenger_peer *peer)
{
    return !is_under_way(&peer->out_frame) && !is_under_way(&peer->out_rest);
}

static void send_next(struct halay_messenger *m, struct messenger_peer *peer)
{
    size_t bytes = halay_items_fitting(&peer->queued, HALAY_MESSAGE_MAX - HALAY_MESSAGE_HEADER);
    size_t whole = HALAY_MESSAGE_HEADER + bytes;

    m->status = grow_buffer(&peer->out, &peer->out_room, whole);
    if (m->status != HALAY_OK)
        return;
    halay_message_put_header(peer->out, (uint32_t)whole, ++peer->out_number);
    memcpy(peer->out + HALAY_MESSAGE_HEADER, peer->queued.data, bytes);
    halay_items_drop(&peer->queued, bytes);
    if (whole < HALAY_FRAME_BYTES)
        memset(peer->out + whole, 0, HALAY_FRAME_BYTES - whole);
    m->link->ops->send(m->link, peer->rank, halay_tag(HALAY_CONTROL_GROUP, 0, TAG_FRAME), peer->out, HALAY_FRAME_BYTES,
                       &peer->out_frame);
    if (whole > HALAY_FRAME_BYTES)
        m->link->ops->send(m->link, peer->rank, halay_tag(HALAY_CONTROL_GROUP, 0, TAG_REST),
                           peer->out + HALAY_FRAME_BYTES, whole - HALAY_FRAME_BYTES, &peer->out_rest);
    atomic_fetch_add_explicit(&m->sent, 1, memory_order_relaxed);
}

void halay_messenger_flush(struct halay_messenger *m)
{
    for (struct messenger_peer **at = &m->unsent, *peer; m->status == HALAY_OK && (peer = *at);) {
        if (!is_lost(m, peer) && out_is_done(peer))
            send_next(m, peer);
        peer->is_unsent = peer->queued.used && !is_lost(m, peer);
        if (peer->is_unsent)
            at = &peer->next_unsent;
        else
            *at = peer->next_unsent;
    }
}

void halay_messenger_stop_receiving(struct halay_messenger *m)
{
    m->has_stopped = 1;
    for (size_t i = 0; i < m->count; i++)
        if (m->peers[i]->in_posted) {
            m->link->ops->cancel(m->link, &m->peers[i]->in_transfer);
            m->peers[i]->in_posted = 0;
        }
}

int halay_messenger_is_quiet(const struct halay_messenger *m)
{
    if (m->status != HALAY_OK)
        return 1;
    for (size_t i = 0; i < m->count; i++) {
        const struct messenger_peer *peer = m->peers[i];
        if ((peer->queued.used || !out_is_done(peer)) && !is_lost(m, peer))
            return 0;
    }
    return 1;
}

uint64_t halay_messenger_sent(struct halay_messenger *m)
{
    return atomic_load_explicit(&m->sent, memory_order_relaxed);
}

static void post_next(struct halay_messenger *m, struct messenger_peer *peer)
{
    peer->in_posted = 1;
    if (peer->in_rest)
        m->link->ops->recv(m->link, peer->rank, halay_tag(HALAY_CONTROL_GROUP, 0, TAG_REST),
                           peer->in + HALAY_FRAME_BYTES, peer->in_header.bytes - HALAY_FRAME_BYTES, &peer->in_transfer);
    else
        m->link->ops->recv(m->link, peer->rank, halay_tag(HALAY_CONTROL_GROUP, 0, TAG_FRAME), peer->in,
                           HALAY_FRAME_BYTES, &peer->in_transfer);
    if (halay_transfer_is_done(&peer->in_transfer))
        m->arrivals++;
    else
        peer->in_transfer.arrivals = &m->arrivals;
}

static enum halay_status handle_message(struct halay_messenger *m, struct messenger_peer *peer,
                                        halay_messenger_handler handler, void *arg)
{
    enum halay_status status = HALAY_OK;

    for (size_t at = HALAY_MESSAGE_HEADER; at < peer->in_header.bytes && status == HALAY_OK;) {
        struct halay_item item;
        status = halay_item_read(peer->in, peer->in_header.bytes, &at, m->size, &item);
        if (status != HALAY_OK)
            return status;
        if (item.kind == HALAY_ITEM_PING)
            status = queue_item(m, peer, &(struct halay_item){ .kind = HALAY_ITEM_PONG });
        else if (item.kind != HALAY_ITEM_PONG)
            status = handler(arg, peer->rank, &item);
    }
    return status;
}

/* Takes the messages that have arrived from one peer. *messages grows by their number. */
static enum halay_status take_from_peer(struct halay_messenger *m, struct messenger_peer *peer,
                                        halay_messenger_handler handler, void *arg, int *messages)
{
    enum halay_status status;

    while (peer->in_posted && halay_transfer_is_done(&peer->in_transfer)) {
        peer->in_posted = 0;
        peer->has_received = 1;
        if (!peer->in_rest) {
            status = halay_message_get_header(peer->in, &peer->in_header);
            if (status == HALAY_OK && peer->in_header.number != ++peer->in_number)
                status = HALAY_ERR_FORMAT;
            if (status == HALAY_OK)
                status = grow_buffer(&peer->in, &peer->in_room, peer->in_header.bytes);
            if (status != HALAY_OK)
                return status;
            if (peer->in_header.bytes > HALAY_FRAME_BYTES) {
                peer->in_rest = 1;
                m->must_progress =
                    1; /* the rest may have arrived already; a message that precedes its receive rings no bell */
                post_next(m, peer);
                continue;
            }
        }
        peer->in_rest = 0;
        ++*messages;
        status = handle_message(m, peer, handler, arg);
        if (m->status == HALAY_OK && !m->has_stopped)
            post_next(m, peer);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* Progresses once and takes the messages that have arrived from all peers. *messages grows by their number. */
static enum halay_status take_from_all(struct halay_messenger *m, halay_messenger_handler handler, void *arg,
                                       int *messages, int *rank)
{
    enum halay_status progress = m->status == HALAY_OK ? m->link->ops->progress(m->link) : HALAY_OK;

    m->must_progress = 0;
    if (progress != HALAY_ERR_PEER)
        m->status = m->status != HALAY_OK ? m->status : progress;
    uint64_t arrivals = m->arrivals;
    for (size_t i = 0; m->seen != arrivals && i < m->count; i++) {
        enum halay_status status = take_from_peer(m, m->peers[i], handler, arg, messages);
        if (status != HALAY_OK) {
            *rank = m->peers[i]->rank;
            return status;
        }
    }
    m->seen = arrivals; /* later arrivals are handled next time */
    if (m->status == HALAY_OK && progress == HALAY_OK)
        return HALAY_OK;
    *rank = m->link->failed_peer;
    return m->status != HALAY_OK ? m->status : progress;
}

enum halay_status halay_messenger_receive(struct halay_messenger *m, halay_messenger_handler handler, void *arg,
                                          int *messages, int *rank)
{
    enum halay_status status;

    *messages = 0;
    if (!m->link)
        return HALAY_OK;
    for (; m->posted < m->count && m->status == HALAY_OK && !m->has_stopped; m->posted++)
        post_next(m, m->peers[m->posted]);
    do
        status = take_from_all(m, handler, arg, messages, rank);
    while (status == HALAY_OK && m->must_progress);
    return status;
}

enum halay_status halay_messenger_check(struct halay_messenger *m, int64_t now_us, int64_t timeout_us, int *rank)
{
    int64_t passed = m->looked_us ? now_us - m->looked_us : 0;

    m->looked_us = now_us;
    if (passed > LOOK_MAX_US)
        passed = LOOK_MAX_US / 2;
    if (passed > timeout_us / 2)
        passed = timeout_us / 2;
    for (size_t i = 0; i < m->count; i++) {
        struct messenger_peer *peer = m->peers[i];
        if (peer->is_optional)
            continue;
        if (peer->has_received) {
            peer->has_received = peer->is_asked = 0;
            peer->silent_us = 0;
            continue;
        }
        peer->silent_us += passed;
        if (peer->silent_us >= timeout_us) {
            *rank = peer->rank;
            return HALAY_ERR_PEER;
        }
        if (!peer->is_asked && peer->silent_us >= timeout_us / 4) {
            peer->is_asked = 1;
            if (queue_item(m, peer, &(struct halay_item){ .kind = HALAY_ITEM_PING }) != HALAY_OK)
                return HALAY_ERR_NO_MEMORY;
        }
    }
    return HALAY_OK;
}

void halay_messenger_check_reset(struct halay_messenger *m)
{
    if (!m->looked_us)
        return;
    m->looked_us = 0;
    for (size_t i = 0; i < m->count; i++)
        m->peers[i]->silent_us = m->peers[i]->is_asked = m->peers[i]->has_received = 0;
}
