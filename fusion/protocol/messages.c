/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: writing and strict reading, by one table of the kinds; messages.h has their meaning.
 *
 * Input is from another process and may be anything: every length is checked against the bytes received before it is
 * used, every number against its range. Output is this process's; its items always fit in a message (asserted).
 */
#include "fusion/protocol/messages.h"
#include "base/memory.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x79616c00u /* "yal" and the protocol's version in the lowest byte */
enum { PROTOCOL = 14 };

static uint16_t get16(const unsigned char *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

void halay_message_put_header(unsigned char *at, uint32_t bytes, uint32_t number)
{
    struct halay_message_header header = { MAGIC | PROTOCOL, bytes, number, 0 };

    memcpy(at, &header, sizeof header);
}

enum halay_status halay_message_get_header(const unsigned char *at, struct halay_message_header *header)
{
    struct halay_message_header read;

    memcpy(&read, at, sizeof read);
    if ((read.magic & ~0xffu) != MAGIC)
        return HALAY_ERR_FORMAT;
    if ((read.magic & 0xffu) != PROTOCOL)
        return HALAY_ERR_VERSION;
    if (read.bytes < HALAY_MESSAGE_HEADER || read.bytes > HALAY_MESSAGE_MAX || read.bytes % 4 || read.zero)
        return HALAY_ERR_FORMAT;
    *header = read;
    return HALAY_OK;
}

/* ---- the table of kinds ---- */

/* The numbers of items: members of struct halay_item, which are sent as they are. */
enum number {
    NONE,
    SET,
    ID,
    RANGE,
    STATUS,
    RANK,
    ABSENT,
    VOTE,
    DOING,
    AFTER,
    NUMBER,
    EPOCH,
    REASON,
    RANKS,
    SHOWS,
    SIGNATURE
};
static const struct member {
    size_t at, bytes;
} members[] = {
    [SET] = { offsetof(struct halay_item, set), 4 },
    [ID] = { offsetof(struct halay_item, id), 4 },
    [RANGE] = { offsetof(struct halay_item, range), 8 },
    [STATUS] = { offsetof(struct halay_item, status), 4 },
    [RANK] = { offsetof(struct halay_item, rank), 4 },
    [ABSENT] = { offsetof(struct halay_item, absent), 4 },
    [VOTE] = { offsetof(struct halay_item, has_vote), 4 },
    [DOING] = { offsetof(struct halay_item, doing), 4 },
    [AFTER] = { offsetof(struct halay_item, after_ms), 4 },
    [NUMBER] = { offsetof(struct halay_item, number), 8 },
    [EPOCH] = { offsetof(struct halay_item, epoch), 4 },
    [REASON] = { offsetof(struct halay_item, reason), 4 },
    [RANKS] = { offsetof(struct halay_item, ranks), 4 },
    [SHOWS] = { offsetof(struct halay_item, shows_stacks), 4 },
    [SIGNATURE] = { offsetof(struct halay_item, signature), offsetof(struct halay_signature, shape) },
};
_Static_assert(sizeof(enum halay_status) == 4 && sizeof(enum halay_doing) == 4, "sent as they are");

/* Parts of an item that follow the numbers. */
enum { NAME = 1, TEXT = 2, RANGES = 4, WORDS = 8, SHAPE = 16 };

/* The kinds: their numbers in order, and what follows these. */
enum { HEAD = 4, NUMBERS_MAX = 4, FIXED_MAX = 44, DIMENSIONS_AT = 12 + offsetof(struct halay_signature, dimensions) };
static const struct {
    unsigned char numbers[NUMBERS_MAX], parts;
} layouts[HALAY_ITEM_KINDS] = {
    [HALAY_ITEM_READY] = { { SET, RANGE } },
    [HALAY_ITEM_ANNOUNCE] = { { SET, ID, SIGNATURE }, SHAPE | WORDS | NAME },
    [HALAY_ITEM_FLUSH] = { { SET } },
    [HALAY_ITEM_AGREE] = { { SET, ID, SIGNATURE }, SHAPE | WORDS | NAME },
    [HALAY_ITEM_BUCKET] = { { SET, ABSENT }, RANGES },
    [HALAY_ITEM_ERROR] = { { SET, STATUS }, NAME | TEXT },
    [HALAY_ITEM_FORGET] = { { SET, ID } },
    [HALAY_ITEM_FAIL] = { { STATUS, RANK }, TEXT },
    [HALAY_ITEM_LEFT] = { { RANK } },
    [HALAY_ITEM_ASK] = { { SHOWS } },
    [HALAY_ITEM_DOING] = { { SET, DOING }, NAME },
    [HALAY_ITEM_WITHDRAW] = { { SET, STATUS, AFTER }, NAME },
    [HALAY_ITEM_LISTEN] = { { RANK, NUMBER } },
    [HALAY_ITEM_PLANNED] = { { SET, VOTE }, RANGES },
    [HALAY_ITEM_PLAN] = { { SET, EPOCH } },
    [HALAY_ITEM_BREAK] = { { SET, EPOCH, REASON, RANK } },
    [HALAY_ITEM_FREEZE] = { { SET, EPOCH } },
    [HALAY_ITEM_ENTERED] = { { SET, EPOCH, RANKS }, WORDS },
    [HALAY_ITEM_COMPLETE] = { { SET, EPOCH, RANKS }, WORDS },
    [HALAY_ITEM_SETTLED] = { { SET, EPOCH, RANKS }, WORDS },
    [HALAY_ITEM_RESUME] = { { SET, EPOCH, RANKS }, WORDS },
};

static const struct member *member_of(unsigned kind, int i)
{
    return &members[layouts[kind].numbers[i]];
}

/* Returns the length of the head and the numbers. */
static size_t fixed_bytes(unsigned kind)
{
    size_t bytes = HEAD;

    for (int i = 0; i < NUMBERS_MAX; i++)
        bytes += member_of(kind, i)->bytes;
    return bytes;
}

/* The bytes after the numbers, in their order. */
struct tail {
    size_t shape, words; /* words: or ranges */
    size_t name, text;   /* padded together */
};

/* Returns these lengths, by the head of an item, and by its dimensions. */
static struct tail tail_of(const unsigned char *p)
{
    unsigned parts = layouts[p[0]].parts;

    return (struct tail){ .shape = parts & SHAPE ? 8 * (size_t)p[DIMENSIONS_AT] : 0,
                          .words = parts & (WORDS | RANGES) ? 8 * (size_t)get16(p + 2) : 0,
                          .name = parts & NAME ? p[1] : 0,
                          .text = parts & TEXT ? get16(p + 2) : 0 };
}

static size_t tail_bytes(const struct tail *tail)
{
    return tail->shape + tail->words + halay_round_up(tail->name + tail->text, 4);
}

/* Returns the bytes of the item that begins at p, 0 if it is invalid or incomplete. */
static size_t item_bytes(const unsigned char *p, size_t left)
{
    if (left < HEAD || p[0] == 0 || p[0] >= HALAY_ITEM_KINDS || left < fixed_bytes(p[0]))
        return 0;
    struct tail tail = tail_of(p);
    size_t bytes = fixed_bytes(p[0]) + tail_bytes(&tail);

    return bytes <= left ? bytes : 0;
}

/* ---- reading ---- */

static int ranges_are_valid(const struct halay_id_range *ranges, size_t count)
{
    size_t tensors = 0;

    for (size_t i = 0; i < count; i++) {
        struct halay_id_range r;
        memcpy(&r, &ranges[i], sizeof r);
        if (!r.count || r.count > HALAY_BUCKET_TENSORS_MAX || r.first > UINT32_MAX - r.count)
            return 0;
        tensors += r.count;
    }
    return tensors && tensors <= HALAY_BUCKET_TENSORS_MAX;
}

static int signature_is_valid(const struct halay_item *item, int size)
{
    const struct halay_signature *s = &item->signature;

    return (!s->payload_count || s->payload_count == item->payload_count) && halay_signature_is_valid(s, size);
}

/* Returns nonzero if a number of an item that was read is valid in a job or set of this size. */
static int number_is_valid(enum number number, const struct halay_item *item, int size)
{
    switch (number) {
    case SET:
        return item->set >= 0;
    case RANGE:
        return item->range.count && item->range.first <= UINT32_MAX - item->range.count;
    case STATUS:
        return item->status > HALAY_IN_PROGRESS && item->status <= HALAY_ERR_FORMAT;
    case RANK:
        return item->rank >= (item->kind == HALAY_ITEM_FAIL ? -1 : 0) && item->rank < size;
    case ABSENT:
        return item->absent >= 0;
    case DOING:
        return (unsigned)item->doing < HALAY_DOING_COUNT;
    case AFTER:
        return item->after_ms >= 0;
    case RANKS:
        return item->ranks >= 0 && item->ranks <= size;
    case SIGNATURE:
        return signature_is_valid(item, size);
    default:
        return 1;
    }
}

static int is_valid(const struct halay_item *item, int size)
{
    unsigned parts = layouts[item->kind].parts;
    int is_named = parts & NAME && item->kind != HALAY_ITEM_DOING;

    for (int i = 0; i < NUMBERS_MAX; i++)
        if (!number_is_valid(layouts[item->kind].numbers[i], item, size))
            return 0;
    return (!is_named || item->name_length) && item->text_length <= HALAY_TEXT_MAX &&
           item->payload_count <= HALAY_PAYLOAD_MAX &&
           (!(parts & RANGES) || ranges_are_valid(item->ranges, item->range_count));
}

enum halay_status halay_item_read(const unsigned char *bytes, size_t size_bytes, size_t *at, int size,
                                  struct halay_item *item)
{
    const unsigned char *p = bytes + *at;
    size_t whole = item_bytes(p, size_bytes - *at);

    if (!whole)
        return HALAY_ERR_FORMAT;
    struct tail tail = tail_of(p);
    const unsigned char *from = p + HEAD, *words = p + fixed_bytes(p[0]) + tail.shape, *names = words + tail.words;
    int has_ranges = layouts[p[0]].parts & RANGES;
    struct halay_item read = { .kind = (enum halay_item_kind)p[0],
                               .name = (const char *)names,
                               .name_length = tail.name,
                               .text = (const char *)names + tail.name,
                               .text_length = tail.text,
                               .payload = words,
                               .payload_count = has_ranges ? 0 : tail.words / 8,
                               .ranges = (const struct halay_id_range *)(const void *)words,
                               .range_count = has_ranges ? tail.words / 8 : 0,
                               .has_parts = p[0] == HALAY_ITEM_BUCKET && p[1],
                               .rank = -1 };

    for (int i = 0; i < NUMBERS_MAX; from += member_of(p[0], i++)->bytes)
        memcpy((char *)&read + member_of(p[0], i)->at, from, member_of(p[0], i)->bytes);
    if (tail.shape > sizeof read.signature.shape)
        return HALAY_ERR_FORMAT;
    memcpy(read.signature.shape, words - tail.shape, tail.shape);
    if (!is_valid(&read, size))
        return HALAY_ERR_FORMAT;
    *item = read;
    *at += whole;
    return HALAY_OK;
}

/* ---- writing ---- */

static enum halay_status reserve_bytes(struct halay_items *items, size_t bytes)
{
    while (items->capacity - items->used < bytes)
        if (halay_list_grow(&items->data, items->capacity, &items->capacity, 1) != HALAY_OK)
            return HALAY_ERR_NO_MEMORY;
    return HALAY_OK;
}

/* Merges a READY with the last one, at either end of its range, because ids descend from the last layer on in a
 * backward pass. Nothing depends on the order within a range. */
static int joins_last(struct halay_items *items, const struct halay_item *item)
{
    struct halay_id_range range;
    int set;

    if (item->kind != HALAY_ITEM_READY || !items->last_ready)
        return 0;
    unsigned char *last = items->data + items->last_ready - 1;
    memcpy(&set, last + HEAD, sizeof set);
    memcpy(&range, last + HEAD + sizeof set, sizeof range);
    if (set != item->set)
        return 0;
    if (item->range.first + item->range.count == range.first)
        range.first = item->range.first;
    else if (item->range.first != range.first + range.count)
        return 0;
    range.count += item->range.count;
    memcpy(last + HEAD + sizeof set, &range, sizeof range);
    return 1;
}

/* Writes the head and the numbers of an item. */
static void write_fixed(unsigned char *p, const struct halay_item *item)
{
    size_t lengths = item->text_length + item->payload_count + item->range_count; /* no kind has two of them */
    uint16_t length = (uint16_t)lengths;

    p[0] = (unsigned char)item->kind;
    p[1] = (unsigned char)(item->kind == HALAY_ITEM_BUCKET ? (size_t)item->has_parts : item->name_length);
    memcpy(p + 2, &length, sizeof length);
    p += HEAD;
    for (int i = 0; i < NUMBERS_MAX; p += member_of(item->kind, i++)->bytes)
        memcpy(p, (const char *)item + member_of(item->kind, i)->at, member_of(item->kind, i)->bytes);
}

/* Copies bytes, which may be none, and returns the end of the copy. */
static unsigned char *put_bytes(unsigned char *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
    return to + bytes;
}

enum halay_status halay_items_append(struct halay_items *items, const struct halay_item *item)
{
    unsigned char fixed[FIXED_MAX];
    size_t head = fixed_bytes(item->kind);

    if (joins_last(items, item))
        return HALAY_OK;
    write_fixed(fixed, item);
    struct tail tail = tail_of(fixed);
    size_t bytes = head + tail_bytes(&tail);
    assert(bytes <= HALAY_MESSAGE_MAX - HALAY_MESSAGE_HEADER);
    if (reserve_bytes(items, bytes) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;

    unsigned char *p = put_bytes(items->data + items->used, fixed, head);
    p = put_bytes(p, item->signature.shape, tail.shape);
    p = put_bytes(p, item->range_count ? (const void *)item->ranges : item->payload, tail.words);
    p = put_bytes(p, item->name, tail.name);
    p = put_bytes(p, item->text, tail.text);
    memset(p, 0, (size_t)(items->data + items->used + bytes - p));
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
