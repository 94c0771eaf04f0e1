/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: what the life of a context does with those that are registered.
 */
#ifndef HALAY_API_TENSOR_H
#define HALAY_API_TENSOR_H

#include "fusion/state/context.h"

/* The ranks have changed, and no agreement holds. Names that are not registered are forgotten; registered tensors whose
 * description no longer holds are marked stale. The engine is closed; rank and size are the new ones. */
enum halay_status halay_registry_renew(struct halay_context *ctx);
void halay_registry_free_all(struct halay_context *ctx);
/* All names of a set, and what is registered under them. */
void halay_names_free_all(struct halay_process_set *set);

#endif
