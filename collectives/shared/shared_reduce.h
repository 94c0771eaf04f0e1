/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducing through shared memory: what all-reduce, reduce and reduce-scatter over shared memory have in common. Each
 * rank owns a slice of everybody's in; it adds that slice and writes the sum into its own out and the sinks'.
 */
#ifndef HALAY_SHARED_REDUCE_H
#define HALAY_SHARED_REDUCE_H

#include "collectives/shared/shared.h"

size_t shared_reduce_state_bytes(int size);
void shared_reduce_start(struct halay_coll *c);
enum halay_status shared_reduce_progress(struct halay_coll *c);

#endif
