/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: the optional ways of a submission that a context has (fusion/requests/path.h).
 */
#ifndef HALAY_PATHS_H
#define HALAY_PATHS_H

#include "fusion/requests/context.h"

/* Creates ctx->paths and ctx->carrier. HALAY_ERR_NO_MEMORY: halay_paths_destroy accepts the rest. */
enum halay_status halay_paths_create(struct halay_context *ctx);
/* Destroys the paths. The context is closed, and their names are freed. */
void halay_paths_destroy(struct halay_context *ctx);

#endif
