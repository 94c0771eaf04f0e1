/* SPDX-License-Identifier: Apache-2.0
 *
 * Horovodrun's flags, in one table. A flag that only affects speed is ignored, with a warning; one whose absence would
 * show later, in other results or another kind of job, is refused at once.
 */
#include "launcher/cli/horovod.h"
#include <string.h>

#define TRANSLATED(option, value) HOROVOD_TRANSLATED, option, value, NULL
#define ALWAYS HOROVOD_ALWAYS, NULL, NULL, NULL
#define IGNORED(text) HOROVOD_IGNORED, NULL, NULL, text
#define REFUSED(text) HOROVOD_REFUSED, NULL, NULL, text

static const char by_cost[] =
    "the algorithm follows from size and hosts; --allreduce-algorithm and --allgather-algorithm choose one";
static const char no_tuning[] = "halay fuses what is ready; other sizes were measured, and none was faster";
static const char no_mpi_inside[] = "halayrun starts ranks without MPI; with --mpi, give such options to --mpi-args";
static const struct horovod_flag table[] = {
    { "--num-proc", 1, TRANSLATED("-np", NULL) },
    { "-v", 0, TRANSLATED("--version", NULL) },
    { "-cb", 0, TRANSLATED("--check-build", NULL) },
    { "-prefix-timestamp", 0, TRANSLATED("--timestamp", NULL) },
    { "--prefix-output-with-timestamp", 0, TRANSLATED("--timestamp", NULL) },
    { "--log-with-timestamp", 0, TRANSLATED("--timestamp", NULL) },
    { "--no-log-hide-timestamp", 0, TRANSLATED("--timestamp", NULL) },
    { "--log-without-timestamp", 0, ALWAYS },
    { "--log-hide-timestamp", 0, ALWAYS },
    { "--no-autotune", 0, ALWAYS },
    { "--timeline-filename", 1, TRANSLATED("--timeline", NULL) },
    { "--stall-check", 0, ALWAYS },
    { "--stall-check-warning-time-seconds", 1, TRANSLATED("--stall-check-time", NULL) },
    { "--stall-check-shutdown-time-seconds", 1, TRANSLATED("--stall-shutdown-time", NULL) },
    { "--gloo-timeout-seconds", 1, TRANSLATED("--peer-timeout", NULL) },
    { "--gloo", 0, ALWAYS },
    { "--disable-cache", 0, ALWAYS },
    { "--no-timeline-mark-cycles", 0, ALWAYS },
    { "--no-torus-allreduce", 0, ALWAYS },
    { "--no-mpi-threads-disable", 0, ALWAYS },
    { "--timeline-mark-cycles", 0,
      IGNORED("there are no cycles: a tensor is sent as soon as all ranks have submitted it") },
    { "--cycle-time-ms", 1, IGNORED("there are no cycles: a tensor is sent as soon as all ranks have submitted it") },
    { "--cache-capacity", 1, IGNORED("there is no cache to size: 16,384 names keep their ids") },
    { "--hierarchical-allreduce", 0, IGNORED(by_cost) },
    { "--no-hierarchical-allreduce", 0, IGNORED(by_cost) },
    { "--hierarchical-allgather", 0, IGNORED(by_cost) },
    { "--no-hierarchical-allgather", 0, IGNORED(by_cost) },
    { "--torus-allreduce", 0, IGNORED(by_cost) },
    { "--autotune", 0, IGNORED(no_tuning) },
    { "--autotune-log-file", 1, IGNORED(no_tuning) },
    { "--autotune-warmup-samples", 1, IGNORED(no_tuning) },
    { "--autotune-steps-per-sample", 1, IGNORED(no_tuning) },
    { "--autotune-bayes-opt-max-samples", 1, IGNORED(no_tuning) },
    { "--autotune-gaussian-process-noise", 1, IGNORED(no_tuning) },
    { "--mpi-threads-disable", 0, IGNORED(no_mpi_inside) },
    { "--tcp", 0, IGNORED(no_mpi_inside) },
    { "--num-nccl-streams", 1, IGNORED("NCCL, where it is used, has one stream") },
    { "--jsrun", 0, REFUSED("jsrun is not known here; it can start the program itself, without halayrun") },
    { "--binding-args", 1, REFUSED("there is --bind auto, cores or none") },
    { "--network-interfaces", 1, TRANSLATED("--network-interface", NULL) },
    { "--min-num-proc", 1, TRANSLATED("--min-np", NULL) },
    { "--max-num-proc", 1, TRANSLATED("--max-np", NULL) },
    { "--slots", 1, TRANSLATED("--slots-per-host", NULL) },
    { "--blacklist-cooldown-range", 2, TRANSLATED("--cooldown", NULL) },
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
