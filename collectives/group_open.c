/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of all ranks of this job, with a world of its own.
 */
#include "collectives/channel.h"

enum halay_status halay_group_open(const struct halay_group_options *options, struct halay_group **group)
{
    struct halay_world_options world_options = { 0 };
    struct halay_world *world;

    if (!group || (options && options->struct_size < sizeof *options))
        return HALAY_ERR_ARGUMENT;
    if (options) {
        world_options.bootstrap = options->bootstrap;
        world_options.transport = options->transport;
    }
    enum halay_status status = halay_world_open(&world_options, &world);
    if (status != HALAY_OK)
        return status;
    status = halay_group_create(world, group);
    if (status != HALAY_OK) {
        halay_world_close(world);
        return status;
    }
    world->closes_with_groups = 1;
    return HALAY_OK;
}
