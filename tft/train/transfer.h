/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfer: another run's parameters as initial values.
 *
 * Tensors are matched by name, rows of an embedding by the category's name: entities, words of a column and holidays
 * that both runs have keep their rows, whatever their order; those that only the other run has are dropped. A category
 * that the other run did not have begins as that run's unknown category, if that was trained ('unknown: true' and a
 * category_dropout), else as the mean of its categories.
 */
#ifndef HALAY_TFT_TRANSFER_H
#define HALAY_TFT_TRANSFER_H

#include "tft/run/run_folder.h"

/* The model that the parameters are for. */
struct tft_transfer_to {
    const struct tft_schema *schema;
    const struct tft_encoding *encoding;
    const struct tft_param_table *table;
};

/*
 * Fill params with what `from` has. Tensors that it lacks stay as they are, with a warning, as for new categories. A
 * tensor of another shape is an error: HALAY_ERR_CONFIG. folder: for messages.
 */
enum halay_status tft_transfer(struct halay_log *log, const char *folder, const struct tft_run *from,
                               const struct tft_transfer_to *to, float *params);

#endif
