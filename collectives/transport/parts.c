/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts: messages cut into parts that travel in memory of ours. parts.h has the picture.
 *
 * Invariants: a posted transfer has a message (x->handle) unless the transport has failed; a part is with the library
 * or in reserve; a message is on the waiting list exactly while it has parts to hand out. Cleanup: zero-init and fini.
 */
#include "collectives/transport/parts.h"
#include "base/clock.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Close notices travel beside data: what a peer sent before it left arrives within this time and number of looks.
 * Longer than the grace of the watch over processes. */
enum { GRACE_US = 300 * 1000, GRACE_LOOKS = 3 };

/* Shorter parts are copied: that costs less than to find their block. */
enum { COPY_BYTES = 1024 };

/* A transfer under way. */
struct halay_message {
    struct halay_transfer *x; /* borrowed until done or cancelled */
    int is_send;
    size_t issued; /* bytes handed out */
    int ended;     /* its last part has been handed out */
    int in_flight;
    struct halay_part *flight[HALAY_PARTS_WINDOW]; /* borrowed: its parts with the library; NULL: room */
    struct halay_message *next;                    /* on the waiting list, or in reserve */
};

enum halay_status halay_parts_init(struct halay_parts *parts, const struct halay_link_ops *slots,
                                   const struct halay_parts_ops *ops, const struct halay_host *host,
                                   const struct halay_boot *boot, size_t part_bytes)
{
    parts->link = (struct halay_link){
        .ops = slots, .rank = boot->rank, .size = boot->size, .failed_peer = -1, .log = host->log
    };
    parts->ops = ops;
    parts->host = host;
    parts->part_bytes = part_bytes;
    parts->peers = calloc((size_t)boot->size, sizeof *parts->peers);
    parts->link.lost = calloc((size_t)boot->size, sizeof *parts->link.lost);
    if (parts->peers && parts->link.lost && halay_parts_memory_init(&parts->memory, host) == HALAY_OK)
        return HALAY_OK;
    return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: transport '%s' of %d ranks", slots->name,
                           boot->size);
}

void halay_parts_fini(struct halay_parts *parts, int library_goes_on)
{
    while (parts->all) {
        struct halay_part *part = parts->all;
        parts->all = part->all;
        if (part->is_with_library && library_goes_on)
            continue;
        if (part->size_class < HALAY_PARTS_CLASSES)
            free(part->memory);
        free(part);
    }
    halay_parts_memory_fini(&parts->memory, library_goes_on);
    while (parts->spare) {
        struct halay_message *message = parts->spare;
        parts->spare = message->next;
        free(message);
    }
    halay_forgotten_fini(&parts->link.forgotten);
    free(parts->link.lost);
    parts->link.lost = NULL;
    free(parts->peers);
    parts->peers = NULL;
}

enum halay_status halay_parts_fail(struct halay_parts *parts, enum halay_status status)
{
    if (parts->status == HALAY_OK)
        parts->status = status;
    return parts->status;
}

static void peer_gone(struct halay_parts *parts, int peer)
{
    parts->link.lost[peer] = 1;
    if (parts->link.failed_peer < 0)
        parts->link.failed_peer = peer;
}

/* Marks peers whose processes are known to be dead as lost. The first one is the one to name. */
static void find_dead(struct halay_parts *parts)
{
    int dead;

    if (parts->host->check_peers(parts->host, &dead) == HALAY_OK)
        return;
    peer_gone(parts, dead);
    for (int r = 0; r < parts->link.size; r++)
        if (!parts->link.lost[r] && parts->host->is_dead(parts->host, r))
            peer_gone(parts, r);
}

static enum halay_status fail_no_memory(struct halay_parts *parts, size_t bytes)
{
    halay_host_error(parts->host, "out of memory: %zu bytes for a message of transport '%s'", bytes,
                     parts->link.ops->name);
    return halay_parts_fail(parts, HALAY_ERR_NO_MEMORY);
}

/* --- reserve */

/* A part with memory of its own, or with none (HALAY_PARTS_CLASSES). NULL: out of memory. */
static struct halay_part *part_take(struct halay_parts *parts, int size_class)
{
    struct halay_part *part = parts->reserve[size_class];

    if (part) {
        parts->reserve[size_class] = part->next;
        return part;
    }
    part = calloc(1, sizeof *part);
    if (!part)
        return NULL;
    part->link = &parts->link;
    part->size_class = size_class;
    if (size_class < HALAY_PARTS_CLASSES)
        part->memory = parts->host->aligned_alloc(HALAY_PAGE, (size_t)HALAY_PAGE << size_class);
    if (size_class < HALAY_PARTS_CLASSES && !part->memory) {
        free(part);
        return NULL;
    }
    part->all = parts->all;
    parts->all = part;
    return part;
}

/* Takes a part that travels in [buf, buf + bytes) itself, if that may be (buf may be NULL); else one with memory of its
 * own. */
static struct halay_part *part_take_for(struct halay_parts *parts, int is_send, unsigned char *buf, size_t bytes)
{
    int size_class = 0;
    struct halay_parts_block *block =
        !buf || bytes < COPY_BYTES ? NULL : halay_parts_memory_use(&parts->memory, is_send, buf, bytes);

    if (block)
        size_class = HALAY_PARTS_CLASSES;
    while (size_class < HALAY_PARTS_CLASSES && (size_t)HALAY_PAGE << size_class < bytes)
        size_class++;
    struct halay_part *part = part_take(parts, size_class);
    if (part) {
        part->block = block;
        if (block)
            part->memory = buf;
    } else if (block) {
        halay_parts_memory_unuse(&parts->memory, block);
    }
    return part;
}

/* Takes a part that the back end puts in place. */
static struct halay_part *part_take_at(struct halay_parts *parts, unsigned char *buf)
{
    struct halay_part *part = part_take(parts, HALAY_PARTS_CLASSES);

    if (part)
        part->memory = buf;
    return part;
}

struct halay_part *halay_parts_take(struct halay_parts *parts, void *place, size_t bytes)
{
    return bytes ? part_take_for(parts, 0, place, bytes) : part_take_at(parts, NULL);
}

void halay_parts_give(struct halay_parts *parts, struct halay_part *part)
{
    if (part->block)
        halay_parts_memory_unuse(&parts->memory, part->block);
    part->block = NULL;
    part->message = NULL;
    part->request = NULL;
    part->is_with_library = 0;
    part->is_request = part->costs = 0;
    part->next = parts->reserve[part->size_class];
    parts->reserve[part->size_class] = part;
}

void halay_parts_list_put(struct halay_part **list, struct halay_part *part)
{
    while (*list)
        list = &(*list)->next;
    part->next = NULL;
    *list = part;
}

struct halay_part *halay_parts_list_take(struct halay_part **list, uint64_t tag, const struct halay_part *it)
{
    while (*list && (it ? *list != it : (*list)->tag != tag))
        list = &(*list)->next;
    struct halay_part *part = *list;
    if (part)
        *list = part->next;
    return part;
}

static struct halay_message *message_take(struct halay_parts *parts)
{
    struct halay_message *message = parts->spare;

    if (!message)
        return calloc(1, sizeof *message);
    parts->spare = message->next;
    memset(message, 0, sizeof *message);
    return message;
}

static void message_give(struct halay_parts *parts, struct halay_message *message)
{
    message->next = parts->spare;
    parts->spare = message;
}

/* --- the waiting list */

static void waiting_append(struct halay_parts *parts, struct halay_message *message)
{
    struct halay_message **at = &parts->waiting;

    while (*at)
        at = &(*at)->next;
    message->next = NULL;
    *at = message;
}

static void waiting_remove(struct halay_parts *parts, const struct halay_message *message)
{
    for (struct halay_message **at = &parts->waiting; *at; at = &(*at)->next)
        if (*at == message) {
            *at = message->next;
            return;
        }
}

/* Returns nonzero if an older message of the same stream still has parts to hand out. end: the first message that is
 * not looked at; NULL: all are. */
static int is_blocked(const struct halay_parts *parts, const struct halay_message *message,
                      const struct halay_message *end)
{
    for (const struct halay_message *older = parts->waiting; older != end; older = older->next)
        if (older->x->tag == message->x->tag && older->x->peer == message->x->peer &&
            older->is_send == message->is_send)
            return 1;
    return 0;
}

/* --- parts */

static void message_finish_if_done(struct halay_parts *parts, struct halay_message *message)
{
    struct halay_transfer *x = message->x;

    if (!message->ended || message->in_flight)
        return;
    parts->peers[x->peer].waiting -= !x->is_optional;
    x->handle = NULL;
    message_give(parts, message);
    halay_transfer_end(x);
}

static void message_forget_part(struct halay_message *message, const struct halay_part *part)
{
    for (size_t i = 0; i < HALAY_PARTS_WINDOW; i++)
        if (message->flight[i] == part)
            message->flight[i] = NULL;
    message->in_flight--;
}

static enum halay_status check_length(struct halay_parts *parts, const struct halay_part *part, size_t arrived)
{
    if (arrived == part->bytes)
        return HALAY_OK;
    return halay_host_fail(parts->host, HALAY_ERR_FORMAT,
                           "message length: rank %d sent %zu bytes under tag %#" PRIx64
                           " where %zu were expected (from byte %zu on)",
                           part->peer, arrived, part->tag, part->bytes, part->offset);
}

void halay_parts_end(struct halay_parts *parts, struct halay_part *part, enum halay_status status, size_t arrived)
{
    struct halay_message *message = part->message;

    if (!message) {
        halay_parts_give(parts, part);
        return;
    }
    if (status == HALAY_OK && !part->is_send)
        status = check_length(parts, part, arrived);
    if (status != HALAY_OK) {
        if (status != HALAY_ERR_PEER)
            halay_parts_fail(parts, status);
        message_forget_part(message, part); /* the transfer stays posted: its owner takes it back */
        halay_parts_give(parts, part);
        return;
    }
    if (!part->is_send && !part->block && part->bytes && !parts->places_itself)
        memcpy(message->x->buf + part->offset, part->memory, part->bytes);
    message->x->moved += part->bytes;
    message_forget_part(message, part);
    halay_parts_give(parts, part);
    message_finish_if_done(parts, message);
}

/* The next part of a message, given to the library. Nonzero if that was possible. */
static int message_issue(struct halay_parts *parts, struct halay_message *message)
{
    struct halay_transfer *x = message->x;
    size_t left = x->bytes - message->issued;
    size_t bytes = left < parts->part_bytes ? left : parts->part_bytes;
    unsigned char *at = x->buf + message->issued;
    int is_placed = !message->is_send && parts->places_itself;
    struct halay_part *part = is_placed ? part_take_at(parts, at) : part_take_for(parts, message->is_send, at, bytes);
    if (!part) {
        fail_no_memory(parts, bytes);
        return 0;
    }

    part->message = message;
    part->peer = x->peer;
    part->tag = x->tag;
    part->is_send = message->is_send;
    part->is_optional = x->is_optional;
    part->offset = message->issued;
    part->bytes = bytes;
    if (part->is_send && !part->block && bytes)
        memcpy(part->memory, x->buf + part->offset, bytes);

    size_t arrived = 0;
    enum halay_status status = parts->ops->post(&parts->link, part, &arrived);
    if (status != HALAY_OK && status != HALAY_IN_PROGRESS) {
        if (status != HALAY_ERR_PEER)
            halay_parts_fail(parts, status);
        halay_parts_give(parts, part);
        return 0;
    }
    for (size_t i = 0; i < HALAY_PARTS_WINDOW; i++)
        if (!message->flight[i]) {
            message->flight[i] = part;
            break;
        }
    message->in_flight++;
    message->issued += bytes;
    message->ended = bytes < parts->part_bytes;
    part->is_with_library = 1;
    if (status == HALAY_OK)
        halay_parts_end(parts, part, HALAY_OK, arrived);
    return 1;
}

/* Hand out parts up to the window. Nonzero if all have been: do not touch the message any more. */
static int message_hand_out(struct halay_parts *parts, struct halay_message *message)
{
    while (parts->status == HALAY_OK && message->in_flight < HALAY_PARTS_WINDOW) {
        int is_last = message->x->bytes - message->issued < parts->part_bytes;
        if (!message_issue(parts, message)) /* the last part may finish the message and give it back */
            return 0;
        if (is_last)
            return 1;
    }
    return 0;
}

/* --- slots */

static struct halay_parts *parts_of(struct halay_link *link)
{
    return (struct halay_parts *)link;
}

static void transfer_start(struct halay_parts *parts, int is_send, int peer, uint64_t tag, void *buf, size_t bytes,
                           struct halay_transfer *x)
{
    halay_transfer_post(x, peer, tag, buf, bytes);
    if (parts->status != HALAY_OK)
        return;
    struct halay_message *message = message_take(parts);
    if (!message) {
        fail_no_memory(parts, sizeof *message);
        return;
    }

    message->x = x;
    message->is_send = is_send;
    x->handle = message;
    parts->peers[peer].waiting += !x->is_optional;
    /* Nothing more goes to a lost peer: MPI may take it for an error of this rank. */
    if (parts->link.lost[peer] || (is_send && parts->peers[peer].is_unconnected) || is_blocked(parts, message, NULL) ||
        !message_hand_out(parts, message))
        waiting_append(parts, message);
}

void halay_parts_send(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                      struct halay_transfer *x)
{
    transfer_start(parts_of(link), 1, peer, tag, (void *)buf, bytes, x);
}

void halay_parts_recv(struct halay_link *link, int peer, uint64_t tag, void *buf, size_t bytes,
                      struct halay_transfer *x)
{
    transfer_start(parts_of(link), 0, peer, tag, buf, bytes, x);
}

void halay_parts_cancel(struct halay_link *link, struct halay_transfer *x)
{
    struct halay_parts *parts = parts_of(link);

    if (atomic_load_explicit(&x->state, memory_order_relaxed) != HALAY_TRANSFER_POSTED)
        return;
    struct halay_message *message = x->handle;
    if (message) {
        waiting_remove(parts, message);
        for (size_t i = 0; i < HALAY_PARTS_WINDOW; i++) {
            struct halay_part *part = message->flight[i];
            if (!part)
                continue;
            part->message = NULL;
            parts->ops->set_aside(link, part);
        }
        parts->peers[x->peer].waiting -= !x->is_optional;
        message_give(parts, message);
    }
    x->handle = NULL;
    atomic_store_explicit(&x->state, HALAY_TRANSFER_IDLE, memory_order_relaxed);
}

enum halay_status halay_parts_alloc(struct halay_link *link, size_t bytes, int in_transit, void **out)
{
    return halay_parts_memory_alloc(&parts_of(link)->memory, bytes, in_transit, out);
}

void halay_parts_free(struct halay_link *link, void *ptr)
{
    halay_parts_memory_free(&parts_of(link)->memory, ptr);
}

void halay_parts_keep(struct halay_link *link, void *ptr, struct halay_kept *kept)
{
    halay_parts_memory_keep(&parts_of(link)->memory, ptr, kept);
}

/* --- peers */

static void peer_absent(struct halay_parts *parts, int peer, enum halay_parts_presence presence)
{
    struct halay_parts_peer *p = &parts->peers[peer];

    parts->lost += (presence == HALAY_PARTS_LOST) - (p->presence == HALAY_PARTS_LOST);
    parts->left += presence == HALAY_PARTS_LEFT;
    p->presence = presence;
    p->absent_us = halay_now_us();
    parts->looks = 0;
}

void halay_parts_peer_left(struct halay_parts *parts, int peer)
{
    if (parts->peers[peer].presence == HALAY_PARTS_LEFT)
        return;
    peer_absent(parts, peer, HALAY_PARTS_LEFT);
    parts->host->peer_left(parts->host, peer);
}

void halay_parts_peer_lost(struct halay_parts *parts, int peer, const char *why)
{
    if (parts->peers[peer].presence != HALAY_PARTS_HERE)
        return;
    peer_absent(parts, peer, HALAY_PARTS_LOST);
    parts->peers[peer].why = why;
}

/* Gives up peers that are lost for good, and those that have left while a transfer waits for them. */
static void judge_absent(struct halay_parts *parts)
{
    if (++parts->looks < GRACE_LOOKS)
        return;
    for (int peer = 0; peer < parts->link.size && parts->status == HALAY_OK; peer++) {
        const struct halay_parts_peer *p = &parts->peers[peer];
        if (parts->link.lost[peer] || p->presence == HALAY_PARTS_HERE ||
            (p->presence == HALAY_PARTS_LEFT && !p->waiting) || halay_now_us() - p->absent_us < GRACE_US)
            continue;
        if (p->presence == HALAY_PARTS_LOST)
            halay_host_error(parts->host, "connection with rank %d lost: %s", peer, p->why);
        else
            halay_host_error(parts->host, "rank %d has left: %zu transfers with it can't end (transport '%s')", peer,
                             p->waiting, parts->link.ops->name);
        find_dead(parts); /* a rank that left because another died is not the one to name */
        peer_gone(parts, peer);
    }
}

enum halay_status halay_parts_check(struct halay_parts *parts)
{
    if (parts->status == HALAY_OK && parts->link.size > 1)
        find_dead(parts);
    return parts->status;
}

enum halay_status halay_parts_pump(struct halay_parts *parts)
{
    struct halay_message **at = &parts->waiting;

    while (*at && parts->status == HALAY_OK) {
        struct halay_message *message = *at, *next = message->next;
        int peer = message->x->peer;
        int is_open = !parts->link.lost[peer] && !(message->is_send && parts->peers[peer].is_unconnected) &&
                      message->in_flight < HALAY_PARTS_WINDOW && !is_blocked(parts, message, message);
        if (is_open && message_hand_out(parts, message))
            *at = next; /* the message may be in reserve by now */
        else
            at = &message->next;
    }
    if ((parts->left || parts->lost) && parts->status == HALAY_OK)
        judge_absent(parts);
    return parts->status == HALAY_OK && parts->link.failed_peer >= 0 ? HALAY_ERR_PEER : parts->status;
}
