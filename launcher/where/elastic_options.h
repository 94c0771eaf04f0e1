/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic options: what the command line has about an elastic job, checked and completed.
 */
#ifndef HALAY_LAUNCHER_ELASTIC_OPTIONS_H
#define HALAY_LAUNCHER_ELASTIC_OPTIONS_H

#include "launcher/cli/options.h"
#include "launcher/where/hosts.h"
#include "launcher/where/layout.h"

/* If an elastic job is asked for, set is_elastic and least_ranks; ranks and most_ranks that are not given are left to
 * elastic_size. 0, or an exit code (reported): numbers that contradict each other, options for elastic jobs only, a
 * start by MPI. */
int elastic_complete(struct options *options);
static inline int elastic_is_wanted(const struct options *options)
{
    return options->is_elastic;
}

/* The hosts that the discovery script names, once they have slots for least_ranks; waits --elastic-timeout at most. 0
 * or an exit code (reported). hosts is the caller's to fini. */
int elastic_discover(const struct options *options, struct host_list *hosts);

/* Sets options->ranks to the number that start on these hosts (none: on this one). 0 or an exit code (reported). */
int elastic_size(struct options *options, const struct host_list *hosts);
/* Returns the number of processes that this host may have at a time, when the job starts. */
int elastic_local_workers(const struct options *options, const struct layout *layout, const struct host_list *hosts);

#endif
