/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of pieces for an algorithm without PIECES: the ops that run it over chunks, which are packed and unpacked.
 */
#ifndef HALAY_PACKED_H
#define HALAY_PACKED_H

#include "collectives/schedule/coll.h"

/* Around any algorithm their state takes halay_packed_state bytes, of which they clear what they need. */
extern const struct halay_algorithm_ops halay_packed;
#define HALAY_PACKED_BYTES ((size_t)4 << 20) /* at a time, but for chunk_shift */
size_t halay_packed_state(int size, unsigned caps);

#endif
