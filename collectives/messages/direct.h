/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts to their owners by messages: what the direct all-reduce and the direct reduce-scatter have in common. Each rank
 * owns a block; it gets everybody's part of it, adds, and sends the sum to all if it is an all-reduce.
 */
#ifndef HALAY_DIRECT_H
#define HALAY_DIRECT_H

#include "collectives/group/channel.h"

enum { DIRECT_LANES = 2, DIRECT_TAGS = 2 * DIRECT_LANES };

size_t direct_state_bytes(int size);
size_t direct_scratch_bytes(const struct halay_coll *c);
void direct_start(struct halay_coll *c);
enum halay_status direct_progress(struct halay_coll *c);
void direct_cancel(struct halay_coll *c);

#endif
