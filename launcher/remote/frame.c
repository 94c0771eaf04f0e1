/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames into bytes and back. What arrives is checked before it is believed: ssh's stream may carry other output, too.
 */
#include "launcher/remote/frame.h"

enum { HEAD_BYTES = 12 };

void frame_store_number(unsigned char bytes[4], uint32_t number)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
}

uint32_t frame_load_number(const unsigned char bytes[4])
{
    uint32_t number = 0;

    for (int i = 0; i < 4; i++)
        number |= (uint32_t)bytes[i] << 8 * i;
    return number;
}

int frame_put(struct buffer *to, enum frame_kind kind, uint32_t number, const void *bytes, size_t count)
{
    unsigned char head[HEAD_BYTES];
    size_t before = to->count;

    if (count > FRAME_MAX)
        return 0;
    frame_store_number(head, (uint32_t)kind);
    frame_store_number(head + 4, number);
    frame_store_number(head + 8, (uint32_t)count);
    if (buffer_append(to, head, sizeof head) && buffer_append(to, bytes, count))
        return 1;
    to->count = before; /* half a frame would corrupt all that follow */
    return 0;
}

enum frame_found frame_take(const struct buffer *from, size_t *used, struct frame *frame)
{
    size_t left = from->count - *used;

    if (left < HEAD_BYTES)
        return FRAME_PARTIAL;
    const unsigned char *at = (const unsigned char *)from->bytes + *used;
    uint32_t kind = frame_load_number(at), count = frame_load_number(at + 8);
    if (kind < FRAME_PLAN || kind >= FRAME_KINDS || count > FRAME_MAX)
        return FRAME_INVALID;
    if (left - HEAD_BYTES < count)
        return FRAME_PARTIAL;
    *frame = (struct frame){ (enum frame_kind)kind, frame_load_number(at + 4), (const char *)at + HEAD_BYTES, count };
    *used += HEAD_BYTES + count;
    return FRAME_FOUND;
}
