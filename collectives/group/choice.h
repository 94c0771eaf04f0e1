/* SPDX-License-Identifier: Apache-2.0
 *
 * A group's choices: halay_select with what the group knows, remembered for sizes that come again.
 */
#ifndef HALAY_CHOICE_H
#define HALAY_CHOICE_H

#include "collectives/choose/select.h"
#include "collectives/group/channel.h"

/* For that much: algorithm is not NULL; valid until the next call. At log level debug a line says why, the first time
 * and now and then again. */
const struct halay_choice *halay_choice_make(struct halay_group *group, enum halay_coll_kind operation, size_t bytes,
                                             enum halay_dtype dtype);
/* What the choice goes by. */
struct halay_select_query halay_choice_query(const struct halay_group *group, enum halay_coll_kind operation,
                                             size_t bytes, enum halay_dtype dtype);
/* Settings have changed. */
void halay_choice_forget(struct halay_group *group);

#endif
