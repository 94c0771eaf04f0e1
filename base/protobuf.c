/* SPDX-License-Identifier: Apache-2.0 */
#include "base/protobuf.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 };
enum { VARINT_MOST = 10 };

void halay_protobuf_fini(struct halay_protobuf *p)
{
    free(p->bytes);
    *p = (struct halay_protobuf){ 0 };
}

/* Returns room for this number of bytes more; NULL without memory: then nothing is added from now on. */
static unsigned char *claim(struct halay_protobuf *p, size_t bytes)
{
    size_t wanted, twice;

    if (p->failed || halay_add_overflows(p->size, bytes, &wanted) || halay_mul_overflows(wanted, 2, &twice)) {
        p->failed = 1;
        return NULL;
    }
    if (!p->bytes || wanted > p->room) {
        unsigned char *grown = realloc(p->bytes, twice + 64);
        if (!grown) {
            p->failed = 1;
            return NULL;
        }
        p->bytes = grown;
        p->room = twice + 64;
    }
    p->size = wanted;
    return p->bytes + wanted - bytes;
}

void halay_protobuf_little(uint64_t value, size_t bytes, unsigned char *to)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static size_t varint(uint64_t value, unsigned char to[VARINT_MOST])
{
    size_t n = 0;

    for (; value >= 128; value >>= 7)
        to[n++] = (unsigned char)(value | 128);
    to[n++] = (unsigned char)value;
    return n;
}

static void put(struct halay_protobuf *p, const void *bytes, size_t size)
{
    unsigned char *to = claim(p, size);

    if (to && size)
        memcpy(to, bytes, size);
}

static void put_varint(struct halay_protobuf *p, uint64_t value)
{
    unsigned char bytes[VARINT_MOST];

    put(p, bytes, varint(value, bytes));
}

static void put_key(struct halay_protobuf *p, unsigned number, unsigned kind)
{
    put_varint(p, (uint64_t)number << 3 | kind);
}

void halay_protobuf_whole(struct halay_protobuf *p, unsigned number, uint64_t value)
{
    put_key(p, number, VARINT);
    put_varint(p, value);
}

static void put_plain_double(struct halay_protobuf *p, double value)
{
    unsigned char bytes[8];
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    halay_protobuf_little(bits, sizeof bytes, bytes);
    put(p, bytes, sizeof bytes);
}

void halay_protobuf_double(struct halay_protobuf *p, unsigned number, double value)
{
    put_key(p, number, EIGHT_BYTES);
    put_plain_double(p, value);
}

void halay_protobuf_float(struct halay_protobuf *p, unsigned number, float value)
{
    unsigned char bytes[4];
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    halay_protobuf_little(bits, sizeof bytes, bytes);
    put_key(p, number, FOUR_BYTES);
    put(p, bytes, sizeof bytes);
}

void halay_protobuf_bytes(struct halay_protobuf *p, unsigned number, const void *bytes, size_t size)
{
    put_key(p, number, LENGTH);
    put_varint(p, size);
    put(p, bytes, size);
}

void halay_protobuf_text(struct halay_protobuf *p, unsigned number, const char *text)
{
    halay_protobuf_bytes(p, number, text, strlen(text));
}

void halay_protobuf_doubles(struct halay_protobuf *p, unsigned number, const double *values, size_t count)
{
    put_key(p, number, LENGTH);
    put_varint(p, sizeof *values * count);
    for (size_t i = 0; i < count; i++)
        put_plain_double(p, values[i]);
}

void halay_protobuf_append(struct halay_protobuf *p, const struct halay_protobuf *fields)
{
    put(p, fields->bytes, fields->size);
    p->failed |= fields->failed;
}

void halay_protobuf_wrap(struct halay_protobuf *p, size_t from, unsigned number)
{
    unsigned char head[2 * VARINT_MOST];
    size_t content = p->size - from, n = varint((uint64_t)number << 3 | LENGTH, head);

    n += varint(content, head + n);
    if (!claim(p, n))
        return;
    memmove(p->bytes + from + n, p->bytes + from, content);
    memcpy(p->bytes + from, head, n);
}
