/* SPDX-License-Identifier: Apache-2.0
 *
 * Where forecasts look: the part of a page on attention, its patterns, its regimes, and single forecasts.
 */
#ifndef HALAY_TFT_ATTENTION_PAGE_H
#define HALAY_TFT_ATTENTION_PAGE_H

#include "tft/tools/explain/explain.h"

/* Each takes what tft_explanation_json made. The stream's owner checks its errors. */
void tft_attention_write(FILE *file, const struct tft_explanation *explanation, const json_t *json);
void tft_regimes_write(FILE *file, const struct tft_explanation *explanation, const json_t *json);

#endif
