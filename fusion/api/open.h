/* SPDX-License-Identifier: Apache-2.0
 *
 * Open and close: the engine over a world.
 */
#ifndef HALAY_OPEN_H
#define HALAY_OPEN_H

#include "fusion/state/context.h"

/* A context over a world that is open; owns the world from success on. */
enum halay_status halay_context_create(struct halay_world *world, struct halay_context **out);
/* Open a closed context again: as create does, but names and requests stay. On error it is still closed. */
enum halay_status halay_context_open(struct halay_context *ctx, struct halay_world *world);
/* Leave the other ranks: all that is in flight ends, the thread too. What belongs to the world is destroyed, the world
 * is not. */
void halay_context_close(struct halay_context *ctx);
/* One that is closed and has no names. */
void halay_context_destroy(struct halay_context *ctx);

#endif
