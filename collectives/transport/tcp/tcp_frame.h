/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame: the unit of a connection between two ranks, once their handshake is over. Pure: heads to bytes and back.
 *
 * Numbers are little-endian:
 *
 *      0  bytes   4   of the payload
 *      4  kind    1   of enum halay_tcp_kind
 *      5  flags   1   SIGNED: a mac of 32 bytes follows the payload
 *      6  credit  2   units of the window that the sender of this frame gives back (tcp_match.h)
 *      8  tag     8
 *     16  id      8
 *     24  payload, mac
 *
 *   kind    tag          id                 payload
 *   DATA    of message   0                  the whole message
 *   RTS     of message   0                  8: bytes of a message that waits for its CTS
 *   CTS     of message   receiver's number  8: bytes of the message that may come
 *   BULK    offset       that number        a chunk of the message
 *   CREDIT  0            0                  none: sent if nothing else carries the credit
 *   BYE     0            lost rank + 1, 0   none: the sender leaves in order, because it has lost that rank, or for a
 *                                           reason of its own; no frame follows
 */
#ifndef HALAY_TCP_FRAME_H
#define HALAY_TCP_FRAME_H

#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

enum halay_tcp_kind {
    HALAY_TCP_DATA = 1,
    HALAY_TCP_RTS,
    HALAY_TCP_CTS,
    HALAY_TCP_BULK,
    HALAY_TCP_CREDIT,
    HALAY_TCP_BYE,
};

enum {
    HALAY_TCP_HEAD_BYTES = 24,
    HALAY_TCP_LENGTH_BYTES = 8,      /* the payload of RTS and CTS */
    HALAY_TCP_SIGNED = 1,            /* flag */
    HALAY_TCP_MESSAGE_MAX = 4 << 20, /* bytes of one frame's payload; checked before anything is allocated */
};

struct halay_tcp_frame {
    enum halay_tcp_kind kind;
    unsigned flags;
    uint32_t bytes;
    uint32_t credit; /* below 65,536 */
    uint64_t tag, id;
};

void halay_tcp_frame_pack(const struct halay_tcp_frame *frame, unsigned char head[HALAY_TCP_HEAD_BYTES]);
/* HALAY_ERR_FORMAT: no frame has such a head. *frame is written only on success. */
enum halay_status halay_tcp_frame_parse(const unsigned char head[HALAY_TCP_HEAD_BYTES], struct halay_tcp_frame *frame);

void halay_tcp_write_u64(unsigned char *to, uint64_t value);
uint64_t halay_tcp_read_u64(const unsigned char *from);

#endif
