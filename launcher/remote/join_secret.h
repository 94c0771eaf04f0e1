/* SPDX-License-Identifier: Apache-2.0
 *
 * Join, the secret between the nodes: from --secret-file and HALAY_SECRET, or, where neither is given, from a file in
 * the user's home, which the first node makes. That is enough where all nodes have one home.
 *
 * A file of 32 bytes or more is taken for a key: its bytes count as they are. A shorter one, and HALAY_SECRET, may be
 * words: they are stretched (base/secure/secret.h).
 */
#ifndef HALAY_LAUNCHER_JOIN_SECRET_H
#define HALAY_LAUNCHER_JOIN_SECRET_H

#include "base/log.h"
#include "base/secure/secret.h"
#include <limits.h>

/* A file that a secret is in. */
struct join_secret_file {
    const char *path; /* borrowed; NULL: no file */
    int is_platforms; /* its permissions are not the user's to choose, and only this job is on the host */
};

/* Derives the secret from what is common to the nodes (parts), the file, and HALAY_SECRET; *is_secret: one of the
 * last two was there. Returns 0, or an exit code (reported). */
int join_secret_derive(struct halay_log *log, const struct halay_secret_part parts[3],
                       const struct join_secret_file *file, unsigned char secret[HALAY_SECRET_BYTES], int *is_secret);

/* Finds the user's own file, $XDG_CONFIG_HOME/halay/secret or ~/.config/halay/secret, and makes it unless it is there:
 * whole or not at all, whichever nodes do so at once. 0, or an exit code (reported). */
int join_secret_find_own(char path[PATH_MAX]);

int join_secret_has_own(void); /* it is there already */

/* Says what to do about nodes of different secrets, if this one's is its own file. */
void join_secret_explain(const char *own_file);

#endif
