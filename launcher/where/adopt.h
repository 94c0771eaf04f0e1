/* SPDX-License-Identifier: Apache-2.0
 *
 * Adopt: what a start of halayrun's own takes of the allocation that it is in (recognise.h) where the command line
 * leaves it open: the hosts, how many ranks, and what is called in place of ssh.
 */
#ifndef HALAY_LAUNCHER_ADOPT_H
#define HALAY_LAUNCHER_ADOPT_H

#include "launcher/cli/options.h"
#include "launcher/where/recognise.h"

struct adopted {
    const struct host_list *hosts; /* of the two below: where ranks may be; empty: here alone */
    struct host_list named;        /* owned: by -H or --hostfile */
    struct allocation allocation;  /* owned; zeros if there is none or it is not asked */
};

/* What the command line says goes before. A halayrun that is a rank's own program does not ask: the allocation is the
 * outer job's. options->ranks and options->ssh are filled in, the latter borrowed from *adopted. 0, or an exit code
 * (said): wrong words, an allocation that contradicts itself, no number of ranks. adopted is the caller's to fini in
 * any case. */
int adopt(const struct surroundings *from, struct options *options, struct adopted *adopted);
void adopted_fini(struct adopted *adopted); /* zeroed or filled */

#endif
