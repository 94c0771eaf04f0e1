/* SPDX-License-Identifier: Apache-2.0
 *
 * Courses: how a number went, as a line of small bars in a terminal.
 */
#ifndef HALAY_BASE_COURSE_H
#define HALAY_BASE_COURSE_H

#include <stddef.h>
#include <stdio.h>

enum { HALAY_COURSE = 60 };

/* The last values. It begins as zeros. */
struct halay_course {
    double values[HALAY_COURSE];
    size_t count;
};

/* A value that is no number is left out. */
void halay_course_add(struct halay_course *course, double value);
/* A line: the name, a bar for each value, the last value and the range. Nothing of fewer than two values. */
void halay_course_print(FILE *to, const struct halay_course *course, const char *name);

#endif
