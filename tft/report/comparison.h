/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons: what `halay-tft compare` found, in other forms than JSON. None looks at the stream's errors: its owner
 * does, at the end.
 *
 * A comparison is an object with "rows", in each of which stand "strategy", "ranks", "dtype", "exit_code", "seconds"
 * (from its start to its end), "peak_bytes" (of its largest process) and, where it trained, "steps",
 * "training_seconds", "samples_per_second", "efficiency" (of as many times one rank), "valid_loss" (the lowest),
 * "tensor_bytes" (of rank 0's engine), "waited_seconds" (of rank 0's cores, for other ranks), "cost", "course" (a list
 * of seconds and validation loss).
 */
#ifndef HALAY_TFT_COMPARISON_H
#define HALAY_TFT_COMPARISON_H

#include <jansson.h>
#include <stdio.h>

int tft_is_comparison(const json_t *result);
void tft_comparison_print(FILE *to, const json_t *result);
void tft_comparison_write_csv(FILE *to, const json_t *result);
void tft_comparison_write_page(FILE *to, const json_t *result);

#endif
