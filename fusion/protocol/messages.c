/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: writing and strict reading; the table is in messages.h.
 *
 * Input is from another process and may be anything: every length is checked against the bytes received before it is
 * used, every number against its range. Output is this process's; its items always fit in a message (asserted).
 */
#include "fusion/protocol/messages.h"
#include "base/memory.h"
#include "collectives/group/group.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x79616c00u /* "yal" and the protocol's version in the lowest byte */
enum { PROTOCOL = 12 };

static void put32(unsigned char *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

static void put16(unsigned char *at, size_t value)
{
    uint16_t v = (uint16_t)value;

    memcpy(at, &v, sizeof v);
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static uint16_t get16(const unsigned char *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

void halay_message_put_header(unsigned char *at, const struct halay_message_header *header)
{
    put32(at, MAGIC | PROTOCOL);
    put32(at + 4, header->bytes);
    put32(at + 8, header->number);
    put32(at + 12, 0);
}

enum halay_status halay_message_get_header(const unsigned char *at, struct halay_message_header *header)
{
    uint32_t magic = get32(at), bytes = get32(at + 4);

    if ((magic & ~0xffu) != MAGIC)
        return HALAY_ERR_FORMAT;
    if ((magic & 0xffu) != PROTOCOL)
        return HALAY_ERR_VERSION;
    if (bytes < HALAY_MESSAGE_HEADER || bytes > HALAY_MESSAGE_MAX || bytes % 4 || get32(at + 12))
        return HALAY_ERR_FORMAT;
    *header = (struct halay_message_header){ bytes, get32(at + 8) };
    return HALAY_OK;
}

/* The fixed part of each kind, in bytes. */
static const unsigned char fixed_bytes[HALAY_ITEM_KINDS] = {
    [HALAY_ITEM_READY] = 16,  [HALAY_ITEM_ANNOUNCE] = 44, [HALAY_ITEM_FLUSH] = 8,     [HALAY_ITEM_AGREE] = 44,
    [HALAY_ITEM_BUCKET] = 12, [HALAY_ITEM_ERROR] = 12,    [HALAY_ITEM_FORGET] = 12,   [HALAY_ITEM_FAIL] = 12,
    [HALAY_ITEM_BYE] = 4,     [HALAY_ITEM_LEFT] = 8,      [HALAY_ITEM_DONE] = 4,      [HALAY_ITEM_PING] = 4,
    [HALAY_ITEM_PONG] = 4,    [HALAY_ITEM_ASK] = 4,       [HALAY_ITEM_DOING] = 12,    [HALAY_ITEM_WITHDRAW] = 16,
    [HALAY_ITEM_LISTEN] = 16, [HALAY_ITEM_PLANNED] = 12,  [HALAY_ITEM_PLAN] = 12,     [HALAY_ITEM_BREAK] = 20,
    [HALAY_ITEM_FREEZE] = 12, [HALAY_ITEM_ENTERED] = 16,  [HALAY_ITEM_COMPLETE] = 16, [HALAY_ITEM_SETTLED] = 16,
    [HALAY_ITEM_RESUME] = 16,
};

static const unsigned char has_set[HALAY_ITEM_KINDS] = {
    [HALAY_ITEM_READY] = 1,  [HALAY_ITEM_ANNOUNCE] = 1, [HALAY_ITEM_FLUSH] = 1,    [HALAY_ITEM_AGREE] = 1,
    [HALAY_ITEM_BUCKET] = 1, [HALAY_ITEM_ERROR] = 1,    [HALAY_ITEM_FORGET] = 1,   [HALAY_ITEM_WITHDRAW] = 1,
    [HALAY_ITEM_DOING] = 1,  [HALAY_ITEM_PLANNED] = 1,  [HALAY_ITEM_PLAN] = 1,     [HALAY_ITEM_BREAK] = 1,
    [HALAY_ITEM_FREEZE] = 1, [HALAY_ITEM_ENTERED] = 1,  [HALAY_ITEM_COMPLETE] = 1, [HALAY_ITEM_SETTLED] = 1,
    [HALAY_ITEM_RESUME] = 1,
};

/* Bytes after the fixed part, before padding: shape and payload, or ranges; then name, then text. */
struct tail {
    size_t payload; /* bytes of shape and payload, or of ranges */
    size_t name, text;
};

static struct tail tail_of(const unsigned char *p)
{
    struct tail tail = { 0 };

    switch (p[0]) {
    case HALAY_ITEM_ANNOUNCE:
    case HALAY_ITEM_AGREE:
        tail.payload = 8 * ((size_t)p[11] + get16(p + 2));
        tail.name = p[1];
        break;
    case HALAY_ITEM_BUCKET:
    case HALAY_ITEM_PLANNED:
    case HALAY_ITEM_ENTERED:
    case HALAY_ITEM_COMPLETE:
    case HALAY_ITEM_SETTLED:
    case HALAY_ITEM_RESUME:
        tail.payload = 8 * (size_t)get16(p + 2);
        break;
    case HALAY_ITEM_ERROR:
        tail.name = p[1];
        tail.text = get16(p + 2);
        break;
    case HALAY_ITEM_FAIL:
        tail.text = get16(p + 2);
        break;
    case HALAY_ITEM_DOING:
    case HALAY_ITEM_WITHDRAW:
        tail.name = p[1];
        break;
    default:
        break;
    }
    return tail;
}

static size_t tail_bytes(const struct tail *tail)
{
    return tail->payload + halay_round_up(tail->name + tail->text, 4);
}

/* Returns the bytes of the item that begins at p, 0 if it is invalid or incomplete. */
static size_t item_bytes(const unsigned char *p, size_t left)
{
    if (left < 4 || p[0] == 0 || p[0] >= HALAY_ITEM_KINDS || left < fixed_bytes[p[0]])
        return 0;
    struct tail tail = tail_of(p);
    size_t bytes = fixed_bytes[p[0]] + tail_bytes(&tail);

    return bytes <= left ? bytes : 0;
}

static int is_status(uint32_t status)
{
    return status > HALAY_IN_PROGRESS && status <= HALAY_ERR_FORMAT;
}

static int ranges_are_valid(const struct halay_id_range *ranges, size_t count)
{
    size_t tensors = 0;

    if (!count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct halay_id_range r;
        memcpy(&r, &ranges[i], sizeof r);
        if (!r.count || r.count > HALAY_BUCKET_TENSORS_MAX || r.first > UINT32_MAX - r.count)
            return 0;
        tensors += r.count;
    }
    return tensors <= HALAY_BUCKET_TENSORS_MAX;
}

static int read_signature(const unsigned char *p, int size, struct halay_item *item)
{
    struct halay_signature *s = &item->signature;

    if (p[11] > HALAY_DIMENSIONS_MAX || get16(p + 2) > HALAY_PAYLOAD_MAX)
        return 0;
    *s = (struct halay_signature){
        .collective = p[8], .dtype = p[9], .reduction = p[10], .dimensions = p[11], .root = (int32_t)get32(p + 12)
    };
    memcpy(&s->prescale, p + 20, sizeof s->prescale);
    memcpy(&s->postscale, p + 28, sizeof s->postscale);
    s->members = get16(p + 36);
    s->payload_count =
        s->members || s->collective == HALAY_CHANGE_SETS || s->collective == HALAY_REDUCE_SCATTER ? get16(p + 2) : 0;
    s->priority = (int16_t)get16(p + 38);
    s->wire = p[40];
    s->is_on_devices = p[41];
    memcpy(s->shape, p + 44, 8 * (size_t)p[11]);
    item->id = get32(p + 16);
    item->payload_count = get16(p + 2);
    item->payload = p + 44 + 8 * (size_t)p[11];
    return item->name_length && halay_signature_is_valid(s, size);
}

/* Reads items of replay. */
static int read_replay(const unsigned char *p, const struct tail *tail, int size, struct halay_item *read)
{
    read->epoch = get32(p + 8);
    if (read->kind == HALAY_ITEM_BREAK) {
        read->reason = get32(p + 12);
        read->rank = (int)get32(p + 16);
        return read->rank >= 0 && read->rank < size;
    }
    if (read->kind >= HALAY_ITEM_ENTERED) {
        read->ranks = (int)get32(p + 12);
        read->payload = p + 16;
        read->payload_count = tail->payload / 8;
    }
    return read->payload_count <= HALAY_PAYLOAD_MAX && read->ranks >= 0 && read->ranks <= size;
}

/* Reads items about one tensor, or several. */
static int read_about_tensors(const unsigned char *p, const struct tail *tail, int size, struct halay_item *read)
{
    int ok = 1;

    switch (read->kind) {
    case HALAY_ITEM_READY:
        read->range = (struct halay_id_range){ get32(p + 8), get32(p + 12) };
        ok = read->range.count && read->range.first <= UINT32_MAX - read->range.count;
        break;
    case HALAY_ITEM_BUCKET:
    case HALAY_ITEM_PLANNED:
        read->absent = (int)get32(p + 8);
        *(read->kind == HALAY_ITEM_BUCKET ? &read->has_parts : &read->has_vote) = p[1];
        read->ranges = (const struct halay_id_range *)(const void *)(p + 12);
        read->range_count = tail->payload / 8;
        ok = read->absent >= 0 && ranges_are_valid(read->ranges, read->range_count);
        break;
    case HALAY_ITEM_ERROR:
        read->status = (enum halay_status)get32(p + 8);
        ok = read->name_length && read->text_length <= HALAY_TEXT_MAX && is_status(get32(p + 8));
        break;
    case HALAY_ITEM_FORGET:
        read->id = get32(p + 8);
        break;
    case HALAY_ITEM_WITHDRAW:
        read->status = (enum halay_status)get32(p + 8);
        read->after_ms = (int)get32(p + 12);
        ok = read->name_length && is_status(get32(p + 8)) && read->after_ms >= 0;
        break;
    default:
        return read->kind < HALAY_ITEM_PLAN || read_replay(p, tail, size, read);
    }
    return ok;
}

/* Reads the fields between the kind and the payload. Returns nonzero if they are valid in a job or set of this size. */
static int read_fixed(const unsigned char *p, const struct tail *tail, int size, struct halay_item *read)
{
    switch (read->kind) {
    case HALAY_ITEM_ANNOUNCE:
    case HALAY_ITEM_AGREE:
        return read_signature(p, size, read);
    case HALAY_ITEM_FAIL:
        read->status = (enum halay_status)get32(p + 4);
        read->rank = (int)get32(p + 8);
        return read->text_length <= HALAY_TEXT_MAX && is_status(get32(p + 4)) && read->rank >= -1 && read->rank < size;
    case HALAY_ITEM_LISTEN:
        memcpy(&read->number, p + 8, sizeof read->number);
        /* fall through */
    case HALAY_ITEM_LEFT:
        read->rank = (int)get32(p + 4);
        return read->rank >= 0 && read->rank < size;
    case HALAY_ITEM_DOING:
        if (get32(p + 8) >= HALAY_DOING_COUNT)
            return 0;
        read->doing = (enum halay_doing)get32(p + 8);
        return 1;
    default:
        return read_about_tensors(p, tail, size, read);
    }
}

enum halay_status halay_item_read(const unsigned char *bytes, size_t size_bytes, size_t *at, int size,
                                  struct halay_item *item)
{
    const unsigned char *p = bytes + *at;
    size_t whole = item_bytes(p, size_bytes - *at);

    if (!whole)
        return HALAY_ERR_FORMAT;
    struct tail tail = tail_of(p);
    const unsigned char *names = p + fixed_bytes[p[0]] + tail.payload;
    struct halay_item read = { .kind = (enum halay_item_kind)p[0],
                               .name = (const char *)names,
                               .name_length = tail.name,
                               .text = (const char *)names + tail.name,
                               .text_length = tail.text,
                               .set = has_set[p[0]] ? (int)get32(p + 4) : 0,
                               .rank = -1 };
    if (read.set < 0 || !read_fixed(p, &tail, size, &read))
        return HALAY_ERR_FORMAT;
    *item = read;
    *at += whole;
    return HALAY_OK;
}

static enum halay_status reserve_bytes(struct halay_items *items, size_t bytes)
{
    size_t capacity = items->capacity ? items->capacity : 1024;

    if (items->capacity - items->used >= bytes)
        return HALAY_OK;
    while (capacity - items->used < bytes)
        if (halay_mul_overflows(capacity, 2, &capacity))
            return HALAY_ERR_NO_MEMORY;
    unsigned char *grown = realloc(items->data, capacity);
    if (!grown)
        return HALAY_ERR_NO_MEMORY;
    items->data = grown;
    items->capacity = capacity;
    return HALAY_OK;
}

/* Merges a READY with the last one, at either end of its range, because ids descend from the last layer on in a
 * backward pass. Nothing depends on the order within a range. */
static int joins_last(struct halay_items *items, const struct halay_item *item)
{
    if (item->kind != HALAY_ITEM_READY || !items->last_ready)
        return 0;
    unsigned char *last = items->data + items->last_ready - 1;
    uint32_t first = get32(last + 8), count = get32(last + 12);
    if (get32(last + 4) != (uint32_t)item->set)
        return 0;
    if (item->range.first + item->range.count == first)
        put32(last + 8, item->range.first);
    else if (item->range.first != first + count)
        return 0;
    put32(last + 12, count + item->range.count);
    return 1;
}

static void write_signature(unsigned char *p, const struct halay_item *item)
{
    const struct halay_signature *s = &item->signature;

    p[1] = (unsigned char)item->name_length;
    put16(p + 2, item->payload_count);
    p[8] = s->collective;
    p[9] = s->dtype;
    p[10] = s->reduction;
    p[11] = s->dimensions;
    put32(p + 12, (uint32_t)s->root);
    put32(p + 16, item->id);
    memcpy(p + 20, &s->prescale, sizeof s->prescale);
    memcpy(p + 28, &s->postscale, sizeof s->postscale);
    put16(p + 36, s->members);
    put16(p + 38, (uint16_t)s->priority);
    p[40] = (unsigned char)s->wire;
    p[41] = (unsigned char)s->is_on_devices;
}

/* Writes items of replay. */
static void write_replay(unsigned char *p, const struct halay_item *item)
{
    put32(p + 8, item->epoch);
    if (item->kind == HALAY_ITEM_BREAK) {
        put32(p + 12, item->reason);
        put32(p + 16, (uint32_t)item->rank);
    }
    if (item->kind >= HALAY_ITEM_ENTERED) {
        put16(p + 2, item->payload_count);
        put32(p + 12, (uint32_t)item->ranks);
    }
}

/* Writes items about one tensor, or several. */
static void write_about_tensors(unsigned char *p, const struct halay_item *item)
{
    switch (item->kind) {
    case HALAY_ITEM_READY:
        put32(p + 8, item->range.first);
        put32(p + 12, item->range.count);
        break;
    case HALAY_ITEM_BUCKET:
    case HALAY_ITEM_PLANNED:
        p[1] = (unsigned char)(item->kind == HALAY_ITEM_BUCKET ? item->has_parts : item->has_vote);
        put16(p + 2, item->range_count);
        put32(p + 8, (uint32_t)item->absent);
        break;
    case HALAY_ITEM_ERROR:
        p[1] = (unsigned char)item->name_length;
        put16(p + 2, item->text_length);
        put32(p + 8, item->status);
        break;
    case HALAY_ITEM_FORGET:
        put32(p + 8, item->id);
        break;
    case HALAY_ITEM_WITHDRAW:
        p[1] = (unsigned char)item->name_length;
        put32(p + 8, item->status);
        put32(p + 12, (uint32_t)item->after_ms);
        break;
    default:
        if (item->kind >= HALAY_ITEM_PLAN)
            write_replay(p, item);
        break;
    }
}

static void write_fixed(unsigned char *p, const struct halay_item *item)
{
    p[0] = (unsigned char)item->kind;
    if (has_set[item->kind])
        put32(p + 4, (uint32_t)item->set);
    switch (item->kind) {
    case HALAY_ITEM_ANNOUNCE:
    case HALAY_ITEM_AGREE:
        write_signature(p, item);
        break;
    case HALAY_ITEM_FAIL:
        put16(p + 2, item->text_length);
        put32(p + 4, item->status);
        put32(p + 8, (uint32_t)item->rank);
        break;
    case HALAY_ITEM_LISTEN:
        memcpy(p + 8, &item->number, sizeof item->number);
        /* fall through */
    case HALAY_ITEM_LEFT:
        put32(p + 4, (uint32_t)item->rank);
        break;
    case HALAY_ITEM_DOING:
        p[1] = (unsigned char)item->name_length;
        put32(p + 8, item->doing);
        break;
    default:
        write_about_tensors(p, item);
        break;
    }
}

/* Writes shape and payload, or ranges. */
static void put_payload(unsigned char *p, const struct halay_item *item, size_t bytes)
{
    size_t shape = 8 * (size_t)item->signature.dimensions;
    int has_ranges = item->kind == HALAY_ITEM_BUCKET || item->kind == HALAY_ITEM_PLANNED;

    if (has_ranges && bytes)
        memcpy(p, item->ranges, bytes);
    if (has_ranges || !bytes)
        return;
    memcpy(p, item->signature.shape, shape);
    if (item->payload_count)
        memcpy(p + shape, item->payload, 8 * item->payload_count);
}

enum halay_status halay_items_append(struct halay_items *items, const struct halay_item *item)
{
    unsigned char fixed[44] = { 0 };

    if (joins_last(items, item))
        return HALAY_OK;
    write_fixed(fixed, item);
    struct tail tail = tail_of(fixed);
    size_t head = fixed_bytes[item->kind], bytes = head + tail_bytes(&tail);
    assert(bytes <= HALAY_MESSAGE_MAX - HALAY_MESSAGE_HEADER);
    if (reserve_bytes(items, bytes) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;

    unsigned char *p = items->data + items->used;
    memset(p, 0, bytes);
    memcpy(p, fixed, head);
    put_payload(p + head, item, tail.payload);
    if (tail.name)
        memcpy(p + head + tail.payload, item->name, tail.name);
    if (tail.text)
        memcpy(p + head + tail.payload + tail.name, item->text, tail.text);
    items->last_ready = item->kind == HALAY_ITEM_READY ? items->used + 1 : 0;
    items->used += bytes;
    return HALAY_OK;
}

size_t halay_items_fitting(const struct halay_items *items, size_t room)
{
    size_t fitting = 0;

    if (items->used <= room)
        return items->used;
    for (size_t bytes; (bytes = item_bytes(items->data + fitting, items->used - fitting)); fitting += bytes)
        if (fitting + bytes > room)
            break;
    return fitting;
}

void halay_items_drop(struct halay_items *items, size_t bytes)
{
    memmove(items->data, items->data + bytes, items->used - bytes);
    items->used -= bytes;
    items->last_ready = items->last_ready > bytes ? items->last_ready - bytes : 0;
}

void halay_items_fini(struct halay_items *items)
{
    free(items->data);
    *items = (struct halay_items){ 0 };
}
