/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch systems: SLURM's compressed lists, and the files of LSF and PBS with a line for each slot.
 */
#include "launcher/where/recognise_impl.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 65536 };

/* ---- SLURM ------------------------------------------------------------------------------------------------------- */

/* Takes a number from 1 on, at *text; 0 without one. */
static long take_count(const char **text)
{
    char *end;

    if (!isdigit((unsigned char)**text))
        return 0;
    long number = strtol(*text, &end, 10);
    *text = end;
    return number >= 1 && number <= SLOTS_MAX ? number : 0;
}

/* "4(x2),1" is 4, 4, 1: the hosts' slots, divided by `by` (at least 1 each); by 0: their processors. */
static enum halay_status read_counts(const struct finding *f, const char *name, const char *text, int by)
{
    struct host_list *hosts = &f->to->hosts;
    const char *at = text;
    size_t filled = 0;

    for (;;) {
        long count = take_count(&at), times = 1;
        if (count && !strncmp(at, "(x", 2)) {
            at += 2;
            times = take_count(&at);
            times = *at == ')' ? times : 0;
            at += *at == ')';
        }
        if (!count || !times || (*at && *at != ','))
            return wrong_finding(f, "%s: '%.60s' is not understood at character %zu; write it like '4(x2),1'", name,
                                 text, (size_t)(at - text) + 1);
        for (; times > 0; times--, filled++)
            if (filled < hosts->count && !by)
                hosts->at[filled].processors = (int)count;
            else if (filled < hosts->count)
                hosts->at[filled].slots = count / by > 0 ? (int)(count / by) : 1;
        if (!*at)
            break;
        at++;
    }
    if (filled != hosts->count)
        return wrong_finding(f, "%s: '%.60s' is for %zu hosts, but the list of hosts has %zu", name, text, filled,
                             hosts->count);
    return HALAY_OK;
}

/* By the numbers of tasks, or else of processors and how many of these a task needs. */
static enum halay_status read_slurm_slots(const struct finding *f)
{
    const char *tasks = find_variable(f, "SLURM_TASKS_PER_NODE"), *cpus = find_variable(f, "SLURM_JOB_CPUS_PER_NODE");
    int each = 1;

    if (tasks) {
        args_addf(&f->to->remarks, "SLURM_TASKS_PER_NODE=%s: slots of each", tasks);
        enum halay_status status = read_counts(f, "SLURM_TASKS_PER_NODE", tasks, 1);
        return status == HALAY_OK && cpus ? read_counts(f, "SLURM_JOB_CPUS_PER_NODE", cpus, 0) : status;
    }
    if (!cpus)
        return HALAY_OK;
    enum halay_status status = find_number(f, "SLURM_CPUS_PER_TASK", 1, SLOTS_MAX, &each);
    if (status == HALAY_OK)
        args_addf(&f->to->remarks, "SLURM_JOB_CPUS_PER_NODE=%s, %d for a rank: slots of each", cpus, each);
    return status == HALAY_OK ? read_counts(f, "SLURM_JOB_CPUS_PER_NODE", cpus, each) : status;
}

/* The step runs beside others and may use all that the job has of the host; halayrun itself binds ranks. --unbuffered,
 * because srun would hold back an agent's output, signs of life included, until a line ends. */
static const char srun[] = "srun --nodes=1 --ntasks=1 --overlap --unbuffered --cpu-bind=none --mpi=none --nodelist";

enum halay_status recognise_slurm(const struct finding *f)
{
    const char *name = find_variable(f, "SLURM_JOB_NODELIST") ? "SLURM_JOB_NODELIST" : "SLURM_NODELIST";
    const char *list = find_variable(f, name), *here = find_variable(f, "SLURMD_NODENAME");
    int step = 0;
    enum halay_status status = find_hosts(f, name, list, 1);

    if (status != HALAY_OK)
        return status;
    args_addf(&f->to->remarks, "%s=%s: %zu hosts", name, list, f->to->hosts.count);
    status = read_slurm_slots(f);
    if (status == HALAY_OK)
        status = find_number(f, "SLURM_NTASKS", 1, SLOTS_MAX * 16, &f->to->ranks);
    if (status == HALAY_OK && f->to->ranks)
        args_addf(&f->to->remarks, "SLURM_NTASKS=%d: ranks", f->to->ranks);
    if (status == HALAY_OK && find_variable(f, "SLURM_STEP_ID"))
        status = find_number(f, "SLURM_STEP_NUM_TASKS", 1, SLOTS_MAX * 16, &step);
    f->to->copies = step;
    if (step > 1)
        args_addf(&f->to->remarks,
                  "SLURM_STEP_NUM_TASKS=%d: srun has started halayrun itself that often; start it once, "
                  "in the batch script",
                  step);
    if (here && !(f->to->this_host = strdup(here)))
        f->to->remarks.has_failed = 1;
    if (status == HALAY_OK && has_program(f, "srun")) {
        if (!(f->to->remote_shell = strdup(srun)))
            f->to->remarks.has_failed = 1;
        args_add(&f->to->remarks, "srun is in PATH: called in place of ssh");
    }
    return status;
}

/* ---- LSF and PBS ------------------------------------------------------------------------------------------------- */

/* "h1 4 h2 4" becomes "h1:4,h2:4". */
static enum halay_status read_pairs(const struct finding *f, const char *name, const char *text)
{
    char *list = calloc(2, strlen(text) + 1);
    size_t used = 0, args = 0;

    if (!list)
        return HALAY_ERR_NO_MEMORY;
    for (const char *at = text; *(at += strspn(at, " \t")); args++) {
        size_t length = strcspn(at, " \t");
        if (args)
            list[used++] = args % 2 ? ':' : ',';
        memcpy(list + used, at, length);
        used += length;
        at += length;
    }
    enum halay_status status;
    if (args % 2)
        status = wrong_finding(f, "%s: '%.60s' has %zu words; alternate hosts and numbers, like 'h1 4 h2 4'", name,
                               text, args);
    else
        status = find_hosts(f, name, list, 1);
    free(list);
    if (status == HALAY_OK)
        args_addf(&f->to->remarks, "%s=%s: hosts with slots", name, text);
    return status;
}

enum halay_status recognise_lsf(const struct finding *f)
{
    const char *file = find_variable(f, "LSB_DJOB_HOSTFILE");

    if (file)
        return find_hostfile(f, "LSB_DJOB_HOSTFILE", file);
    return read_pairs(f, "LSB_MCPU_HOSTS", find_variable(f, "LSB_MCPU_HOSTS"));
}

enum halay_status recognise_pbs(const struct finding *f)
{
    return find_hostfile(f, "PBS_NODEFILE", find_variable(f, "PBS_NODEFILE"));
}
