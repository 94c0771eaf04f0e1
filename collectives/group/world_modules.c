/* SPDX-License-Identifier: Apache-2.0
 *
 * World, modules: which are loaded, and what they may call.
 */
#include "base/launchers.h"
#include "base/machine/descriptors.h"
#include "base/memory.h"
#include "collectives/group/world_impl.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/devices.h"
#include "collectives/transport/module.h"
#include <stdlib.h>

static enum halay_status host_check_peers(const struct halay_host *host, int *rank)
{
    struct halay_world *world = host->arg;

    return halay_world_check_peers(world, rank);
}

static int host_is_dead(const struct halay_host *host, int rank)
{
    return halay_world_is_dead(host->arg, rank);
}

static int host_has_died(const struct halay_host *host, int rank)
{
    return halay_world_has_died(host->arg, rank);
}

static void host_peer_left(const struct halay_host *host, int rank)
{
    struct halay_world *world = host->arg;

    if (world->peers)
        halay_peers_set_left(world->peers, rank);
}

enum halay_status halay_world_host_create(struct halay_world *world)
{
    world->host = malloc(sizeof *world->host);
    if (!world->host)
        return HALAY_ERR_NO_MEMORY;
    *world->host = (struct halay_host){
        .abi = HALAY_MODULE_ABI,
        .log = world->log,
        .config = &world->config,
        .topology = &world->topology,
        .log_write = halay_log_write,
        .aligned_alloc = halay_aligned_alloc,
        .check_peers = host_check_peers,
        .is_dead = host_is_dead,
        .has_died = host_has_died,
        .environment_get = halay_environment_get,
        .peer_left = host_peer_left,
        .descriptors_allow = halay_descriptors_allow,
        .arg = world,
    };
    return HALAY_OK;
}

/* A communicator from the program is of one MPI. */
static const char *variant(const struct halay_world *world, enum halay_transport_index which)
{
    if (which != HALAY_TRANSPORT_INDEX_mpi)
        return "";
    if (world->comm_abi)
        return halay_mpi_abi_variant(world->comm_abi);
    return halay_mpi_variant(&world->config.launchers);
}

enum halay_status halay_world_module(struct halay_world *world, enum halay_transport_index which,
                                     enum halay_log_level level, const struct halay_module_api **api)
{
    void *handle;

    enum halay_status status = halay_module_open(world->log, level, &world->config, halay_transport_rows[which].name,
                                                 variant(world, which), &handle, api);
    if (status != HALAY_OK)
        return status;
    halay_module_close(world->module[which]); /* counted: it stays */
    world->module[which] = handle;
    return HALAY_OK;
}

enum halay_status halay_world_open_devices(struct halay_world *world, const struct halay_world_options *options)
{
    if (!options->uses_devices)
        return HALAY_OK;
    world->devices = calloc(1, sizeof *world->devices);
    if (!world->devices)
        return HALAY_ERR_NO_MEMORY;
    halay_devices_init(world->devices, sizeof(struct halay_device));
    world->stream = options->stream;
    world->stream_arg = options->stream_arg;
    return halay_devices_open(world->devices, world->log, &world->config);
}
