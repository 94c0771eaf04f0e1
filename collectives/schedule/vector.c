/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector: finding and copying runs of elements in a list of pieces. Empty pieces are skipped.
 */
#include "collectives/schedule/vector.h"
#include "base/memory.h"
#include "collectives/reduce/convert.h"

void *halay_vector_run(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t most,
                       size_t *length)
{
    if (at < cursor->first)
        *cursor = (struct halay_cursor){ 0 };
    while (at - cursor->first >= v->pieces[cursor->piece].count)
        cursor->first += v->pieces[cursor->piece++].count;

    const struct halay_piece *piece = &v->pieces[cursor->piece];
    size_t inside = at - cursor->first, left = piece->count - inside;

    *length = left < most ? left : most;
    return (unsigned char *)piece->data + inside * v->element;
}

static double factor_of(const struct halay_piece *piece)
{
    return piece->factor == 0 ? 1 : piece->factor;
}

size_t halay_pieces_join(struct halay_piece *pieces, size_t count, size_t element)
{
    size_t joined = 0;

    for (size_t i = 0; i < count; i++) {
        struct halay_piece *last = joined ? &pieces[joined - 1] : NULL;
        int is_neighbour = last && (char *)last->data + last->count * element == pieces[i].data;
        if (is_neighbour && factor_of(last) == factor_of(&pieces[i]))
            last->count += pieces[i].count;
        else if (pieces[i].count)
            pieces[joined++] = pieces[i];
    }
    return joined;
}

static size_t packed_element(const struct halay_vector *v)
{
    return v->is_converted ? halay_dtype_size(v->packed) : v->element;
}

/* Most are one array as it is. */
static unsigned char *array_at(const struct halay_vector *v, size_t at)
{
    return v->piece_count == 1 && !v->is_converted ? (unsigned char *)v->pieces[0].data + at * v->element : NULL;
}

void halay_vector_pack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count, void *array)
{
    if (array_at(v, at)) {
        halay_copy(array, array_at(v, at), count * v->element);
        return;
    }
    unsigned char *to = array;
    size_t packed = packed_element(v);

    while (count) {
        size_t n;
        const void *run = halay_vector_run(v, cursor, at, count, &n);
        if (v->is_converted)
            halay_convert(to, v->packed, run, v->dtype, n, factor_of(&v->pieces[cursor->piece]));
        else
            halay_copy(to, run, n * v->element);
        at += n;
        count -= n;
        to += n * packed;
    }
}

void halay_vector_unpack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count,
                         const void *array)
{
    const unsigned char *from = array;
    size_t packed = packed_element(v);

    if (array_at(v, at)) {
        halay_copy(array_at(v, at), array, count * v->element);
        return;
    }
    while (count) {
        size_t n;
        void *run = halay_vector_run(v, cursor, at, count, &n);
        if (v->is_converted)
            halay_convert(run, v->dtype, from, v->packed, n, factor_of(&v->pieces[cursor->piece]));
        else
            halay_copy(run, from, n * v->element);
        at += n;
        count -= n;
        from += n * packed;
    }
}
