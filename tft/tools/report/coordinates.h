/* SPDX-License-Identifier: Apache-2.0
 *
 * Parallel coordinates: an upright axis for each key of a search and one for what it looks for, and a line through them
 * for each trial, the better the stronger.
 */
#ifndef HALAY_TFT_COORDINATES_H
#define HALAY_TFT_COORDINATES_H

#include <jansson.h>
#include <stdio.h>

/* Of a result of `halay-tft tune` (tuning.h), as a figure of its own. The stream's owner checks its errors. */
void tft_coordinates_write(FILE *file, const json_t *result);

#endif
