/* SPDX-License-Identifier: Apache-2.0
 *
 * Tunings: what `halay-tft tune` found, in other forms than JSON. None looks at the stream's errors: its owner does, at
 * the end.
 *
 * A tuning is an object with "kind" ("tuning"), "tuning" (its folder), "data", "goal", "search", "space" (as given),
 * "seconds", "best" (a trial's number), "importance" (of each key, parts of 1), "cost", and "rows", each of which has
 * "trial", "state", "value" (the lowest), "share" (of its run), "rungs", "steps", "seconds", "keys", "exit_code".
 * "best", "importance", "cost", "value" and "exit_code" may be missing.
 */
#ifndef HALAY_TFT_TUNING_H
#define HALAY_TFT_TUNING_H

#include <jansson.h>
#include <stdio.h>

void tft_tuning_print(FILE *to, const json_t *result);
void tft_tuning_write_csv(FILE *to, const json_t *result);

#endif
