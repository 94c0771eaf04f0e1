/* SPDX-License-Identifier: Apache-2.0
 *
 * Open and close: the engine over a world.
 */
#ifndef HALAY_OPEN_H
#define HALAY_OPEN_H

#include "fusion/requests/context.h"

/* Makes a context with its locks, and without a world; halay_context_destroy frees it. NULL: no memory. */
struct halay_context *halay_context_new(void);
/* Creates a context over an open world; owns the world on success. */
enum halay_status halay_context_create(struct halay_world *world, struct halay_context **out);
/* Opens a closed context again: like create, but keeps names and requests. On error it is still closed. */
enum halay_status halay_context_open(struct halay_context *ctx, struct halay_world *world);
/* Leaves the other ranks: all requests in flight end, the thread too. Destroys what belongs to the world, but not the
 * world. */
void halay_context_close(struct halay_context *ctx);
/* Destroys a context that is closed and has no names. */
void halay_context_destroy(struct halay_context *ctx);

#endif
