/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations: how a bucket's collective begins. Driver only.
 */
#ifndef HALAY_OPERATIONS_H
#define HALAY_OPERATIONS_H

#include "fusion/run/bucket.h"

/* Collects the non-empty tensors of the requests of an all-reduce. */
enum halay_status halay_allreduce_collect(struct halay_bucket *b);

/* Each starts the collective of b's requests, all but an all-reduce of its only request; b->coll stays NULL if nothing
 * has to be moved. An error ends the engine. */
enum halay_status halay_allreduce_run(struct halay_bucket *b);
enum halay_status halay_broadcast_run(struct halay_bucket *b);
enum halay_status halay_reduce_run(struct halay_context *ctx, struct halay_bucket *b);
enum halay_status halay_reduce_scatter_run(struct halay_context *ctx, struct halay_bucket *b);
enum halay_status halay_allgather_run(struct halay_context *ctx, struct halay_bucket *b);
enum halay_status halay_gather_run(struct halay_context *ctx, struct halay_bucket *b);
/* A scatter, too. */
enum halay_status halay_alltoall_run(struct halay_context *ctx, struct halay_bucket *b);

/* Returns the rows of a rank's block of a reduce-scatter. */
size_t halay_scattered_rows(const struct halay_bucket *b, int rank);
/* Scales the result of a complete reduce or reduce-scatter. */
void halay_reduce_finish(struct halay_request *request);

#endif
