/* SPDX-License-Identifier: Apache-2.0
 *
 * The distribution of tensors to buckets: results for known lists, and properties that hold for every list. And the
 * buckets of rank 0 that a rank accepts, and those that it refuses.
 */
#include "fusion/protocol/fuse.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/context.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/request.h"
#include "fusion/run/bucket.h"
#include "tests/fusion/random.h"
#include "tests/test.h"
#include <string.h>

enum { ITEMS_MAX = 300 };

struct item {
    uint64_t kind;
    size_t bytes, bucket; /* bucket: the result */
};

/* Returns the number of buckets. */
static size_t fuse_all(struct item *items, size_t count, size_t threshold)
{
    struct halay_fuse fuse = { .threshold = threshold };

    for (size_t i = 0; i < count; i++)
        items[i].bucket = halay_fuse_add(&fuse, items[i].kind, items[i].bytes);
    return fuse.buckets;
}

static void check_known(void)
{
    struct item mixed[] = { { 1, 40, 9 }, { 2, 40, 9 },  { 1, 40, 9 }, { 2, 70, 9 },
                            { 1, 40, 9 }, { 1, 500, 9 }, { 1, 0, 9 } };
    static const size_t want[] = { 0, 1, 0, 2, 3, 4, 5 };

    CHECK(fuse_all(mixed, 7, 100) == 6);
    for (size_t i = 0; i < 7; i++)
        CHECK(mixed[i].bucket == want[i], "item %zu is in %zu", i, mixed[i].bucket);
    CHECK(fuse_all(mixed, 7, 0) == 7, "no fusion");
    CHECK(fuse_all(mixed, 0, 100) == 0);
    struct item edge[] = { { 1, 60, 9 }, { 1, 40, 9 }, { 1, 61, 9 }, { 1, 40, 9 }, { 1, (size_t)-1, 9 } };
    CHECK(fuse_all(edge, 5, 100) == 4 && edge[1].bucket == 0 && edge[3].bucket == 2 && edge[4].bucket == 3);
    static struct item many[HALAY_BUCKET_TENSORS_MAX + 1];
    CHECK(fuse_all(many, HALAY_BUCKET_TENSORS_MAX, 1) == 1 && fuse_all(many, HALAY_BUCKET_TENSORS_MAX + 1, 1) == 2);
}

/* Every item is in one bucket of its kind; only buckets of one item exceed the threshold; numbers grow with the first
 * items; two neighbours of a kind that would fit together are not in two buckets that are both less than half full. */
static void check_properties(struct random *random)
{
    struct item items[ITEMS_MAX] = { { 0 } }, again[ITEMS_MAX];
    size_t bytes[ITEMS_MAX] = { 0 }, members[ITEMS_MAX] = { 0 }, count = random_below(random, ITEMS_MAX);
    uint64_t kinds[ITEMS_MAX];
    size_t threshold = random_below(random, 4) ? random_below(random, 5000) : 0,
           kind_count = 1 + random_below(random, 50);

    for (size_t i = 0; i < count; i++)
        items[i] = (struct item){ random_below(random, kind_count), random_below(random, 3000), 0 };
    memcpy(again, items, sizeof items);
    size_t buckets = fuse_all(items, count, threshold), seen = 0;
    CHECK(buckets <= count && (buckets > 0) == (count > 0));
    for (size_t i = 0; i < count; i++) {
        size_t b = items[i].bucket;
        CHECK(b <= seen && b < buckets);
        if (b == seen)
            kinds[seen++] = items[i].kind;
        CHECK(kinds[b] == items[i].kind);
        bytes[b] += items[i].bytes;
        members[b]++;
    }
    CHECK(seen == buckets);
    for (size_t b = 0; b < buckets; b++)
        CHECK(members[b] == 1 || bytes[b] <= threshold, "%zu bytes in %zu members", bytes[b], members[b]);
    if (kind_count == 1 && threshold)
        for (size_t i = 1; i < count; i++)
            if (items[i].bucket != items[i - 1].bucket)
                CHECK(bytes[items[i - 1].bucket] + items[i].bytes > threshold);
    CHECK(fuse_all(again, count, threshold) == buckets);
    for (size_t i = 0; i < count; i++)
        CHECK(again[i].bucket == items[i].bucket, "the result depends on more than the arguments");
}

/* ---- buckets that rank 0 sends ---- */

enum { TENSORS = 3 };

/* A carrier that has no bucket. */
static void drop_bucket(struct halay_bucket *bucket)
{
    (void)bucket;
}

static const struct halay_carrier_ops carrier_ops = { .drop_bucket = drop_bucket };
static struct halay_carrier carrier = { .ops = &carrier_ops };
static struct halay_context context;
static struct halay_meters meters;
static struct halay_execution execution;
static struct halay_entry entries[TENSORS];
static struct halay_request requests[TENSORS];
static struct halay_entry *by_id[TENSORS] = { &entries[0], &entries[1], &entries[2] };
static const struct halay_signature sum = { .collective = HALAY_ALLREDUCE,
                                            .dtype = HALAY_F32,
                                            .reduction = HALAY_SUM,
                                            .dimensions = 1,
                                            .shape = { 4 },
                                            .prescale = 1,
                                            .postscale = 1 };

/* Makes the context of a rank with three tensors in flight; the last one has this signature, the others are f32
 * sums. */
static enum halay_status add_bucket(const struct halay_signature *last, const struct halay_id_range *ranges,
                                    size_t range_count)
{
    memset(&context, 0, sizeof context);
    context.size = 2;
    context.carrier = &carrier;
    context.meters = &meters;
    context.execution = &execution;
    halay_process_set_init(&context.all, &context, 2, 0);
    context.all.by_id = by_id;
    context.all.id_capacity = TENSORS;
    for (int i = 0; i < TENSORS; i++) {
        requests[i] = (struct halay_request){ .ctx = &context, .set = &context.all, .entry = &entries[i], .bytes = 16 };
        requests[i].signature = i == TENSORS - 1 ? *last : sum;
        entries[i] = (struct halay_entry){ .set = &context.all, .request = &requests[i], .id = (uint32_t)i };
        entries[i].agreed = requests[i].signature;
    }
    enum halay_status status = halay_bucket_add(
        &context.all, &(struct halay_item){ .kind = HALAY_ITEM_BUCKET, .ranges = ranges, .range_count = range_count });
    if (status == HALAY_OK)
        halay_buckets_abandon(&context);
    halay_buckets_free_all(&context);
    return status;
}

static void check_buckets(void)
{
    static const struct halay_id_range all[] = { { 0, TENSORS } }, last_only[] = { { TENSORS - 1, 1 } },
                                       none[] = { { 0, 0 } }, beyond[] = { { 0, UINT32_MAX } };
    struct halay_signature other[6];

    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        other[i] = sum;
    other[0].dtype = HALAY_F64;
    other[1].reduction = HALAY_MAX;
    other[2].collective = HALAY_BROADCAST;
    other[3].collective = HALAY_ALLGATHER;
    other[4].is_on_devices = 1;
    other[5].collective = HALAY_BARRIER;
    CHECK(add_bucket(&sum, all, 1) == HALAY_OK);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        CHECK(add_bucket(&other[i], all, 1) == HALAY_ERR_FORMAT, "case %zu", i);
        CHECK(add_bucket(&other[i], last_only, 1) == HALAY_OK, "case %zu alone", i);
    }
    CHECK(add_bucket(&sum, none, 0) == HALAY_ERR_FORMAT && add_bucket(&sum, none, 1) == HALAY_ERR_FORMAT, "empty");
    CHECK(add_bucket(&sum, beyond, 1) == HALAY_ERR_FORMAT, "more than there are");
}

int main(int argc, char **argv)
{
    struct random random = { random_seed(argc, argv) };

    check_known();
    check_buckets();
    for (int i = 0; i < 2000; i++)
        check_properties(&random);
    return test_end();
}
