/* SPDX-License-Identifier: Apache-2.0
 *
 * All-gather of a bucket. Driver only.
 */
#ifndef HALAY_OP_ALLGATHER_H
#define HALAY_OP_ALLGATHER_H

#include "fusion/run/bucket.h"

/* Start the collective of b's only request; b->coll stays NULL if nothing has to be moved. An error is the end of the
 * engine. */
enum halay_status halay_allgather_run(struct halay_context *ctx, struct halay_bucket *b);
/* *in: where this rank's rows, which go behind `first` elements of out, are taken from: a copy, or where they are. */
enum halay_status halay_allgather_own_rows(struct halay_context *ctx, struct halay_bucket *b, size_t first,
                                           const char *out, const void **in);

#endif
