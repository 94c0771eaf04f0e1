/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffer: doubles when it is full, so that appending stays cheap.
 */
#include "launcher/common/buffer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int buffer_append(struct buffer *buffer, const void *bytes, size_t count)
{
    if (!count)
        return 1;
    if (count > buffer->room - buffer->count) {
        size_t room = 2 * buffer->room + count;
        char *grown = realloc(buffer->bytes, room);
        if (!grown)
            return 0;
        buffer->bytes = grown;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->count, bytes, count);
    buffer->count += count;
    return 1;
}

void buffer_remove_front(struct buffer *buffer, size_t count)
{
    if (!count)
        return;
    memmove(buffer->bytes, buffer->bytes + count, buffer->count - count);
    buffer->count -= count;
}

int buffer_write(struct buffer *buffer, int fd)
{
    size_t done = 0;
    int ok = 1;

    while (ok && done < buffer->count) {
        ssize_t n = write(fd, buffer->bytes + done, buffer->count - done);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno == EAGAIN)
            break;
        else
            ok = n == 0 || errno == EINTR;
    }
    int code = errno;
    buffer_remove_front(buffer, done);
    errno = code;
    return ok;
}

void buffer_fini(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){ 0 };
}
