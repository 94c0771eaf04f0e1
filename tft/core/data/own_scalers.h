/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalers of entities that training has not seen.
 */
#ifndef HALAY_TFT_OWN_SCALERS_H
#define HALAY_TFT_OWN_SCALERS_H

#include "tft/core/data/encoding.h"
#include "tft/core/data/view.h"

/* Does a schema scale an input by windows, so that an unseen entity has a scaler of its own? */
int tft_own_scalers_apply(const struct tft_schema *schema);

/*
 * Fit the scalers (inputs) of the series that a view has chosen, which training has not seen: under `per: window` to
 * its own rows, so that a series of any size is scaled alike; otherwise that of all entities. If the table ends where
 * the future begins, all of its rows are the past; otherwise the first `encoder` of them are.
 */
void tft_own_scalers_fit(const struct tft_view *view, const struct tft_encoding *encoding, struct tft_scaler *scalers);

#endif
