/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfer: another run's parameters as those to begin with.
 *
 * Tensors go by name. Rows of an embedding go by the category's name: entities, words of a column and holidays that
 * both runs have keep theirs wherever they stand in either list, and what only the other run has goes. A category that
 * the other run did not have begins as what that run takes for unknown, if it has trained for that ('unknown: true'
 * and a category_dropout), else as the mean of its categories.
 */
#ifndef HALAY_TFT_TRANSFER_H
#define HALAY_TFT_TRANSFER_H

#include "tft/run/run_folder.h"

/* What the parameters are made for. */
struct tft_transfer_to {
    const struct tft_schema *schema;
    const struct tft_encoding *encoding;
    const struct tft_param_table *table;
};

/*
 * Fill params with what `from` has; tensors that it has not stay as they are, and that is said, as are new categories.
 * A tensor of another shape is an error: HALAY_ERR_CONFIG. folder: for messages.
 */
enum halay_status tft_transfer(struct halay_log *log, const char *folder, const struct tft_checkpoint *from,
                               const struct tft_transfer_to *to, float *params);

#endif
