/* SPDX-License-Identifier: Apache-2.0
 *
 * Start by MPI: halayrun --mpi becomes mpirun or srun.
 */
#ifndef HALAY_LAUNCHER_MPI_START_H
#define HALAY_LAUNCHER_MPI_START_H

#include "base/log.h"
#include "launcher/cli/options.h"

/* Finds out which MPI is installed, unless an option names it, and prints its line (--dry-run) or executes it, with the
 * environment as it is. Returns if it has printed (0), cannot start (an exit code, reported) or has followed the
 * launcher for --events (its exit code). May wait for `mpirun --version`. */
int mpi_start(struct halay_log *log, struct options *options);

#endif
