/* SPDX-License-Identifier: Apache-2.0
 *
 * World, transports: which one carries data, and which memory the ranks of a host share.
 *
 * What can be used is decided by trying it, in the order of base/transports.def, and by all ranks together, so that all
 * end up with the same transport. The engine's messages go over shared memory, also where data go over another
 * transport. With several hosts they go over tcp (world_control.c); there the shared memory of each host is for
 * collectives only.
 */
#include "base/clock.h"
#include "collectives/choose/tuning.h"
#include "collectives/group/world_impl.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/module.h"
#include "collectives/transport/shm/shm.h"
#include "collectives/transport/shm/shm_memory.h"
#include <stdlib.h>

/* A close notice by message may be later than the end of the process that sent it. Shorter than the grace of the
 * modules (parts.c): a death is to be known before the ranks that left because of it are missed. */
enum { CLOSE_NOTICE_GRACE_US = 200000 };

#define SEGMENT_BYTES_DEFAULT ((size_t)4 << 30) /* where the machine's memory is not known */

/* Returns the NUMA node for this rank's segment; -1 on a host with one. */
static int choose_numa_node(struct halay_world *world)
{
    struct halay_thread *threads;
    size_t count;

    if (world->topology.numa_nodes < 2 || halay_topology_threads(world->log, &threads, &count) != HALAY_OK)
        return -1;
    int node = halay_topology_numa_node(threads, count, world->local_rank, world->local_size);
    free(threads);
    halay_debug(world->log, "shared segment on NUMA node %d of %d", node, world->topology.numa_nodes);
    return node;
}

static size_t segment_bytes(const struct halay_world *world)
{
    if (world->config.segment_bytes)
        return world->config.segment_bytes;
    size_t memory = world->topology.memory_bytes ? world->topology.memory_bytes : SEGMENT_BYTES_DEFAULT;

    return HALAY_SHM_AREAS_MOST + (memory > HALAY_SHM_AREAS_MOST ? memory : HALAY_SHM_AREAS_MOST);
}

enum halay_status halay_world_keep_memory(struct halay_world *world)
{
    struct halay_shm_memory *memory = world->carried->memory;
    size_t bytes;

    if (memory->base)
        return HALAY_OK;
    enum halay_status status = halay_shm_fit(world->log, world->config.size, segment_bytes(world), &bytes);
    return status == HALAY_OK ? halay_shm_memory_create(memory, world->config.size, bytes) : status;
}

/* Will the bells of the ranks of a host watch descriptors of links? The same on all of them. */
static int may_poll(const struct halay_world *world)
{
    const char *which = world->config.transport;

    return world->cross_size > 1 || !(halay_world_is_auto(which) || halay_world_is_set_to(which, "shm"));
}

/* Shared memory among the ranks of each host, into *out. All ranks know alike whether to try. */
static enum halay_status open_shm(struct halay_world *world, struct halay_link **out)
{
    struct halay_shm_options options = {
        .segment_bytes = segment_bytes(world),
        .timeout_ms = world->config.start_timeout_ms,
        .numa_node = choose_numa_node(world),
        .its_host_only = world->cross_size > 1,
        .bell = &world->bell,
        .bell_polls = may_poll(world),
    };

    if (world->carried) {
        options.memory = world->carried->memory;
        options.ranks = world->config.size;
    }
    if (world->cross_size == world->size && world->size > 1)
        return HALAY_ERR_UNSUPPORTED;
    enum halay_status status = halay_shm_open(world->log, &options, world->boot, world->peers, out);
    if (status == HALAY_OK) {
        world->memory = (*out)->memory;
    }
    return status;
}

/* A module's transport among all ranks, as world->data. */
static enum halay_status open_module(struct halay_world *world, enum halay_transport_index which,
                                     enum halay_log_level level)
{
    const struct halay_module_api *api = NULL;
    struct halay_link *link = NULL;

    enum halay_status status = halay_world_module(world, which, level, &api);
    if (status == HALAY_OK && !api->transport_create)
        status = HALAY_ERR_UNSUPPORTED;
    status = halay_world_agree_on(world, status, level, halay_transport_rows[which].name);
    if (status != HALAY_OK)
        return status;
    status = api->transport_create(world->host, world->boot, &link);
    if (!halay_world_is_broken_boot(status))
        status = halay_world_agree_on(world, status, level, halay_transport_rows[which].name);
    if (status != HALAY_OK && link)
        link->ops->close(link);
    if (status != HALAY_OK)
        return status;
    world->data = link;
    return halay_world_watch(world, link);
}

/* The row of the transport that is forced, HALAY_TRANSPORT_COUNT: none is. */
static enum halay_transport_index forced_row(const struct halay_world *world)
{
    int row = 0;

    while (row < HALAY_TRANSPORT_COUNT &&
           !halay_world_is_set_to(world->config.transport, halay_transport_rows[row].name))
        row++;
    return (enum halay_transport_index)row;
}

/* Tries the rows whose module all ranks have, in their order. UCX refuses where it has nothing better than TCP; MPI is
 * tried where no rank has UCX. */
static enum halay_status open_any(struct halay_world *world)
{
    const uint32_t ucx = UINT32_C(1) << HALAY_TRANSPORT_INDEX_ucx, mpi = UINT32_C(1) << HALAY_TRANSPORT_INDEX_mpi;
    const uint32_t tried = world->modules_all & ~(world->modules_any & ucx ? mpi : 0);
    enum halay_status status = HALAY_ERR_UNSUPPORTED;

    for (int row = 0; row < HALAY_TRANSPORT_COUNT && status == HALAY_ERR_UNSUPPORTED; row++)
        if (tried >> row & 1)
            status = open_module(world, (enum halay_transport_index)row, HALAY_LOG_INFO);
        else if (world->modules_any >> row & 1)
            halay_info(world->log, "transport '%s' is not tried: %s", halay_transport_rows[row].name,
                       world->modules_all >> row & 1 ? "some rank has ucx" : "some rank does not have its module");
    return status == HALAY_ERR_UNSUPPORTED ? halay_world_open_tcp(world) : status;
}

static enum halay_status open_other(struct halay_world *world)
{
    enum halay_transport_index forced = forced_row(world);
    int is_forced = forced < HALAY_TRANSPORT_COUNT,
        is_tcp = forced == HALAY_TRANSPORT_INDEX_tcp || world->config.encrypt;

    /* There a rank leaves by a message, unless shared memory shows it. */
    if (!world->control)
        halay_peers_set_grace(world->peers, CLOSE_NOTICE_GRACE_US);
    if (world->cross_size > 1 && (!is_forced || halay_transport_rows[forced].needs_networks)) {
        enum halay_status reached = halay_world_reach_hosts(world);
        if (reached != HALAY_OK)
            return reached;
    }
    if (is_tcp) /* no module encrypts */
        return halay_world_open_tcp(world);
    return is_forced ? open_module(world, forced, HALAY_LOG_ERROR) : open_any(world);
}

enum halay_status halay_world_open_transports(struct halay_world *world)
{
    const char *which = world->config.transport;

    enum halay_status status = open_shm(world, world->cross_size > 1 ? &world->node : &world->control);
    if (status != HALAY_OK && status != HALAY_ERR_UNSUPPORTED)
        return status;
    if (halay_world_is_set_to(which, "shm") && !world->control) {
        if (world->cross_size == 1)
            halay_error(world->log, "transport 'shm': the ranks cannot share memory (HALAY_LOG=info shows why)");
        else
            halay_error(world->log, "transport 'shm' takes all ranks on one host: %d of %d are on this one",
                        world->local_size, world->size);
        return HALAY_ERR_UNSUPPORTED;
    }
    if (world->control && (halay_world_is_auto(which) || halay_world_is_set_to(which, "shm"))) {
        world->data = world->control;
        return HALAY_OK;
    }
    return open_other(world);
}

enum halay_status halay_world_settle(struct halay_world *world)
{
    unsigned where = world->local_size == world->size ? HALAY_TUNING_LOCAL : HALAY_TUNING_REMOTE;

    if (!world->config.chunk_bytes)
        world->config.chunk_bytes = halay_tuning_chunk(world->tuning, world->data->ops->name, where);
    return halay_route_init(&world->route, world->data, world->node, world->memory, world->node_of, world->node_rank);
}

enum halay_status halay_world_watch(struct halay_world *world, struct halay_link *link)
{
    return link->ops->event_fd ? halay_bell_watch(&world->bell, link->ops->event_fd(link)) : HALAY_OK;
}

long halay_world_arm(struct halay_world *world)
{
    struct halay_link *all[] = { world->data, world->control != world->data ? world->control : NULL, world->node };
    long most_us = HALAY_RINGS;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        long us = all[i] ? all[i]->ops->arm(all[i]) : HALAY_RINGS;
        if (!us)
            (void)all[i]->ops->progress(all[i]); /* an error is the same for the next one that asks */
        most_us = us < most_us ? us : most_us;
    }
    if (world->moving) { /* no device rings */
        long us = halay_unrung_sleep_us(halay_now_us() - world->moved_us);
        most_us = us < most_us ? us : most_us;
    }
    return most_us;
}
