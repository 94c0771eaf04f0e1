/* SPDX-License-Identifier: Apache-2.0
 *
 * World, record: the first exchange of a start. Each rank sends all that it knows by itself in one record, so that one
 * round gives all of them on which host each is, what they can use, whether their settings fit, and rank 0's tuning
 * table.
 *
 * A rank that cannot continue sends its status. Steps after this one that can fail on some ranks only end with an
 * exchange of their own (halay_world_agree); those that only the bootstrap can have broken (a rank is missing) do not.
 */
#include "base/memory.h"
#include "base/module_file.h"
#include "collectives/choose/tuning.h"
#include "collectives/group/world_impl.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/shm/shm_exchange.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSPORT_BYTES = 8 }; /* for the longest name of one */

struct record {
    int32_t status, encrypt;
    uint32_t modules; /* bits of enum halay_transport_index: their files are here */
    char transport[TRANSPORT_BYTES];
    struct halay_identity identity;
    struct halay_tuning_head tuning; /* rank 0's counts */
    unsigned char processors[HALAY_CPU_MASK_BYTES];
};

_Static_assert(HALAY_TRANSPORT_COUNT <= 32, "modules has a bit for each transport");

/* Returns nonzero if the build makes the module of that transport, or a variant of it. */
static int is_module_of(const struct halay_transport_build *build, const char *name)
{
    size_t length = strlen(name);

    return build->is_module && !strncmp(build->module, name, length) &&
           (!build->module[length] || build->module[length] == '-');
}

/* Returns zero if the launcher has put all ranks on this host: they share memory, or use tcp, and no folder is searched
 * for modules. */
static int may_try_modules(const struct halay_config *config)
{
    int is_one_host = config->local_size > 0 && config->local_size == config->size && !config->node;

    return halay_world_is_auto(config->transport) && !config->encrypt && !is_one_host;
}

/* Returns zero if MPI would find a world of one rank, or, as Open MPI does in a step of srun's without PMI, end the
 * process: no launcher of MPI's started it, and the program gave no communicator. */
static int may_try_mpi(const struct halay_world *world)
{
    return world->config.launchers.mpi_size > 0 || world->comm_abi ||
           halay_world_is_set_to(world->config.bootstrap, "mpi");
}

static uint32_t modules_here(const struct halay_world *world)
{
    char path[HALAY_MODULE_FILE_MAX];
    uint32_t modules = 0;

    if (!may_try_modules(&world->config))
        return 0;
    for (int row = 0; row < HALAY_TRANSPORT_COUNT; row++)
        for (const struct halay_transport_build *build = halay_transport_builds; build->module; build++)
            if ((row != HALAY_TRANSPORT_INDEX_mpi || may_try_mpi(world)) &&
                is_module_of(build, halay_transport_rows[row].name) &&
                halay_module_file_find(world->config.module_path, build->module, path))
                modules |= UINT32_C(1) << row;
    return modules;
}

/* Also makes the tuning tables. */
static void fill_record(struct halay_world *world, enum halay_status mine, struct record *record)
{
    memset(record, 0, sizeof *record); /* padding travels too */
    snprintf(record->transport, sizeof record->transport, "%s",
             world->config.transport ? world->config.transport : "auto");
    halay_peers_identify(world->log, world->config.node, &record->identity);
    memcpy(record->processors, world->topology.mask, sizeof record->processors);
    record->encrypt = world->config.encrypt;
    record->modules = modules_here(world);
    if (mine == HALAY_OK)
        mine = halay_tuning_offer(world->log, &world->config, world->rank, &record->tuning, &world->tuning);
    record->status = (int32_t)mine;
}

/* Before anything else of theirs is looked at. */
static enum halay_status check_versions(const struct halay_world *world, const struct record *all)
{
    const char *mine = all[world->rank].identity.version;
    enum { BYTES = sizeof all->identity.version };

    for (int r = 0; r < world->size; r++)
        if (strncmp(all[r].identity.version, mine, BYTES) != 0)
            return halay_fail(world->log, HALAY_ERR_VERSION,
                              "rank %d runs halay %.*s, rank %d runs %s: all must run the same", r, BYTES,
                              all[r].identity.version, world->rank, mine);
    return HALAY_OK;
}

static enum halay_status check_statuses(const struct halay_world *world, const struct record *all)
{
    if (all[world->rank].status != HALAY_OK)
        return (enum halay_status)all[world->rank].status;
    for (int r = 0; r < world->size; r++)
        if (all[r].status != HALAY_OK)
            return halay_fail(world->log, (enum halay_status)all[r].status, "rank %d cannot continue: %s", r,
                              halay_status_string((enum halay_status)all[r].status));
    return HALAY_OK;
}

/* Ranks that try different transports would lose step. */
static enum halay_status check_settings(const struct halay_world *world, const struct record *all)
{
    for (int r = 1; r < world->size; r++) {
        if (strncmp(all[r].transport, all[0].transport, TRANSPORT_BYTES) != 0)
            return halay_fail(world->log, HALAY_ERR_MISMATCH,
                              "starts that differ: rank %d has HALAY_TRANSPORT '%.*s', rank 0 has '%.*s'", r,
                              TRANSPORT_BYTES, all[r].transport, TRANSPORT_BYTES, all[0].transport);
        if (all[r].encrypt != all[0].encrypt)
            return halay_fail(world->log, HALAY_ERR_MISMATCH,
                              "starts that differ: rank %d has HALAY_ENCRYPT=%d, rank 0 has %d", r, all[r].encrypt,
                              all[0].encrypt);
    }
    return HALAY_OK;
}

static void take_modules(struct halay_world *world, const struct record *all)
{
    world->modules_any = 0;
    world->modules_all = UINT32_MAX;
    for (int r = 0; r < world->size; r++) {
        world->modules_any |= all[r].modules;
        world->modules_all &= all[r].modules;
    }
}

static enum halay_status make_peers(struct halay_world *world, const struct record *all)
{
    enum halay_status status =
        halay_peers_create(world->log, world->rank, world->size, &all->identity, sizeof *all, &world->peers);

    if (status != HALAY_OK)
        return status;
    world->node_of = calloc((size_t)world->size, sizeof *world->node_of);
    if (!world->node_of)
        return HALAY_ERR_NO_MEMORY;
    halay_peers_nodes(world->peers, world->node_of);
    return halay_world_lay_out(world);
}

static enum halay_status find_peers(struct halay_world *world, const struct record *all)
{
    enum halay_status status = make_peers(world, all);

    if (status != HALAY_OK && !halay_world_is_broken_boot(status)) /* the others are about to share memory */
        halay_shm_exchange_refuse(world->boot, status, world->config.start_timeout_ms);
    return status;
}

/* Ranks that are bound to cores of their own see only those. Count the cores of all ranks of this host, so that none
 * takes the host for overcommitted. */
static void count_processors(struct halay_world *world, const struct record *all)
{
    for (int r = 0; r < world->size; r++)
        if (halay_peers_is_local(world->peers, r))
            halay_topology_add(&world->topology, all[r].processors);
}

static enum halay_status take_records(struct halay_world *world, const struct record *all)
{
    enum halay_status status = check_versions(world, all);

    if (status == HALAY_OK)
        status = check_statuses(world, all);
    if (status == HALAY_OK)
        status = check_settings(world, all);
    if (status == HALAY_OK)
        status = halay_tuning_take(world->boot, &all[0].tuning, &world->config, world->tuning);
    if (status == HALAY_OK)
        status = find_peers(world, all);
    if (status != HALAY_OK)
        return status;
    take_modules(world, all);
    count_processors(world, all);
    return HALAY_OK;
}

enum halay_status halay_world_exchange_records(struct halay_world *world, enum halay_status mine)
{
    struct record record, *all = calloc((size_t)world->size, sizeof *all);

    if (!all)
        return halay_fail(world->log, HALAY_ERR_NO_MEMORY, "no memory for what %d ranks exchange at the start",
                          world->size);
    fill_record(world, mine, &record);
    enum halay_status status =
        halay_boot_allgather(world->boot, &record, sizeof record, all, world->config.start_timeout_ms);
    if (status == HALAY_OK)
        status = take_records(world, all);
    else if (mine != HALAY_OK)
        status = mine;
    free(all);
    return status;
}
