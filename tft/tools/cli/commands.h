/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of commands.def.
 */
#ifndef HALAY_TFT_COMMANDS_H
#define HALAY_TFT_COMMANDS_H

#include "base/log.h"

#define COMMAND(name, summary) int tft_cmd_##name(struct halay_log *log, char **argv);
#include "tft/tools/cli/commands.def"
#undef COMMAND

#endif
