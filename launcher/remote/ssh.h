/* SPDX-License-Identifier: Apache-2.0
 *
 * Ssh: the command line that starts an agent on another host.
 */
#ifndef HALAY_LAUNCHER_SSH_H
#define HALAY_LAUNCHER_SSH_H

#include "launcher/cli/options.h"
#include "launcher/common/command_line.h"

/* Appends the arguments of one call; args starts with zeros, and the caller ends it. Returns 0 if memory
 * cannot be allocated. */
int ssh_args(const struct options *options, const char *host, struct args *args);

#endif
