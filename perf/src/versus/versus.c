/* SPDX-License-Identifier: Apache-2.0
 *
 * Versus: loads MPI's module and takes care of who initialises MPI. A struct perf_versus is zero-initialised, and
 * perf_versus_end takes any state.
 */
#include "perf/src/versus/versus.h"
#include "halay_coll.h"
#include "perf/src/versus/module.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int perf_versus_start(struct perf_versus *versus, const struct halay_config *config, const char *transport, char *text,
                      size_t size)
{
    versus->module = perf_module_open(config, "perf-mpi", text, size);
    if (!versus->module)
        return 1;
    const struct halay_perf_mpi_ops *ops = dlsym(versus->module, "halay_perf_mpi_ops");
    if (!ops || strcmp(ops->version, halay_version())) {
        snprintf(text, size, "libhalay-perf-mpi.so is of another version than this program, %s", halay_version());
        return 1;
    }
    if (strcmp(transport, "mpi")) {
        if (ops->start(text, size))
            return 1;
        versus->is_ours = 1;
    }
    versus->mpi = ops;
    return 0;
}

int perf_versus_check(struct perf_versus *versus, int rank, int ranks, const struct perf_call *greatest, char *text,
                      size_t size)
{
    int mpi_rank, mpi_ranks;

    if (versus->mpi->place(&mpi_rank, &mpi_ranks, &versus->name, versus->library, sizeof versus->library, text, size) ||
        !versus->mpi->takes(greatest, text, size))
        return 1;
    if (mpi_rank != rank || mpi_ranks != ranks) {
        snprintf(text, size, "MPI calls this rank %d of %d, halay calls it %d of %d", mpi_rank, mpi_ranks, rank, ranks);
        return 1;
    }
    return 0;
}

void perf_versus_end(struct perf_versus *versus, int waits)
{
    if (versus->is_ours && waits)
        versus->mpi->stop();
    if (versus->module)
        dlclose(versus->module);
    *versus = (struct perf_versus){ .module = NULL };
}
