/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffer: bytes that grow at the end and are taken from the supervisor.
 */
#ifndef HALAY_LAUNCHER_BUFFER_H
#define HALAY_LAUNCHER_BUFFER_H

#include <stddef.h>

struct buffer {
    char *bytes; /* owned */
    size_t count, room;
};

/* Returns 0 without memory: nothing is appended. */
int buffer_append(struct buffer *buffer, const void *bytes, size_t count);
void buffer_remove_front(struct buffer *buffer, size_t count);
/* Writes to fd, which is non-blocking, until it would block. Returns 0 if it takes no more at all (errno). */
int buffer_write(struct buffer *buffer, int fd);
void buffer_fini(struct buffer *buffer); /* it can be used again */

#endif
