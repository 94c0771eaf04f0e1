/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a bucket: what passes through the segments, tensors of it or ranks' blocks. Driver only, except freeing.
 */
#ifndef HALAY_DIRECT_PARTS_H
#define HALAY_DIRECT_PARTS_H

#include "fusion/paths/device/device_state.h"

/* Lists the parts in the state, with room for as many pieces, and places the results of operations that place them. */
enum halay_status halay_direct_parts_list(struct halay_bucket *b);
void halay_direct_parts_free(struct halay_context *ctx);

#endif
