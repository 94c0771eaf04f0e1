/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks: where the program of a rank is that others wait for.
 */
#ifndef HALAY_STACKS_H
#define HALAY_STACKS_H

#include "fusion/requests/context.h"

/* Writes a line to the log and has the program's handler of HALAY_STACKS_SIGNAL write its stacks. */
void halay_stacks_show(const struct halay_context *ctx);

#endif
