/* SPDX-License-Identifier: Apache-2.0
 *
 * A group's choices: halay_select with what the group knows, remembered for sizes that are used again.
 */
#ifndef HALAY_CHOICE_H
#define HALAY_CHOICE_H

#include "collectives/choose/select.h"
#include "collectives/group/channel.h"

/* Returns the choice for this operation and size, whose algorithm is not NULL; valid until the next call. At log level
 * debug a line gives the reason, the first time and again from time to time. */
const struct halay_choice *halay_choice_make(struct halay_group *group, enum halay_coll_kind operation, size_t bytes,
                                             enum halay_dtype dtype);
/* Returns the query that the choice follows from. */
struct halay_select_query halay_choice_query(const struct halay_group *group, enum halay_coll_kind operation,
                                             size_t bytes, enum halay_dtype dtype);
/* Forgets all choices, after a change of settings. */
void halay_choice_forget(struct halay_group *group);

#endif
