/* SPDX-License-Identifier: Apache-2.0
 *
 * The least squares line through equally spaced values.
 */
#ifndef HALAY_TFT_LINE_H
#define HALAY_TFT_LINE_H

#include <stddef.h>

/* The change of the line from value to value of x[n]; 0 for one value. */
double tft_line_slope(const double *x, size_t n);

#endif
