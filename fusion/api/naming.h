/* SPDX-License-Identifier: Apache-2.0
 *
 * Naming: the engine's name for a program's description, and the description that it keeps.
 */
#ifndef HALAY_NAMING_H
#define HALAY_NAMING_H

#include "fusion/requests/path.h"

/* Makes the name by the path that takes the submission, otherwise by the program's description. HALAY_ERR_ARGUMENT,
 * logged: the name is invalid. */
enum halay_status halay_naming_make(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    struct halay_naming *naming);
/* Gives a collective without a name the prefix of a name, and room for the rest (naming->unnamed). Called after
 * halay_naming_make. */
void halay_naming_unnamed(struct halay_naming *naming);

#endif
