/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what the end of a context asks of its blocks that references hold.
 */
#ifndef HALAY_API_MEMORY_H
#define HALAY_API_MEMORY_H

struct halay_context;

/* halay_fini begins: what is referenced now will outlive the context, nothing can be retained any more. */
void halay_memories_keep(struct halay_context *ctx);
/* The transports are closed: the references own their blocks. */
void halay_memories_leave(struct halay_context *ctx);

#endif
