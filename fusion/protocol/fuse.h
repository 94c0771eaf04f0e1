/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion: the distribution of tensors to buckets. Pure: values in, values out; no lock, no ranks.
 */
#ifndef HALAY_FUSE_H
#define HALAY_FUSE_H

#include <stddef.h>
#include <stdint.h>

/* A bucket's message must fit (messages.h), whatever the ids are. */
enum { HALAY_BUCKET_TENSORS_MAX = 4096 };

struct halay_fuse_item {
    uint64_t kind; /* only items of the same kind share a bucket: halay_signature_kind */
    size_t bytes;
    size_t bucket; /* result: 0, 1, ... in order of each bucket's first item */
};

/*
 * Distributes items to buckets. An item goes into the open bucket of its kind if the sum stays within threshold;
 * otherwise it opens a new one, and the old one is closed. Items of other kinds in between don't matter. An item that
 * is larger than the threshold is alone, and so is every item if threshold is 0. The order of items within a bucket is
 * kept. Returns the number of buckets.
 */
size_t halay_fuse(struct halay_fuse_item *items, size_t count, size_t threshold);

#endif
