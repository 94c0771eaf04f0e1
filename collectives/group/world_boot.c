/* SPDX-License-Identifier: Apache-2.0
 *
 * World, bootstrap: how the ranks find each other. What the program gives (a communicator, a rendezvous, a unique id)
 * goes before what the launcher set, and an elastic job has one way only.
 */
#include "collectives/group/world_impl.h"
#include "collectives/transport/bootstrap/elastic_client.h"
#include "collectives/transport/bootstrap/unique_id.h"
#include "collectives/transport/module.h"
#include "collectives/transport/shm/shm_memory.h"
#include <stdlib.h>

enum halay_status halay_world_inherit(struct halay_world *world, const struct halay_world_options *options)
{
    struct halay_carried *carried = options ? options->carried : NULL;

    if (world->config.elastic < 0)
        return HALAY_OK;
    if (!carried || options->comm || options->rendezvous || options->unique_id)
        return halay_fail(world->log, HALAY_ERR_UNSUPPORTED,
                          "in an elastic job (halayrun --min-np) ranks meet by halay_init: neither a group of its own "
                          "nor a communicator, a rendezvous or a unique id can be used");
    if (!carried->memory) {
        carried->memory = malloc(sizeof *carried->memory);
        if (!carried->memory)
            return HALAY_ERR_NO_MEMORY;
        halay_shm_memory_init(world->log, carried->memory);
    }
    carried->log = world->log;
    world->carried = carried;
    return HALAY_OK;
}

static enum halay_status boot_mpi(struct halay_world *world)
{
    const struct halay_module_api *api;

    enum halay_status status = halay_world_module(world, HALAY_TRANSPORT_INDEX_mpi, HALAY_LOG_ERROR, &api);
    if (status != HALAY_OK)
        return halay_fail(world->log, status,
                          "cannot start over MPI (HALAY_BOOTSTRAP=%s, the MPI launcher started %d ranks); halayrun "
                          "needs no MPI",
                          world->config.bootstrap ? world->config.bootstrap : "auto", world->config.launchers.mpi_size);
    return api->boot_create(world->host, &world->boot);
}

/* Both from the program. */
static enum halay_status check_bootstrap(struct halay_world *world, const char *bootstrap, const char *other,
                                         const char *same)
{
    if (halay_world_is_auto(bootstrap) || halay_world_is_set_to(bootstrap, same))
        return HALAY_OK;
    return halay_fail(world->log, HALAY_ERR_CONFIG, "bootstrap '%s' and %s: one of them", bootstrap, other);
}

static enum halay_status boot_rendezvous(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status = check_bootstrap(world, options->bootstrap, "a rendezvous", "auto");
    if (status != HALAY_OK)
        return status;
    return halay_boot_rendezvous_create(world->log, options->rendezvous, world->config.start_timeout_ms, options->watch,
                                        &world->boot);
}

static enum halay_status boot_unique(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status = check_bootstrap(world, options->bootstrap, "a unique id", "auto");
    if (status != HALAY_OK)
        return status;
    return halay_boot_unique_create(world->log, options->unique_id, world->config.network_interface, options->rank,
                                    options->size, world->config.start_timeout_ms, options->watch, &world->boot);
}

/* The program's communicator overrides the environment. */
static enum halay_status boot_communicator(struct halay_world *world, const struct halay_world_options *options)
{
    const struct halay_module_api *api;

    enum halay_status status = check_bootstrap(world, options->bootstrap, "a communicator", "mpi");
    if (status != HALAY_OK)
        return status;
    world->comm_abi = options->comm_abi;
    status = halay_world_module(world, HALAY_TRANSPORT_INDEX_mpi, HALAY_LOG_ERROR, &api);
    if (status != HALAY_OK)
        return status;
    return api->boot_create_from(world->host, options->comm, options->comm_abi, &world->boot);
}

/* The launcher's answer overrides the environment. */
static enum halay_status boot_elastic(struct halay_world *world, const struct halay_world_options *options)
{
    struct halay_carried *carried = world->carried;
    const char *which = world->config.bootstrap;

    if (!halay_world_is_auto(which) && !halay_world_is_set_to(which, "store"))
        return halay_fail(world->log, HALAY_ERR_CONFIG,
                          "bootstrap '%s' in an elastic job: halayrun --min-np starts it over its store", which);
    int lost = carried->elastic_client ? options->lost : -1;
    enum halay_status status = HALAY_OK;
    if (!carried->elastic_client)
        status = halay_elastic_client_open(world->log, &world->config, &carried->elastic_client);
    if (status == HALAY_OK)
        status = halay_elastic_client_register(carried->elastic_client, lost, options->has_state);
    return status == HALAY_OK ? halay_elastic_client_boot(carried->elastic_client, &world->boot) : status;
}

/* If each of them continued alone nothing would fail: only the sums would be wrong. why_not: "" or why srun's variables
 * do not do. */
static enum halay_status refuse_to_be_alone(const struct halay_world *world, const char *why_not)
{
    return halay_fail(
        world->log, HALAY_ERR_UNSUPPORTED,
        "%s has started this process as one of %d (%s), without a way to find the others: each would compute "
        "alone, and its sums would be wrong without a word; start the program by halayrun, or by mpirun with "
        "halay's MPI module (in SLURM srun --mpi=pmix, or pmi2), or let the program bring its ranks together "
        "(rendezvous "
        "or unique_id in struct halay_options; the backend \"halay\" of torch.distributed does), or give "
        "HALAY_BOOTSTRAP=self if each process is meant to be a job of its own%s%s",
        world->config.launchers.other_job.launcher, world->config.launchers.other_job.size,
        world->config.launchers.other_job.variables, *why_not ? "; the step's variables do not do: " : "", why_not);
}

/* Both by srun alone and at the user's wish, where srun provides a PMI. */
static enum halay_status boot_slurm(struct halay_world *world, const struct halay_world_options *options)
{
    struct halay_slurm_step step;
    char why[400];

    if (halay_slurm_step_read(&step, why, sizeof why) == HALAY_OK)
        return halay_boot_slurm_create(world->log, &world->config, &step, options ? options->watch : NULL,
                                       &world->boot);
    if (halay_world_is_auto(world->config.bootstrap))
        return refuse_to_be_alone(world, why);
    return halay_fail(world->log, HALAY_ERR_UNSUPPORTED, "HALAY_BOOTSTRAP=srun: %s", why);
}

static enum halay_status boot_choose(struct halay_world *world, const struct halay_world_options *options)
{
    const struct halay_config *config = &world->config;
    const char *which = config->bootstrap;

    /* A job of one rank under an MPI launcher needs MPI only if it is asked for. */
    int is_mpi_job = config->launchers.mpi_size > 1 ||
                     (config->launchers.mpi_size == 1 && halay_world_is_set_to(config->transport, "mpi"));
    int is_by_itself = halay_world_is_auto(which);
    if (halay_world_is_set_to(which, "store") || (is_by_itself && config->store_address))
        return halay_boot_store_create(world->log, config, &world->boot);
    int is_other_job = is_by_itself && config->launchers.mpi_size < 2 && config->launchers.other_job.size;
    if (halay_world_is_set_to(which, "srun") || (is_other_job && config->launchers.other_job.is_srun))
        return boot_slurm(world, options);
    if (is_other_job)
        return refuse_to_be_alone(world, "");
    if (halay_world_is_set_to(which, "mpi") || (is_by_itself && is_mpi_job))
        return boot_mpi(world);
    return halay_boot_self_create(world->log, &world->boot);
}

enum halay_status halay_world_boot(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status = HALAY_OK;

    if (world->boot) /* the caller's */
        world->boot->log = world->log;
    else if (options && options->comm)
        status = boot_communicator(world, options);
    else if (options && options->rendezvous)
        status = boot_rendezvous(world, options);
    else if (options && options->unique_id)
        status = boot_unique(world, options);
    else
        status = world->carried ? boot_elastic(world, options) : boot_choose(world, options);
    if (status != HALAY_OK)
        return status;
    world->boot->watch = options ? options->watch : NULL;
    world->rank = world->log->rank = world->boot->rank;
    world->size = world->boot->size;
    return HALAY_OK;
}
