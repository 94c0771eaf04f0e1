/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: every kind of item is read as it was written; random and damaged bytes are refused or give an item within
 * the bytes (checked by the address sanitizer); messages are cut at item boundaries.
 */
#include "fusion/protocol/messages.h"
#include "tests/fusion/random.h"
#include "tests/test.h"
#include <string.h>

enum { SIZE = 4 };

static void random_text(struct random *r, char first, char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        text[i] = (char)(first + random_below(r, 26));
}

/* Makes an announcement; text: arbitrary words. */
static void random_signature(struct random *r, const char *text, struct halay_item *item)
{
    struct halay_signature *s = &item->signature;

    item->name_length = 1 + random_below(r, HALAY_NAME_MAX);
    s->collective = (uint8_t)random_below(r, 2);
    item->payload = text;
    item->payload_count = random_below(r, HALAY_TEXT_MAX / 8);
    s->dtype = (uint8_t)random_below(r, HALAY_DTYPE_COUNT);
    s->reduction = s->collective == HALAY_ALLREDUCE ? (uint8_t)(2 * random_below(r, 2)) : 0;
    s->root = s->collective == HALAY_BROADCAST ? (int32_t)random_below(r, SIZE) : 0;
    s->dimensions = (uint8_t)random_below(r, HALAY_DIMENSIONS_MAX + 1);
    for (int d = 0; d < s->dimensions; d++)
        s->shape[d] = random_below(r, 30);
    s->prescale = s->postscale = 1;
    if (s->collective == HALAY_ALLREDUCE && s->dtype != HALAY_BOOL)
        s->prescale = 1 + (double)random_below(r, 5) / 7;
    s->priority = (int16_t)random_below(r, 9) - 4;
    if (s->collective == HALAY_ALLREDUCE && s->dtype == HALAY_F32)
        s->wire = (uint8_t)random_below(r, 3);
    if (s->collective == HALAY_ALLREDUCE && !random_below(r, 3)) {
        s->members = 1 + (uint16_t)random_below(r, 5);
        s->payload_count = (uint16_t)item->payload_count;
        s->dtype = s->dimensions = 0;
        memset(s->shape, 0, sizeof s->shape);
    }
    item->id = (uint32_t)random_next(r);
}

/* Makes the items of replay, and those that have only an id. */
static void random_rest(struct random *r, const char *text, struct halay_item *item)
{
    if (item->kind == HALAY_ITEM_FORGET)
        item->id = (uint32_t)random_next(r);
    if (item->kind < HALAY_ITEM_PLAN)
        return;
    item->epoch = (uint32_t)random_next(r);
    if (item->kind == HALAY_ITEM_BREAK) {
        item->reason = (uint32_t)random_next(r);
        item->rank = (int)random_below(r, SIZE);
    }
    if (item->kind < HALAY_ITEM_ENTERED)
        return;
    item->ranks = (int)random_below(r, SIZE + 1);
    item->payload = text;
    item->payload_count = random_below(r, HALAY_TEXT_MAX / 8 + 1);
}

static void random_bucket(struct random *r, struct halay_id_range *ranges, struct halay_item *item)
{
    item->range_count = 1 + random_below(r, 100);
    for (size_t i = 0; i < item->range_count; i++)
        ranges[i] = (struct halay_id_range){ (uint32_t)random_next(r) >> 1, 1 + (uint32_t)random_below(r, 40) };
    item->ranges = ranges;
    if (item->kind == HALAY_ITEM_BUCKET)
        item->absent = (int)random_below(r, SIZE);
    *(item->kind == HALAY_ITEM_BUCKET ? &item->has_parts : &item->has_vote) = (int)random_below(r, 2);
}

static struct halay_item random_item(struct random *r, char *name, char *text, struct halay_id_range *ranges)
{
    struct halay_item item = { .kind = (enum halay_item_kind)(1 + random_below(r, HALAY_ITEM_KINDS - 1)), .rank = -1 };

    item.name = name, item.text = text;
    random_text(r, 'a', name, HALAY_NAME_MAX), random_text(r, 'A', text, HALAY_TEXT_MAX);
    switch (item.kind) {
    case HALAY_ITEM_READY:
        item.range = (struct halay_id_range){ (uint32_t)random_below(r, 1000), 1 + (uint32_t)random_below(r, 1000) };
        break;
    case HALAY_ITEM_ANNOUNCE:
    case HALAY_ITEM_AGREE:
        random_signature(r, text, &item);
        break;
    case HALAY_ITEM_WITHDRAW:
        item.name_length = 1 + random_below(r, HALAY_NAME_MAX);
        item.status = HALAY_ERR_TIMEOUT;
        item.after_ms = (int)random_below(r, 100000);
        break;
    case HALAY_ITEM_BUCKET:
    case HALAY_ITEM_PLANNED:
        random_bucket(r, ranges, &item);
        break;
    case HALAY_ITEM_ERROR:
        item.name_length = 1 + random_below(r, HALAY_NAME_MAX);
        item.text_length = random_below(r, HALAY_TEXT_MAX + 1);
        item.status = HALAY_ERR_MISMATCH;
        break;
    case HALAY_ITEM_FAIL:
        item.text_length = random_below(r, HALAY_TEXT_MAX + 1);
        item.status = HALAY_ERR_PEER;
        item.rank = (int)random_below(r, SIZE + 1) - 1;
        break;
    case HALAY_ITEM_LISTEN:
        item.number = random_next(r);
        /* fall through */
    case HALAY_ITEM_LEFT:
        item.rank = (int)random_below(r, SIZE);
        break;
    case HALAY_ITEM_DOING:
        item.doing = (enum halay_doing)random_below(r, HALAY_DOING_COUNT),
        item.name_length = random_below(r, HALAY_NAME_MAX + 1);
        break;
    default:
        random_rest(r, text, &item);
    }
    return item;
}

static int is_same_item(const struct halay_item *a, const struct halay_item *b)
{
    return a->kind == b->kind && a->name_length == b->name_length && a->text_length == b->text_length &&
           !memcmp(a->name, b->name, a->name_length) && !memcmp(a->text, b->text, a->text_length) &&
           halay_signature_equal(&a->signature, &b->signature) && a->id == b->id && a->number == b->number &&
           a->after_ms == b->after_ms && a->status == b->status && a->rank == b->rank && a->doing == b->doing &&
           a->range.first == b->range.first && a->range.count == b->range.count &&
           a->payload_count == b->payload_count &&
           (!a->payload_count || !memcmp(a->payload, b->payload, 8 * a->payload_count)) && a->epoch == b->epoch &&
           a->reason == b->reason && a->absent == b->absent && a->has_parts == b->has_parts &&
           a->has_vote == b->has_vote && a->range_count == b->range_count &&
           !memcmp(a->ranges, b->ranges, a->range_count * sizeof *a->ranges);
}

static void check_round_trip(struct random *r)
{
    char name[HALAY_NAME_MAX], text[HALAY_TEXT_MAX];
    struct halay_id_range ranges[100], none[1] = { { 0, 0 } };
    struct halay_items items = { 0 };
    struct halay_item wrote = random_item(r, name, text, ranges), read;
    size_t at = 0;

    REQUIRE(halay_items_append(&items, &wrote) == HALAY_OK);
    CHECK(halay_item_read(items.data, items.used, &at, SIZE, &read) == HALAY_OK, "kind %d", wrote.kind);
    CHECK(at == items.used && at % 4 == 0);
    wrote.ranges = wrote.ranges ? wrote.ranges : none;
    read.ranges = read.ranges ? read.ranges : none;
    CHECK(is_same_item(&wrote, &read), "kind %d", wrote.kind);

    /* An item that is cut short is refused, wherever it is cut. The copy is as long as the rest, so that a sanitizer
     * finds reads beyond it. */
    for (size_t cut = 0; cut < items.used; cut += 1 + cut / 16) {
        unsigned char *copy = malloc(cut ? cut : 1);
        REQUIRE(copy);
        memcpy(copy, items.data, cut);
        at = 0;
        CHECK(halay_item_read(copy, cut, &at, SIZE, &read) == HALAY_ERR_FORMAT && at == 0, "kind %d", wrote.kind);
        free(copy);
    }
    /* A damaged item is refused, or stays within the bytes. */
    for (int k = 0; k < 20; k++) {
        unsigned char *copy = malloc(items.used);
        REQUIRE(copy);
        memcpy(copy, items.data, items.used);
        for (size_t n = 1 + random_below(r, 4); n; n--)
            copy[random_below(r, items.used < 48 ? items.used : 48)] = (unsigned char)random_next(r);
        at = 0;
        enum halay_status status = halay_item_read(copy, items.used, &at, SIZE, &read);
        CHECK(status == HALAY_ERR_FORMAT || (status == HALAY_OK && at <= items.used && read.name_length <= items.used &&
                                             read.text_length <= items.used));
        CHECK(status != HALAY_OK || read.payload_count <= items.used / 8);
        if (status == HALAY_OK && (read.kind == HALAY_ITEM_ANNOUNCE || read.kind == HALAY_ITEM_AGREE))
            CHECK(halay_signature_is_valid(&read.signature, SIZE));
        free(copy);
    }
    halay_items_fini(&items);
}

static void check_garbage(struct random *r)
{
    size_t bytes = 4 * random_below(r, 64);
    unsigned char *garbage = malloc(bytes ? bytes : 1);

    REQUIRE(garbage);
    for (size_t i = 0; i < bytes; i++)
        garbage[i] = (unsigned char)(random_below(r, 3) ? random_below(r, HALAY_ITEM_KINDS + 2) : random_next(r));
    for (size_t at = 0; at < bytes;) {
        struct halay_item item;
        size_t before = at;
        if (halay_item_read(garbage, bytes, &at, SIZE, &item) != HALAY_OK)
            break;
        CHECK(at > before && at <= bytes);
    }
    struct halay_message_header header = { 0 };
    if (bytes >= HALAY_MESSAGE_HEADER)
        CHECK(halay_message_get_header(garbage, &header) != HALAY_OK || header.bytes <= HALAY_MESSAGE_MAX);
    free(garbage);
}

static void check_header(void)
{
    unsigned char bytes[HALAY_MESSAGE_HEADER];
    struct halay_message_header out = { 0 };

    halay_message_put_header(bytes, 1234 * 4, 7);
    CHECK(halay_message_get_header(bytes, &out) == HALAY_OK && out.bytes == 1234 * 4 && out.number == 7);
    bytes[0] ^= 3;
    CHECK(halay_message_get_header(bytes, &out) == HALAY_ERR_VERSION);
    bytes[1] ^= 1;
    CHECK(halay_message_get_header(bytes, &out) == HALAY_ERR_FORMAT);
    halay_message_put_header(bytes, HALAY_MESSAGE_MAX + 4, 7);
    CHECK(halay_message_get_header(bytes, &out) == HALAY_ERR_FORMAT);
}

/* Consecutive ids, up or down, become one item; a steady step of a thousand tensors is one frame. */
static void check_joining(void)
{
    struct halay_items items = { 0 };
    struct halay_item read;
    size_t at = 0;

    for (uint32_t id = 10; id < 1010; id++)
        REQUIRE(halay_items_append(&items, &(struct halay_item){ .kind = HALAY_ITEM_READY, .range = { id, 1 } }) ==
                HALAY_OK);
    CHECK(items.used == 16);
    CHECK(halay_item_read(items.data, items.used, &at, SIZE, &read) == HALAY_OK && read.range.first == 10 &&
          read.range.count == 1000);
    REQUIRE(halay_items_append(&items, &(struct halay_item){ .kind = HALAY_ITEM_FLUSH }) == HALAY_OK);
    REQUIRE(halay_items_append(&items, &(struct halay_item){ .kind = HALAY_ITEM_READY, .range = { 1010, 1 } }) ==
            HALAY_OK);
    CHECK(items.used == 40, "not across another item");
    CHECK(halay_items_fitting(&items, 39) == 24 && halay_items_fitting(&items, 23) == 16 &&
          halay_items_fitting(&items, 15) == 0 && halay_items_fitting(&items, 40) == 40);
    halay_items_drop(&items, 24);
    REQUIRE(halay_items_append(&items, &(struct halay_item){ .kind = HALAY_ITEM_READY, .range = { 1011, 5 } }) ==
            HALAY_OK);
    at = 0;
    CHECK(items.used == 16 && halay_item_read(items.data, items.used, &at, SIZE, &read) == HALAY_OK &&
          read.range.first == 1010 && read.range.count == 6);
    for (uint32_t id = 1010; id > 7; id--)
        REQUIRE(halay_items_append(&items, &(struct halay_item){ .kind = HALAY_ITEM_READY, .range = { id - 1, 1 } }) ==
                HALAY_OK);
    at = 0;
    CHECK(items.used == 16 && halay_item_read(items.data, items.used, &at, SIZE, &read) == HALAY_OK &&
              read.range.first == 7 && read.range.count == 1009,
          "downwards too");
    halay_items_fini(&items);
}

int main(int argc, char **argv)
{
    struct random random = { random_seed(argc, argv) };

    check_header();
    check_joining();
    for (int i = 0; i < 3000; i++)
        check_round_trip(&random);
    for (int i = 0; i < 100000; i++)
        check_garbage(&random);
    return test_end();
}
