/* SPDX-License-Identifier: Apache-2.0 */
#include "base/course.h"
#include "base/number_text.h"
#include <math.h>
#include <string.h>

void halay_course_add(struct halay_course *course, double value)
{
    if (isnan(value))
        return;
    if (course->count == HALAY_COURSE)
        memmove(course->values, course->values + 1, --course->count * sizeof *course->values);
    course->values[course->count++] = value;
}

void halay_course_print(FILE *to, const struct halay_course *course, const char *name)
{
    static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    double least = INFINITY, most = -INFINITY;

    if (course->count < 2)
        return;
    for (size_t i = 0; i < course->count; i++) {
        least = fmin(least, course->values[i]);
        most = fmax(most, course->values[i]);
    }
    fprintf(to, "%-10s ", name);
    for (size_t i = 0; i < course->count; i++)
        fprintf(to, "%s", bars[most > least ? (int)(7.999 * (course->values[i] - least) / (most - least)) : 0]);
    halay_fprintf(to, "  %.5g (%.5g to %.5g)\n", course->values[course->count - 1], least, most);
}
