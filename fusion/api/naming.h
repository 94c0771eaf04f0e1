/* SPDX-License-Identifier: Apache-2.0
 *
 * Naming: under which name the engine keeps what the program describes, and what it is described as.
 */
#ifndef HALAY_NAMING_H
#define HALAY_NAMING_H

#include "fusion/requests/path.h"

/* As the path says that takes it, else as the program says. HALAY_ERR_ARGUMENT, said: its name is invalid. */
enum halay_status halay_naming_make(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    struct halay_naming *naming);
/* After that: gives a collective that the program has not named the beginning of a name, and room for the rest
 * (naming->unnamed). */
void halay_naming_unnamed(struct halay_naming *naming);

#endif
