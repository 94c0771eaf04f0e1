/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans: how a row of elements is cut into blocks (one a rank) and a block into chunks. Pure arithmetic, without a
 * division where none is needed: one takes as long as an exchange of a few bytes may cost more than its cache lines do.
 */
#ifndef HALAY_SPAN_H
#define HALAY_SPAN_H

#include <stddef.h>

struct halay_span {
    size_t start;
    size_t length;
};

static inline int halay_is_power(size_t n)
{
    return !(n & (n - 1));
}

/* Returns block number `block` of `count` elements cut into `blocks`: the first count % blocks have one more. */
static inline struct halay_span halay_block_span(size_t count, int blocks, int block)
{
    size_t b = (size_t)block, n = (size_t)blocks;
    size_t base = halay_is_power(n) ? count >> __builtin_ctzl(n) : count / n, longer = count - base * n;

    return (struct halay_span){ .start = b * base + (b < longer ? b : longer), .length = base + (b < longer) };
}

/* The same with cuts at multiples of `unit` elements, a power of two, only; the last blocks may be shorter or empty. */
static inline struct halay_span halay_aligned_span(size_t count, int blocks, int block, size_t unit)
{
    size_t whole = count >> __builtin_ctzl(unit);
    struct halay_span units = halay_block_span(whole + (whole * unit != count), blocks, block);
    size_t start = units.start * unit, end = (units.start + units.length) * unit;

    start = start < count ? start : count;
    end = end < count ? end : count;
    return (struct halay_span){ .start = start, .length = end - start };
}

/* Returns cut number `index` of a block that is cut every `length` elements; empty past its end. */
static inline struct halay_span halay_span_cut(struct halay_span block, size_t length, size_t index)
{
    size_t skipped;

    if (__builtin_mul_overflow(index, length, &skipped) || skipped > block.length)
        skipped = block.length;
    size_t left = block.length - skipped;

    return (struct halay_span){ .start = block.start + skipped, .length = left < length ? left : length };
}

/* Returns the number of such cuts that a block has. */
static inline size_t halay_span_cuts(size_t block_length, size_t length)
{
    return block_length <= length ? block_length > 0 : block_length / length + (block_length % length != 0);
}

#endif
