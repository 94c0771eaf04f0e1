/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer: a thread that writes to descriptors that may block, as files of a slow disk, so that its owner never does.
 *
 * The owner is one thread. It gives bytes to outlets, one for each descriptor; the writer's thread writes them in their
 * order. A full writer still takes bytes: its owner should read no more of what is to be written until there is room.
 */
#ifndef HALAY_LAUNCHER_WRITER_H
#define HALAY_LAUNCHER_WRITER_H

#include <stddef.h>

struct writer;
struct outlet;

/* A write that failed. */
struct writer_failure {
    const char *name; /* borrowed: of the outlet */
    int error;        /* errno; 0: given up */
};

/* The writer is full with this number of bytes. wake_fd, borrowed: an eventfd, which is written when a full writer has
 * room again and when a write has failed; -1: none. NULL: no thread could be made (reported). */
struct writer *writer_create(size_t room, int wake_fd);
/* name: copied. owns: fd is closed with the outlet; otherwise other programs may write to it, too. NULL: no memory
 * (reported); fd remains the caller's. */
struct outlet *writer_open(struct writer *writer, int fd, int owns, const char *name);
int writer_is_full(const struct writer *writer); /* not once it is given up */

/* Never blocks. Bytes are dropped after a write has failed, and without memory. */
void outlet_put(struct outlet *outlet, const char *bytes, size_t count);
int outlet_has_failed(const struct outlet *outlet); /* and its failure may not have been taken yet */
/* Closes it when all is written. The writer frees it. */
void outlet_close(struct outlet *outlet);

/* Returns nonzero if there is a failure that was not taken before. It is valid until the next call. */
int writer_take_failure(struct writer *writer, struct writer_failure *failure);
/* Blocks until all is written. If nothing is written for that time (below 0: any time), the rest is given up, and what
 * is put later: a failure of each outlet. */
void writer_finish(struct writer *writer, int patience_ms);
/* Bytes that are not written are lost. If a write blocks, thread, descriptors and memory stay until the process ends.
 */
void writer_destroy(struct writer *writer);

#endif
