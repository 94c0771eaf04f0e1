/* SPDX-License-Identifier: Apache-2.0
 *
 * Torchrun's options that halayrun calls by another name, does not need, or has no counterpart for. Those with the same
 * name in both are not here; docs/guides/from-torchrun.md lists all.
 */
#ifndef HALAY_LAUNCHER_TORCHRUN_H
#define HALAY_LAUNCHER_TORCHRUN_H

#include "launcher/cli/horovod.h"

/* args: the rest of the command line. What an option becomes may depend on its value. NULL: no such option. */
const struct horovod_flag *torchrun_flag_find(char *const *args);

#endif
