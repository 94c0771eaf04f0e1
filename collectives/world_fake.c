/* SPDX-License-Identifier: Apache-2.0
 *
 * World over the fake transport: one rank of a hub whose ranks are threads of this process. For tests.
 *
 * All ranks are on one host, so local and world numbers agree; the one transport carries data and control.
 * Cleanup: zero-initialised, halay_world_close accepts a half-built world.
 */
#include "collectives/transport/fake.h"
#include "collectives/world.h"
#include <stdlib.h>

static enum halay_status world_fill(struct halay_world *world, int rank)
{
    enum halay_status status = halay_config_load(world->log, &world->config);
    if (status != HALAY_OK)
        return status;
    world->log->level = world->config.log_level;
    world->log->rank = rank;
    status = halay_fake_hub_topology(world->hub, world->log, &world->topology);
    if (status != HALAY_OK)
        return status;
    status = halay_fake_boot_create(world->hub, rank, world->log, &world->boot);
    if (status != HALAY_OK)
        return status;
    status = halay_fake_open(world->hub, rank, world->log, &world->data);
    if (status != HALAY_OK)
        return status;
    world->rank = world->local_rank = rank;
    world->size = world->local_size = halay_fake_hub_size(world->hub);
    world->cross_size = 1;
    world->is_homogeneous = 1;
    world->node_of = calloc((size_t)world->size, sizeof *world->node_of);
    if (!world->node_of)
        return HALAY_ERR_NO_MEMORY;
    world->control = world->data->caps & HALAY_TRANSPORT_SLEEPS ? world->data : NULL;
    return HALAY_OK;
}

enum halay_status halay_world_open_fake(struct halay_fake_hub *hub, int rank, struct halay_world **out)
{
    struct halay_world *world = calloc(1, sizeof *world);

    if (!world)
        return HALAY_ERR_NO_MEMORY;
    world->hub = hub;
    world->log = malloc(sizeof *world->log);
    if (!world->log) {
        free(world);
        return HALAY_ERR_NO_MEMORY;
    }
    halay_log_init(world->log, HALAY_LOG_WARNING);
    enum halay_status status = world_fill(world, rank);
    if (status != HALAY_OK) {
        halay_world_close(world);
        return status;
    }
    *out = world;
    return HALAY_OK;
}
