/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer of protocol buffers: a list of fields, each a key (number * 8 + kind), then a varint, 8 or 4 bytes, or a
 * length and its bytes. A field that contains fields is written first, after the bytes so far, and then gets its key
 * and length.
 */
#ifndef HALAY_BASE_PROTOBUF_H
#define HALAY_BASE_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. fini accepts any state. */
struct halay_protobuf {
    unsigned char *bytes; /* owned */
    size_t size, room;
    int failed; /* memory ran out for a field; check it once, after the last call */
};
void halay_protobuf_fini(struct halay_protobuf *buffer);

void halay_protobuf_whole(struct halay_protobuf *buffer, unsigned number, uint64_t value);
void halay_protobuf_float(struct halay_protobuf *buffer, unsigned number, float value);
void halay_protobuf_double(struct halay_protobuf *buffer, unsigned number, double value);
void halay_protobuf_bytes(struct halay_protobuf *buffer, unsigned number, const void *bytes, size_t size);
void halay_protobuf_text(struct halay_protobuf *buffer, unsigned number, const char *text);
/* A packed list. */
void halay_protobuf_doubles(struct halay_protobuf *buffer, unsigned number, const double *values, size_t count);
/* Fields that are complete. */
void halay_protobuf_append(struct halay_protobuf *buffer, const struct halay_protobuf *fields);

/* Turns the bytes since `from`, a former size, into the content of one field. */
void halay_protobuf_wrap(struct halay_protobuf *buffer, size_t from, unsigned number);

/* Writes the lowest byte first. */
void halay_protobuf_little(uint64_t value, size_t bytes, unsigned char *to);

#endif
