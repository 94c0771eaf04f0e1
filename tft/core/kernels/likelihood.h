/* SPDX-License-Identifier: Apache-2.0
 *
 * Likelihoods of the distributions (tft/core/kernels/loss.h), in full, so that those of different distributions
 * compare.
 */
#ifndef HALAY_TFT_LIKELIHOOD_H
#define HALAY_TFT_LIKELIHOOD_H

#include "tft/core/kernels/loss.h"

/* The negative logarithm of y's likelihood, and its slopes along the parameters (d->at). y is a number that the
 * distribution can give. */
TFT_ANYWHERE double tft_likelihood_loss(const struct tft_distribution *d, double y, double *slopes);

#endif
