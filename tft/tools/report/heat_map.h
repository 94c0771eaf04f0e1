/* SPDX-License-Identifier: Apache-2.0
 *
 * Heat maps: a table of numbers from 0 up as shades, a layer of a chart.
 */
#ifndef HALAY_TFT_HEAT_MAP_H
#define HALAY_TFT_HEAT_MAP_H

#include <stddef.h>
#include <stdio.h>

struct tft_heat_map {
    size_t rows, columns; /* row 0 is at the bottom; rows 0: there is none */
    const double *values; /* (rows, columns); those that are no numbers are left empty */
};

/* Fill a rectangle of pixels. The stream's owner checks its errors. */
void tft_heat_map_write(FILE *file, const struct tft_heat_map *map, double left, double top, double width,
                        double height);

#endif
