/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of pieces for algorithms that want one array: ops that pack chunks, run the algorithm, and unpack them.
 */
#ifndef HALAY_PACKED_H
#define HALAY_PACKED_H

#include "collectives/schedule/coll.h"

/* Their state takes halay_packed_state bytes around any algorithm; they clear the part that they need. */
extern const struct halay_algorithm_ops halay_packed;
#define HALAY_PACKED_BYTES ((size_t)4 << 20) /* at a time, but for chunk_shift */
size_t halay_packed_state(int size, enum halay_sharing sharing);

#endif
