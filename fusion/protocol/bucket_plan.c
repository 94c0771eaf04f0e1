/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan: one pass over the items; the few kinds that have an open bucket are searched linearly, the last one used first.
 * When more kinds than OPEN_MAX are open at a time (broadcasts from many roots), the one opened longest ago is closed.
 */
#include "fusion/protocol/bucket_plan.h"

enum { OPEN_MAX = 32 };

struct planned_bucket {
    uint64_t kind;
    size_t bytes, tensors, number;
};

static int has_room(const struct planned_bucket *b, size_t bytes, size_t threshold)
{
    return b->tensors < HALAY_BUCKET_TENSORS_MAX && threshold && bytes <= threshold && b->bytes <= threshold - bytes;
}

static struct planned_bucket *find_open(struct planned_bucket *open, size_t count, size_t last, uint64_t kind)
{
    if (last < count && open[last].kind == kind)
        return &open[last];
    for (size_t i = 0; i < count; i++)
        if (open[i].kind == kind)
            return &open[i];
    return NULL;
}

size_t halay_plan(struct halay_plan_item *items, size_t count, size_t threshold)
{
    struct planned_bucket open[OPEN_MAX];
    size_t opened = 0, oldest = 0, last = 0, buckets = 0;

    for (struct halay_plan_item *item = items; item < items + count; item++) {
        struct planned_bucket *b = find_open(open, opened, last, item->kind);

        if (b && has_room(b, item->bytes, threshold)) {
            b->bytes += item->bytes;
            b->tensors++;
        } else {
            if (!b && opened < OPEN_MAX)
                b = &open[opened++];
            else if (!b)
                b = &open[oldest++ % OPEN_MAX];
            *b = (struct planned_bucket){ item->kind, item->bytes, 1, buckets++ };
        }
        item->bucket = b->number;
        last = (size_t)(b - open);
    }
    return buckets;
}
