/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes from row to row that are lost where values become floats, as those of a meter that counts millions of units
 * while an hour adds a few: a float has 24 bits, and the scale of a series is that of all its values.
 */
#ifndef HALAY_TFT_LOST_CHANGES_H
#define HALAY_TFT_LOST_CHANGES_H

#include "tft/core/data/encoding.h"

/* Of one series. */
struct tft_changes {
    size_t count, lost;
    double sum;  /* of the lost ones' magnitudes */
    double most; /* largest magnitude of a value */
};

/* Count the change from a value to the next row's; NAN: not measured. */
void tft_changes_add(const struct tft_scaler *scaler, double before, double value, struct tft_changes *changes);

/* Are most of them lost? */
static inline int tft_changes_are_lost(const struct tft_changes *changes)
{
    return 2 * changes->lost > changes->count;
}

/* Warn of each real column most of whose changes are lost in a series. Reads all rows. */
void tft_lost_changes_check(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *table,
                            const struct tft_encoding *encoding);

#endif
