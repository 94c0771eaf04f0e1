/* SPDX-License-Identifier: Apache-2.0
 *
 * Choose hosts: where the job runs. The command line decides first; what it leaves open (hosts, number of ranks, the
 * program in place of ssh) is taken from the allocation that halayrun is in (recognise.h), if any.
 */
#ifndef HALAY_LAUNCHER_CHOOSE_HOSTS_H
#define HALAY_LAUNCHER_CHOOSE_HOSTS_H

#include "launcher/cli/options.h"
#include "launcher/where/recognise.h"

struct chosen_hosts {
    const struct host_list *hosts; /* one of the two below, or options->joined: where ranks may run; empty: here only */
    struct host_list named;        /* owned: by -H or --hostfile */
    struct allocation allocation;  /* owned; zeros if absent or ignored */
};

/* A halayrun that is itself a rank ignores the allocation, which belongs to the outer job. Fills in options->ranks and
 * options->ssh, the latter borrowed from *chosen. 0, or an exit code (reported): malformed hosts, an allocation that
 * contradicts itself, no number of ranks. The caller calls chosen_hosts_fini in any case. */
int choose_hosts(const struct environment *from, struct options *options, struct chosen_hosts *chosen);
/* As many ranks as options->per_host: by default one for each GPU of this host, or else each core, as
 * its control group allows. 0, reported: there is no GPU. */
int ranks_of_this_host(int per_host);
void chosen_hosts_fini(struct chosen_hosts *chosen); /* zeroed or filled */

#endif
