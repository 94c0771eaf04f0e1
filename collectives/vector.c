/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector: finding and copying runs of elements in a list of pieces. Empty pieces are skipped.
 */
#include "collectives/vector.h"
#include <string.h>

void *halay_vector_run(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t most, size_t *length)
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

size_t halay_pieces_join(struct halay_piece *pieces, size_t count, size_t element)
{
    size_t joined = 0;

    for (size_t i = 0; i < count; i++) {
        struct halay_piece *last = joined ? &pieces[joined - 1] : NULL;
        if (last && (char *)last->data + last->count * element == pieces[i].data)
            last->count += pieces[i].count;
        else if (pieces[i].count)
            pieces[joined++] = pieces[i];
    }
    return joined;
}

void halay_vector_pack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count, void *array)
{
    unsigned char *to = array;

    while (count) {
        size_t n;
        const void *run = halay_vector_run(v, cursor, at, count, &n);
        memcpy(to, run, n * v->element);
        at += n;
        count -= n;
        to += n * v->element;
    }
}

void halay_vector_unpack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count,
                         const void *array)
{
    const unsigned char *from = array;

    while (count) {
        size_t n;
        void *run = halay_vector_run(v, cursor, at, count, &n);
        memcpy(run, from, n * v->element);
        at += n;
        count -= n;
        from += n * v->element;
    }
}
