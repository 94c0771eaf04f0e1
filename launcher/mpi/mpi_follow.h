/* SPDX-License-Identifier: Apache-2.0
 *
 * Follow: an MPI's launcher as a child of halayrun, for --events.
 */
#ifndef HALAY_LAUNCHER_MPI_FOLLOW_H
#define HALAY_LAUNCHER_MPI_FOLLOW_H

#include "base/log.h"
#include "launcher/cli/options.h"

/* Runs the launcher's line, NULL at the end, and writes its start and end to the file of --events. Returns its exit
 * code, EXIT_SIGNAL and the number of a signal that ended it, or that of an error here (reported). */
int mpi_follow(struct halay_log *log, struct options *options, int ranks, char **words);

#endif
