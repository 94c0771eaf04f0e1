/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce of a bucket. Driver only.
 */
#ifndef HALAY_OP_REDUCE_H
#define HALAY_OP_REDUCE_H

#include "fusion/run/bucket.h"

/* Start the collective of b's only request; b->coll stays NULL if nothing has to be moved. An error is the end of the
 * engine. */
enum halay_status halay_reduce_run(struct halay_context *ctx, struct halay_bucket *b);
/* It is complete: scales the result. */
void halay_reduce_finish(struct halay_request *request);

/* What the request gives, in *in: with a prescale a copy, as what is given is only read. */
enum halay_status halay_reduce_input(struct halay_context *ctx, struct halay_bucket *b, const void **in);

#endif
