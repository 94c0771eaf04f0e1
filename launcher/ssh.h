/* SPDX-License-Identifier: Apache-2.0
 *
 * Ssh: the command lines that start an agent on another host.
 */
#ifndef HALAY_LAUNCHER_SSH_H
#define HALAY_LAUNCHER_SSH_H

#include "launcher/options.h"

/* The words of one call, NULL at the end: the words and the list are owned by the caller (ssh_free_words). NULL: no memory. */
char **ssh_words(const struct options *options, const char *host);
void ssh_free_words(char **words);

#endif
