/* SPDX-License-Identifier: Apache-2.0
 *
 * Static buckets: what the deterministic modes fuse, as the registrations say. Rank 0.
 */
#ifndef HALAY_STATIC_BUCKET_H
#define HALAY_STATIC_BUCKET_H

#include "fusion/state/context.h"

struct halay_sealed_bucket;
struct halay_tensor;

/* The static bucket of a registered tensor (rank 0 in a deterministic mode); guarded by lock where not said
 * otherwise. */
struct halay_static_bucket {
    struct halay_static_bucket *next;
    uint64_t kind;
    size_t bytes, count, capacity;
    char **names; /* owned: the members in order of registration; NULL: unregistered before it was sealed */
    size_t alive;
    int is_sealed;                      /* a member was submitted: nothing is added any more */
    struct halay_sealed_bucket *sealed; /* borrowed: the coordinator's; driver only */
    size_t *position;                   /* owned: of each name among the sealed ones; driver only */
};

/* The tensor joins the last bucket, or a new one; lock held, as for all of these. */
enum halay_status halay_static_bucket_join_locked(struct halay_context *ctx, struct halay_tensor *tensor);
enum halay_status halay_static_bucket_leave_locked(struct halay_context *ctx, struct halay_tensor *tensor);
/* Every member was unregistered, and the coordinator has released it. */
void halay_static_bucket_remove_locked(struct halay_context *ctx, struct halay_static_bucket *bucket);
void halay_static_buckets_free_all(struct halay_context *ctx);

#endif
