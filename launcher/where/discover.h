/* SPDX-License-Identifier: Apache-2.0
 *
 * Discover: runs the script of --host-discovery-script, again and again, and reads the hosts that it prints: one a
 * line, as HOST or HOST:SLOTS, with blank lines and comments behind '#'.
 *
 * Nothing blocks but discover_wait. The script is a child of this process, which waits for it (discover_reaped) like
 * for any other.
 */
#ifndef HALAY_LAUNCHER_DISCOVER_H
#define HALAY_LAUNCHER_DISCOVER_H

#include "launcher/common/buffer.h"
#include "launcher/where/hosts.h"
#include <stdint.h>
#include <sys/types.h>

enum { DISCOVER_EVERY_MS = 1000, DISCOVER_RUN_MS = 60000 };

struct discover {
    const char *script; /* borrowed; NULL: there is none, and nothing happens */
    int slots;          /* of a host without a number */
    pid_t pid;          /* of the script that runs; 0: none does */
    int out;            /* its standard output, read end; -1: closed */
    struct buffer text;
    int64_t due_us; /* when it is to be started, or has run for too long */
    int has_failed; /* the last time; what is wrong is said once */
};

void discover_init(struct discover *discover, const char *script, int slots);
void discover_fini(struct discover *discover); /* ends a script that runs */

/* Start what is due, read what has come; call it after poll. */
void discover_progress(struct discover *discover);
/* When progress wants to be called though nothing has come; INT64_MAX: never. */
int64_t discover_due(const struct discover *discover);
/* A child has ended. 0: it is not the script. 1: it is, and *hosts is what it has printed, the caller's to fini. -1: it
 * is, and has failed: why says how, or is empty if that has been said. */
int discover_reaped(struct discover *discover, pid_t pid, int status, struct host_list *hosts, char *why, size_t size);

/* Run it once and wait for it. 0 if it has failed: why. */
int discover_wait(struct discover *discover, struct host_list *hosts, char *why, size_t size);

/* What such a script prints. 0: a line that is wrong is named in why. */
int discover_read(const char *text, int slots, struct host_list *hosts, char *why, size_t size);

#endif
