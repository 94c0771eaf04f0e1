/* SPDX-License-Identifier: Apache-2.0
 *
 * Writer of protocol buffers: a list of fields, each a key (number * 8 + kind), then a varint, 8 or 4 bytes, or a
 * length and its bytes. A field that contains fields is written first, after the bytes so far, and then gets its key
 * and length.
 */
#ifndef HALAY_TFT_PROTOBUF_H
#define HALAY_TFT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. fini accepts any state. */
struct tft_protobuf {
    unsigned char *bytes; /* owned */
    size_t size, room;
    int failed; /* memory ran out for a field; check it once, after the last call */
};
void tft_protobuf_fini(struct tft_protobuf *buffer);

void tft_protobuf_whole(struct tft_protobuf *buffer, unsigned number, uint64_t value);
void tft_protobuf_float(struct tft_protobuf *buffer, unsigned number, float value);
void tft_protobuf_double(struct tft_protobuf *buffer, unsigned number, double value);
void tft_protobuf_bytes(struct tft_protobuf *buffer, unsigned number, const void *bytes, size_t size);
void tft_protobuf_text(struct tft_protobuf *buffer, unsigned number, const char *text);
/* A packed list. */
void tft_protobuf_doubles(struct tft_protobuf *buffer, unsigned number, const double *values, size_t count);
/* Fields that are complete. */
void tft_protobuf_append(struct tft_protobuf *buffer, const struct tft_protobuf *fields);

/* Turns the bytes since `from`, a former size, into the content of one field. */
void tft_protobuf_wrap(struct tft_protobuf *buffer, size_t from, unsigned number);

/* Writes the lowest byte first. */
void tft_protobuf_little(uint64_t value, size_t bytes, unsigned char *to);

#endif
