/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages over shared memory: three ways, one matching.
 *
 *   small     FIRST carries all of it; the send is done when it is in the ring.
 *   streamed  FIRST carries the beginning; the rest follows in MORE records after the receiver's GO.
 *   direct    memory from alloc is not copied into the ring: LOOK has its place, the receiver copies it from there into
 *             its buffer and answers DONE. One copy instead of two.
 *
 *      sender          receiver (receive posted)         sender          receiver (no receive yet)
 *        | FIRST ----->|  copied into the buffer           | FIRST ----->|  copied into the stash
 *        |<-------- GO |                                   |             |  ...
 *        | MORE ------>|  copied into the buffer           |             |  recv: copied into the buffer
 *        | MORE ------>|  done                             |<-------- GO |
 *                                                          | MORE ------>|  ...
 *
 * Why GO: the receiver must empty the ring at once, or messages of other tags could not overtake. Only FIRST payloads
 * can be early; they are copied into a stash, and the sender keeps the stashed bytes below a budget: above it
 * FIRST carries nothing, and all of the message waits for GO.
 *
 * FIRST and LOOK records are in the order of the sends, the later ones name their message by its serial number: so
 * messages of one tag match receives in order, while the rest of several messages may be interleaved.
 *
 * A message whose receive is cancelled, or whose group is forgotten, is acknowledged and dropped, so that the sender is
 * not held up. What arrives of it later is unknown if its group is forgotten. A cancelled send just
 * stops; its serial number is never used again. A direct one is the exception: the receiver does not learn of it,
 * may continue to copy from memory that its owner uses again by then, and completes the receive with those bytes.
 *
 * Memory: entries are kept for reuse together with their stash; nothing is allocated after the peak.
 */
#include "collectives/transport/shm/shm_message.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>

enum {
    LOOK_MIN = 32 << 10,    /* bytes; below, one more copy is cheaper than the answer */
    STASH_MAX = 4 << 20,    /* bytes for one sender */
    PUMP_BYTES = 512 << 10, /* copied by one pump, about */
    PUMP_RECORDS = 64,
};

/* x->handle of a send that has begun: serial << 2 | flags. */
enum { SEND_GO = 1, SEND_LOOK = 2 };

static uint32_t serial_of(const struct halay_transfer *x)
{
    return (uint32_t)((uintptr_t)x->handle >> 2);
}

static int has_flag(const struct halay_transfer *x, unsigned flag)
{
    return ((uintptr_t)x->handle & flag) != 0;
}

static void queue_append(struct halay_shm_queue *q, struct halay_transfer *x)
{
    x->next = NULL;
    if (q->last)
        q->last->next = x;
    else
        q->first = x;
    q->last = x;
}

static int queue_remove(struct halay_shm_queue *q, struct halay_transfer *x)
{
    struct halay_transfer *before = NULL;

    for (struct halay_transfer *at = q->first; at; before = at, at = at->next) {
        if (at != x)
            continue;
        *(before ? &before->next : &q->first) = x->next;
        if (q->last == x)
            q->last = before;
        return 1;
    }
    return 0;
}

/* ---- putting records ---- */

static struct halay_shm_record *record_reserve(struct halay_shm_peer *p, size_t payload)
{
    struct halay_shm_record *r = halay_shm_reserve(&p->out, payload);

    /* In a full ring: the receiver rings once it has made room, if it sees wants. This rank looks once more before it
     * sleeps (halay_shm_has_room_again), since the last look may have stored this. */
    if (atomic_load_explicit(&p->out.fifo->wants, memory_order_relaxed) != !r)
        atomic_store_explicit(&p->out.fifo->wants, !r, memory_order_relaxed);
    return r;
}

static void record_put(struct halay_shm_context *c, struct halay_shm_peer *p, const struct halay_shm_record *r)
{
    halay_shm_put(&p->out, r);
    halay_bell_notify(p->bell, c->has_barrier);
}

static int answer_put(struct halay_shm_context *c, struct halay_shm_peer *p, enum halay_shm_kind kind, uint32_t serial)
{
    struct halay_shm_record *r = record_reserve(p, 0);

    if (!r)
        return 0;
    *r = (struct halay_shm_record){ .kind = kind, .serial = serial };
    record_put(c, p, r);
    return 1;
}

/* ---- sending ---- */

/* Returns the offset of memory that the receiver may copy from. */
static uint64_t look_offset(const struct halay_shm_context *c, const struct halay_transfer *x)
{
    return x->bytes < LOOK_MIN ? HALAY_PRIVATE : c->link->memory->ops->locate(c->link->memory, x->buf, x->bytes);
}

static size_t first_bytes(const struct halay_shm_context *c, const struct halay_shm_peer *p, size_t bytes)
{
    uint64_t stashed = p->ahead - atomic_load_explicit(&p->out.fifo->delivered, memory_order_relaxed);
    size_t first = bytes < c->record_max ? bytes : c->record_max;

    return stashed + first <= STASH_MAX ? first : 0;
}

/* Puts the first record of a send. Returns 0 if the ring is full. */
static int send_begin(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_transfer *x)
{
    uint64_t offset = look_offset(c, x);
    size_t first = offset == HALAY_PRIVATE ? first_bytes(c, p, x->bytes) : 0;
    struct halay_shm_record *r = record_reserve(p, first);

    if (!r)
        return 0;
    r->kind = offset == HALAY_PRIVATE ? HALAY_SHM_FIRST : HALAY_SHM_LOOK;
    r->tag = x->tag;
    r->serial = ++p->serial;
    r->bytes = (uint32_t)first;
    r->total = x->bytes;
    r->at = offset == HALAY_PRIVATE ? 0 : offset;
    halay_copy(r->payload, x->buf, first);
    record_put(c, p, r);
    p->ahead += first;
    x->moved = first;
    x->handle = (void *)((uintptr_t)p->serial << 2 | (offset == HALAY_PRIVATE ? 0 : SEND_LOOK));
    return 1;
}

static void send_enqueue(struct halay_shm_peer *p, struct halay_transfer *x)
{
    if (x->moved == x->bytes)
        halay_transfer_end(x);
    else
        queue_append(&p->begun, x);
}

void halay_shm_send(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_transfer *x)
{
    if (!p->fresh.first && send_begin(c, p, x))
        send_enqueue(p, x);
    else
        queue_append(&p->fresh, x);
}

void halay_shm_send_never(struct halay_shm_peer *p, struct halay_transfer *x)
{
    x->handle = NULL; /* no message has serial 0 */
    queue_append(&p->begun, x);
}

/* Puts the rest of a send after its GO. Returns 0 if the ring is full before its end. */
static int send_stream(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_transfer *x)
{
    while (x->moved < x->bytes) {
        size_t n = x->bytes - x->moved < c->record_max ? x->bytes - x->moved : c->record_max;
        struct halay_shm_record *r = record_reserve(p, n);
        if (!r)
            return 0;
        r->kind = HALAY_SHM_MORE;
        r->tag = x->tag;
        r->serial = serial_of(x);
        r->bytes = (uint32_t)n;
        r->total = x->bytes;
        r->at = x->moved;
        halay_copy(r->payload, x->buf + x->moved, n);
        record_put(c, p, r);
        x->moved += n;
    }
    return 1;
}

static void pump_sends(struct halay_shm_context *c, struct halay_shm_peer *p)
{
    while (p->fresh.first) {
        struct halay_transfer *x = p->fresh.first;
        if (!send_begin(c, p, x))
            return;
        queue_remove(&p->fresh, x);
        send_enqueue(p, x);
    }
    for (struct halay_transfer *x = p->begun.first, *next; x; x = next) {
        next = x->next; /* read before complete gives x back */
        if (!has_flag(x, SEND_GO))
            continue;
        if (!send_stream(c, p, x))
            return;
        queue_remove(&p->begun, x);
        halay_transfer_end(x);
    }
}

/* Handles GO or DONE for a send; a cancelled one is not found. */
static void take_answer(struct halay_shm_peer *p, const struct halay_shm_seen *r)
{
    struct halay_transfer *x = p->begun.first;

    while (x && serial_of(x) != r->serial)
        x = x->next;
    if (!x)
        return;
    if (r->kind == HALAY_SHM_GO) {
        x->handle = (void *)((uintptr_t)x->handle | SEND_GO);
        return;
    }
    queue_remove(&p->begun, x);
    halay_transfer_end(x);
}

/* ---- receiving ---- */

static struct halay_shm_incoming *incoming_create(struct halay_shm_context *c, struct halay_shm_peer *p,
                                                  const struct halay_shm_seen *r)
{
    struct halay_shm_incoming *m = c->spare, **end = &p->incoming;

    if (m)
        c->spare = m->next;
    else if (!(m = calloc(1, sizeof *m)))
        return NULL;
    *m = (struct halay_shm_incoming){
        .serial = r->serial,
        .tag = r->tag,
        .total = r->total,
        .stash = m->stash,
        .stash_capacity = m->stash_capacity,
    };
    while (*end)
        end = &(*end)->next;
    *end = m;
    return m;
}

static void incoming_free(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_shm_incoming *m)
{
    struct halay_shm_incoming **link = &p->incoming;

    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    m->next = c->spare;
    c->spare = m;
}

static void answer_owe(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_shm_incoming *m,
                       enum halay_shm_kind kind)
{
    if (p->owing || !answer_put(c, p, kind, m->serial)) {
        m->owes = kind;
        p->owing++;
    }
}

/* Completes the receive of a whole message. An entry that owes an answer stays until that is put. */
static void incoming_finish(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_shm_incoming *m)
{
    if (m->transfer)
        halay_transfer_end(m->transfer);
    m->transfer = NULL;
    m->is_dropped = 1;
    if (!m->owes)
        incoming_free(c, p, m);
}

static void count_delivered(struct halay_shm_peer *p, size_t bytes)
{
    uint64_t before = atomic_load_explicit(&p->in.fifo->delivered, memory_order_relaxed);

    atomic_store_explicit(&p->in.fifo->delivered, before + bytes, memory_order_relaxed);
}

static int is_forgotten(const struct halay_shm_context *c, uint64_t tag)
{
    return halay_forgotten_has(&c->link->forgotten, tag);
}

/* Answers for a message of a forgotten group that no receive will be posted for. The rest of it is dropped unseen. */
static void incoming_drop(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_shm_incoming *m)
{
    if (!m->is_dropped && !m->source)
        count_delivered(p, m->arrived);
    if (!m->is_dropped && m->source)
        answer_owe(c, p, m, HALAY_SHM_DONE);
    else if (!m->is_dropped && m->arrived < m->total)
        answer_owe(c, p, m, HALAY_SHM_GO);
    m->is_dropped = 1;
    if (!m->owes)
        incoming_free(c, p, m);
}

static void answers_pay(struct halay_shm_context *c, struct halay_shm_peer *p)
{
    for (struct halay_shm_incoming *m = p->incoming, *next; m && p->owing; m = next) {
        next = m->next;
        if (!m->owes)
            continue;
        if (!answer_put(c, p, m->owes, m->serial))
            return;
        m->owes = 0;
        p->owing--;
        if (m->arrived == m->total || is_forgotten(c, m->tag))
            incoming_free(c, p, m);
    }
}

static enum halay_status check_length(struct halay_shm_context *c, const struct halay_transfer *x, size_t bytes)
{
    if (x->bytes == bytes)
        return HALAY_OK;
    return halay_fail(c->link->log, HALAY_ERR_FORMAT,
                      "message of %zu bytes from rank %d under tag %#" PRIx64 ", %zu were expected", bytes, x->peer,
                      x->tag, x->bytes);
}

/* Gives a message its receive: delivers the bytes that have arrived, and asks for the rest. */
static void incoming_match(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_shm_incoming *m,
                           struct halay_transfer *x, const void *bytes)
{
    m->transfer = x;
    if (m->source) {
        p->copying++;
        return;
    }
    if (m->arrived) {
        halay_copy(x->buf, bytes, m->arrived);
        count_delivered(p, m->arrived);
    }
    if (m->arrived < m->total)
        answer_owe(c, p, m, HALAY_SHM_GO);
    else
        incoming_finish(c, p, m);
}

enum halay_status halay_shm_recv(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_transfer *x)
{
    struct halay_shm_incoming *m = p->incoming;

    while (m && (m->tag != x->tag || m->transfer || m->is_dropped))
        m = m->next;
    if (!m) {
        queue_append(&p->posted, x);
        return HALAY_OK;
    }
    enum halay_status status = check_length(c, x, m->total);
    if (status == HALAY_OK)
        incoming_match(c, p, m, x, m->stash);
    return status;
}

static struct halay_transfer *take_posted(struct halay_shm_peer *p, uint64_t tag)
{
    struct halay_transfer *x = p->posted.first;

    while (x && x->tag != tag)
        x = x->next;
    if (x)
        queue_remove(&p->posted, x);
    return x;
}

static enum halay_status message_stash(struct halay_shm_incoming *m, const struct halay_shm_seen *r)
{
    if (m->stash_capacity < r->bytes) {
        size_t capacity = halay_round_up(r->bytes, HALAY_PAGE);
        void *larger = halay_aligned_alloc(HALAY_CACHE_LINE, capacity);
        if (!larger)
            return HALAY_ERR_NO_MEMORY;
        free(m->stash);
        m->stash = larger;
        m->stash_capacity = capacity;
    }
    if (r->bytes)
        halay_copy(m->stash, r->payload, r->bytes);
    return HALAY_OK;
}

static enum halay_status fail_malformed(struct halay_shm_context *c, const struct halay_shm_peer *p)
{
    return halay_fail(c->link->log, HALAY_ERR_FORMAT, "malformed record in shared memory from rank %d", p->rank);
}

/* Handles FIRST or LOOK, a new message. */
static enum halay_status take_new(struct halay_shm_context *c, struct halay_shm_peer *p, const struct halay_shm_seen *r)
{
    const void *source = NULL;

    if (r->bytes > r->total || r->bytes > c->record_max)
        return fail_malformed(c, p);
    if (r->kind == HALAY_SHM_LOOK && !(source = c->link->memory->ops->reach(c->link->memory, p->rank, r->at, r->total)))
        return fail_malformed(c, p);
    struct halay_transfer *x = take_posted(p, r->tag);
    if (x) {
        enum halay_status status = check_length(c, x, r->total);
        if (status != HALAY_OK) {
            queue_append(&p->posted, x); /* the caller may still cancel it */
            return status;
        }
        if (r->bytes == r->total) { /* the usual case: whole, and a receive waits */
            halay_copy(x->buf, r->payload, r->bytes);
            count_delivered(p, r->bytes);
            halay_transfer_end(x);
            return HALAY_OK;
        }
    }
    struct halay_shm_incoming *m = incoming_create(c, p, r);
    if (!m) {
        if (x)
            queue_append(&p->posted, x);
        return HALAY_ERR_NO_MEMORY;
    }
    m->source = source;
    m->arrived = r->bytes;
    if (!x && is_forgotten(c, r->tag)) {
        incoming_drop(c, p, m);
        return HALAY_OK;
    }
    if (!x)
        return message_stash(m, r);
    incoming_match(c, p, m, x, r->payload);
    return HALAY_OK;
}

static enum halay_status take_more(struct halay_shm_context *c, struct halay_shm_peer *p,
                                   const struct halay_shm_seen *r)
{
    struct halay_shm_incoming *m = p->incoming;

    while (m && m->serial != r->serial)
        m = m->next;
    if (!m && is_forgotten(c, r->tag))
        return HALAY_OK;
    if (!m || m->source || (!m->transfer && !m->is_dropped) || r->at != m->arrived || r->bytes > m->total - m->arrived)
        return fail_malformed(c, p);
    if (m->transfer)
        halay_copy(m->transfer->buf + m->arrived, r->payload, r->bytes);
    m->arrived += r->bytes;
    if (m->arrived == m->total)
        incoming_finish(c, p, m);
    return HALAY_OK;
}

static enum halay_status record_take(struct halay_shm_context *c, struct halay_shm_peer *p,
                                     const struct halay_shm_seen *r)
{
    switch (r->kind) {
    case HALAY_SHM_FIRST:
    case HALAY_SHM_LOOK:
        return take_new(c, p, r);
    case HALAY_SHM_MORE:
        return take_more(c, p, r);
    case HALAY_SHM_GO:
    case HALAY_SHM_DONE:
        take_answer(p, r);
        return HALAY_OK;
    default:
        return fail_malformed(c, p);
    }
}

/* *budget: bytes that may still be copied in this pump. */
static enum halay_status pump_records(struct halay_shm_context *c, struct halay_shm_peer *p, size_t *budget)
{
    struct halay_shm_seen r;
    enum halay_status status = HALAY_OK;

    for (int i = 0; i < PUMP_RECORDS && *budget; i++) {
        status = halay_shm_peek(&p->in, &r);
        if (status != HALAY_OK)
            return fail_malformed(c, p);
        if (!r.kind)
            break;
        *budget -= r.bytes < *budget ? r.bytes : *budget;
        status = record_take(c, p, &r);
        if (status != HALAY_OK)
            return status;
        halay_shm_take(&p->in, &r);
    }
    halay_bell_light_barrier(c->has_barrier);
    if (atomic_load_explicit(&p->in.fifo->wants, memory_order_relaxed))
        halay_bell_notify(p->bell, c->has_barrier);
    return HALAY_OK;
}

/* Copies from the peer's segment, oldest message first. */
static void pump_copies(struct halay_shm_context *c, struct halay_shm_peer *p, size_t *budget)
{
    for (struct halay_shm_incoming *m = p->incoming, *next; m && p->copying && *budget; m = next) {
        next = m->next;
        if (!m->source || !m->transfer)
            continue;
        size_t left = m->total - m->arrived, n = left < *budget ? left : *budget;
        halay_copy(m->transfer->buf + m->arrived, m->source + m->arrived, n);
        m->arrived += n;
        *budget -= n;
        if (n < left)
            return;
        p->copying--;
        answer_owe(c, p, m, HALAY_SHM_DONE);
        incoming_finish(c, p, m);
    }
}

enum halay_status halay_shm_pump(struct halay_shm_context *c, struct halay_shm_peer *p)
{
    size_t budget = PUMP_BYTES;
    enum halay_status status = HALAY_OK;

    if (halay_shm_has_record(&p->in))
        status = pump_records(c, p, &budget);
    if (p->copying && status == HALAY_OK)
        pump_copies(c, p, &budget);
    if (p->owing)
        answers_pay(c, p);
    if (p->fresh.first || p->begun.first)
        pump_sends(c, p);
    return status;
}

int halay_shm_wants_room(const struct halay_shm_peer *p)
{
    const struct halay_transfer *x = p->begun.first;

    if (!atomic_load_explicit(&p->out.fifo->wants, memory_order_relaxed))
        return 0;
    while (x && !has_flag(x, SEND_GO))
        x = x->next;
    return x || p->fresh.first || p->owing; /* else the send that wanted it is cancelled */
}

int halay_shm_has_room_again(const struct halay_shm_peer *p)
{
    return halay_shm_wants_room(p) && atomic_load_explicit(&p->out.fifo->tail, memory_order_acquire) != p->out.theirs;
}

static int is_needed(const struct halay_shm_queue *q)
{
    const struct halay_transfer *x = q->first;

    while (x && x->is_optional)
        x = x->next;
    return x != NULL;
}

int halay_shm_is_stuck(struct halay_shm_peer *p)
{
    if (is_needed(&p->fresh) || is_needed(&p->begun))
        return 1;
    if (halay_shm_has_record(&p->in))
        return 0;
    for (struct halay_shm_incoming *m = p->incoming; m; m = m->next)
        if (m->transfer && !m->transfer->is_optional)
            return 1;
    return is_needed(&p->posted);
}

/* ---- cancelling ---- */

void halay_shm_cancel(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_transfer *x)
{
    struct halay_shm_incoming *m = p->incoming;

    if (queue_remove(&p->fresh, x) || queue_remove(&p->begun, x) || queue_remove(&p->posted, x))
        return;
    while (m && m->transfer != x)
        m = m->next;
    if (!m)
        return;
    m->transfer = NULL;
    m->is_dropped = 1;
    if (!m->source)
        return; /* GO is sent or owed: the rest arrives and is dropped */
    p->copying--;
    m->arrived = m->total;
    answer_owe(c, p, m, HALAY_SHM_DONE);
    incoming_finish(c, p, m);
}

void halay_shm_forget(struct halay_shm_context *c, struct halay_shm_peer *p, struct halay_group_range groups)
{
    for (struct halay_shm_incoming *m = p->incoming, *next; m; m = next) {
        next = m->next;
        if (halay_group_range_has(groups, m->tag))
            incoming_drop(c, p, m);
    }
}

static void incoming_destroy(struct halay_shm_incoming *list)
{
    for (struct halay_shm_incoming *m = list, *next; m; m = next) {
        next = m->next;
        free(m->stash);
        free(m);
    }
}

void halay_shm_peer_fini(struct halay_shm_peer *p)
{
    incoming_destroy(p->incoming);
    p->incoming = NULL;
}

void halay_shm_context_fini(struct halay_shm_context *c)
{
    incoming_destroy(c->spare);
    c->spare = NULL;
}
