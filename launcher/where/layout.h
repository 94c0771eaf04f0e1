/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout: which ranks run on which host, and which of the hosts is this one.
 */
#ifndef HALAY_LAUNCHER_LAYOUT_H
#define HALAY_LAUNCHER_LAYOUT_H

#include "base/log.h"
#include "base/net/address.h"
#include "launcher/cli/options.h"
#include "launcher/where/hosts.h"

struct place {
    const char *host; /* borrowed from the list of hosts; "localhost" if that is empty */
    int first, count; /* its ranks: first to first + count - 1 */
    int is_here;      /* started by fork, not through ssh */
};

struct layout {
    struct place *at; /* owned: places with ranks, in order of their ranks */
    size_t count;
    int ranks_here; /* on this host */
};

/* The hosts of -H or --hostfile; empty if neither is given. 0, or an exit code (reported). hosts is the caller's to
 * fini. */
int layout_read_hosts(const struct options *options, struct host_list *hosts);

/* Place -np ranks on these hosts, which must outlive the layout; none: all here. this_host: another name of this host,
 * NULL: none. 0, or an exit code (reported): too few places for the ranks. */
int layout_make(struct halay_log *log, const struct options *options, const struct host_list *hosts,
                const char *this_host, struct layout *layout);
void layout_fini(struct layout *layout); /* zeroed or made */

/* Returns nonzero if a host of that name is this one. May look the name up. */
int layout_is_here(struct halay_log *log, const char *name);
/* Finds the address of this host that has the name. Zero if that is another host's or if there are several, of which
 * others may know another one. May look the name up. */
int layout_only_address(struct halay_log *log, const char *name, struct halay_address *only);
const struct place *layout_place(const struct layout *layout, int rank);
/* Counted over all places that are here, in case this host was given by several names. */
int layout_local_rank(const struct layout *layout, int rank);

/* Its host's number among those that have ranks, and how many these are; this host counts once, too. */
int layout_node(const struct layout *layout, int rank, int *nodes);

#endif
