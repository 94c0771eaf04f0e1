/* SPDX-License-Identifier: Apache-2.0
 *
 * Which weights a blend has: for each target and third of the horizon those with the lowest quantile loss in
 * validation, found by greedy selection with replacement (R. Caruana, A. Niculescu-Mizil, G. Crew, A. Ksikes, "Ensemble
 * selection from libraries of models", ICML 2004): twenty times the model or the baseline is added whose part in the
 * mean lowers the loss most; the best of these means counts. A window's loss is in units of its own past, so that
 * series count alike.
 *
 * Windows of one origin share what happened after it, which the lowest loss follows: so the weights are half those, and
 * half equal ones of all parts whose loss over the whole horizon is within 3 % of the lowest.
 *
 * Few windows say little: the weights are drawn towards those that the blend has before (tft/core/run/blend.h), by n /
 * (n + 10) for n windows of a horizon that do not overlap, unless that is worse than the best baseline alone and n is
 * at least 10.
 */
#ifndef HALAY_TFT_BLEND_CHOICE_H
#define HALAY_TFT_BLEND_CHOICE_H

#include "tft/core/score/forecast_scores.h"

/* Forecast positions [0, count) of the forecaster's gather, set the blend's weights, and get the scores with them (in
 * which all entities are one; of very many windows those of some). All ranks get the same bits. The forecaster has no
 * blend. */
enum halay_status tft_blend_choose(struct tft_forecaster *forecaster, size_t count, struct tft_blend *blend,
                                   struct tft_forecast_scores *result);

/* Windows of these that it looks at: what a rank keeps of them is at most some 4 million numbers, or 20 windows. */
size_t tft_blend_choice_windows(const struct tft_blend *blend, size_t count);

#endif
