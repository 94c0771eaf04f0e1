/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic options: what the command line says of an elastic job, checked and completed.
 */
#ifndef HALAY_LAUNCHER_ELASTIC_OPTIONS_H
#define HALAY_LAUNCHER_ELASTIC_OPTIONS_H

#include "launcher/cli/options.h"
#include "launcher/where/hosts.h"
#include "launcher/where/layout.h"

/* Is an elastic job asked for? Then is_elastic and least_ranks are set; ranks and most_ranks, if nothing says them, by
 * elastic_size. 0, or an exit code (said): numbers that contradict each other, options that only such a job has, a
 * start by MPI or SageMaker's. */
int elastic_complete(struct options *options);
static inline int elastic_is_wanted(const struct options *options)
{
    return options->is_elastic;
}

/* The hosts that the discovery script names, once they have slots for least_ranks; waits for that, --elastic-timeout at
 * most. 0 or an exit code (said). hosts is the caller's to fini. */
int elastic_discover(const struct options *options, struct host_list *hosts);

/* How many ranks begin on these hosts (none: this one): options->ranks. 0 or an exit code (said). */
int elastic_size(struct options *options, const struct host_list *hosts);
/* How many processes this host may have at a time, at the beginning. */
int elastic_local_seats(const struct options *options, const struct layout *layout, const struct host_list *hosts);

#endif
