/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of ranks in few bytes: see table_code.h.
 */
#include "collectives/transport/bootstrap/table_code.h"
#include <stdint.h>
#include <string.h>

/* Fewer zeros among literals stay literals: the two numbers would be as long. NUMBER_MOST: bytes of a number. */
enum { ZEROS_LEAST = 4, NUMBER_MOST = 10 };

/* Two numbers follow ZEROS_LEAST zeros or more, and are no longer than these but after 2 MB of literals. */
size_t halay_table_most(size_t bytes)
{
    return bytes + bytes / ZEROS_LEAST + 2 * NUMBER_MOST;
}

static unsigned char difference(const unsigned char *records, size_t at, size_t record)
{
    return at < record ? records[at] : records[at] ^ records[at - record];
}

static size_t write_number(unsigned char *to, size_t number)
{
    size_t n = 0;

    for (; number > 127; number >>= 7)
        to[n++] = (unsigned char)(number & 127) | 128;
    to[n++] = (unsigned char)number;
    return n;
}

/* Returns the end of the zeros that begin here. */
static size_t zeros_end(const unsigned char *records, size_t bytes, size_t record, size_t at)
{
    while (at < bytes && !difference(records, at, record))
        at++;
    return at;
}

/* Returns the end of the literals that begin here. */
static size_t literals_end(const unsigned char *records, size_t bytes, size_t record, size_t at)
{
    for (size_t zeros = 0; at < bytes; at++) {
        zeros = difference(records, at, record) ? 0 : zeros + 1;
        if (zeros == ZEROS_LEAST)
            return at + 1 - ZEROS_LEAST;
    }
    return at;
}

size_t halay_table_encode(const unsigned char *records, size_t bytes, size_t record, unsigned char *code)
{
    size_t n = 0;

    for (size_t at = 0; at < bytes;) {
        size_t begin = zeros_end(records, bytes, record, at), end = literals_end(records, bytes, record, begin);
        n += write_number(code + n, begin - at);
        n += write_number(code + n, end - begin);
        for (at = begin; at < end; at++)
            code[n++] = difference(records, at, record);
    }
    return n;
}

/* Reads a number. Returns zero if it is incomplete, or more than most. */
static int read_number(const unsigned char **code, const unsigned char *end, size_t most, size_t *number)
{
    *number = 0;
    for (unsigned shift = 0; *code < end && shift < 7 * NUMBER_MOST - 7; shift += 7) {
        unsigned char byte = *(*code)++;
        *number |= (size_t)(byte & 127) << shift;
        if (byte < 128)
            return *number <= most;
    }
    return 0;
}

int halay_table_decode(const unsigned char *code, size_t code_bytes, unsigned char *records, size_t bytes,
                       size_t record)
{
    const unsigned char *end = code + code_bytes;
    size_t zeros, literals, at = 0;

    while (at < bytes) {
        if (!read_number(&code, end, bytes - at, &zeros) || !read_number(&code, end, bytes - at - zeros, &literals) ||
            literals > (size_t)(end - code) || !(zeros + literals))
            return 0;
        for (size_t stop = at + zeros; at < stop; at++)
            records[at] = at < record ? 0 : records[at - record];
        for (size_t stop = at + literals; at < stop; at++)
            records[at] = *code++ ^ (at < record ? 0 : records[at - record]);
    }
    return code == end;
}
