/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame: heads to bytes and back.
 */
#include "collectives/transport/tcp/tcp_frame.h"
#include "base/store/store_protocol.h"

enum { BYTES_AT = 0, KIND_AT = 4, FLAGS_AT = 5, CREDIT_AT = 6, TAG_AT = 8, ID_AT = 16 };

void halay_tcp_write_u64(unsigned char *to, uint64_t value)
{
    store_write_u32(to, (uint32_t)value);
    store_write_u32(to + 4, (uint32_t)(value >> 32));
}

uint64_t halay_tcp_read_u64(const unsigned char *from)
{
    return store_read_u32(from) | (uint64_t)store_read_u32(from + 4) << 32;
}

void halay_tcp_frame_pack(const struct halay_tcp_frame *frame, unsigned char head[HALAY_TCP_HEAD_BYTES])
{
    store_write_u32(head + BYTES_AT, frame->bytes);
    head[KIND_AT] = (unsigned char)frame->kind;
    head[FLAGS_AT] = (unsigned char)frame->flags;
    head[CREDIT_AT] = (unsigned char)frame->credit;
    head[CREDIT_AT + 1] = (unsigned char)(frame->credit >> 8);
    halay_tcp_write_u64(head + TAG_AT, frame->tag);
    halay_tcp_write_u64(head + ID_AT, frame->id);
}

static int is_length_right(unsigned kind, uint32_t bytes)
{
    switch (kind) {
    case HALAY_TCP_DATA:
    case HALAY_TCP_BULK:
        return bytes > 0 && bytes <= HALAY_TCP_MESSAGE_MAX;
    case HALAY_TCP_RTS:
    case HALAY_TCP_CTS:
        return bytes == HALAY_TCP_LENGTH_BYTES;
    case HALAY_TCP_CREDIT:
    case HALAY_TCP_BYE:
        return bytes == 0;
    default:
        return 0;
    }
}

enum halay_status halay_tcp_frame_parse(const unsigned char head[HALAY_TCP_HEAD_BYTES], struct halay_tcp_frame *frame)
{
    uint32_t bytes = store_read_u32(head + BYTES_AT);
    unsigned kind = head[KIND_AT], flags = head[FLAGS_AT];

    if (!is_length_right(kind, bytes) || flags & ~(unsigned)HALAY_TCP_SIGNED)
        return HALAY_ERR_FORMAT;
    *frame = (struct halay_tcp_frame){ .kind = (enum halay_tcp_kind)kind,
                                       .flags = flags,
                                       .bytes = bytes,
                                       .credit = head[CREDIT_AT] | (uint32_t)head[CREDIT_AT + 1] << 8,
                                       .tag = halay_tcp_read_u64(head + TAG_AT),
                                       .id = halay_tcp_read_u64(head + ID_AT) };
    return HALAY_OK;
}
