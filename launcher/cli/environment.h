/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment: which of halayrun's variables the ranks of other hosts inherit.
 */
#ifndef HALAY_LAUNCHER_ENVIRONMENT_H
#define HALAY_LAUNCHER_ENVIRONMENT_H

#include "launcher/cli/options.h"

/* "NAME=value", NULL at the end: everything except what belongs to a login, a terminal or a host, and that too if -x
 * names it. The list is the caller's to free; its strings are borrowed from the environment. NULL: no memory. */
char **passed_on_environment(const struct options *options);

#endif
