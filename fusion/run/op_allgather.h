/* SPDX-License-Identifier: Apache-2.0
 *
 * All-gather of a bucket. Driver only.
 */
#ifndef HALAY_OP_ALLGATHER_H
#define HALAY_OP_ALLGATHER_H

#include "fusion/run/bucket.h"

/* Starts the collective of b's only request; b->coll stays NULL if nothing has to be moved. An error ends the
 * engine. */
enum halay_status halay_allgather_run(struct halay_context *ctx, struct halay_bucket *b);
/* Returns in *in the source of this rank's rows, whose place is after `first` elements of out: a copy, or the rows
 * themselves. */
enum halay_status halay_allgather_own_rows(struct halay_context *ctx, struct halay_bucket *b, size_t first,
                                           const char *out, const void **in);

#endif
