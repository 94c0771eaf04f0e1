/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognise: an ordered table of marks. The first allocation whose mark is found is read.
 */
#include "base/config.h"
#include "base/parse.h"
#include "launcher/common/rank_list.h"
#include "launcher/where/recognise_impl.h"
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- looking ----------------------------------------------------------------------------------------------------- */

const char *find_variable(const struct finding *f, const char *name)
{
    const char *value = f->from->variable(f->from->arg, name);

    return value && *value ? value : NULL;
}

const char *whole_path(const struct finding *f, const char *path, char *place, size_t size)
{
    snprintf(place, size, "%s%s", f->from->root, path);
    return place;
}

int has_file(const struct finding *f, const char *path)
{
    char place[PATH_MAX];

    return access(whole_path(f, path, place, sizeof place), F_OK) == 0;
}

int has_program(const struct finding *f, const char *name)
{
    const char *path = find_variable(f, "PATH");
    char place[PATH_MAX];

    for (; path && *path; path += *path == ':') {
        int length = (int)strcspn(path, ":");
        if (*path == '/' &&
            snprintf(place, sizeof place, "%s%.*s/%s", f->from->root, length, path, name) < (int)sizeof place &&
            access(place, X_OK) == 0)
            return 1;
        path += length;
    }
    return 0;
}

enum halay_status wrong_finding(const struct finding *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(f->why, f->size, format, args);
    va_end(args);
    return HALAY_ERR_FORMAT;
}

enum halay_status find_hosts(const struct finding *f, const char *source, const char *text, int slots)
{
    char why[512];
    enum halay_status status = hosts_parse(text, slots, &f->to->hosts, why, sizeof why);

    if (status != HALAY_OK)
        wrong_finding(f, "%s: %s", source, why);
    return status;
}

enum halay_status find_hostfile(const struct finding *f, const char *source, const char *path)
{
    char why[512], place[PATH_MAX];
    enum halay_status status = hosts_read(whole_path(f, path, place, sizeof place), 1, &f->to->hosts, why, sizeof why);

    if (status != HALAY_OK) {
        wrong_finding(f, "%s: %s", source, why);
        return status;
    }
    if (!f->to->hosts.count)
        return wrong_finding(f, "%s: '%s' names no host", source, place);
    args_addf(&f->to->remarks, "%s=%s: %zu hosts, %zu slots", source, path, f->to->hosts.count,
              hosts_slots(&f->to->hosts));
    return HALAY_OK;
}

enum halay_status find_number(const struct finding *f, const char *name, int least, int most, int *number)
{
    const char *text = find_variable(f, name);
    long value;

    if (!text)
        return HALAY_OK;
    if (halay_parse_long(text, least, most, &value) != HALAY_OK)
        return wrong_finding(f, "%s: '%.60s' is not a whole number from %d to %d", name, text, least, most);
    *number = (int)value;
    return HALAY_OK;
}

static const char *environment_variable(void *arg, const char *name)
{
    (void)arg;
    return halay_environment_get(name);
}

struct environment environment_here(void)
{
    return (struct environment){ .variable = environment_variable, .root = "" };
}

/* ---- ranks that run already -------------------------------------------------------------------------------------- */

/* Variables in which MPI launchers leave the number of ranks. */
static const char *const mpi_sizes[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };

static const char *mpi_size_variable(const struct finding *f)
{
    for (size_t i = 0; i < sizeof mpi_sizes / sizeof *mpi_sizes; i++)
        if (find_variable(f, mpi_sizes[i]))
            return mpi_sizes[i];
    return NULL;
}

static enum halay_status recognise_mpi(const struct finding *f)
{
    const char *name = mpi_size_variable(f);

    f->to->is_started = 1;
    args_addf(&f->to->remarks, "%s=%s: an MPI launcher started this process as one of that many ranks", name,
              find_variable(f, name));
    return find_number(f, name, 1, RANKS_MAX, &f->to->ranks);
}

/* torchrun always sets all of these, halayrun too. */
static const char *const torch_variables[] = { "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR" };

static int has_torch_variables(const struct finding *f)
{
    for (size_t i = 0; i < sizeof torch_variables / sizeof *torch_variables; i++)
        if (!find_variable(f, torch_variables[i]))
            return 0;
    return !find_variable(f, "HALAY_RANK");
}

static enum halay_status recognise_torchrun(const struct finding *f)
{
    int rank = 0;

    f->to->is_started = 1;
    enum halay_status status = find_number(f, "WORLD_SIZE", 1, RANKS_MAX, &f->to->ranks);
    if (status == HALAY_OK)
        status = find_number(f, "RANK", 0, f->to->ranks - 1, &rank);
    if (status == HALAY_OK)
        args_addf(&f->to->remarks,
                  "RANK=%d, WORLD_SIZE=%d, LOCAL_RANK=%s, MASTER_ADDR=%s: torchrun, or a similar launcher, "
                  "started this process",
                  rank, f->to->ranks, find_variable(f, "LOCAL_RANK"), find_variable(f, "MASTER_ADDR"));
    return status;
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

static int is_mpi(const struct finding *f)
{
    return mpi_size_variable(f) != NULL;
}

static int is_kubernetes(const struct finding *f)
{
    return find_variable(f, "K_MPI_JOB_ROLE") || has_file(f, "/etc/mpi/hostfile");
}

static int is_slurm(const struct finding *f)
{
    return find_variable(f, "SLURM_JOB_NODELIST") || find_variable(f, "SLURM_NODELIST");
}

static int is_lsf(const struct finding *f)
{
    return find_variable(f, "LSB_DJOB_HOSTFILE") || find_variable(f, "LSB_MCPU_HOSTS");
}

static int is_pbs(const struct finding *f)
{
    return find_variable(f, "PBS_NODEFILE") != NULL;
}

static int is_tf_config(const struct finding *f)
{
    return find_variable(f, "TF_CONFIG") != NULL;
}

static const struct {
    enum allocation_kind kind;
    const char *name;
    int (*is)(const struct finding *f);
    enum halay_status (*read)(const struct finding *f);
} kinds[] = {
    { ALLOCATION_MPI, "ranks of an MPI launcher", is_mpi, recognise_mpi },
    { ALLOCATION_TORCHRUN, "ranks of torchrun", has_torch_variables, recognise_torchrun },
    { ALLOCATION_SAGEMAKER, "SageMaker", is_sagemaker, recognise_sagemaker },
    { ALLOCATION_KUBERNETES, "Kubernetes MPI Operator", is_kubernetes, recognise_kubernetes },
    { ALLOCATION_SLURM, "SLURM", is_slurm, recognise_slurm },
    { ALLOCATION_LSF, "LSF", is_lsf, recognise_lsf },
    { ALLOCATION_PBS, "PBS", is_pbs, recognise_pbs },
    { ALLOCATION_TF_CONFIG, "TF_CONFIG", is_tf_config, recognise_tf_config },
};

const char *allocation_name(enum allocation_kind kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind)
            return kinds[i].name;
    return "nothing";
}

enum halay_status recognise(const struct environment *environment, struct allocation *allocation, char *why,
                            size_t size)
{
    const struct finding f = { environment, allocation, why, size };
    enum halay_status status = HALAY_OK;
    size_t i = 0;

    *allocation = (struct allocation){ 0 };
    while (i < sizeof kinds / sizeof *kinds && !kinds[i].is(&f))
        i++;
    if (i == sizeof kinds / sizeof *kinds)
        return HALAY_OK;
    allocation->kind = kinds[i].kind;
    status = kinds[i].read(&f);
    if (status == HALAY_OK && allocation->remarks.has_failed)
        status = HALAY_ERR_NO_MEMORY;
    if (status == HALAY_ERR_NO_MEMORY)
        snprintf(why, size, "no memory");
    if (status != HALAY_OK)
        allocation_fini(allocation);
    else if (!allocation->ranks)
        allocation->ranks = hosts_ranks(&allocation->hosts);
    allocation->kind = kinds[i].kind;
    return status;
}

void allocation_fini(struct allocation *allocation)
{
    hosts_fini(&allocation->hosts);
    args_fini(&allocation->remarks);
    free(allocation->this_host);
    free(allocation->interface);
    free(allocation->remote_shell);
    *allocation = (struct allocation){ 0 };
}
