/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/watch/sparkline.h"
#include "base/number_text.h"
#include <math.h>
#include <string.h>

void sparkline_add(struct sparkline *line, double value)
{
    if (isnan(value))
        return;
    if (line->count == SPARKLINE_VALUES)
        memmove(line->values, line->values + 1, --line->count * sizeof *line->values);
    line->values[line->count++] = value;
}

void sparkline_print(FILE *out, const struct sparkline *line, const char *name)
{
    static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    double min = INFINITY, max = -INFINITY;

    if (line->count < 2)
        return;
    for (size_t i = 0; i < line->count; i++) {
        min = fmin(min, line->values[i]);
        max = fmax(max, line->values[i]);
    }
    fprintf(out, "%-10s ", name);
    for (size_t i = 0; i < line->count; i++)
        fprintf(out, "%s", bars[max > min ? (int)(7.999 * (line->values[i] - min) / (max - min)) : 0]);
    halay_fprintf(out, "  %.5g (%.5g to %.5g)\n", line->values[line->count - 1], min, max);
}
