/* SPDX-License-Identifier: Apache-2.0
 *
 * Status: how a job goes, asked of its halayrun, which was started with --metrics.
 */
#ifndef HALAY_LAUNCHER_STATUS_H
#define HALAY_LAUNCHER_STATUS_H

/* Prints it once, or, in a terminal, every second until the job is over. where: as --metrics had it. token: the word of
 * --metrics-token-file; NULL: none. dump: prints it once, and copies the flight records of this host's ranks into that
 * folder, which is made if need be; NULL: don't. Returns halayrun's exit code. */
int status_run(const char *where, const char *token, const char *dump);

#endif
