/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts: which there are, how many ranks each takes, and which rank goes where. Pure except for reading the file:
 * nothing is printed, no name is looked up.
 *
 * A host is written, on a command line and in a file,
 *
 *     HOST or HOST:SLOTS     with HOST   node1, node1.example.com, 10.0.0.1, user@node1
 *                                        [fd77::1]; without brackets where its end cannot be taken for ":SLOTS"
 *                                        node[01-04,7], several brackets too: every combination, the last fastest
 *
 * Only the characters of names are checked; none begins with '-', so that no program takes one for an option. IPv6
 * addresses are kept without brackets and in their shortest form.
 *
 * A host that is named twice is one host with the slots of both, as in Open MPI. In a file, at most one of its lines
 * may give a number, as there.
 *
 * Errors: HALAY_ERR_FORMAT (HALAY_ERR_ARGUMENT from hosts_assign), HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY. `why` then
 * has one line for the user: what is wrong, in which line of which file, and what would be right. The list is empty
 * then.
 */
#ifndef HALAY_LAUNCHER_HOSTS_H
#define HALAY_LAUNCHER_HOSTS_H

#include "halay_types.h"
#include <stddef.h>

enum {
    HOSTS_MAX = 65536, /* hosts of a list, and slots of a host */
};

struct host {
    char *name;     /* owned; in the form that ssh takes: "user@node1", "fd77::1" */
    int slots;      /* ranks it takes, at least 1 */
    int max_slots;  /* ranks it takes when there are more ranks than slots; 0: no limit */
    int processors; /* that a batch system gives the job there; 0: not known */
};

/* Every name once, in order of first appearance. */
struct host_list {
    struct host *at; /* owned */
    size_t count;
};

/* "a:4,b:2,c", with blanks allowed around commas. slots: of a host without a number. */
enum halay_status hosts_parse(const char *text, int slots, struct host_list *list, char *why, size_t size);

/* A hostfile, as halay-hostfile(5) describes it. */
enum halay_status hosts_read(const char *path, int slots, struct host_list *list, char *why, size_t size);

void hosts_fini(struct host_list *list); /* zeroed or filled */

size_t hosts_slots(const struct host_list *list); /* of all hosts */
int hosts_ranks(const struct host_list *list);    /* as many ranks; RANKS_MAX (rank_list.h) at most */

/* Place the ranks: host_of_rank[r] is an index into the list and never decreases with r. Hosts are filled in order,
 * each up to its slots. If there are more ranks than slots and `oversubscribe`, hosts take one more each, round after
 * round, up to their max_slots. */
enum halay_status hosts_assign(const struct host_list *list, int ranks, int oversubscribe, int *host_of_rank, char *why,
                               size_t size);

#endif
