/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers: where each rank runs, and whether it still does.
 *
 * Ranks exchange their identities (boot id and namespaces of their host, process id and its start time). From that
 * follows which rank is on which host. Those of this host are watched through descriptors of their processes, so that a
 * death is seen at once and a process id that another process has by now is never mistaken for a peer.
 *
 * Dead and left are two things: a rank that closed its world in order before its process ended has left, which is not
 * a failure by itself. Transports know which ranks have left and report it here.
 */
#ifndef HALAY_PEERS_H
#define HALAY_PEERS_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

struct halay_peers;

/* A rank's message about itself to all others: plain bytes, without pointers. */
struct halay_identity {
    char version[16];
    char boot_id[40];
    uint64_t pid_namespace, net_namespace;
    uint64_t start_time; /* clock ticks since the host was booted */
    int64_t pid;
    char host[64];
    char node[64]; /* HALAY_NODE */
};

/* Fills in this process's. node: ranks that give different ones (NULL: "") count as being on different hosts. */
void halay_peers_identify(struct halay_log *log, const char *node, struct halay_identity *me);

/* From the identities of all ranks, each `stride` bytes after the one before it; they are copied, log is borrowed until
 * destroy. HALAY_ERR_PEER: a rank of this host is gone already. HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY. */
enum halay_status halay_peers_create(struct halay_log *log, int rank, int size, const struct halay_identity *first,
                                     size_t stride, struct halay_peers **out);
void halay_peers_destroy(struct halay_peers *peers); /* NULL is allowed */

/* The number of each rank's host, hosts in order of their lowest rank: into node, one a rank. */
void halay_peers_nodes(const struct halay_peers *peers, int *node);
/* Returns nonzero if the rank claims to run on this host, in the same namespaces. (Mapping its memory is the proof.) */
int halay_peers_is_local(const struct halay_peers *peers, int rank);
/* The rank's process id; in this process's namespace if it is local. */
int halay_peers_pid(const struct halay_peers *peers, int rank);
const char *halay_peers_host(const struct halay_peers *peers, int rank); /* for messages; borrowed */

/* HALAY_OK, or HALAY_ERR_PEER and *rank: the first local rank that was found dead, the same from then on; one line is
 * logged. Looks at the operating system at most once a millisecond. Any thread. */
enum halay_status halay_peers_check(struct halay_peers *peers, int *rank);

/* Returns nonzero if check has found that rank dead. Any thread. */
int halay_peers_is_dead(const struct halay_peers *peers, int rank);

/* Returns nonzero if that local rank's process has ended without leaving. Unlike check it looks at once: for a rank
 * that others have lost already. Any thread. */
int halay_peers_has_died(const struct halay_peers *peers, int rank);

/* Returns nonzero if that local rank's process is stopped, by a signal or a debugger: it is alive, and does not answer.
 * Reads /proc. Any thread. */
int halay_peers_is_stopped(const struct halay_peers *peers, int rank);

/* Marks a rank of any host as dead by what became of its connection, which descriptors of processes do not show. It has
 * ended (is_unreachable 0), as it does with its process, or it cannot be reached. From then on check, is_dead and
 * has_died return it; one line is logged, with why (text of the cause). Nothing happens if the rank has left, or was
 * dead before. The driver. */
void halay_peers_set_dead(struct halay_peers *peers, int rank, int is_unreachable, const char *why);
/* Returns nonzero if it was set dead because it cannot be reached; its process may be alive. Any thread. */
int halay_peers_is_unreachable(const struct halay_peers *peers, int rank);

/* The rank has left: the end of its process is not a failure from now on. Any thread. */
void halay_peers_set_left(struct halay_peers *peers, int rank);
/* A word in memory that is nonzero (acquire) once the rank has left; looked at before a dead process is called a
 * failure. Borrowed until it is set to NULL. Not while another thread is in halay_peers_check. */
void halay_peers_set_left_word(struct halay_peers *peers, int rank, const _Atomic uint32_t *word);
/* For transports whose close notices are messages: the notice of a process that ended may still be on its way, so its
 * death is reported this much later. 0 at the start. */
void halay_peers_set_grace(struct halay_peers *peers, int64_t grace_us);

#endif
