/* SPDX-License-Identifier: Apache-2.0
 *
 * World: all ranks of this job and how they are reached.
 *
 *     configuration -> bootstrap -> peers -> shared memory among the ranks of each host -> the transport for data
 *
 * What can be used is decided by trying it, in the order shm, ucx, mpi, and by all ranks together: after each step they
 * exchange how it went, so that a rank that cannot go on takes the others with it at once, and all end up with the same
 * transport. Steps that only the bootstrap can have broken (somebody is missing) are not followed by such an exchange.
 *
 * The engine's messages need a transport that sleeps; that is shared memory, also where data go over another one. With
 * several hosts it is tcp (world_control.c); there the shared memory of each host is for collectives only.
 *
 * Cleanup: zero-initialised, halay_world_close accepts a half-built world.
 */
#include "collectives/group/world.h"
#include "base/fork.h"
#include "base/machine/descriptors.h"
#include "base/machine/mpi_variant.h"
#include "base/memory.h"
#include "base/module_file.h"
#include "collectives/choose/tuning.h"
#include "collectives/transport/meet/participant.h"
#include "collectives/transport/meet/peers.h"
#include "collectives/transport/meet/unique_id.h"
#include "collectives/transport/module.h"
#include "collectives/transport/shm/shm.h"
#include "collectives/transport/shm/shm_memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Indices of world->module. */
enum { MODULE_MPI, MODULE_UCX };
static const char *const module_names[] = { [MODULE_MPI] = "mpi", [MODULE_UCX] = "ucx" };

/* A goodbye by message may be later than the end of the process that sent it. Shorter than the grace of the modules
 * (parts.c): a death is to be known before the ranks that left because of it are missed. */
enum { GOODBYE_GRACE_US = 200000 };

enum { TRANSPORT_BYTES = 8 };                   /* for the longest name of one */
#define SEGMENT_BYTES_DEFAULT ((size_t)4 << 30) /* where the machine's memory is not known */

/* ---- configuration ---- */

/* The index of the program's word among words. */
static enum halay_status index_of_word(struct halay_log *log, const char *what, const char *value,
                                       const char *const *words, int *index)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(value, words[i])) {
            *index = i;
            return HALAY_OK;
        }
    const char *near = halay_nearest_word(value, words);
    halay_error(log, "no %s '%s'%s%s%s", what, value, near ? ", did you mean '" : "", near ? near : "",
                near ? "'?" : "");
    return HALAY_ERR_CONFIG;
}

static enum halay_status override(struct halay_log *log, const char *what, const char *value, const char *const *words,
                                  char **field)
{
    int index;

    if (!value)
        return HALAY_OK;
    enum halay_status status = index_of_word(log, what, value, words, &index);
    if (status != HALAY_OK)
        return status;
    char *copy = strdup(value);
    if (!copy)
        return HALAY_ERR_NO_MEMORY;
    free(*field);
    *field = copy;
    return HALAY_OK;
}

static enum halay_status override_average(struct halay_log *log, const char *value, enum halay_join_average *field)
{
    static const char *const words[] = {
        [HALAY_JOIN_AVERAGE_ALL] = "all", [HALAY_JOIN_AVERAGE_PRESENT] = "present", NULL
    };
    int index;

    if (!value)
        return HALAY_OK;
    enum halay_status status = index_of_word(log, "join_average", value, words, &index);
    if (status == HALAY_OK)
        *field = (enum halay_join_average)index;
    return status;
}

static enum halay_status configure(struct halay_world *world, const struct halay_world_options *options)
{
    static const char *const bootstraps[] = { "auto", "self", "store", "mpi", NULL };
    static const char *const transports[] = { "auto", "shm", "mpi", "ucx", NULL };

    enum halay_status status = halay_config_load_rest(world->log, options ? options->settings : NULL, &world->config);
    enum halay_status given = HALAY_OK;
    world->log->level = world->config.log_level;
    /* Needed even if other settings are wrong: this is how the ranks meet. */
    if (options)
        given = override(world->log, "bootstrap", options->bootstrap, bootstraps, &world->config.bootstrap);
    if (options && given == HALAY_OK)
        given = override(world->log, "transport", options->transport, transports, &world->config.transport);
    if (options && given == HALAY_OK)
        given = override_average(world->log, options->join_average, &world->config.join_average);
    if (options && given == HALAY_OK)
        given = options->status;
    if (status == HALAY_OK)
        status = given;
    return status == HALAY_OK ? halay_topology_load(world->log, &world->topology) : status;
}

static int is_set_to(const char *setting, const char *word)
{
    return setting && !strcmp(setting, word);
}

static int is_auto(const char *setting)
{
    return !setting || !strcmp(setting, "auto");
}

/* ---- what modules are given ---- */

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

static enum halay_status host_create(struct halay_world *world)
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

/* A communicator from the program tells which MPI this is. */
static const char *variant(const struct halay_world *world, int which)
{
    if (which != MODULE_MPI)
        return "";
    if (world->comm_abi)
        return halay_mpi_abi_variant(world->comm_abi);
    return halay_mpi_variant(&world->config);
}

/* The module of that name, loaded if necessary. level: of the line if there is none. */
static enum halay_status module_get(struct halay_world *world, int which, enum halay_log_level level,
                                    const struct halay_module_api **api)
{
    void *handle;

    enum halay_status status =
        halay_module_open(world->log, level, &world->config, module_names[which], variant(world, which), &handle, api);
    if (status != HALAY_OK)
        return status;
    halay_module_close(world->module[which]); /* counted: it stays */
    world->module[which] = handle;
    return HALAY_OK;
}

/* ---- bootstrap ---- */

static enum halay_status boot_mpi(struct halay_world *world)
{
    const struct halay_module_api *api;

    enum halay_status status = module_get(world, MODULE_MPI, HALAY_LOG_ERROR, &api);
    if (status != HALAY_OK) {
        halay_error(world->log,
                    "cannot start over MPI (HALAY_BOOTSTRAP=%s, the MPI launcher says %d ranks); halayrun "
                    "needs no MPI",
                    world->config.bootstrap ? world->config.bootstrap : "auto", world->config.mpi_launcher_size);
        return status;
    }
    return api->boot_create(world->host, &world->boot);
}

/* Both from the program. */
static enum halay_status check_bootstrap(struct halay_world *world, const char *bootstrap, const char *other,
                                         const char *same)
{
    if (is_auto(bootstrap) || is_set_to(bootstrap, same))
        return HALAY_OK;
    halay_error(world->log, "bootstrap '%s' and %s: one of them", bootstrap, other);
    return HALAY_ERR_CONFIG;
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
    return halay_boot_unique_create(world->log, options->unique_id, options->rank, options->size,
                                    world->config.start_timeout_ms, options->watch, &world->boot);
}

/* The program's communicator overrides the environment. */
static enum halay_status boot_communicator(struct halay_world *world, const struct halay_world_options *options)
{
    const struct halay_module_api *api;

    enum halay_status status = check_bootstrap(world, options->bootstrap, "a communicator", "mpi");
    if (status != HALAY_OK)
        return status;
    world->comm_abi = options->comm_abi;
    status = module_get(world, MODULE_MPI, HALAY_LOG_ERROR, &api);
    if (status != HALAY_OK)
        return status;
    return api->boot_create_from(world->host, options->comm, options->comm_abi, &world->boot);
}

/* The launcher's answer overrides the environment. */
static enum halay_status boot_elastic(struct halay_world *world, const struct halay_world_options *options)
{
    struct halay_heritage *heritage = world->heritage;
    const char *which = world->config.bootstrap;

    if (!is_auto(which) && !is_set_to(which, "store")) {
        halay_error(world->log, "bootstrap '%s' in an elastic job: halayrun --min-np starts it over its store", which);
        return HALAY_ERR_CONFIG;
    }
    int lost = heritage->participant ? options->lost : -1;
    enum halay_status status = HALAY_OK;
    if (!heritage->participant)
        status = halay_participant_open(world->log, &world->config, &heritage->participant);
    if (status == HALAY_OK)
        status = halay_participant_enrol(heritage->participant, lost, options->has_state);
    return status == HALAY_OK ? halay_participant_boot(heritage->participant, &world->boot) : status;
}

/* If each of them continued alone nothing would fail: only the sums would be wrong. */
static enum halay_status refuse_to_be_alone(const struct halay_world *world)
{
    halay_error(
        world->log,
        "%s has started this process as one of %d (%s), and there is no way to meet the others: each would compute "
        "alone, and its sums would be wrong without a word; start the program by halayrun, or by mpirun with "
        "halay's MPI module (in SLURM srun --mpi=pmix, or pmi2), or let the program bring its ranks together "
        "(rendezvous "
        "or unique_id in struct halay_options; the backend \"halay\" of torch.distributed does), or give "
        "HALAY_BOOTSTRAP=self if each process is meant to be a job of its own",
        world->config.other_job.launcher, world->config.other_job.size, world->config.other_job.variables);
    return HALAY_ERR_UNSUPPORTED;
}

static enum halay_status boot_choose(struct halay_world *world)
{
    const struct halay_config *config = &world->config;
    const char *which = config->bootstrap;

    /* A job of one rank under an MPI launcher needs MPI only if it is asked for. */
    int is_mpi_job =
        config->mpi_launcher_size > 1 || (config->mpi_launcher_size == 1 && is_set_to(config->transport, "mpi"));
    int is_by_itself = is_auto(which);
    if (is_set_to(which, "store") || (is_by_itself && config->store_address))
        return halay_boot_store_create(world->log, config, &world->boot);
    if (is_by_itself && config->mpi_launcher_size < 2 && config->other_job.size)
        return refuse_to_be_alone(world);
    if (is_set_to(which, "mpi") || (is_by_itself && is_mpi_job))
        return boot_mpi(world);
    return halay_boot_self_create(world->log, &world->boot);
}

static enum halay_status boot_open(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status;

    if (options && options->comm)
        status = boot_communicator(world, options);
    else if (options && options->rendezvous)
        status = boot_rendezvous(world, options);
    else if (options && options->unique_id)
        status = boot_unique(world, options);
    else
        status = world->heritage ? boot_elastic(world, options) : boot_choose(world);
    if (status != HALAY_OK)
        return status;
    world->boot->watch = options ? options->watch : NULL;
    world->rank = world->log->rank = world->boot->rank;
    world->size = world->boot->size;
    return HALAY_OK;
}

/* ---- together ---- */

/* level: of the line about HALAY_ERR_UNSUPPORTED, no error where another transport is tried next. what: the transport
 * in question, or NULL. */
static enum halay_status agree_at(struct halay_world *world, enum halay_status mine, enum halay_log_level level,
                                  const char *what, int *wanted)
{
    struct said {
        int32_t status, wants, groups;
        char transport[TRANSPORT_BYTES]; /* ranks that try different ones would lose step */
        char interfaces[HALAY_INTERFACES_BYTES];
    } said = { .status = (int32_t)mine, .wants = *wanted != 0, .groups = world->ids.limit },
      *all = calloc((size_t)world->size, sizeof *all);

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    snprintf(said.transport, sizeof said.transport, "%s", world->config.transport ? world->config.transport : "auto");
    memcpy(said.interfaces, world->interfaces, sizeof said.interfaces);
    enum halay_status result =
        world->boot->ops->allgather(world->boot, &said, sizeof said, all, world->config.start_timeout_ms);
    if (mine != HALAY_OK)
        result = mine;
    for (int r = 0; r < world->size && result == HALAY_OK; r++) {
        *wanted |= all[r].wants;
        halay_group_ids_limit(&world->ids, all[r].groups);
        if (all[r].status == HALAY_OK)
            continue;
        result = (enum halay_status)all[r].status;
        halay_log_write(world->log, result == HALAY_ERR_UNSUPPORTED ? level : HALAY_LOG_ERROR,
                        "rank %d cannot go on%s%s: %s", r, what ? " over " : "", what ? what : "",
                        halay_status_string(result));
    }
    for (int r = 1; r < world->size && result == HALAY_OK; r++)
        if (strncmp(all[r].transport, all[0].transport, TRANSPORT_BYTES) != 0) {
            halay_error(world->log, "starts that differ: rank %d has HALAY_TRANSPORT '%.*s', rank 0 has '%.*s'", r,
                        TRANSPORT_BYTES, all[r].transport, TRANSPORT_BYTES, all[0].transport);
            result = HALAY_ERR_MISMATCH;
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

static enum halay_status agree_on_status(struct halay_world *world, enum halay_status mine)
{
    int wanted = 0;

    return halay_world_agree(world, mine, &wanted);
}

/* On a transport of that name. */
static enum halay_status agree_on(struct halay_world *world, enum halay_status mine, enum halay_log_level level,
                                  const char *name)
{
    int wanted = 0;

    return agree_at(world, mine, level, name, &wanted);
}

/* There is no way to tell the others that a rank is missing: they find out by themselves. */
static int is_broken_boot(enum halay_status status)
{
    return status == HALAY_ERR_TIMEOUT || status == HALAY_ERR_PEER;
}

/* Ranks that are bound to cores of their own see only those. Count the cores of all ranks of this host, so that none
 * takes the host for overcommitted. */
static enum halay_status share_processors(struct halay_world *world)
{
    enum { BYTES = HALAY_CPU_MASK_BYTES };
    size_t bytes;

    if (halay_mul_overflows((size_t)world->size, BYTES, &bytes))
        return HALAY_ERR_NO_MEMORY;
    unsigned char *all = malloc(bytes);
    if (!all) {
        halay_error(world->log, "no memory for the processors of %d ranks", world->size);
        return HALAY_ERR_NO_MEMORY;
    }
    enum halay_status status =
        world->boot->ops->allgather(world->boot, world->topology.mask, BYTES, all, world->config.start_timeout_ms);
    for (int r = 0; r < world->size && status == HALAY_OK; r++)
        if (halay_peers_is_local(world->peers, r))
            halay_topology_add(&world->topology, all + (size_t)r * BYTES);
    free(all);
    return status;
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

static enum halay_status find_peers(struct halay_world *world)
{
    enum halay_status status =
        halay_peers_create(world->log, world->boot, world->config.node, world->config.start_timeout_ms, &world->peers);
    if (is_broken_boot(status))
        return status;
    status = agree_on_status(world, status);
    if (status != HALAY_OK)
        return status;
    world->node_of = calloc((size_t)world->size, sizeof *world->node_of);
    if (!world->node_of)
        return HALAY_ERR_NO_MEMORY;
    halay_peers_nodes(world->peers, world->node_of);
    status = halay_world_lay_out(world);
    return status == HALAY_OK ? share_processors(world) : status;
}

/* ---- transports ---- */

/* Where there are several NUMA nodes: the one for this rank's segment. */
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
    return HALAY_AREA_COUNT * HALAY_AREA_BYTES +
           (world->topology.memory_bytes ? world->topology.memory_bytes : SEGMENT_BYTES_DEFAULT);
}

/* An elastic job's process has its segment whether its first generation shares memory or not: a later one may. Laid out
 * for as many ranks as the job can have, so that it fits all generations. */
static enum halay_status keep_memory(struct halay_world *world)
{
    struct halay_shm_memory *memory = world->heritage->memory;
    size_t bytes;

    if (memory->base)
        return HALAY_OK;
    enum halay_status status = halay_shm_fit(world->log, world->config.size, segment_bytes(world), &bytes);
    return status == HALAY_OK ? halay_shm_memory_create(memory, world->config.size, bytes) : status;
}

/* Shared memory among the ranks of each host, into *out. All ranks know alike whether to try. */
static enum halay_status open_shm(struct halay_world *world, struct halay_transport **out)
{
    enum halay_log_level level = is_set_to(world->config.transport, "shm") ? HALAY_LOG_ERROR : HALAY_LOG_INFO;
    struct halay_shm_options options = {
        .segment_bytes = segment_bytes(world),
        .timeout_ms = world->config.start_timeout_ms,
        .numa_node = choose_numa_node(world),
        .its_host_only = world->cross_size > 1,
    };

    if (world->heritage) {
        options.memory = world->heritage->memory;
        options.ranks = world->config.size;
    }
    if (world->cross_size == world->size && world->size > 1)
        return HALAY_ERR_UNSUPPORTED;
    enum halay_status status = halay_shm_open(world->log, &options, world->boot, world->peers, out);
    if (status == HALAY_OK)
        halay_group_ids_limit(&world->ids, (*out)->groups);
    return is_broken_boot(status) ? status : agree_on(world, status, level, "shm");
}

/* A module's transport among all ranks, as world->data. */
static enum halay_status open_module(struct halay_world *world, int which, enum halay_log_level level)
{
    const struct halay_module_api *api = NULL;
    struct halay_transport *t = NULL;

    enum halay_status status = module_get(world, which, level, &api);
    if (status == HALAY_OK && !api->transport_create)
        status = HALAY_ERR_UNSUPPORTED;
    status = agree_on(world, status, level, module_names[which]);
    if (status != HALAY_OK)
        return status;
    status = api->transport_create(world->host, world->boot, &t);
    if (!is_broken_boot(status))
        status = agree_on(world, status, level, module_names[which]);
    if (status != HALAY_OK && t)
        t->ops->close(t);
    if (status != HALAY_OK)
        return status;
    world->data = t;
    halay_group_ids_limit(&world->ids, t->groups);
    return HALAY_OK;
}

static enum halay_status open_other(struct halay_world *world)
{
    const char *which = world->config.transport;

    /* There a rank leaves by a message, unless shared memory shows it. */
    if (!world->control)
        halay_peers_set_grace(world->peers, GOODBYE_GRACE_US);
    if (is_set_to(which, "mpi"))
        return open_module(world, MODULE_MPI, HALAY_LOG_ERROR);
    if (world->cross_size > 1) {
        enum halay_status reached = halay_world_reach_hosts(world);
        if (reached != HALAY_OK)
            return reached;
    }
    if (is_set_to(which, "ucx"))
        return open_module(world, MODULE_UCX, HALAY_LOG_ERROR);
    int has_ucx = halay_module_file_is_there(world->config.module_path, module_names[MODULE_UCX]);
    int has_mpi = halay_module_file_is_there(world->config.module_path, module_names[MODULE_MPI]);
    enum halay_status status = open_module(world, MODULE_UCX, has_ucx && !has_mpi ? HALAY_LOG_ERROR : HALAY_LOG_INFO);
    if (status == HALAY_ERR_UNSUPPORTED) /* in any case: other ranks may have what this one lacks */
        status = open_module(world, MODULE_MPI, has_mpi ? HALAY_LOG_ERROR : HALAY_LOG_INFO);
    if (status == HALAY_ERR_UNSUPPORTED && !has_ucx && !has_mpi)
        halay_error(world->log,
                    "this halay has neither UCX nor MPI, so data stay on one host%s: install one that was built with "
                    "UCX on every host, or let HALAY_MODULE_PATH name the folder of its libhalay-ucx.so",
                    world->cross_size > 1 ? "" : ", among ranks that share memory");
    return status;
}

static enum halay_status open_transports(struct halay_world *world)
{
    const char *which = world->config.transport;

    enum halay_status status = open_shm(world, world->cross_size > 1 ? &world->node : &world->control);
    if (status != HALAY_OK && status != HALAY_ERR_UNSUPPORTED)
        return status;
    if (is_set_to(which, "shm") && !world->control) {
        if (world->cross_size == 1)
            halay_error(world->log, "transport 'shm': the ranks cannot share memory (HALAY_LOG=info says why)");
        else
            halay_error(world->log, "transport 'shm' takes all ranks on one host: %d of %d are on this one",
                        world->local_size, world->size);
        return HALAY_ERR_UNSUPPORTED;
    }
    if (world->control && (is_auto(which) || is_set_to(which, "shm"))) {
        world->data = world->control;
        return HALAY_OK;
    }
    return open_other(world);
}

void halay_world_finish_start(struct halay_world *world)
{
    world->boot->watch = NULL;
    if (world->boot->ops->finish)
        world->boot->ops->finish(world->boot);
}

void halay_world_settle(struct halay_world *world)
{
    unsigned where = world->local_size == world->size ? HALAY_TUNING_LOCAL : HALAY_TUNING_REMOTE;

    if (!world->config.fragment_bytes)
        world->config.fragment_bytes = halay_tuning_fragment(world->tuning, world->data->ops->name, where);
}

/* ---- open and close ---- */

/* In an elastic job log, participant and memory are the caller's to keep. */
static enum halay_status inherit(struct halay_world *world, const struct halay_world_options *options)
{
    struct halay_heritage *heritage = options ? options->heritage : NULL;

    if (world->config.elastic < 0)
        return HALAY_OK;
    if (!heritage || options->comm || options->rendezvous || options->unique_id) {
        halay_error(world->log,
                    "in an elastic job (halayrun --min-np) ranks meet by halay_init: neither a group of its own "
                    "nor a communicator, a rendezvous or a unique id can be used");
        return HALAY_ERR_UNSUPPORTED;
    }
    if (!heritage->memory) {
        heritage->memory = malloc(sizeof *heritage->memory);
        if (!heritage->memory)
            return HALAY_ERR_NO_MEMORY;
        halay_shm_memory_init(world->log, heritage->memory);
    }
    heritage->log = world->log;
    world->heritage = heritage;
    return HALAY_OK;
}

/* A rank whose settings are wrong still meets the others, so that they need not wait for it. */
static enum halay_status open_boot(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status = configure(world, options);
    enum halay_status opened = host_create(world);

    if (opened == HALAY_OK)
        opened = inherit(world, options);
    if (opened == HALAY_OK)
        opened = boot_open(world, options);
    if (opened == HALAY_OK)
        return agree_on_status(world, status);
    return status != HALAY_OK ? status : opened;
}

static enum halay_status world_fill(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status = open_boot(world, options);
    if (status == HALAY_OK)
        status = find_peers(world);
    if (status == HALAY_OK)
        status = halay_tuning_share(world->boot, &world->config, &world->tuning);
    if (status == HALAY_OK)
        status = open_transports(world);
    if (status == HALAY_OK && world->heritage)
        status = keep_memory(world);
    if (status != HALAY_OK)
        return status;
    halay_world_settle(world);
    halay_info(world->log, "rank %d of %d on '%s' (%d here, %d hosts), bootstrap %s, data over %s", world->rank,
               world->size, halay_peers_host(world->peers, world->rank), world->local_size, world->cross_size,
               world->boot->ops->name, world->data->ops->name);
    return HALAY_OK;
}

enum halay_status halay_world_open(const struct halay_world_options *options, struct halay_world **out)
{
    struct halay_world *world = calloc(1, sizeof *world);

    if (!world)
        return HALAY_ERR_NO_MEMORY;
    int has_log = options && options->heritage && options->heritage->log;
    world->log = has_log ? options->heritage->log : malloc(sizeof *world->log);
    if (!world->log) {
        free(world);
        return HALAY_ERR_NO_MEMORY;
    }
    world->is_parent = halay_fork_mark();
    if (!has_log)
        halay_log_init(world->log, HALAY_LOG_WARNING);
    if (options && !has_log) {
        world->log->write = options->log_write;
        world->log->arg = options->log_arg;
    }
    enum halay_status status = world_fill(world, options);
    if (status != HALAY_OK) {
        halay_world_close(world);
        return status;
    }
    *out = world;
    return HALAY_OK;
}

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

struct halay_transport *halay_world_shared(const struct halay_world *world)
{
    if (world->data->caps & HALAY_TRANSPORT_SHARED)
        return world->data;
    if (world->cross_size == 1 && world->control && world->control->caps & HALAY_TRANSPORT_SHARED)
        return world->control;
    return world->node;
}

int halay_world_shared_rank(const struct halay_world *world, int rank)
{
    if (!world->node)
        return halay_world_shared(world) ? rank : -1;
    return world->node_of[rank] == world->node_of[world->rank] ? world->node_rank[rank] : -1;
}

int halay_world_is_stopped(const struct halay_world *world, int rank)
{
    return world->peers && halay_peers_is_stopped(world->peers, rank);
}

void halay_heritage_fini(struct halay_heritage *heritage)
{
    halay_participant_close(heritage->participant);
    if (heritage->memory)
        halay_shm_memory_fini(heritage->memory);
    free(heritage->memory);
    if (heritage->log)
        halay_log_fini(heritage->log);
    free(heritage->log);
    *heritage = (struct halay_heritage){ 0 };
}

void halay_world_leave(struct halay_world *world)
{
    halay_group_ids_fini(&world->ids, world->data);
    if (world->data && world->data != world->control)
        world->data->ops->close(world->data);
    if (world->control)
        world->control->ops->close(world->control);
    halay_world_forget_hosts(world);
    if (world->node)
        world->node->ops->close(world->node);
    world->data = world->control = world->node = NULL;
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
    for (size_t i = 0; i < sizeof world->module / sizeof *world->module; i++)
        halay_module_close(world->module[i]);
    free(world->host);
    free(world->node_of);
    free(world->node_rank);
    free(world->restless);
    free(world->tuning);
    halay_fork_unmark(world->is_parent);
    halay_config_fini(&world->config);
    if (!world->heritage) {
        halay_log_fini(world->log);
        free(world->log);
    }
    free(world);
}
