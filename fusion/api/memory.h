/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: the parts of references to blocks that the end of a context calls.
 */
#ifndef HALAY_API_MEMORY_H
#define HALAY_API_MEMORY_H

struct halay_context;

/* Begins halay_fini: blocks that are referenced now will outlive the context; no more can be retained. */
void halay_memories_keep(struct halay_context *ctx);
/* Transfers the blocks to their references; the transports are closed. */
void halay_memories_leave(struct halay_context *ctx);

#endif
