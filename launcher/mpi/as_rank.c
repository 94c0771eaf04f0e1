/* SPDX-License-Identifier: Apache-2.0
 *
 * As rank: the first launcher whose variables are all there counts. An MPI's ranks may inherit those of a step in which
 * SLURM runs one helper of the MPI's on each node, so that srun is after the MPIs.
 *
 * MASTER_ADDR is known where all ranks are on this host, and in a step of SLURM's; elsewhere no variable names the host
 * of rank 0, and it has to be given. MASTER_PORT is below the ports that systems give to connections, and follows from
 * what all ranks of a job know and other jobs do not share.
 */
#include "launcher/mpi/as_rank.h"
#include "base/config.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/slurm_step.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/local/start.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_PORT = 20000, PORTS = 12000, USUAL_PORT = 29500 };

static const char srun[] = "srun";

/* NULL: the launcher has no such variable. */
static const struct {
    const char *launcher, *rank, *size, *local_rank, *local_size, *node, *nodes;
} launchers[] = {
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL },
    { "MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
      NULL, NULL },
    { "PALS's mpiexec", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "PALS_NODEID", NULL },
    { "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL },
    { "jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE", NULL,
      NULL },
    { srun, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_NODEID", "SLURM_STEP_NUM_NODES" },
    { "flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL, NULL, "FLUX_JOB_NNODES" },
};

/* Returns zero if the launcher has this variable and it is not such a number here. */
static int read_number(const char *name, int *number)
{
    const char *text = name ? halay_environment_get(name) : NULL;
    long value = -1;

    *number = -1;
    if (name && (!text || halay_parse_long(text, 0, INT_MAX, &value) != HALAY_OK))
        return 0;
    *number = (int)value;
    return 1;
}

int slurm_tasks_of_node(const char *list, int node)
{
    while (*list) {
        char *end;
        long count = strtol(list, &end, 10), times = 1;
        if (end == list || count < 1 || count > INT_MAX)
            return -1;
        if (!strncmp(end, "(x", 2))
            times = strtol(end + 2, &end, 10);
        if (node < times)
            return (int)count;
        node -= (int)times;
        list = end + strspn(end, "),");
    }
    return -1;
}

/* Derives what the launcher has no variable for. */
static void variables_complete(struct rank_variables *v)
{
    const char *tasks = halay_environment_get("SLURM_STEP_TASKS_PER_NODE");

    if (v->launcher == srun && tasks)
        v->local_size = slurm_tasks_of_node(tasks, v->node);
    if (v->nodes == 1)
        v->local_size = v->size;
    if (v->local_size == v->size) {
        v->node = 0;
        v->nodes = 1;
    }
}

int rank_variables_read(struct rank_variables *v)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        v->launcher = launchers[i].launcher;
        if (!read_number(launchers[i].rank, &v->rank) || !read_number(launchers[i].size, &v->size) ||
            !read_number(launchers[i].local_rank, &v->local_rank) ||
            !read_number(launchers[i].local_size, &v->local_size) || v->rank >= v->size)
            continue;
        (void)read_number(launchers[i].node, &v->node); /* -1 is enough */
        (void)read_number(launchers[i].nodes, &v->nodes);
        variables_complete(v);
        return 1;
    }
    return 0;
}

int master_port_of(const char *text)
{
    static const char what[] = "master "; /* the start of a step has another port (boot_slurm.c) */
    const uint32_t hash = halay_hash_more(HALAY_HASH_BEGIN, what, sizeof what - 1);

    return FIRST_PORT + (int)(halay_hash_more(hash, text, strlen(text)) % PORTS);
}

/* ---- rank 0's address -------------------------------------------------------------------------------------------- */

static int find_port(const struct rank_variables *v, const struct halay_slurm_step *step)
{
    const char *space = halay_environment_get("PMIX_NAMESPACE");

    if (v->launcher == srun && *step->name)
        return master_port_of(step->name);
    return space ? master_port_of(space) : USUAL_PORT;
}

/* 0, or an exit code (reported). */
static int find_address(const struct rank_variables *v, const struct halay_slurm_step *step, const char *why,
                        const char **address)
{
    if (v->local_size == v->size)
        *address = "127.0.0.1";
    else if (v->launcher == srun && *step->host)
        *address = step->host;
    else if (v->launcher == srun)
        report("--as-rank: the node of rank 0 is not known: %s; give it in MASTER_ADDR", why);
    else
        report("--as-rank: %s does not say on which host rank 0 is; give it, mpirun -x MASTER_ADDR=HOST (MPICH: -genv "
               "MASTER_ADDR HOST), or start the job by halayrun --mpi, which does",
               v->launcher);
    return *address ? 0 : EXIT_USAGE;
}

/* ---- the variables ----------------------------------------------------------------------------------------------- */

/* 0, or an exit code (reported). */
static int set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    if (value < 0)
        return unsetenv(name) < 0 ? report_no_memory() : 0;
    return setenv(name, text, 1) < 0 ? report_no_memory() : 0;
}

static int set_numbers(const struct rank_variables *v)
{
    const struct {
        const char *name;
        int value;
    } numbers[] = {
        { "RANK", v->rank },
        { "WORLD_SIZE", v->size },
        { "LOCAL_RANK", v->local_rank },
        { "LOCAL_WORLD_SIZE", v->local_size },
        { "GROUP_RANK", v->node },
        { "NODE_RANK", v->node },
        { "GROUP_WORLD_SIZE", v->nodes },
    };
    int code = 0;

    for (size_t i = 0; !code && i < sizeof numbers / sizeof *numbers; i++)
        code = set_number(numbers[i].name, numbers[i].value);
    return code;
}

/* Keeps what is in the environment. */
static int set_master(const struct rank_variables *v)
{
    struct halay_slurm_step step = { .rank = -1 };
    const char *address = NULL;
    char why[400] = "";
    int code = 0;

    if (v->launcher == srun && halay_slurm_step_read(&step, why, sizeof why) != HALAY_OK)
        step = (struct halay_slurm_step){ .rank = -1 };
    if (!halay_environment_get("MASTER_ADDR")) {
        code = find_address(v, &step, why, &address);
        if (!code && setenv("MASTER_ADDR", address, 1) < 0)
            code = report_no_memory();
    }
    if (!code && !halay_environment_get("MASTER_PORT"))
        code = set_number("MASTER_PORT", find_port(v, &step));
    return code;
}

int as_rank_run(char **command)
{
    struct rank_variables v;

    if (!*command) {
        report("option --as-rank: which program? mpirun -np 4 halayrun --as-rank PROGRAM");
        return EXIT_USAGE;
    }
    if (!rank_variables_read(&v)) {
        report(
            "option --as-rank: the environment has no variables of mpirun, srun or another launcher that starts each "
            "rank; start it by one: mpirun -np 4 halayrun --as-rank %s",
            *command);
        return EXIT_USAGE;
    }
    int code = set_numbers(&v);
    if (!code)
        code = set_master(&v);
    if (!code)
        code = start_check_program(NULL, *command);
    if (code)
        return code;
    execvp(*command, command);
    report("cannot run '%s': %s", *command, strerror(errno));
    return EXIT_CANNOT_RUN;
}
