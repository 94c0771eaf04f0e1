/* SPDX-License-Identifier: Apache-2.0
 *
 * Ssh: the command line that starts an agent on another host.
 */
#ifndef HALAY_LAUNCHER_SSH_H
#define HALAY_LAUNCHER_SSH_H

#include "launcher/cli/options.h"
#include "launcher/common/command_line.h"

/* Append the arguments of one call; args started with zeros and is the caller's to fini. 0: no memory. */
int ssh_args(const struct options *options, const char *host, struct args *args);

#endif
