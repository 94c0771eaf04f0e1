/* SPDX-License-Identifier: Apache-2.0
 *
 * Fill: replaces missing values and keeps the bridges in order of column and row.
 */
#include "tft/core/data/table_impl.h"
#include <math.h>
#include <stdlib.h>

/* ---- bridges ---- */

static int compare_bridges(const void *a, const void *b)
{
    const struct tft_bridge *x = a, *y = b;

    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Appends a bridge; the list is allocated in powers of two. */
static enum halay_status add_bridge(struct tft_series *s, const struct tft_bridge *bridge)
{
    size_t n = s->bridge_count;

    if (!(n & (n - 1))) {
        struct tft_bridge *bridges = realloc(s->bridges, (n ? 2 * n : 1) * sizeof *bridges);
        if (!bridges)
            return HALAY_ERR_NO_MEMORY;
        s->bridges = bridges;
    }
    s->bridges[s->bridge_count++] = *bridge;
    return HALAY_OK;
}

const struct tft_bridge *tft_series_bridge(const struct tft_series *s, size_t k, size_t row)
{
    const struct tft_bridge key = { .column = (uint32_t)k, .first = (int64_t)row };
    size_t low = 0, high = s->bridge_count; /* those before low begin at or before the row, or in a column before */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_bridges(&s->bridges[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct tft_bridge *b = low ? &s->bridges[low - 1] : NULL;
    return b && b->column == k && row - (size_t)b->first < b->rows ? b : NULL;
}

/* ---- gaps ---- */

enum halay_status tft_fill_gap(enum tft_filling fill, size_t columns, size_t k, size_t from, size_t to,
                               struct tft_series *s)
{
    double *v = s->values + k;

    if (!from)
        return HALAY_OK;
    double before = v[(from - 1) * columns];
    if (fill == TFT_FILL_FORWARD || to == s->rows) {
        for (size_t i = from; i < to; i++)
            v[i * columns] = before;
        return HALAY_OK;
    }
    double after = v[to * columns];
    for (size_t i = from; i < to; i++)
        v[i * columns] = before + (after - before) * (double)(i + 1 - from) / (double)(to - from + 1);
    return add_bridge(
        s, &(struct tft_bridge){ .column = (uint32_t)k, .first = (int64_t)from, .rows = to - from, .before = before });
}

enum halay_status tft_fill_again(enum tft_filling fill, size_t columns, size_t k, size_t row, struct tft_series *s)
{
    const uint8_t *measured = s->measured + k;
    size_t from = row, to, bridges = s->bridge_count;
    enum halay_status status = HALAY_OK;

    while (from && !measured[(from - 1) * columns])
        from--;
    for (; from < s->rows && !status; from = to + 1) {
        for (to = from; to < s->rows && !measured[to * columns];)
            s->values[to++ * columns + k] = NAN;
        if (to > from)
            status = tft_fill_gap(fill, columns, k, from, to, s);
    }
    if (s->bridge_count > bridges)
        qsort(s->bridges, s->bridge_count, sizeof *s->bridges, compare_bridges);
    return status;
}
