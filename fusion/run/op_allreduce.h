/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce of a bucket. Driver only.
 */
#ifndef HALAY_OP_ALLREDUCE_H
#define HALAY_OP_ALLREDUCE_H

#include "fusion/run/bucket.h"

/* Collects the non-empty tensors of its requests. */
enum halay_status halay_allreduce_collect(struct halay_bucket *b);

/* Starts the collective of all its requests; b->coll stays NULL if nothing has to be moved. An error ends the
 * engine. */
enum halay_status halay_allreduce_run(struct halay_bucket *b);

#endif
