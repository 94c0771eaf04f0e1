/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparkline: a metric's last values as a line of small bars in a terminal.
 */
#ifndef HALAY_LAUNCHER_SPARKLINE_H
#define HALAY_LAUNCHER_SPARKLINE_H

#include <stddef.h>
#include <stdio.h>

enum { SPARKLINE_VALUES = 60 };

/* Starts as zeros. */
struct sparkline {
    double values[SPARKLINE_VALUES];
    size_t count;
};

/* Appends a value, unless it is not a number; drops the oldest one if the line is full. */
void sparkline_add(struct sparkline *line, double value);
/* Prints the name, a bar for each value, the last value and the range. Prints nothing before the second value. */
void sparkline_print(FILE *out, const struct sparkline *line, const char *name);

#endif
