/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce-scatter of a bucket. Driver only.
 */
#ifndef HALAY_OP_REDUCE_SCATTER_H
#define HALAY_OP_REDUCE_SCATTER_H

#include "fusion/run/bucket.h"

/* Starts the collective of b's only request; b->coll stays NULL if nothing has to be moved. An error ends the
 * engine. */
enum halay_status halay_reduce_scatter_run(struct halay_context *ctx, struct halay_bucket *b);
/* Scales the result of a complete collective. */
void halay_reduce_scatter_finish(struct halay_request *request);

#endif
