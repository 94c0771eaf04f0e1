/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce of a bucket. Driver only.
 */
#ifndef HALAY_OP_REDUCE_H
#define HALAY_OP_REDUCE_H

#include "fusion/run/bucket.h"

/* Starts the collective of b's only request; b->coll stays NULL if nothing has to be moved. An error ends the
 * engine. */
enum halay_status halay_reduce_run(struct halay_context *ctx, struct halay_bucket *b);
/* Scales the result of a complete collective. */
void halay_reduce_finish(struct halay_request *request);

/* Returns the request's input in *in: with a prescale a copy, because the input is only read. */
enum halay_status halay_reduce_input(struct halay_context *ctx, struct halay_bucket *b, const void **in);

#endif
