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

/* The buckets that tensors may still share. */
enum { HALAY_FUSE_OPEN = 32 };
struct halay_fuse { /* zeros, but: */
    size_t threshold;
    size_t buckets; /* their number */
    struct halay_open_bucket {
        uint64_t kind;
        size_t bytes, tensors, number;
    } open[HALAY_FUSE_OPEN];
    size_t opened, oldest;
};

/*
 * Adds a tensor. Returns the number of its bucket: 0, 1, ... in order of each bucket's first tensor. It shares the open
 * bucket of its kind (halay_signature_kind) if the sum stays within the threshold; otherwise it opens a new one, and
 * the old one is closed. Tensors of other kinds in between don't matter. A tensor that is larger than the threshold is
 * alone, and so is every one if the threshold is 0.
 */
size_t halay_fuse_add(struct halay_fuse *f, uint64_t kind, size_t bytes);

#endif
