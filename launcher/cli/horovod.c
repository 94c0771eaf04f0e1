/* SPDX-License-Identifier: Apache-2.0
 *
 * Horovodrun's flags, in one table. A flag that only affects speed is ignored, with a warning; one whose absence would
 * show later, in other results or another kind of job, is refused at once.
 */
#include "launcher/cli/horovod.h"
#include <string.h>

static const char by_cost[] =
    "the algorithm follows from size and hosts; --allreduce-algorithm and --allgather-algorithm choose one";
static const char no_tuning[] = "halay fuses what is ready; other sizes were measured, and none was faster";
static const char no_mpi_inside[] = "halayrun starts ranks without MPI; with --mpi, give such options to --mpi-args";
static const struct horovod_flag table[] = {
    { "--num-proc", 1, FLAG_TRANSLATED("-np", NULL) },
    { "-v", 0, FLAG_TRANSLATED("--version", NULL) },
    { "-cb", 0, FLAG_TRANSLATED("--check-build", NULL) },
    { "-prefix-timestamp", 0, FLAG_TRANSLATED("--timestamp", NULL) },
    { "--prefix-output-with-timestamp", 0, FLAG_TRANSLATED("--timestamp", NULL) },
    { "--log-with-timestamp", 0, FLAG_TRANSLATED("--timestamp", NULL) },
    { "--no-log-hide-timestamp", 0, FLAG_TRANSLATED("--timestamp", NULL) },
    { "--log-without-timestamp", 0, FLAG_ALWAYS },
    { "--log-hide-timestamp", 0, FLAG_ALWAYS },
    { "--no-autotune", 0, FLAG_ALWAYS },
    { "--timeline-filename", 1, FLAG_TRANSLATED("--timeline", NULL) },
    { "--stall-check", 0, FLAG_ALWAYS },
    { "--stall-check-warning-time-seconds", 1, FLAG_TRANSLATED("--stall-check-time", NULL) },
    { "--stall-check-shutdown-time-seconds", 1, FLAG_TRANSLATED("--stall-shutdown-time", NULL) },
    { "--gloo-timeout-seconds", 1, FLAG_TRANSLATED("--peer-timeout", NULL) },
    { "--gloo", 0, FLAG_ALWAYS },
    { "--disable-cache", 0, FLAG_ALWAYS },
    { "--no-timeline-mark-cycles", 0, FLAG_ALWAYS },
    { "--no-torus-allreduce", 0, FLAG_ALWAYS },
    { "--no-mpi-threads-disable", 0, FLAG_ALWAYS },
    { "--timeline-mark-cycles", 0,
      FLAG_IGNORED("halay has no cycles: a tensor is sent as soon as all ranks have submitted it") },
    { "--cycle-time-ms", 1,
      FLAG_IGNORED("halay has no cycles: a tensor is sent as soon as all ranks have submitted it") },
    { "--cache-capacity", 1, FLAG_IGNORED("the cache has one size: 16,384 names keep their ids") },
    { "--hierarchical-allreduce", 0, FLAG_IGNORED(by_cost) },
    { "--no-hierarchical-allreduce", 0, FLAG_IGNORED(by_cost) },
    { "--hierarchical-allgather", 0, FLAG_IGNORED(by_cost) },
    { "--no-hierarchical-allgather", 0, FLAG_IGNORED(by_cost) },
    { "--torus-allreduce", 0, FLAG_IGNORED(by_cost) },
    { "--autotune", 0, FLAG_IGNORED(no_tuning) },
    { "--autotune-log-file", 1, FLAG_IGNORED(no_tuning) },
    { "--autotune-warmup-samples", 1, FLAG_IGNORED(no_tuning) },
    { "--autotune-steps-per-sample", 1, FLAG_IGNORED(no_tuning) },
    { "--autotune-bayes-opt-max-samples", 1, FLAG_IGNORED(no_tuning) },
    { "--autotune-gaussian-process-noise", 1, FLAG_IGNORED(no_tuning) },
    { "--mpi-threads-disable", 0, FLAG_IGNORED(no_mpi_inside) },
    { "--tcp", 0, FLAG_IGNORED(no_mpi_inside) },
    { "--num-nccl-streams", 1, FLAG_IGNORED("NCCL, where it is used, has one stream") },
    { "--jsrun", 0, FLAG_REFUSED("jsrun is not known here; it can start the program itself, without halayrun") },
    { "--binding-args", 1, FLAG_REFUSED("there is --bind auto, cores or none") },
    { "--network-interfaces", 1, FLAG_TRANSLATED("--network-interface", NULL) },
    { "--min-num-proc", 1, FLAG_TRANSLATED("--min-np", NULL) },
    { "--max-num-proc", 1, FLAG_TRANSLATED("--max-np", NULL) },
    { "--slots", 1, FLAG_TRANSLATED("--slots-per-host", NULL) },
    { "--blacklist-cooldown-range", 2, FLAG_TRANSLATED("--cooldown", NULL) },
};

enum { FLAGS = sizeof table / sizeof *table };

const struct horovod_flag *horovod_flag(size_t index)
{
    return index < FLAGS ? &table[index] : NULL;
}

const struct horovod_flag *horovod_flag_find(const char *name, size_t length)
{
    for (const struct horovod_flag *flag = table; flag < table + FLAGS; flag++)
        if (strlen(flag->name) == length && !strncmp(flag->name, name, length))
            return flag;
    return NULL;
}
