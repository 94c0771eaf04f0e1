/* SPDX-License-Identifier: Apache-2.0
 *
 * Match: queues of transfers and of early messages. Lists are searched from the front: they hold what is posted
 * between two ranks at one time, some dozens.
 */
#include "collectives/transport/tcp/tcp_match.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNIT_BYTES = 256,
    WINDOW_UNITS = (1 << 20) / UNIT_BYTES,
    OWED_UNITS = WINDOW_UNITS / 4,
    EARLY_BYTES = 4 << 20,
    SPARE_BYTES = 1 << 20,
    ROOM_MIN = 512
};

struct halay_tcp_early {
    struct halay_tcp_early *next;
    uint64_t tag;
    size_t bytes;
    int is_announced; /* by an RTS, without a payload */
    int is_whole;     /* all of the payload is there */
    uint32_t owed;    /* units of credit that are given back when it is received */
    size_t room;      /* of the payload */
    unsigned char payload[];
};

/* Returns nonzero if the tag is one of the engine's own messages. */
static int is_control(uint64_t tag)
{
    return tag >= halay_tag(HALAY_CONTROL_GROUP, 0, 0) && tag < halay_tag(HALAY_CONTROL_GROUP + 1, 0, 0);
}

static int is_eager(uint64_t tag, size_t bytes)
{
    return bytes <= HALAY_TCP_EAGER_BYTES || is_control(tag);
}

/* Returns the units of the window that a message takes. */
static uint32_t cost_of(uint64_t tag, size_t bytes)
{
    return is_control(tag) ? 0 : (uint32_t)((bytes + HALAY_TCP_HEAD_BYTES + UNIT_BYTES - 1) / UNIT_BYTES);
}

/* ---- queues ---- */

static void queue_append(struct halay_tcp_queue *queue, struct halay_transfer *x)
{
    x->next = NULL;
    *queue->end = x;
    queue->end = &x->next;
}

static struct halay_transfer *queue_take(struct halay_tcp_queue *queue, struct halay_transfer **at)
{
    struct halay_transfer *x = *at;

    *at = x->next;
    if (!*at)
        queue->end = at;
    return x;
}

static int take_out(struct halay_tcp_queue *queue, const struct halay_transfer *x)
{
    for (struct halay_transfer **at = &queue->first; *at; at = &(*at)->next)
        if (*at == x) {
            queue_take(queue, at);
            return 1;
        }
    return 0;
}

static struct halay_transfer **find_id(struct halay_tcp_queue *queue, uint64_t id)
{
    struct halay_transfer **at = &queue->first;

    while (*at && (uintptr_t)(*at)->handle != id)
        at = &(*at)->next;
    return at;
}

static void transfer_complete(struct halay_tcp_peer *peer, struct halay_transfer *x)
{
    peer->wanted -= !x->is_optional;
    peer->completed++;
    halay_transfer_end(x);
}

static void peer_fail(struct halay_tcp_peer *peer, enum halay_status status, const char *why)
{
    if (peer->status != HALAY_OK)
        return;
    peer->status = status;
    peer->why = why;
}

static void fail_lengths(struct halay_tcp_peer *peer, uint64_t sent, size_t expected)
{
    if (peer->status == HALAY_OK)
        halay_error(peer->log, "rank %d sent %llu bytes where %zu were expected", peer->rank, (unsigned long long)sent,
                    expected);
    peer_fail(peer, HALAY_ERR_FORMAT, "lengths disagree");
}

void halay_tcp_peer_init(struct halay_tcp_peer *peer, const struct halay_link *link, int rank)
{
    peer->rank = rank;
    peer->forgotten = &link->forgotten;
    peer->log = link->log;
    peer->sends.end = &peer->sends.first;
    peer->receives.end = &peer->receives.first;
    peer->arriving.end = &peer->arriving.first;
    peer->early_end = &peer->early;
    peer->grants_end = &peer->grants;
}

static void early_free(struct halay_tcp_early *early)
{
    for (struct halay_tcp_early *next; early; early = next) {
        next = early->next;
        free(early);
    }
}

static void grants_free(struct halay_tcp_grant *grant)
{
    for (struct halay_tcp_grant *next; grant; grant = next) {
        next = grant->next;
        free(grant);
    }
}

void halay_tcp_peer_fini(struct halay_tcp_peer *peer)
{
    early_free(peer->early);
    early_free(peer->spare);
    grants_free(peer->grants);
    grants_free(peer->unused);
    halay_forgotten_fini(&peer->refused);
    for (struct halay_tcp_connection *c = peer->connection, *next; c; c = next) {
        next = c->next;
        halay_tcp_connection_fini(c);
        free(c);
    }
    peer->early = peer->spare = NULL;
    peer->grants = peer->unused = NULL;
    peer->connection = NULL;
}

/* ---- sending ---- */

static void queue_frame(struct halay_tcp_peer *peer, const struct halay_tcp_frame *frame, const void *payload,
                        uint64_t length, struct halay_transfer *x)
{
    if (halay_tcp_connection_send(peer->connection, frame, payload, length, x) != HALAY_OK)
        peer_fail(peer, HALAY_ERR_NO_MEMORY, "no memory for a message");
}

static void begin_data(struct halay_tcp_peer *peer, struct halay_transfer *x)
{
    const struct halay_tcp_frame frame = { .kind = HALAY_TCP_DATA,
                                           .flags = is_control(x->tag) ? HALAY_TCP_SIGNED : 0,
                                           .bytes = (uint32_t)x->bytes,
                                           .tag = x->tag };

    peer->in_flight += cost_of(x->tag, x->bytes);
    queue_frame(peer, &frame, x->buf, 0, x);
}

/* A message that is announced because the window is closed has its own kind of CTS: a later, large one of that tag may
 * have been allowed before. */
static struct halay_tcp_grant **find_grant(struct halay_tcp_peer *peer, const struct halay_transfer *x)
{
    struct halay_tcp_grant **at = &peer->grants;
    int is_small = is_eager(x->tag, x->bytes);

    while (*at && ((*at)->tag != x->tag || is_eager(x->tag, (size_t)(*at)->bytes) != is_small))
        at = &(*at)->next;
    return at;
}

/* A short message that has been announced follows its RTS, which would else be left for a later receive if the chunks
 * arrived before it. */
static struct halay_tcp_connection *connection_for(const struct halay_tcp_peer *peer, const struct halay_transfer *x,
                                                   uint64_t id)
{
    struct halay_tcp_connection *c = peer->connection;

    for (uint64_t i = peer->streams > 1 && !x->handle ? id % (uint64_t)peer->streams : 0; i; i--)
        c = c->next;
    return c;
}

/* With a CTS. */
static void begin_bulk(struct halay_tcp_peer *peer, struct halay_transfer *x, struct halay_tcp_grant **at)
{
    struct halay_tcp_grant *grant = *at;

    *at = grant->next;
    if (!*at)
        peer->grants_end = at;
    if (grant->bytes == x->bytes)
        halay_tcp_connection_send_bulk(connection_for(peer, x, grant->id), x, grant->id);
    else
        fail_lengths(peer, x->bytes, (size_t)grant->bytes);
    grant->next = peer->unused;
    peer->unused = grant;
}

/* The receive of a large message sends its CTS unasked, so that its RTS shows only lengths that disagree. With several
 * streams the RTS would tie the message to the first one. */
static void announce_send(struct halay_tcp_peer *peer, struct halay_transfer *x)
{
    const struct halay_tcp_frame frame = { .kind = HALAY_TCP_RTS, .bytes = HALAY_TCP_LENGTH_BYTES, .tag = x->tag };

    if (x->handle || (peer->streams > 1 && !is_eager(x->tag, x->bytes)))
        return;
    queue_frame(peer, &frame, NULL, x->bytes, NULL);
    x->handle = x;
}

/* Returns nonzero if an earlier send of that tag still waits. */
static int is_overtaking(const struct halay_tcp_peer *peer, const struct halay_transfer *x)
{
    for (const struct halay_transfer *at = peer->sends.first; at != x; at = at->next)
        if (at->tag == x->tag)
            return 1;
    for (const struct halay_tcp_connection *c = peer->connection; c; c = c->next)
        if (halay_tcp_connection_holds(c, x->tag))
            return 1;
    return 0;
}

/* Nonzero if the send has begun: `at` is the next one then. */
static int begin_send(struct halay_tcp_peer *peer, struct halay_transfer **at)
{
    struct halay_transfer *x = *at;
    uint32_t cost = cost_of(x->tag, x->bytes);

    if (is_eager(x->tag, x->bytes) && !x->handle && (!cost || peer->in_flight + cost <= WINDOW_UNITS)) {
        begin_data(peer, queue_take(&peer->sends, at));
        return 1;
    }
    struct halay_tcp_grant **grant = find_grant(peer, x);
    if (!*grant && !is_eager(x->tag, x->bytes) && halay_forgotten_has(&peer->refused, x->tag)) {
        transfer_complete(peer, queue_take(&peer->sends, at));
        return 1;
    }
    if (!*grant) {
        announce_send(peer, x);
        return 0;
    }
    begin_bulk(peer, queue_take(&peer->sends, at), grant);
    return 1;
}

void halay_tcp_peer_push(struct halay_tcp_peer *peer)
{
    if (!peer->connection)
        return;
    for (struct halay_transfer **at = &peer->sends.first, *x; (x = *at) && peer->status == HALAY_OK;)
        if (is_overtaking(peer, x) || !begin_send(peer, at))
            at = &x->next;
}

void halay_tcp_peer_send(struct halay_tcp_peer *peer, int to, uint64_t tag, const void *buf, size_t bytes,
                         struct halay_transfer *x)
{
    halay_transfer_post(x, to, tag, (void *)buf, bytes);
    peer->wanted += !x->is_optional;
    if (bytes > HALAY_TCP_MESSAGE_MAX && is_control(tag))
        peer_fail(peer, HALAY_ERR_UNSUPPORTED, "a message is too long for the tcp transport");
    queue_append(&peer->sends, x);
    halay_tcp_peer_push(peer);
}

/* ---- receiving ---- */

/* Returns the CTS's id. */
static uint64_t grant_send(struct halay_tcp_peer *peer, uint64_t tag, uint64_t bytes)
{
    const struct halay_tcp_frame frame = {
        .kind = HALAY_TCP_CTS, .bytes = HALAY_TCP_LENGTH_BYTES, .tag = tag, .id = ++peer->last_id
    };

    queue_frame(peer, &frame, NULL, bytes, NULL);
    return frame.id;
}

static void volunteer_grant(struct halay_tcp_peer *peer, struct halay_transfer *x)
{
    x->handle = (void *)(uintptr_t)grant_send(peer, x->tag, x->bytes);
}

static void give_back(struct halay_tcp_peer *peer, uint32_t units)
{
    peer->owed += units;
    if (peer->owed >= OWED_UNITS)
        queue_frame(peer, &(struct halay_tcp_frame){ .kind = HALAY_TCP_CREDIT }, NULL, 0, NULL);
}

static void early_remove(struct halay_tcp_peer *peer, struct halay_tcp_early **at)
{
    struct halay_tcp_early *early = *at;

    *at = early->next;
    if (!*at)
        peer->early_end = at;
    if (!early->is_announced)
        peer->early_bytes -= early->bytes;
    if (peer->spare_bytes + early->room > SPARE_BYTES) {
        free(early);
        return;
    }
    peer->spare_bytes += early->room;
    early->next = peer->spare;
    peer->spare = early;
}

static void match_kept(struct halay_tcp_peer *peer, struct halay_tcp_early *early, struct halay_transfer *x)
{
    if (early->is_whole) {
        memcpy(x->buf, early->payload, x->bytes);
        transfer_complete(peer, x);
    } else { /* the rest of it goes straight into the buffer */
        memcpy(x->buf, early->payload, halay_tcp_connection_has(peer->connection, early->payload));
        halay_tcp_connection_redirect(peer->connection, early->payload, x->buf);
        peer->into = x;
        peer->into_early = NULL;
    }
    if (early->owed)
        give_back(peer, early->owed);
}

/* Gives a receive the message that arrived, or was announced, before it. Returns nonzero if it has arrived. */
static int match_early(struct halay_tcp_peer *peer, struct halay_tcp_early **at, struct halay_transfer *x)
{
    struct halay_tcp_early *early = *at;
    int is_announced = early->is_announced;

    if (early->bytes != x->bytes) {
        fail_lengths(peer, early->bytes, x->bytes);
        return 0;
    }
    if (!is_announced)
        match_kept(peer, early, x);
    early_remove(peer, at);
    return !is_announced;
}

void halay_tcp_peer_receive(struct halay_tcp_peer *peer, int from, uint64_t tag, void *buf, size_t bytes,
                            struct halay_transfer *x)
{
    struct halay_tcp_early **at = &peer->early;

    halay_transfer_post(x, from, tag, buf, bytes);
    peer->wanted += !x->is_optional;
    while (*at && (*at)->tag != tag)
        at = &(*at)->next;
    int is_announced = *at != NULL;
    if (*at && match_early(peer, at, x))
        return;
    queue_append(&peer->receives, x);
    if (peer->connection && (is_announced || !is_eager(tag, bytes)))
        volunteer_grant(peer, x);
}

/* ---- receiving ---- */

/* Powers of two, so that those of earlier messages fit. */
static struct halay_tcp_early *early_get(struct halay_tcp_peer *peer, size_t bytes)
{
    struct halay_tcp_early **at = &peer->spare, *early;
    size_t room = ROOM_MIN;

    while (*at && (*at)->room < bytes)
        at = &(*at)->next;
    if ((early = *at)) {
        *at = early->next;
        peer->spare_bytes -= early->room;
        return early;
    }
    while (room < bytes)
        room *= 2;
    early = malloc(sizeof *early + room);
    if (early)
        early->room = room;
    return early;
}

static struct halay_tcp_early *early_keep(struct halay_tcp_peer *peer, const struct halay_tcp_frame *frame,
                                          uint64_t length, int is_announced)
{
    struct halay_tcp_early *early = early_get(peer, is_announced ? 0 : (size_t)length);

    if (!early) {
        peer_fail(peer, HALAY_ERR_NO_MEMORY, "no memory for a message");
        return NULL;
    }
    *early = (struct halay_tcp_early){
        .tag = frame->tag, .bytes = (size_t)length, .is_announced = is_announced, .room = early->room
    };
    *peer->early_end = early;
    peer->early_end = &early->next;
    if (!is_announced)
        peer->early_bytes += early->bytes;
    return early;
}

/* The receive that a message of that tag and length is for, or the end. With one stream messages come in order: it is
 * the first one, whatever its length. */
static struct halay_transfer **find_receive(struct halay_tcp_peer *peer, uint64_t tag, size_t bytes)
{
    struct halay_transfer **at = &peer->receives.first, *x;

    while ((x = *at) &&
           (x->tag != tag || (peer->streams > 1 && x->handle && (is_eager(tag, bytes) || is_eager(tag, x->bytes)))))
        at = &x->next;
    return at;
}

static enum halay_status begin_arriving_data(struct halay_tcp_peer *peer, const struct halay_tcp_frame *frame,
                                             unsigned char **to)
{
    struct halay_transfer **at = find_receive(peer, frame->tag, frame->bytes), *x = *at;

    if (is_control(frame->tag) && !(frame->flags & HALAY_TCP_SIGNED))
        return HALAY_ERR_AUTH;
    if (!x) {
        *to = NULL;
        if (halay_forgotten_has(peer->forgotten, frame->tag))
            return HALAY_OK; /* into nothing */
        if (!is_control(frame->tag) && peer->early_bytes > EARLY_BYTES + WINDOW_UNITS * (size_t)UNIT_BYTES)
            return HALAY_ERR_FORMAT; /* it keeps no window */
        peer->into_early = early_keep(peer, frame, frame->bytes, 0);
        *to = peer->into_early ? peer->into_early->payload : NULL;
        return peer->status;
    }
    if (frame->bytes != x->bytes) {
        fail_lengths(peer, frame->bytes, x->bytes);
        return peer->status;
    }
    peer->into = queue_take(&peer->receives, at);
    *to = x->buf;
    return HALAY_OK;
}

/* An id that is not known is a cancelled receive's, or was given to a forgotten group. */
static enum halay_status begin_arriving_bulk(struct halay_tcp_peer *peer, const struct halay_tcp_frame *frame,
                                             unsigned char **to)
{
    struct halay_transfer **at = find_id(&peer->receives, frame->id), *x = *at;

    *to = NULL;
    if (!frame->id || frame->id > peer->last_id)
        return HALAY_ERR_FORMAT;
    if (x)
        queue_append(&peer->arriving, queue_take(&peer->receives, at));
    else
        x = *find_id(&peer->arriving, frame->id);
    if (!x)
        return HALAY_OK;
    if (frame->tag != x->moved || frame->bytes > x->bytes - x->moved)
        return HALAY_ERR_FORMAT;
    *to = x->buf + x->moved;
    return HALAY_OK;
}

static enum halay_status peer_begin(void *arg, const struct halay_tcp_frame *frame, unsigned char **to)
{
    struct halay_tcp_peer *peer = arg;

    if (peer->status != HALAY_OK)
        return peer->status;
    return frame->kind == HALAY_TCP_DATA ? begin_arriving_data(peer, frame, to) : begin_arriving_bulk(peer, frame, to);
}

static void end_data(struct halay_tcp_peer *peer, const struct halay_tcp_frame *frame)
{
    uint32_t units = cost_of(frame->tag, frame->bytes);

    if (peer->into)
        transfer_complete(peer, peer->into);
    if (peer->into_early) {
        peer->into_early->is_whole = 1;
        if (peer->early_bytes > EARLY_BYTES) {
            peer->into_early->owed = units;
            units = 0;
        }
    }
    peer->into = NULL;
    peer->into_early = NULL;
    if (units)
        give_back(peer, units);
}

static void end_bulk(struct halay_tcp_peer *peer, const struct halay_tcp_frame *frame)
{
    struct halay_transfer **at = find_id(&peer->arriving, frame->id), *x = *at;

    if (!x)
        return;
    x->moved += frame->bytes;
    peer->completed++;
    if (x->moved == x->bytes)
        transfer_complete(peer, queue_take(&peer->arriving, at));
}

/* A message waits for its CTS: it has been sent, or its receive does not volunteer. */
static void end_announcement(struct halay_tcp_peer *peer, uint64_t tag, uint64_t bytes,
                             const struct halay_tcp_frame *frame)
{
    struct halay_transfer *x = *find_receive(peer, tag, (size_t)bytes);

    if (!x && halay_forgotten_has(peer->forgotten, tag))
        grant_send(peer, tag, bytes);
    else if (!x)
        early_keep(peer, frame, bytes, 1);
    else if (x->bytes == bytes && !x->handle)
        volunteer_grant(peer, x);
    else if (x->bytes != bytes && is_eager(x->tag, x->bytes))
        fail_lengths(peer, bytes, x->bytes);
}

static void end_refusal(struct halay_tcp_peer *peer, uint32_t first, uint64_t more)
{
    if (more > UINT32_MAX - first)
        peer_fail(peer, HALAY_ERR_FORMAT, "it forgets groups that cannot exist");
    else
        halay_forgotten_add(&peer->refused, (struct halay_group_range){ first, first + (uint32_t)more });
}

static void end_grant(struct halay_tcp_peer *peer, const struct halay_tcp_frame *frame, uint64_t bytes)
{
    struct halay_tcp_grant *grant = peer->unused;

    if (!frame->id)
        end_refusal(peer, (uint32_t)(frame->tag >> 32), bytes);
    if (!frame->id || halay_forgotten_has(peer->forgotten, frame->tag))
        return;
    if (grant)
        peer->unused = grant->next;
    else
        grant = malloc(sizeof *grant);
    if (!grant) {
        peer_fail(peer, HALAY_ERR_NO_MEMORY, "no memory for a message");
        return;
    }
    *grant = (struct halay_tcp_grant){ .tag = frame->tag, .id = frame->id, .bytes = bytes };
    *peer->grants_end = grant;
    peer->grants_end = &grant->next;
}

static enum halay_status peer_end(void *arg, const struct halay_tcp_frame *frame, uint64_t length)
{
    struct halay_tcp_peer *peer = arg;

    peer->in_flight -= frame->credit < peer->in_flight ? frame->credit : peer->in_flight;
    switch (frame->kind) {
    case HALAY_TCP_DATA:
        end_data(peer, frame);
        break;
    case HALAY_TCP_BULK:
        end_bulk(peer, frame);
        break;
    case HALAY_TCP_RTS:
        end_announcement(peer, frame->tag, length, frame);
        break;
    case HALAY_TCP_CTS:
        end_grant(peer, frame, length);
        break;
    case HALAY_TCP_CREDIT:
        break;
    case HALAY_TCP_BYE:
        peer->has_left = ++peer->byes >= peer->streams;
        peer->lost = frame->id;
        break;
    }
    if (peer->sends.first && (frame->credit || frame->kind == HALAY_TCP_CTS))
        halay_tcp_peer_push(peer);
    return peer->status;
}

static uint32_t peer_credit(void *arg)
{
    struct halay_tcp_peer *peer = arg;
    uint32_t units = peer->owed < UINT16_MAX ? peer->owed : UINT16_MAX;

    peer->owed -= units;
    return units;
}

static void peer_sent(void *arg, struct halay_transfer *x)
{
    transfer_complete(arg, x);
}

const struct halay_tcp_handler halay_tcp_peer_handler = {
    .begin = peer_begin, .end = peer_end, .credit = peer_credit, .sent = peer_sent
};

/* ---- connection, cancel ---- */

/* Without this the sends of their large messages, which no RTS announces, would wait without a limit. */
static void refuse_groups(struct halay_tcp_peer *peer, struct halay_group_range groups)
{
    const struct halay_tcp_frame frame = { .kind = HALAY_TCP_CTS,
                                           .bytes = HALAY_TCP_LENGTH_BYTES,
                                           .tag = halay_tag(groups.first, 0, 0) };

    if (peer->connection && peer->streams > 1)
        queue_frame(peer, &frame, NULL, groups.last - groups.first, NULL);
}

void halay_tcp_peer_connected(struct halay_tcp_peer *peer)
{
    for (size_t i = 0; i < peer->forgotten->count; i++)
        refuse_groups(peer, peer->forgotten->ranges[i]);
    for (struct halay_transfer *x = peer->receives.first; x; x = x->next)
        if (!is_eager(x->tag, x->bytes))
            volunteer_grant(peer, x);
    halay_tcp_peer_push(peer);
}

static void cancel_sending(struct halay_tcp_peer *peer, const struct halay_transfer *x)
{
    for (struct halay_tcp_connection *c = peer->connection; c; c = c->next)
        if (halay_tcp_connection_cancel(c, x) != HALAY_OK)
            peer_fail(peer, HALAY_ERR_NO_MEMORY, "no memory for the rest of a message");
}

void halay_tcp_peer_cancel(struct halay_tcp_peer *peer, struct halay_transfer *x)
{
    if (atomic_load_explicit(&x->state, memory_order_relaxed) == HALAY_TRANSFER_POSTED) {
        peer->wanted -= !x->is_optional;
        if (peer->connection && peer->into == x)
            halay_tcp_connection_redirect(peer->connection, x->buf, NULL);
        if (peer->into == x)
            peer->into = NULL;
        if (take_out(&peer->arriving, x)) {
            for (struct halay_tcp_connection *c = peer->connection; c; c = c->next)
                halay_tcp_connection_redirect(c, x->buf + x->moved, NULL);
        } else if (!take_out(&peer->sends, x) && !take_out(&peer->receives, x)) {
            cancel_sending(peer, x);
        }
    }
    atomic_store_explicit(&x->state, HALAY_TRANSFER_IDLE, memory_order_relaxed);
}

/* ---- forgetting ---- */

/* A message of which the rest is still to come ends in nothing; end_data gives its credit back. */
static void early_drop(struct halay_tcp_peer *peer, struct halay_tcp_early **at)
{
    struct halay_tcp_early *early = *at;

    if (peer->into_early == early) {
        halay_tcp_connection_redirect(peer->connection, early->payload, NULL);
        peer->into_early = NULL;
    }
    if (early->is_announced)
        grant_send(peer, early->tag, early->bytes);
    if (early->owed)
        give_back(peer, early->owed);
    early_remove(peer, at);
}

void halay_tcp_peer_forget(struct halay_tcp_peer *peer, struct halay_group_range groups)
{
    for (struct halay_tcp_early **at = &peer->early; *at;)
        if (halay_group_range_has(groups, (*at)->tag))
            early_drop(peer, at);
        else
            at = &(*at)->next;
    for (struct halay_tcp_grant **at = &peer->grants, *grant; (grant = *at);) {
        if (!halay_group_range_has(groups, grant->tag)) {
            at = &grant->next;
            continue;
        }
        *at = grant->next;
        grant->next = peer->unused;
        peer->unused = grant;
        if (!*at)
            peer->grants_end = at;
    }
    refuse_groups(peer, groups);
}
