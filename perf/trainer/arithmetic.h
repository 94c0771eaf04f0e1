/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of a model: what its matrix products cost, by layer.
 */
#ifndef TFT_ARITHMETIC_H
#define TFT_ARITHMETIC_H

#include "tft/core/model/model.h"

/* Multiply-adds of one sample's forward pass in each part (TFT_PART_COUNT of them), as this graph computes it: products
 * of matrices only. Training costs three times as many. */
void tft_model_products(const struct tft_model *model, double *products);

#endif
