/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: the few kinds that have an open bucket are searched linearly. When more kinds than HALAY_FUSE_OPEN are open
 * at a time (broadcasts from many roots), the one opened longest ago is closed.
 */
#include "fusion/protocol/fuse.h"

static int has_room(const struct halay_open_bucket *b, size_t bytes, size_t threshold)
{
    return b->tensors < HALAY_BUCKET_TENSORS_MAX && threshold && bytes <= threshold && b->bytes <= threshold - bytes;
}

static struct halay_open_bucket *find_open(struct halay_fuse *f, uint64_t kind)
{
    for (size_t i = 0; i < f->opened; i++)
        if (f->open[i].kind == kind)
            return &f->open[i];
    return NULL;
}

size_t halay_fuse_add(struct halay_fuse *f, uint64_t kind, size_t bytes)
{
    struct halay_open_bucket *b = find_open(f, kind);

    if (b && has_room(b, bytes, f->threshold)) {
        b->bytes += bytes;
        b->tensors++;
    } else {
        if (!b)
            b = &f->open[f->opened < HALAY_FUSE_OPEN ? f->opened++ : f->oldest++ % HALAY_FUSE_OPEN];
        *b = (struct halay_open_bucket){ kind, bytes, 1, f->buckets++ };
    }
    return b->number;
}
