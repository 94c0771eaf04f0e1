/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan: which tensors share a bucket. Pure: values in, values out; no lock, no ranks.
 */
#ifndef HALAY_PLAN_H
#define HALAY_PLAN_H

#include <stddef.h>
#include <stdint.h>

/* A bucket's message must fit (messages.h), whatever the ids are. */
enum { HALAY_BUCKET_TENSORS_MAX = 4096 };

struct halay_plan_item {
    uint64_t kind; /* only items of the same kind share a bucket: halay_signature_kind */
    size_t bytes;
    size_t bucket; /* result: 0, 1, ... in order of each bucket's first item */
};

/*
 * Put items into buckets. An item goes into the open bucket of its kind if the sum stays within threshold, otherwise it
 * opens a new one (and the old one is closed); items of other kinds in between don't matter. One that is larger than
 * the threshold is alone, and so is everything if threshold is 0. The order of items within a bucket is kept. Returns
 * the number of buckets.
 */
size_t halay_plan(struct halay_plan_item *items, size_t count, size_t threshold);

/*
 * The same for static buckets, one item at a time: may an item of this kind and size join the newest bucket, which has
 * that kind, bytes and tensors? Only the newest is ever open: neighbours in order of registration share buckets.
 */
int halay_plan_joins(uint64_t bucket_kind, size_t bucket_bytes, size_t bucket_tensors, uint64_t kind, size_t bytes,
                     size_t threshold);

#endif
