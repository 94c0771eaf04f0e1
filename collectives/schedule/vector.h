/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector: the data of one rank as a row of elements, whether they lie in one array or in a list of pieces.
 */
#ifndef HALAY_VECTOR_H
#define HALAY_VECTOR_H

#include "halay_types.h"
#include <stddef.h>

/* A part of a rank's data: an all-reduce may run over a list of them as if they lay side by side. The ranks' lists have
 * as many elements in all, but each may be cut in its own way (adasum: alike, each piece is a tensor). Gaps between
 * pieces are never touched. */
struct halay_piece {
    void *data;
    size_t count;
    double factor; /* of halay_lists; otherwise, and there 0: 1 */
};

/* Input and output of an all-reduce as two lists: where they are apart, are multiplied on the way, or have another type
 * than what is reduced. Packing and unpacking do all of that, so it costs no pass over memory. */
struct halay_lists {
    /* Borrowed until the end; the same: in place. Not overlapping otherwise, but for pieces that are in place. */
    const struct halay_piece *in, *out;
    size_t in_count, out_count;
    enum halay_dtype dtype; /* in memory: that of the reduction; or f32, and f16 or bf16 is reduced */
};

struct halay_vector {
    const struct halay_piece *pieces; /* borrowed */
    size_t piece_count;
    size_t count;                   /* elements of all pieces */
    size_t element;                 /* bytes */
    int is_converted;               /* packed arrays hold something else: another type, or multiples; then: */
    enum halay_dtype dtype, packed; /* of the elements here, and in a packed array */
};

/* Bytes of a bounce buffer, through which elements go that are converted: it stays in the first-level cache. */
enum { HALAY_BOUNCE_BYTES = 8192 };

/* A place in a vector, remembered so that continuing from it is cheap. Zero-initialised: the start. */
struct halay_cursor {
    size_t piece; /* which piece */
    size_t first; /* the element of the vector at which it begins */
};

/* Returns the longest run of elements from `at` on that is in one piece, at most `most`: its address; *length its
 * elements; cursor->piece is its piece and at - cursor->first its place there. at < count. */
void *halay_vector_run(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t most,
                       size_t *length);

/* Joins pieces that lie side by side and have the same factor; drops empty ones. Returns how many are left. */
size_t halay_pieces_join(struct halay_piece *pieces, size_t count, size_t element);

/* Copies elements [at, at + count) of the vector to or from an array, converted if they are to be. */
void halay_vector_pack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count, void *array);
void halay_vector_unpack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count,
                         const void *array);

#endif
