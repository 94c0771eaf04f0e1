/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun --explain: what was recognised of the place this is started in.
 */
#ifndef HALAY_LAUNCHER_EXPLAIN_H
#define HALAY_LAUNCHER_EXPLAIN_H

#include "launcher/cli/options.h"
#include "launcher/where/recognise.h"
#include <stdio.h>

/* Recognises and prints. 0 or an exit code (said). */
int explain(const struct options *options, const struct surroundings *surroundings, FILE *out);

#endif
