/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations: what starts the collective of a bucket (op_*.c). Driver only.
 */
#ifndef HALAY_OPERATIONS_H
#define HALAY_OPERATIONS_H

#include "fusion/rank/bucket.h"

/* Start the collective of all its requests; otherwise as below. */
enum halay_status halay_allreduce_run(struct halay_bucket *b);

/* Start the collective of b's only request; b->coll stays NULL if nothing has to be moved. An error is the end of the
 * engine. */
enum halay_status halay_allgather_run(struct halay_context *ctx, struct halay_bucket *b);
enum halay_status halay_reduce_scatter_run(struct halay_context *ctx, struct halay_bucket *b);
/* It is complete: scales the result. */
void halay_reduce_scatter_finish(struct halay_request *request);
enum halay_status halay_alltoall_run(struct halay_context *ctx, struct halay_bucket *b);

#endif
