/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of algorithms, made from algorithms.def.
 */
#ifndef HALAY_ALGORITHMS_H
#define HALAY_ALGORITHMS_H

#include "collectives/schedule/coll.h"

/* All algorithms, in the order of algorithms.def. Static storage. */
extern const struct halay_algorithm halay_algorithms[];
extern const size_t halay_algorithm_count;

const char *halay_coll_kind_name(enum halay_coll_kind operation);
/* HALAY_ERR_ARGUMENT: unknown name; name may be NULL. */
enum halay_status halay_coll_kind_parse(const char *name, enum halay_coll_kind *operation);
/* Returns NULL if that operation has none of that name. */
const struct halay_algorithm *halay_algorithm_find(enum halay_coll_kind operation, const char *name);
/* Returns how many tags that algorithm may have. */
uint32_t halay_algorithm_tags_max(const struct halay_algorithm *algorithm);
/* Returns the bytes of state that any algorithm needs at most for this number of ranks that share this. */
size_t halay_algorithm_state_max(int size, enum halay_sharing sharing);

#endif
