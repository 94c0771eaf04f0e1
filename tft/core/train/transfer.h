/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfer: another run's parameters as initial values.
 *
 * Tensors are matched by name, and inside of them what belongs to an input, a category, a target or a quantile by that
 * one's name, whatever the order:
 *
 *     embeddings           rows of categories that both runs have. A new one begins as the other run's unknown
 *                          category, if it has one that was trained here ('unknown: true'), else as the mean
 *     joint networks of    rows and columns of inputs that both have; those of a new input begin at random, as do its
 *     the selections       own tensors. (pytorch-forecasting's inner width goes by the number of inputs: where that
 *                          changes, the joint network begins at random)
 *     the last layer       columns of targets that both have, and quantiles: one that the other run lacks begins
 *                          between its neighbours there, or as the outermost one. (With 'crossing: forbid' columns are
 *                          distances: other quantiles begin at random)
 *
 * Windows may have other lengths. What the other run alone has is left out.
 */
#ifndef HALAY_TFT_TRANSFER_H
#define HALAY_TFT_TRANSFER_H

#include "tft/core/run/run_folder.h"

/* The model that the parameters are for. */
struct tft_transfer_to {
    const struct tft_schema *schema;
    const struct tft_encoding *encoding;
    const struct tft_model_config *config;
    const struct tft_param_table *table;
};

/*
 * Fill params, which hold initial values, with what `from` has. A warning lists what was taken over, what is new and
 * what was left out, if the two differ. HALAY_ERR_CONFIG: a tensor has another shape for another reason, or there is
 * nothing to take; HALAY_ERR_NO_MEMORY. folder: for messages.
 */
enum halay_status tft_transfer(struct halay_log *log, const char *folder, const struct tft_run *from,
                               const struct tft_transfer_to *to, float *params);

#endif
