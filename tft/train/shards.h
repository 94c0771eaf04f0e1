/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards: which rank updates which tensor, and which tensors travel together. Pure: it depends only on the table and
 * the number of ranks, and is the same on all.
 *
 * Living tensors that are neighbours in the table form *buckets* of about a megabyte, the last of the table first, as
 * backward finishes them. Each bucket is cut between tensors into a part for each rank: a tensor is never split, so
 * that its norm has the bits that a single rank would compute. Parts are as even as whole tensors allow; later buckets
 * even out what earlier ones leave uneven.
 *
 *     table        a  b  c |  d  e  f  g |  h  i        3 buckets, 2 ranks
 *     updated by   0  1  1 |  0  0  1  1 |  0  1
 */
#ifndef HALAY_TFT_SHARDS_H
#define HALAY_TFT_SHARDS_H

#include "base/log.h"
#include "tft/model/params.h"

/* Who has what: words of the key `strategy`, in its order.
 *
 *                        every rank has           one rank has of each tensor      travels in a step
 *     allreduce          everything                                                all-reduce
 *     zero1              weights, gradients       moments, average                 all-reduce, all-gather
 *     zero2              weights                  moments, average, gradient       reduce-scatter, all-gather
 *     parameter-server   weights                  the same, and it is rank 0       reduce, broadcast
 *     pipeline           weights                  the same, and it computes that   activations and their gradients;
 *                                                 stage of the model               all-gather
 */
enum tft_strategy { TFT_ALLREDUCE, TFT_ZERO1, TFT_ZERO2, TFT_PARAMETER_SERVER, TFT_PIPELINE };

struct tft_bucket {
    size_t first, end;    /* tensors [first, end) of the table */
    size_t count;         /* values in them */
    size_t offset, reals; /* where they are in a block, with the gaps after them: these travel, too */
    size_t own_offset;    /* where this rank's part of them does: it has splits[rank] reals */
    size_t own;           /* tensors of that */
    const size_t *splits; /* (ranks) reals of each rank's part; borrowed from the shards */
};

struct tft_shards { /* zero-initialised: nothing is dealt out, every rank has everything (allreduce) */
    enum tft_strategy strategy;
    size_t *offsets;            /* owned: (table->count) where this rank's tensors are in its own block; SIZE_MAX:
                                 * others, dead */
    size_t *bucket_of;          /* owned: (table->count); SIZE_MAX: dead */
    struct tft_bucket *buckets; /* owned */
    size_t bucket_count;
    size_t *splits;               /* owned: (bucket_count, ranks) */
    struct tft_param_table table; /* owned: this rank's tensors, bucket by bucket, at their offsets */
};

/* Nothing is held on error: HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_shards_init(struct halay_log *log, const struct tft_param_table *table,
                                  enum tft_strategy strategy, int rank, int ranks, struct tft_shards *shards);
void tft_shards_fini(struct tft_shards *shards);

/* Copy this rank's part of a block of the table into a block of its own, and back. Dead tensors are not touched, except
 * by allreduce, which copies everything. */
void tft_shards_take(const struct tft_shards *shards, const struct tft_param_table *table, const float *block,
                     float *own);
void tft_shards_give(const struct tft_shards *shards, const struct tft_param_table *table, const float *own,
                     float *block);

/* Reals of a block of this rank's own. */
size_t tft_shards_reals(const struct tft_shards *shards, const struct tft_param_table *table);

#endif
