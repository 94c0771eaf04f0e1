/* SPDX-License-Identifier: Apache-2.0
 *
 * Tunings: what `halay-tft tune` found, in other forms than JSON. None looks at the stream's errors: its owner does, at
 * the end.
 *
 * A tuning is an object with "tuning" (its folder), "data", "goal", "search", "space" (as it was given), "seconds",
 * "best" (the number of a trial), "importance" (of each key, parts of 1), "cost", and "rows", in each of which stand
 * "trial", "state", "value" (the lowest), "share" (of its run), "rungs", "steps", "seconds", "keys", "exit_code".
 * "best", "importance", "cost", "value" and "exit_code" may be missing.
 */
#ifndef HALAY_TFT_TUNING_H
#define HALAY_TFT_TUNING_H

#include <jansson.h>
#include <stdio.h>

int tft_is_tuning(const json_t *result);
void tft_tuning_print(FILE *to, const json_t *result);
void tft_tuning_write_csv(FILE *to, const json_t *result);
void tft_tuning_write_page(FILE *to, const json_t *result);

#endif
