/* SPDX-License-Identifier: Apache-2.0
 *
 * Connection: frames to bytes and back.
 *
 * One system call writes up to GATHER frames, and one reads the rest of a payload into its place and what follows it
 * into staging: a large message is copied once on each side, by the system. Frames that were written are kept for the
 * next ones, so a connection that has warmed up allocates nothing.
 */
#include "collectives/transport/tcp/tcp_connection.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    STAGING_BYTES = 64 << 10,      /* a record fits */
    LEFT_BYTES = 64,               /* less than a mac or a head stays in staging */
    LARGE_BYTES = 8 << 10,         /* a frame of this size is probably followed by another one: */
    LARGE_STAGING_BYTES = 4 << 10, /* less is read with its head, as that is copied once more */
    CHUNK_BYTES = 256 << 10,
    CHUNKS_MAX = 2, /* that are cut ahead */
    GATHER = 16,
    TURN_FRAMES = 16, /* of one read */
    TURN_CALLS = 4,   /* of one read or flush */
};

struct halay_tcp_out {
    struct halay_tcp_out *next;
    struct halay_transfer *x;     /* borrowed until it is sent or cancelled; NULL: no transfer ends */
    const unsigned char *payload; /* of x, or copy */
    unsigned char *copy;          /* owned: what is left of a cancelled x */
    size_t bytes, sent;           /* of the payload; of all three parts */
    int ends;                     /* with it all of x is sent */
    int is_chunk;                 /* in the list of chunks */
    size_t head_bytes, mac_bytes;
    unsigned char head[HALAY_TCP_HEAD_BYTES + HALAY_TCP_LENGTH_BYTES], mac[STORE_MAC_BYTES];
};

static size_t out_bytes(const struct halay_tcp_out *out)
{
    return out->head_bytes + out->bytes + out->mac_bytes;
}

static void outs_append(struct halay_tcp_outs *outs, struct halay_tcp_out *out)
{
    out->next = NULL;
    *outs->end = out;
    outs->end = &out->next;
}

/* Takes out what `at`, the list's first or some frame's next, points to. */
static struct halay_tcp_out *outs_take(struct halay_tcp_outs *outs, struct halay_tcp_out **at)
{
    struct halay_tcp_out *out = *at;

    *at = out->next;
    if (!*at)
        outs->end = at;
    return out;
}

static void outs_free(struct halay_tcp_out *out)
{
    for (struct halay_tcp_out *next; out; out = next) {
        next = out->next;
        free(out->copy);
        free(out);
    }
}

enum halay_status halay_tcp_connection_init(struct halay_tcp_connection *c, int fd,
                                            const struct halay_tcp_handler *handler, void *arg)
{
    *c = (struct halay_tcp_connection){ .watch.fd = fd, .handler = handler, .arg = arg };
    c->frames.end = &c->frames.first;
    c->chunks.end = &c->chunks.first;
    c->sealed.end = &c->sealed.first;
    c->bulks_end = &c->bulks;
    c->staging = malloc(STAGING_BYTES + LEFT_BYTES);
    return c->staging ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

enum halay_status halay_tcp_connection_seal(struct halay_tcp_connection *c, int is_aes)
{
    unsigned char send_key[HALAY_SECRET_BYTES], receive_key[HALAY_SECRET_BYTES];

    store_derive(c->signs.key, "seal----", NULL, 0, send_key);
    store_derive(c->checks.key, "seal----", NULL, 0, receive_key);
    enum halay_status status = halay_tcp_seal_create(send_key, receive_key, is_aes, &c->seal);
    explicit_bzero(send_key, sizeof send_key);
    explicit_bzero(receive_key, sizeof receive_key);
    return status;
}

void halay_tcp_connection_fini(struct halay_tcp_connection *c)
{
    if (c->watch.fd >= 0)
        close(c->watch.fd);
    outs_free(c->frames.first);
    outs_free(c->chunks.first);
    outs_free(c->sealed.first);
    outs_free(c->unused);
    halay_tcp_seal_destroy(c->seal);
    free(c->staging);
    explicit_bzero(c, sizeof *c);
    c->watch.fd = -1;
}

/* ---- out ---- */

static struct halay_tcp_out *out_get(struct halay_tcp_connection *c)
{
    struct halay_tcp_out *out = c->unused;

    if (!out)
        return calloc(1, sizeof *out);
    c->unused = out->next;
    out->x = NULL;
    out->payload = NULL;
    out->bytes = out->sent = out->mac_bytes = 0;
    out->ends = out->is_chunk = 0;
    return out;
}

static void out_put(struct halay_tcp_connection *c, struct halay_tcp_out *out)
{
    free(out->copy);
    out->copy = NULL;
    out->next = c->unused;
    c->unused = out;
}

static void out_pack(struct halay_tcp_connection *c, struct halay_tcp_out *out, const struct halay_tcp_frame *frame)
{
    struct halay_tcp_frame whole = *frame;

    whole.credit = c->handler->credit(c->arg);
    halay_tcp_frame_pack(&whole, out->head);
    out->head_bytes = HALAY_TCP_HEAD_BYTES;
}

enum halay_status halay_tcp_connection_send(struct halay_tcp_connection *c, const struct halay_tcp_frame *frame,
                                            const void *payload, uint64_t length, struct halay_transfer *x)
{
    struct halay_tcp_out *out = out_get(c);

    if (!out)
        return HALAY_ERR_NO_MEMORY;
    out->x = x;
    out->ends = x != NULL;
    out_pack(c, out, frame);
    if (payload) {
        out->payload = payload;
        out->bytes = frame->bytes;
    } else if (frame->bytes) {
        halay_tcp_write_u64(out->head + HALAY_TCP_HEAD_BYTES, length);
        out->head_bytes += HALAY_TCP_LENGTH_BYTES;
    }
    if (frame->flags & HALAY_TCP_SIGNED) {
        store_sign(&c->signs, out->head, out->head_bytes, out->payload, out->bytes, out->mac);
        out->mac_bytes = STORE_MAC_BYTES;
    }
    outs_append(&c->frames, out);
    return HALAY_OK;
}

void halay_tcp_connection_send_bulk(struct halay_tcp_connection *c, struct halay_transfer *x, uint64_t id)
{
    x->moved = 0;
    x->handle = (void *)(uintptr_t)id;
    x->next = NULL;
    *c->bulks_end = x;
    c->bulks_end = &x->next;
}

int halay_tcp_connection_holds(const struct halay_tcp_connection *c, uint64_t tag)
{
    for (const struct halay_transfer *x = c->bulks; x; x = x->next)
        if (!x->moved && x->tag == tag)
            return 1;
    for (const struct halay_tcp_out *out = c->chunks.first; out; out = out->next)
        if (out->x && out->x->tag == tag && out->payload == out->x->buf && !out->sent)
            return 1;
    return 0;
}

/* Cut chunks of large messages ahead, up to what one call writes. */
static void cut_chunks(struct halay_tcp_connection *c)
{
    while (c->bulks && c->chunk_count < CHUNKS_MAX) {
        struct halay_transfer *x = c->bulks;
        struct halay_tcp_out *out = out_get(c);
        if (!out)
            return; /* tried again when the system takes more */
        size_t rest = x->bytes - x->moved;
        struct halay_tcp_frame frame = { .kind = HALAY_TCP_BULK,
                                         .bytes = (uint32_t)(rest < CHUNK_BYTES ? rest : CHUNK_BYTES),
                                         .tag = x->moved,
                                         .id = (uintptr_t)x->handle };
        out_pack(c, out, &frame);
        out->x = x;
        out->payload = x->buf + x->moved;
        out->bytes = frame.bytes;
        out->is_chunk = 1;
        x->moved += frame.bytes;
        out->ends = x->moved == x->bytes;
        if (out->ends) {
            c->bulks = x->next;
            if (!c->bulks)
                c->bulks_end = &c->bulks;
        }
        outs_append(&c->chunks, out);
        c->chunk_count++;
    }
}

/* Lists what is written next, in this order: the frame of which a part was written, frames, chunks. Returns their
 * number. */
static int gather_outs(struct halay_tcp_connection *c, struct halay_tcp_out *outs[GATHER])
{
    int n = 0;

    cut_chunks(c);
    if (c->current)
        outs[n++] = c->current;
    for (struct halay_tcp_out *out = c->frames.first; out && n < GATHER; out = out->next)
        if (out != c->current)
            outs[n++] = out;
    for (struct halay_tcp_out *out = c->chunks.first; out && n < GATHER; out = out->next)
        if (out != c->current)
            outs[n++] = out;
    return n;
}

/* Adds what of the frame is not written yet. Returns how many bytes that is. */
static size_t add_parts(const struct halay_tcp_out *out, struct iovec *v, size_t *n)
{
    const struct iovec parts[] = { { (void *)out->head, out->head_bytes },
                                   { (void *)out->payload, out->bytes },
                                   { (void *)out->mac, out->mac_bytes } };
    size_t skip = out->sent, total = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t gone = skip < parts[i].iov_len ? skip : parts[i].iov_len, rest = parts[i].iov_len - gone;
        skip -= gone;
        if (!rest)
            continue;
        v[(*n)++] = (struct iovec){ (char *)parts[i].iov_base + gone, rest };
        total += rest;
    }
    return total;
}

static void out_sent(struct halay_tcp_connection *c, struct halay_tcp_out *out)
{
    if (out->ends && out->x)
        c->handler->sent(c->arg, out->x);
    out_put(c, out);
}

/* All of it is written, or sealed: it is the first of its list. */
static void out_finish(struct halay_tcp_connection *c, struct halay_tcp_out *out)
{
    struct halay_tcp_outs *outs = out->is_chunk ? &c->chunks : &c->frames;

    c->current = NULL;
    outs_take(outs, &outs->first);
    c->chunk_count -= out->is_chunk;
    if (c->seal)
        outs_append(&c->sealed, out);
    else
        out_sent(c, out);
}

/* The system has taken all records. */
static void finish_sealed(struct halay_tcp_connection *c)
{
    while (c->sealed.first)
        out_sent(c, outs_take(&c->sealed, &c->sealed.first));
}

static void note_error(struct halay_tcp_connection *c)
{
    if (!c->error)
        c->error = errno;
}

/* One call. Nonzero if the system may take more. */
static int write_some(struct halay_tcp_connection *c)
{
    struct halay_tcp_out *outs[GATHER];
    struct iovec v[3 * GATHER];
    size_t wanted = 0, parts = 0;
    int count = gather_outs(c, outs);

    for (int i = 0; i < count; i++)
        wanted += add_parts(outs[i], v, &parts);
    ssize_t n = c->seal ? halay_tcp_seal_write(c->seal, c->watch.fd, v, parts)
                        : sendmsg(c->watch.fd, &(struct msghdr){ .msg_iov = v, .msg_iovlen = parts }, MSG_NOSIGNAL);
    if (n < 0) {
        c->is_full = errno == EAGAIN || errno == EWOULDBLOCK;
        if (!c->is_full && errno != EINTR)
            note_error(c);
        return 0;
    }
    size_t left = (size_t)n;
    c->is_full = c->seal ? halay_tcp_seal_is_writing(c->seal) : left < wanted;
    for (int i = 0; i < count && left; i++) {
        size_t rest = out_bytes(outs[i]) - outs[i]->sent, taken = left < rest ? left : rest;
        outs[i]->sent += taken;
        left -= taken;
        c->current = outs[i];
        if (taken == rest)
            out_finish(c, outs[i]);
    }
    if (c->seal && !c->is_full)
        finish_sealed(c);
    return !c->is_full;
}

int halay_tcp_connection_flush(struct halay_tcp_connection *c)
{
    int calls = 0;

    while (halay_tcp_connection_is_writing(c) && calls < TURN_CALLS && write_some(c))
        calls++;
    return calls;
}

/* Copies the unsent rest of a frame that was begun, so that its buffer is free. */
static enum halay_status out_copy_payload(struct halay_tcp_out *out)
{
    out->x = NULL;
    if (out->copy)
        return HALAY_OK;
    out->copy = malloc(out->bytes);
    if (!out->copy)
        return HALAY_ERR_NO_MEMORY;
    memcpy(out->copy, out->payload, out->bytes);
    out->payload = out->copy;
    return HALAY_OK;
}

/* A frame with a mac is sent all the same: it is counted already. */
static enum halay_status cancel_among(struct halay_tcp_connection *c, struct halay_tcp_outs *outs,
                                      const struct halay_transfer *x)
{
    enum halay_status status = HALAY_OK;

    for (struct halay_tcp_out **at = &outs->first, *out; (out = *at);) {
        if (out->x != x) {
            at = &out->next;
        } else if (out->sent || out->mac_bytes) {
            if (out_copy_payload(out) != HALAY_OK)
                status = HALAY_ERR_NO_MEMORY;
            at = &out->next;
        } else {
            out_put(c, outs_take(outs, at));
            c->chunk_count -= out->is_chunk;
        }
    }
    return status;
}

enum halay_status halay_tcp_connection_cancel(struct halay_tcp_connection *c, const struct halay_transfer *x)
{
    for (struct halay_transfer **at = &c->bulks; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            if (!*at)
                c->bulks_end = at;
            break;
        }
    for (struct halay_tcp_out *out = c->sealed.first; out; out = out->next)
        if (out->x == x)
            out->x = NULL;
    enum halay_status status = cancel_among(c, &c->frames, x);
    enum halay_status chunks = cancel_among(c, &c->chunks, x);
    if (status == HALAY_OK)
        status = chunks;
    if (status == HALAY_OK)
        return status;
    c->error = ENOMEM;
    return status;
}

/* ---- in ---- */

void halay_tcp_connection_redirect(struct halay_tcp_connection *c, const unsigned char *from, unsigned char *to)
{
    if (c->has_head && c->place == from)
        c->place = to;
}

size_t halay_tcp_connection_has(const struct halay_tcp_connection *c, const unsigned char *place)
{
    return c->has_head && c->place && c->place == place ? c->have : SIZE_MAX;
}

/* Nonzero once there is a whole head. */
static int take_head(struct halay_tcp_connection *c)
{
    if (c->to - c->from < HALAY_TCP_HEAD_BYTES)
        return 0;
    memcpy(c->head, c->staging + c->from, HALAY_TCP_HEAD_BYTES);
    c->from += HALAY_TCP_HEAD_BYTES;
    c->status = halay_tcp_frame_parse(c->head, &c->frame);
    if (c->status != HALAY_OK)
        return 0;
    c->place = c->length;
    c->have = 0;
    if (c->frame.kind == HALAY_TCP_DATA || c->frame.kind == HALAY_TCP_BULK)
        c->status = c->handler->begin(c->arg, &c->frame, &c->place);
    c->has_head = c->status == HALAY_OK;
    return c->has_head;
}

/* Nonzero once all of the payload is there. */
static int take_payload(struct halay_tcp_connection *c)
{
    size_t rest = c->frame.bytes - c->have, here = c->to - c->from, n = here < rest ? here : rest;

    if (c->place && n)
        memcpy(c->place + c->have, c->staging + c->from, n);
    c->have += n;
    c->from += n;
    return n == rest;
}

/* Nonzero once the mac is there and right. */
static int take_mac(struct halay_tcp_connection *c)
{
    if (!(c->frame.flags & HALAY_TCP_SIGNED))
        return 1;
    if (c->to - c->from < STORE_MAC_BYTES)
        return 0;
    const unsigned char *mac = c->staging + c->from;
    c->from += STORE_MAC_BYTES;
    if (!c->place && c->frame.bytes)
        c->checks.count++; /* what was dropped cannot be checked, and does no harm */
    else if (!store_is_signed(&c->checks, c->head, sizeof c->head, c->place, c->frame.bytes, mac))
        c->status = HALAY_ERR_AUTH;
    return c->status == HALAY_OK;
}

/* Frames from staging. Returns how many ended. */
static int take_frames(struct halay_tcp_connection *c)
{
    int frames = 0;

    while (c->status == HALAY_OK && (c->has_head || take_head(c)) && take_payload(c) && take_mac(c)) {
        int has_length = c->frame.kind == HALAY_TCP_RTS || c->frame.kind == HALAY_TCP_CTS;
        c->has_head = 0;
        c->has_left |= c->frame.kind == HALAY_TCP_BYE;
        c->status = c->handler->end(c->arg, &c->frame, has_length ? halay_tcp_read_u64(c->length) : 0);
        frames++;
    }
    return frames;
}

/* A call that read nothing: would block, the end, or an error. Returns zero. */
static int note_nothing(struct halay_tcp_connection *c, ssize_t got)
{
    int is_early = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);

    if (got < 0 && !is_early)
        note_error(c);
    c->has_ended |= !is_early;
    return 0;
}

/* One call, and all records that are whole, since no event brings them again: what belongs to the payload that is
 * arriving into its place, the rest into staging. Adds the frames that ended. Returns as read_some. */
static int read_records(struct halay_tcp_connection *c, int *frames)
{
    size_t bytes;
    ssize_t got = halay_tcp_seal_receive(c->seal, c->watch.fd);

    if (got <= 0)
        return note_nothing(c, got);
    int more = c->seal->in_to == HALAY_TCP_SEAL_BYTES ? 2 : 1;
    while ((c->status = halay_tcp_seal_next(c->seal, &bytes)) == HALAY_OK && bytes) {
        int is_placed = c->has_head && c->place && c->from == c->to && bytes <= c->frame.bytes - c->have;
        c->to -= c->from;
        memmove(c->staging, c->staging + c->from, c->to);
        c->from = 0;
        c->status = halay_tcp_seal_open(c->seal, is_placed ? c->place + c->have : c->staging + c->to);
        if (c->status != HALAY_OK)
            break;
        *(is_placed ? &c->have : &c->to) += bytes;
        *frames += take_frames(c);
        if (c->status != HALAY_OK)
            break;
    }
    return more;
}

/* One call: the rest of a payload into its place, what follows into staging. Nonzero if there may be more. */
static int read_some(struct halay_tcp_connection *c)
{
    struct iovec v[2];
    size_t n = 0, direct = c->has_head && c->place ? c->frame.bytes - c->have : 0;

    c->to -= c->from;
    memmove(c->staging, c->staging + c->from, c->to);
    c->from = 0;
    if (direct)
        v[n++] = (struct iovec){ c->place + c->have, direct };
    size_t room = (c->frame.bytes >= LARGE_BYTES ? LARGE_STAGING_BYTES : STAGING_BYTES) - c->to;
    v[n++] = (struct iovec){ c->staging + c->to, room };
    ssize_t got = recvmsg(c->watch.fd, &(struct msghdr){ .msg_iov = v, .msg_iovlen = n }, 0);
    if (got <= 0)
        return note_nothing(c, got);
    size_t placed = (size_t)got < direct ? (size_t)got : direct;
    c->have += placed;
    c->to += (size_t)got - placed;
    return (size_t)got == direct + room ? 2 : 1;
}

int halay_tcp_connection_read(struct halay_tcp_connection *c)
{
    int frames = 0, came = 0, more;

    for (int calls = 0; calls < TURN_CALLS && frames < TURN_FRAMES && c->status == HALAY_OK; calls++) {
        more = c->has_ended ? 0 : c->seal ? read_records(c, &frames) : read_some(c);
        came |= more != 0;
        frames += take_frames(c);
        if (more != 2)
            break;
    }
    return came;
}
