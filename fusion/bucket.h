/* SPDX-License-Identifier: Apache-2.0
 *
 * Bucket, inside view: for bucket.c and the operations that have one to themselves (op_*.c). Driver only.
 */
#ifndef HALAY_BUCKET_H
#define HALAY_BUCKET_H

#include "fusion/engine.h"

struct halay_bucket {
    struct halay_bucket *next;
    struct halay_request **requests; /* owned array, borrowed requests */
    struct halay_piece *pieces;      /* owned array */
    size_t count, capacity;
    struct halay_coll *coll; /* owned while it runs */
    void *scratch;           /* owned, of the group: memory that local ranks share where they can */
    size_t scratch_bytes;
};

/* Make b->scratch at least that large; kept for the next time. */
enum halay_status halay_bucket_scratch(struct halay_context *ctx, struct halay_bucket *b, size_t bytes);

/* Start the collective of b's only request; b->coll stays NULL if nothing has to be moved. An error is the end of the
 * engine. */
enum halay_status halay_allgather_run(struct halay_context *ctx, struct halay_bucket *b);
enum halay_status halay_reduce_scatter_run(struct halay_context *ctx, struct halay_bucket *b);
enum halay_status halay_alltoall_run(struct halay_context *ctx, struct halay_bucket *b);

#endif
