/* SPDX-License-Identifier: Apache-2.0
 *
 * World, peers: how a step of the start ended on all ranks, where each rank is, and which are still alive.
 */
#include "collectives/group/world_impl.h"
#include "collectives/transport/bootstrap/peers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- together ---- */

/* level: of the line about HALAY_ERR_UNSUPPORTED, no error where another transport is tried next. what: the transport
 * in question, or NULL. */
static enum halay_status agree_at(struct halay_world *world, enum halay_status mine, enum halay_log_level level,
                                  const char *what, int *wanted)
{
    struct outcome {
        int32_t status, wants;
        char interfaces[HALAY_INTERFACES_BYTES];
    } own = { .status = (int32_t)mine, .wants = *wanted != 0 }, *all = calloc((size_t)world->size, sizeof *all);

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    memcpy(own.interfaces, world->interfaces, sizeof own.interfaces);
    enum halay_status result = halay_boot_allgather(world->boot, &own, sizeof own, all, world->config.start_timeout_ms);
    if (mine != HALAY_OK)
        result = mine;
    for (int r = 0; r < world->size && result == HALAY_OK; r++) {
        *wanted |= all[r].wants;
        if (all[r].status == HALAY_OK)
            continue;
        result = (enum halay_status)all[r].status;
        halay_log_write(world->log, result == HALAY_ERR_UNSUPPORTED ? level : HALAY_LOG_ERROR,
                        "rank %d cannot continue%s%s: %s", r, what ? " over " : "", what ? what : "",
                        halay_status_string(result));
    }
    /* Those of rank 0's host know no other host by themselves. */
    if (result == HALAY_OK && world->peers && halay_peers_is_local(world->peers, 0))
        memcpy(world->interfaces, all[0].interfaces, sizeof world->interfaces);
    free(all);
    return result;
}

enum halay_status halay_world_agree(struct halay_world *world, enum halay_status mine, int *wanted)
{
    return agree_at(world, mine, HALAY_LOG_ERROR, NULL, wanted);
}

enum halay_status halay_world_agree_on(struct halay_world *world, enum halay_status mine, enum halay_log_level level,
                                       const char *name)
{
    int wanted = 0;

    return agree_at(world, mine, level, name, &wanted);
}

int halay_world_is_broken_boot(enum halay_status status)
{
    return status == HALAY_ERR_TIMEOUT || status == HALAY_ERR_PEER;
}

enum halay_status halay_world_lay_out(struct halay_world *world)
{
    int n = world->size, me = world->rank, hosts = 0;
    int *count = calloc((size_t)n, sizeof *count); /* of each host */

    world->node_rank = calloc((size_t)n, sizeof *world->node_rank);
    world->restless = calloc((size_t)n, 1);
    if (!count || !world->node_rank || !world->restless) {
        free(count);
        return HALAY_ERR_NO_MEMORY;
    }
    for (int r = 0; r < n; r++) {
        world->node_rank[r] = count[world->node_of[r]]++;
        hosts = world->node_of[r] < hosts ? hosts : world->node_of[r] + 1;
    }
    world->local_rank = world->node_rank[me];
    world->local_size = count[world->node_of[me]];
    world->cross_rank = world->node_of[me];
    world->cross_size = hosts;
    world->is_homogeneous = 1;
    for (int h = 0; h < hosts; h++)
        if (count[h] != count[0])
            world->is_homogeneous = 0;
    free(count);
    return HALAY_OK;
}

/* ---- which are alive ---- */

/* Without peers: the rank that has died, or -1. */
static int dead_rank(const struct halay_world *world)
{
    return world->dead ? world->dead(world->dead_arg) : -1;
}

enum halay_status halay_world_check_peers(struct halay_world *world, int *rank)
{
    if (world->peers)
        return halay_peers_check(world->peers, rank);
    int dead = dead_rank(world);
    if (dead < 0)
        return HALAY_OK;
    *rank = dead;
    return HALAY_ERR_PEER;
}

int halay_world_is_dead(const struct halay_world *world, int rank)
{
    return world->peers ? halay_peers_is_dead(world->peers, rank) : dead_rank(world) == rank;
}

int halay_world_learn_death(struct halay_world *world, int rank, int teller)
{
    char why[64];

    snprintf(why, sizeof why, "reported by rank %d", teller);
    if (world->peers)
        halay_peers_set_dead(world->peers, rank, 0, why);
    return halay_world_is_dead(world, rank);
}

int halay_world_has_died(const struct halay_world *world, int rank)
{
    return world->peers ? halay_peers_has_died(world->peers, rank) : dead_rank(world) == rank;
}

int halay_world_is_unreachable(const struct halay_world *world, int rank)
{
    return world->peers && halay_peers_is_unreachable(world->peers, rank);
}

const char *halay_world_host(const struct halay_world *world, int rank)
{
    return halay_peers_host(world->peers, rank);
}

int halay_world_is_stopped(const struct halay_world *world, int rank)
{
    return world->peers && halay_peers_is_stopped(world->peers, rank);
}
