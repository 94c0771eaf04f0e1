/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: one pass over the items; the few kinds that have an open bucket are searched linearly, the last one used
 * first. When more kinds than OPEN_MAX are open at a time (broadcasts from many roots), the one opened longest ago is
 * closed.
 */
#include "fusion/protocol/fuse.h"

enum { OPEN_MAX = 32 };

struct open_bucket {
    uint64_t kind;
    size_t bytes, tensors, number;
};

static int has_room(const struct open_bucket *b, size_t bytes, size_t threshold)
{
    return b->tensors < HALAY_BUCKET_TENSORS_MAX && threshold && bytes <= threshold && b->bytes <= threshold - bytes;
}

static struct open_bucket *find_open(struct open_bucket *open, size_t count, size_t last, uint64_t kind)
{
    if (last < count && open[last].kind == kind)
        return &open[last];
    for (size_t i = 0; i < count; i++)
        if (open[i].kind == kind)
            return &open[i];
    return NULL;
}

size_t halay_fuse(struct halay_fuse_item *items, size_t count, size_t threshold)
{
    struct open_bucket open[OPEN_MAX];
    size_t opened = 0, oldest = 0, last = 0, buckets = 0;

    for (struct halay_fuse_item *item = items; item < items + count; item++) {
        struct open_bucket *b = find_open(open, opened, last, item->kind);

        if (b && has_room(b, item->bytes, threshold)) {
            b->bytes += item->bytes;
            b->tensors++;
        } else {
            if (!b && opened < OPEN_MAX)
                b = &open[opened++];
            else if (!b)
                b = &open[oldest++ % OPEN_MAX];
            *b = (struct open_bucket){ item->kind, item->bytes, 1, buckets++ };
        }
        item->bucket = b->number;
        last = (size_t)(b - open);
    }
    return buckets;
}
