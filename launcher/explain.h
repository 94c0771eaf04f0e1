/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun --explain: what is recognised of the environment that halayrun is started in.
 */
#ifndef HALAY_LAUNCHER_EXPLAIN_H
#define HALAY_LAUNCHER_EXPLAIN_H

#include "launcher/cli/options.h"
#include "launcher/where/recognise.h"
#include <stdio.h>

/* Prints what is recognised and what follows from it. Returns 0 or an exit code (reported). */
int explain(const struct options *options, const struct environment *environment, FILE *out);

#endif
