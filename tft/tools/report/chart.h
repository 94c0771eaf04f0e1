/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts: lines and bands as inline SVG, coloured by the page's classes, so that one picture serves light and dark.
 */
#ifndef HALAY_TFT_CHART_H
#define HALAY_TFT_CHART_H

#include "tft/tools/report/heat_map.h"
#include <stddef.h>
#include <stdio.h>

struct tft_line {
    const char *label;   /* in the legend; NULL: none */
    const char *style;   /* CSS class: "model", "truth", "naive", "second" */
    const double *x, *y; /* ascending x; values that are not finite are left out */
    size_t count;
};

/* What x is: any number, a whole number, or months since January 1970, which are written as 2017-08. */
enum tft_x_kind { TFT_X_REAL, TFT_X_WHOLE, TFT_X_MONTHS };

struct tft_chart {
    const char *title, *x_label, *y_label; /* plain text */
    enum tft_x_kind x_kind;
    int width, height;
    const struct tft_line *lines;
    size_t line_count;
    /* An area between two lines over x; band_count 0: none. */
    const char *band_label;
    const double *band_x, *band_low, *band_high;
    size_t band_count;
    struct tft_heat_map heat; /* cell (row, column) lies over x column - .5 to column + .5, y row to row + 1 */
    struct tft_line share;    /* an area from the bottom, on an axis of its own on the right; count 0: none */
    int has_mark;             /* an upright line at mark */
    double mark;
    int from_zero; /* the y axis begins at 0 */
};

/* Text with &, <, > and quotes escaped. */
void tft_html_text(FILE *file, const char *text);
/* Begin a figure with a picture that is scrolled rather than drawn too small; what it shows follows, in words, and
 * "\">". */
void tft_figure_begin(FILE *file, int width, int height);
/* As a figure of its own. */
void tft_chart_write(FILE *file, const struct tft_chart *chart);

#endif
