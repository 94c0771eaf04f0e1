/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions shared by the files that encode a table.
 */
#ifndef HALAY_TFT_ENCODING_IMPL_H
#define HALAY_TFT_ENCODING_IMPL_H

#include "tft/core/data/encoding.h"

/* View: every input's value at every row of a table's series, from a column, the calendar or an earlier value. Used to
 * make data from a table (encoding.c, data.c). */

struct tft_view {
    const struct tft_schema *schema; /* borrowed */
    const struct tft_table *table;   /* borrowed */
    int64_t origin;                  /* steps are counted from here */
    size_t rows;                     /* of the longest series */
    struct tft_date *dates;          /* owned: (rows) of the chosen series; NULL if inputs do not need them */
    int64_t *times;                  /* owned: (rows) clock times, like dates */
    const struct tft_series *series; /* the one chosen */
    double steps;                    /* from the origin to its first row */
};

/* Initialises a view. HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_view_init(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *table,
                                int64_t origin, struct tft_view *view);
void tft_view_fini(struct tft_view *view);

/* Chooses the series that the functions below read. */
void tft_view_choose(struct tft_view *view, const struct tft_series *series);

/* Returns the value of a real input that is not read from a column. */
double tft_view_made(const struct tft_view *view, size_t input, size_t row);
/* Returns the value of a real input, not scaled. row is at least the schema's longest lag. */
static inline double tft_view_real(const struct tft_view *view, size_t input, size_t row)
{
    const struct tft_input *x = &view->schema->inputs[input];

    if (x->source != TFT_FROM_COLUMN || x->derivation == TFT_WAS_MISSING)
        return tft_view_made(view, input, row);
    return view->series->values[(row - x->lag) * view->table->column_count + view->table->column_of[input]];
}

/* Returns the code of a category from the calendar or a list of holidays. */
size_t tft_view_code(const struct tft_view *view, size_t input, size_t row);

/* Scalers of entities that training has not seen. */

/* Returns nonzero if a schema scales an input by windows, so that an unseen entity has a scaler of its own. */
int tft_own_scalers_apply(const struct tft_schema *schema);

/* Fits the scalers (inputs) of the view's chosen series, which training has not seen: under `per: window` to its own
 * rows, so that a series of any size is scaled alike; otherwise the scaler of all entities is used. If the table ends
 * where the future begins, all of its rows are the past; otherwise the first `encoder` of them are. */
void tft_own_scalers_fit(const struct tft_view *view, const struct tft_encoding *encoding, struct tft_scaler *scalers);

#endif
