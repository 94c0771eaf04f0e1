/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout: which ranks are on which host, and which of the hosts is this one.
 */
#ifndef HALAY_LAUNCHER_LAYOUT_H
#define HALAY_LAUNCHER_LAYOUT_H

#include "base/log.h"
#include "launcher/cli/options.h"
#include "launcher/where/hosts.h"

struct place {
    const char *host; /* borrowed from the list that it was made of; "localhost" if that is empty */
    int first, count; /* its ranks: first to first + count - 1 */
    int is_here;      /* started by fork, and not over ssh */
};

struct layout {
    struct place *at; /* owned: those with ranks, in the order of their ranks */
    size_t count;
    int here; /* ranks on this host */
};

/* What -H or --hostfile say; empty if neither is given. 0, or an exit code (said). hosts is the caller's to fini. */
int layout_name_hosts(const struct options *options, struct host_list *hosts);

/* -np ranks on these hosts, which live as long as the layout; none: all here. here: another name of this host, NULL:
 * none. 0, or an exit code (said): no place for so many ranks. */
int layout_make(struct halay_log *log, const struct options *options, const struct host_list *hosts, const char *here,
                struct layout *layout);
void layout_fini(struct layout *layout); /* zeroed or made */

/* Is a host of that name this one? Looks names up. */
int layout_is_here(struct halay_log *log, const char *name);
const struct place *layout_place(const struct layout *layout, int rank);
/* Ranks of this host are counted over all places that are here, should it have been named by several names. */
int layout_local_rank(const struct layout *layout, int rank);

#endif
