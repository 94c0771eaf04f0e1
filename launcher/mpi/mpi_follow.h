/* SPDX-License-Identifier: Apache-2.0
 *
 * Follow: an MPI's launcher as a child of halayrun, for --events and --metrics.
 */
#ifndef HALAY_LAUNCHER_MPI_FOLLOW_H
#define HALAY_LAUNCHER_MPI_FOLLOW_H

#include "base/log.h"
#include "launcher/cli/options.h"

/* Runs the launcher's line, NULL at the end. The file of --events gets its start and end, and --metrics is served of
 * the ranks on this host, whose flight records are here. Returns its exit code, EXIT_SIGNAL and the number of a signal
 * that ended it, or that of an error here (reported). */
int mpi_follow(struct halay_log *log, struct options *options, int ranks, char **args);

#endif
