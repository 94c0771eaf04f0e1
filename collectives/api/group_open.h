/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of all ranks of a world that is its own.
 */
#ifndef HALAY_GROUP_OPEN_H
#define HALAY_GROUP_OPEN_H

#include "collectives/group/world.h"
#include "halay_coll.h"

/* Opens a world, as halay_world_open, and a group of all its ranks, which the last of its groups closes.
 * reports_errors: as in struct halay_options. */
enum halay_status halay_group_open_world(const struct halay_world_options *options, int reports_errors,
                                         struct halay_group **group);

#endif
