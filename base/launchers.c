/* SPDX-License-Identifier: Apache-2.0 */
#include "base/launchers.h"
#include "base/number_text.h"
#include "base/parse.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MPI launchers set a variable to the number of ranks. MPI_LOCALNRANKS (ranks of this host) is the last one to look at:
 * some releases of MPICH set nothing else. PMIx has no such variable; under SLURM the step's task count serves. */
static void find_mpi_launcher(struct halay_launchers *found)
{
    static const struct {
        const char *name;
        int is_mpich;
    } variables[] = { { "OMPI_COMM_WORLD_SIZE", 0 },
                      { "PMI_SIZE", 1 },
                      { "MV2_COMM_WORLD_SIZE", 1 },
                      { "PMIX_SIZE", 0 },
                      { "MPI_LOCALNRANKS", 1 } };
    const char *text;
    long size;

    found->mpi_size = -1;
    for (size_t i = 0; i < sizeof variables / sizeof *variables && found->mpi_size < 0; i++)
        if ((text = getenv(variables[i].name)) && halay_parse_long(text, 1, INT_MAX, &size) == HALAY_OK) {
            found->mpi_size = (int)size;
            found->mpi_is_mpich = variables[i].is_mpich;
            found->mpi_is_open_mpi = i == 0;
        }
    if (found->mpi_size < 0 && getenv("PMIX_RANK") &&
        ((text = getenv("SLURM_STEP_NUM_TASKS")) || (text = getenv("SLURM_NTASKS"))) &&
        halay_parse_long(text, 1, INT_MAX, &size) == HALAY_OK)
        found->mpi_size = (int)size;
}

/*
 * Launchers that set the number of processes, whether halay can find the other ranks by them or not. All of a row's
 * variables must be set: sbatch gives a script SLURM_PROCID and the whole job's SLURM_NTASKS, and only a task of a
 * step SLURM_STEP_NUM_TASKS; RANK and WORLD_SIZE may mean anything without MASTER_ADDR. Rows without a size only number
 * processes.
 */
static const struct {
    const char *launcher, *size, *rank, *more;
} other_launchers[] = {
    { "halayrun", "HALAY_SIZE", "HALAY_RANK", NULL }, /* first: it sets torchrun's, too */
    { "torchrun or the like", "WORLD_SIZE", "RANK", "MASTER_ADDR" },
    { "a TrainJob or PyTorchJob", "PET_NNODES", "PET_NODE_RANK", NULL },
    { "a TrainJob or PyTorchJob", "PET_NNODES", "PET_RDZV_ENDPOINT", NULL },
    { "Azure ML or the like", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR" },
    { "AWS Batch", "AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_NODE_INDEX", NULL },
    { "SkyPilot", "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", NULL },
    { "dstack", "DSTACK_NODES_NUM", "DSTACK_NODE_RANK", NULL },
    { "a LeaderWorkerSet", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", NULL },
    { "a JAXJob", "NUM_PROCESSES", "PROCESS_ID", "COORDINATOR_ADDRESS" },
    { "HTCondor", "_CONDOR_NPROCS", "_CONDOR_PROCNO", NULL },
    { "Paddle's launcher", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", NULL },
    { "horovodrun", "HOROVOD_SIZE", "HOROVOD_RANK", NULL },
    { "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL },
    { "jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", NULL },
    { "flux", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", NULL },
    { "a PMI launcher", NULL, "PMI_RANK", NULL },
    { "a PMIx launcher", NULL, "PMIX_RANK", NULL },
    { "PALS's mpiexec", NULL, "PALS_RANKID", NULL },
    { "pbsdsh", NULL, "PBS_NODENUM", NULL }, /* a job's script has 0 */
};

/* Platforms that start a process on each host of a list in JSON: its keys, all of which count; "": the whole text. */
static const struct {
    const char *launcher, *name, *keys[4];
} listing_launchers[] = {
    { "a TFJob or Vertex AI", "TF_CONFIG", { "chief", "master", "worker" } },
    { "Vertex AI", "CLUSTER_SPEC", { "workerpool0", "workerpool1", "workerpool2", "workerpool3" } },
    { "SageMaker", "SM_HOSTS", { "" } },
};

/* Returns the number of processes by a launcher's variables; 0 if one of them is missing. */
static long other_size(size_t launcher)
{
    const char *counted = other_launchers[launcher].size, *more = other_launchers[launcher].more;
    const char *rank = getenv(other_launchers[launcher].rank), *size = counted ? getenv(counted) : NULL;
    long value;

    if (!rank || (more && !getenv(more)))
        return 0;
    if (size && strchr(size, ':')) /* PET_NNODES may be a range */
        size = strchr(size, ':') + 1;
    if (counted)
        return size && halay_parse_long(size, 1, INT_MAX, &value) == HALAY_OK ? value : 0;
    return halay_parse_long(rank, 0, INT_MAX - 1, &value) == HALAY_OK ? value + 1 : 0;
}

/* Returns the number of strings in the JSON array after "key":. It does not validate: the reader of the list does. */
static int count_listed(const char *text, const char *key)
{
    static const char blanks[] = " \t\r\n";
    const char *at = text;
    char name[32];
    int quotes = 0;

    snprintf(name, sizeof name, "\"%s\"", key);
    while (*key && (at = strstr(at, name))) {
        at += strlen(name);
        at += strspn(at, blanks);
        if (*at == ':' && at++)
            break; /* a key, not a value of that name */
    }
    if (!at || *(at += strspn(at, blanks)) != '[')
        return 0;
    for (; *at && *at != ']'; at++)
        quotes += *at == '"';
    return quotes / 2;
}

static void find_listing_job(struct halay_launchers *found)
{
    for (size_t i = 0; i < sizeof listing_launchers / sizeof *listing_launchers && !found->other_job.size; i++) {
        const char *text = getenv(listing_launchers[i].name);
        int hosts = 0;
        for (size_t k = 0; text && k < 4 && listing_launchers[i].keys[k]; k++)
            hosts += count_listed(text, listing_launchers[i].keys[k]);
        if (hosts < 2)
            continue;
        found->other_job.size = hosts;
        found->other_job.is_list = 1;
        found->other_job.launcher = listing_launchers[i].launcher;
        snprintf(found->other_job.variables, sizeof found->other_job.variables, "%s with %d hosts",
                 listing_launchers[i].name, hosts);
    }
}

/* Returns nonzero for a task of srun's whose RANK and WORLD_SIZE say what SLURM's variables do, as `halayrun --as-rank`
 * sets them: srun's own start does for it. torchrun in a step numbers processes of its own. */
static int is_srun_task(void)
{
    const char *const pairs[][2] = { { "RANK", "SLURM_PROCID" }, { "WORLD_SIZE", "SLURM_STEP_NUM_TASKS" } };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *torch = getenv(pairs[i][0]), *slurm = getenv(pairs[i][1]);
        if (!torch || !slurm || strcmp(torch, slurm) != 0)
            return 0;
    }
    return 1;
}

/* An MPI launcher that counts one process overrides the step's count, which includes the launcher's own helpers. */
static void find_other_job(struct halay_launchers *found)
{
    found->other_job.size = found->other_job.is_srun = 0;
    for (size_t i = 0; i < sizeof other_launchers / sizeof *other_launchers; i++) {
        const char *const names[] = { other_launchers[i].size, other_launchers[i].rank, other_launchers[i].more };
        char *text = found->other_job.variables;
        const int is_srun = !strcmp(other_launchers[i].launcher, "srun");
        const int is_torch = names[0] && !strcmp(names[0], "WORLD_SIZE");
        long size = other_size(i);
        if (size < 2 || (found->mpi_size == 1 && is_srun) || (is_torch && is_srun_task()))
            continue;
        found->other_job.is_srun = is_srun;
        found->other_job.size = (int)size;
        found->other_job.launcher = other_launchers[i].launcher;
        *text = 0;
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            if (names[n])
                halay_append(text, sizeof found->other_job.variables, "%s%s=%.40s", *text ? ", " : "", names[n],
                             getenv(names[n]));
        return;
    }
    find_listing_job(found);
}

void halay_launchers_find(struct halay_launchers *found)
{
    find_mpi_launcher(found);
    find_other_job(found);
}

/* The symbols of a library that was loaded for one of our modules are not visible here: modules are opened local. */
const char *halay_mpi_variant(const struct halay_launchers *launchers)
{
    const int has_mpi = dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
    const int has_open_mpi = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL;
    const int is_mpich = has_mpi ? !has_open_mpi : launchers->mpi_is_mpich;

    return halay_mpi_abi_variant(is_mpich ? HALAY_MPI_MPICH : HALAY_MPI_OPEN);
}

const char *halay_mpi_abi_variant(enum halay_mpi_abi abi)
{
    return abi == HALAY_MPI_MPICH ? "-mpich" : "";
}
