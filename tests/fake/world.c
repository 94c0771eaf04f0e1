/* SPDX-License-Identifier: Apache-2.0
 *
 * World over the fake transport: one rank of a hub whose ranks are threads of this process. For tests.
 *
 * The one link carries data and control. Where the hub has several nodes, its memory is shared inside them alone.
 * Cleanup: zero-initialised, halay_world_close accepts a half-built world.
 */
#include "collectives/group/world.h"
#include "base/fork.h"
#include "collectives/choose/tuning.h"
#include "tests/fake/fake.h"
#include <stdlib.h>
#include <string.h>

static enum halay_status world_fill(struct halay_world *world, struct halay_fake_hub *hub, int rank)
{
    enum halay_status status = halay_config_load(world->log, &world->config);
    if (status != HALAY_OK)
        return status;
    world->log->level = world->config.log_level;
    world->log->rank = rank;
    status = halay_fake_hub_topology(hub, world->log, &world->topology);
    if (status != HALAY_OK)
        return status;
    status = halay_fake_boot_create(hub, rank, world->log, &world->boot);
    if (status != HALAY_OK)
        return status;
    status = halay_fake_open(hub, rank, world->log, &world->bell, &world->control);
    if (status != HALAY_OK)
        return status;
    world->rank = rank;
    world->size = halay_fake_hub_size(hub);
    world->node_of = calloc((size_t)world->size, sizeof *world->node_of);
    if (!world->node_of)
        return HALAY_ERR_NO_MEMORY;
    if (halay_fake_hub_nodes(hub))
        memcpy(world->node_of, halay_fake_hub_nodes(hub), (size_t)world->size * sizeof *world->node_of);
    status = halay_world_lay_out(world);
    if (status != HALAY_OK)
        return status;
    status = halay_tuning_share(world->boot, &world->config, &world->tuning);
    if (status != HALAY_OK)
        return status;
    world->data = world->control;
    world->memory = world->data->memory;
    return halay_world_settle(world);
}

static int dead(void *hub)
{
    return halay_fake_hub_killed(hub);
}

enum halay_status halay_world_open_fake(struct halay_fake_hub *hub, int rank, struct halay_world **out)
{
    struct halay_world *world = calloc(1, sizeof *world);

    if (!world)
        return HALAY_ERR_NO_MEMORY;
    world->dead = dead;
    world->dead_arg = hub;
    world->log = malloc(sizeof *world->log);
    if (!world->log) {
        free(world);
        return HALAY_ERR_NO_MEMORY;
    }
    halay_log_init(world->log, HALAY_LOG_WARNING);
    world->is_parent = halay_fork_mark();
    halay_bell_init(&world->bell, world->log);
    enum halay_status status = world_fill(world, hub, rank);
    if (status != HALAY_OK) {
        halay_world_close(world);
        return status;
    }
    *out = world;
    return HALAY_OK;
}
