/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/line.h"

double tft_line_slope(const double *x, size_t n)
{
    double middle = ((double)n - 1) / 2, sum = 0, squares = 0;

    for (size_t t = 0; t < n; t++) {
        double from = (double)t - middle;
        sum += from * x[t];
        squares += from * from;
    }
    return squares > 0 ? sum / squares : 0;
}
