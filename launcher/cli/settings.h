/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings: what was asked for, and where, as --dry-run --verbose prints it.
 */
#ifndef HALAY_LAUNCHER_SETTINGS_H
#define HALAY_LAUNCHER_SETTINGS_H

#include "launcher/cli/options.h"
#include <stdio.h>

/* One line for each option given and each variable of halay's that is set, after '#': where it was given and, if it is
 * overridden, by what. Call it before the options' variables are put into the environment. */
void settings_print(const struct options *options, FILE *out);

#endif
