/* SPDX-License-Identifier: Apache-2.0
 *
 * World: all ranks of this job and how they are reached.
 *
 *     world_settings.c    configuration
 *     world_boot.c        -> bootstrap: how the ranks find each other
 *     world_record.c      -> what each knows by itself: peers (on which host each is), settings, tuning table
 *     world_transports.c  -> shared memory among the ranks of each host -> the transport for data
 *
 * Cleanup: zero-initialised, halay_world_close accepts a half-built world.
 */
#include "base/fork.h"
#include "collectives/group/world_impl.h"
#include "collectives/transport/bootstrap/elastic_client.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/devices.h"
#include "collectives/transport/module.h"
#include "collectives/transport/shm/shm_memory.h"
#include <stdlib.h>

/* A rank whose settings are wrong still takes part, so that the others need not wait for it. */
static enum halay_status world_bootstrap(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status = halay_world_configure(world, options);
    enum halay_status opened = halay_world_host_create(world);

    if (opened == HALAY_OK)
        opened = halay_world_inherit(world, options);
    if (opened == HALAY_OK)
        opened = halay_world_boot(world, options);
    if (opened == HALAY_OK)
        return halay_world_exchange_records(world, status);
    return status != HALAY_OK ? status : opened;
}

static enum halay_status world_fill(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status = world_bootstrap(world, options);
    if (status == HALAY_OK)
        status = halay_world_open_transports(world);
    if (status == HALAY_OK && world->carried)
        status = halay_world_keep_memory(world);
    if (status == HALAY_OK)
        status = halay_world_settle(world);
    if (status != HALAY_OK)
        return status;
    halay_info(world->log, "rank %d of %d on '%s' (%d here, %d hosts), bootstrap %s, data over %s", world->rank,
               world->size, halay_peers_host(world->peers, world->rank), world->local_size, world->cross_size,
               world->boot->ops->name, world->data->ops->name);
    return HALAY_OK;
}

enum halay_status halay_world_open(const struct halay_world_options *options, struct halay_world **out)
{
    struct halay_boot *boot = options ? options->boot : NULL;
    struct halay_world *world = calloc(1, sizeof *world);
    int has_log = options && options->carried && options->carried->log;

    if (world)
        world->log = has_log ? options->carried->log : malloc(sizeof *world->log);
    if (!world || !world->log) {
        if (boot)
            boot->ops->destroy(boot);
        free(world);
        return HALAY_ERR_NO_MEMORY;
    }
    world->boot = boot;
    world->is_parent = halay_fork_mark();
    pthread_mutex_init(&world->visits.lock, NULL);
    world->visits.has_barrier = halay_bell_register();
    halay_bell_init(&world->bell, world->log);
    if (!has_log)
        halay_log_init(world->log, HALAY_LOG_WARNING);
    if (options && !has_log) {
        world->log->write = options->log_write;
        world->log->arg = options->log_arg;
    }
    enum halay_status status = world_fill(world, options);
    if (status != HALAY_OK) {
        if (world->boot && world->boot->ops->give_up)
            world->boot->ops->give_up(world->boot);
        halay_world_close(world);
        return status;
    }
    *out = world;
    return HALAY_OK;
}

void halay_world_finish_start(struct halay_world *world)
{
    world->boot->watch = NULL;
    if (world->boot->ops->finish)
        world->boot->ops->finish(world->boot);
}

void halay_carried_fini(struct halay_carried *carried)
{
    halay_elastic_client_close(carried->elastic_client);
    if (carried->memory)
        halay_shm_memory_fini(carried->memory);
    free(carried->memory);
    if (carried->log)
        halay_log_fini(carried->log);
    free(carried->log);
    *carried = (struct halay_carried){ 0 };
}

void halay_world_leave(struct halay_world *world)
{
    halay_group_ends_fini(&world->ends, world->data);
    if (world->data && world->data != world->control)
        world->data->ops->close(world->data);
    if (world->control)
        world->control->ops->close(world->control);
    halay_world_forget_hosts(world);
    if (world->node)
        world->node->ops->close(world->node);
    world->data = world->control = world->node = NULL;
    halay_route_fini(&world->route);
    halay_peers_destroy(world->peers);
    world->peers = NULL;
    if (world->boot)
        world->boot->ops->destroy(world->boot);
    world->boot = NULL;
}

void halay_world_close(struct halay_world *world)
{
    if (!world)
        return;
    halay_world_leave(world);
    if (world->devices) {
        halay_devices_close(world->devices);
        halay_devices_fini(world->devices);
        free(world->devices);
    }
    for (size_t i = 0; i < sizeof world->module / sizeof *world->module; i++)
        halay_module_close(world->module[i]);
    free(world->host);
    free(world->node_of);
    free(world->node_rank);
    free(world->restless);
    free(world->tuning);
    halay_fork_unmark(world->is_parent);
    pthread_mutex_lock(&world->visits.lock); /* an abort that ended this thread's call may still be leaving */
    pthread_mutex_unlock(&world->visits.lock);
    pthread_mutex_destroy(&world->visits.lock);
    halay_bell_fini(&world->bell);
    halay_config_fini(&world->config);
    if (!world->carried) {
        halay_log_fini(world->log);
        free(world->log);
    }
    free(world);
}
