/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: the treatment of registered tensors in the life of a context.
 */
#ifndef HALAY_API_TENSOR_H
#define HALAY_API_TENSOR_H

#include "fusion/requests/context.h"

/* Renews the names after a change of ranks, which voids all agreements. Names that are not registered are forgotten;
 * registered tensors whose description no longer holds are marked stale. The engine is closed; rank and size are the
 * new ones. */
enum halay_status halay_registry_renew(struct halay_context *ctx);
/* Frees all names of a set, and the tensors registered under them. */
void halay_names_free_all(struct halay_process_set *set);

#endif
