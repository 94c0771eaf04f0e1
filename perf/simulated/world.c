/* SPDX-License-Identifier: Apache-2.0
 *
 * World of a simulated rank: the mpi transport, and where ranks share a node their memory. No watch over processes
 * (there is one process), and the machine under the simulation does not count.
 *
 * Cleanup: zero-initialised, halay_world_close accepts a half-built world.
 */
#include "collectives/choose/tuning.h"
#include "collectives/transport/mpi/mpi_module.h"
#include "perf/simulated/simulated.h"
#include <stdlib.h>

static enum halay_status world_fill(struct halay_world *world, int node_ranks, double memory_ns)
{
    enum halay_status status = halay_config_load(world->log, &world->config);
    if (status == HALAY_OK)
        status = halay_world_host_create(world);
    if (status == HALAY_OK)
        status = simulated_boot_create(world->log, &world->boot);
    if (status != HALAY_OK)
        return status;
    world->log->level = world->config.log_level;
    world->rank = world->log->rank = world->boot->rank;
    world->size = world->boot->size;
    world->node_of = calloc((size_t)world->size, sizeof *world->node_of);
    if (!world->node_of)
        return HALAY_ERR_NO_MEMORY;
    for (int r = 0; r < world->size; r++)
        world->node_of[r] = r / node_ranks;
    status = halay_world_lay_out(world);
    if (status == HALAY_OK)
        status = halay_tuning_share(world->boot, &world->config, &world->tuning);
    if (status == HALAY_OK)
        status = halay_mpi_transport_create(world->host, world->boot, &world->data);
    if (status == HALAY_OK && world->cross_size > 1 && world->local_size > 1)
        status = simulated_node_open(world->log, node_ranks, memory_ns, &world->memory);
    return status == HALAY_OK ? halay_world_settle(world) : status;
}

enum halay_status simulated_world_open(int node_ranks, double memory_ns, struct halay_world **out)
{
    struct halay_world *world = calloc(1, sizeof *world);

    if (!world)
        return HALAY_ERR_NO_MEMORY;
    world->log = malloc(sizeof *world->log);
    if (!world->log) {
        free(world);
        return HALAY_ERR_NO_MEMORY;
    }
    halay_log_init(world->log, HALAY_LOG_WARNING);
    halay_bell_init(&world->bell, world->log);
    enum halay_status status = world_fill(world, node_ranks, memory_ns);
    if (status != HALAY_OK) {
        halay_world_close(world);
        return status;
    }
    *out = world;
    return HALAY_OK;
}
