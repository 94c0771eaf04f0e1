/* SPDX-License-Identifier: Apache-2.0
 *
 * Discover: runs the script of --host-discovery-script again and again, and parses its output: one host a line, as HOST
 * or HOST:SLOTS; blank lines and comments after '#' are skipped.
 *
 * Only discover_wait blocks, for DISCOVER_EVERY_MS and DISCOVER_RUN_MS at most. The script is a child of this process,
 * which reaps it like any other and then calls discover_reaped.
 */
#ifndef HALAY_LAUNCHER_DISCOVER_H
#define HALAY_LAUNCHER_DISCOVER_H

#include "launcher/common/buffer.h"
#include "launcher/where/hosts.h"
#include <stdint.h>
#include <sys/types.h>

enum { DISCOVER_EVERY_MS = 1000, DISCOVER_RUN_MS = 60000 };

struct discover {
    const char *script; /* borrowed; NULL: none, and nothing happens */
    int slots;          /* of a host without a number */
    pid_t pid;          /* of the running script; 0: none runs */
    int out;            /* its standard output, read end; -1: closed */
    struct buffer text;
    int64_t due_us; /* when to start it, or to end it because it runs too long */
    int has_failed; /* the last time; an error is reported once */
};

void discover_init(struct discover *discover, const char *script, int slots);
void discover_fini(struct discover *discover); /* ends a script that runs */

/* Starts or ends what is due, and reads what has arrived; call it after poll. */
void discover_progress(struct discover *discover);
/* When discover_progress must be called at the latest; INT64_MAX: never. */
int64_t discover_due(const struct discover *discover);
enum discover_end {
    DISCOVER_NOT_IT, /* another child has ended */
    DISCOVER_HOSTS,  /* the script has: *hosts is what it printed, the caller's to fini */
    DISCOVER_FAILED, /* the script has, and why is what is wrong; "" if that was reported before */
};
/* Call it for each child that ends. */
enum discover_end discover_reaped(struct discover *discover, pid_t pid, int status, struct host_list *hosts, char *why,
                                  size_t size);

/* Runs it once, a pause after the last time, and waits for it. Returns 0 if it failed: why. */
int discover_wait(struct discover *discover, struct host_list *hosts, char *why, size_t size);

/* Parses the script's output. Returns 0 if a line is wrong: why names the line that is wrong. */
int discover_read(const char *text, int slots, struct host_list *hosts, char *why, size_t size);

#endif
