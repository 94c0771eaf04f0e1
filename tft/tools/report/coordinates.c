/* SPDX-License-Identifier: Apache-2.0
 *
 * Parallel coordinates. A range's axis is as its scale says; the choices of a list stand at equal distances. The last
 * axis ends at the value that a fifth of the trials exceed, so that a few bad ones don't press the others together.
 */
#include "tft/tools/report/coordinates.h"
#include "base/number_text.h"
#include "tft/tools/report/chart.h"
#include "tft/tools/report/json_number.h"
#include <stdlib.h>
#include <string.h>

enum { LEFT = 60, RIGHT = 92, TOP = 44, HEIGHT = 360, BOTTOM = 26, GAP = 132, WIDTH_LEAST = 860, LABELS_MOST = 12 };
enum { LABEL_MOST = 48 };

struct picture {
    const json_t *space, *rows;
    const char *goal;
    size_t axes;        /* the goal's included */
    double least, most; /* of the goal's axis */
    double gap;
    int width;
};

static double x_of(const struct picture *p, size_t axis)
{
    return LEFT + p->gap * (double)axis;
}

/* From a share of the axis, 0 at the bottom. */
static double y_of(double share)
{
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static double choice_share(size_t place, size_t count)
{
    return ((double)place + 0.5) / (double)count;
}

static double range_share(const json_t *range, double value)
{
    const char *scale = json_string_value(json_object_get(range, "scale"));
    double from = tft_json_number_at(range, "from"), to = tft_json_number_at(range, "to");

    if (scale && !strcmp(scale, "log"))
        return log(value / from) / log(to / from);
    return (value - from) / (to - from);
}

/* Where a key's value is on its axis; NAN: nowhere. */
static double share_of(const json_t *values, const json_t *value)
{
    const json_t *choice;
    size_t i;

    if (json_is_object(values))
        return range_share(values, tft_json_number(value));
    json_array_foreach(values, i, choice)
        if (json_is_number(choice) && json_is_number(value) ? json_number_value(choice) == json_number_value(value)
                                                            : json_equal(choice, value))
            return choice_share(i, json_array_size(values));
    return NAN;
}

static double goal_share(const struct picture *p, double value)
{
    double share = p->most > p->least ? (value - p->least) / (p->most - p->least) : 0.5;

    return share < 1 ? share : 1;
}

static void write_label(FILE *f, double x, double share, const char *label)
{
    halay_fprintf(f, "<text class=\"over\" x=\"%.1f\" y=\"%.1f\">", x + 6, y_of(share) + 4);
    tft_html_text(f, label);
    fprintf(f, "</text>\n");
}

static void write_axis(FILE *f, double x, const char *name)
{
    halay_fprintf(f, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", x, x, TOP,
                  HEIGHT - BOTTOM);
    halay_fprintf(f, "<text class=\"title\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">", x, TOP - 18);
    tft_html_text(f, name);
    fprintf(f, "</text>\n");
}

static void write_labels(FILE *f, double x, const json_t *values)
{
    char label[LABEL_MOST];
    const json_t *choice;
    size_t i, count = json_array_size(values);

    json_array_foreach(values, i, choice) {
        tft_json_word(choice, label, sizeof label);
        if (count <= LABELS_MOST || i == 0 || i + 1 == count)
            write_label(f, x, choice_share(i, count), label);
    }
    if (!json_is_object(values))
        return;
    tft_json_word(json_object_get(values, "from"), label, sizeof label);
    write_label(f, x, 0, label);
    tft_json_word(json_object_get(values, "to"), label, sizeof label);
    write_label(f, x, 1, label);
}

static void write_axes(FILE *f, const struct picture *p)
{
    const char *key;
    const json_t *values;
    char label[LABEL_MOST];
    size_t axis = 0;

    json_object_foreach((json_t *)p->space, key, values) {
        write_axis(f, x_of(p, axis), key);
        write_labels(f, x_of(p, axis++), values);
    }
    write_axis(f, x_of(p, axis), p->goal);
    halay_snprintf(label, sizeof label, "%.4g", p->least);
    write_label(f, x_of(p, axis), 0, label);
    halay_snprintf(label, sizeof label, "%.4g and up", p->most);
    write_label(f, x_of(p, axis), 1, label);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void write_trial(FILE *f, const struct picture *p, const json_t *row, const char *style)
{
    const char *key;
    const json_t *values, *keys = json_object_get(row, "keys");
    char label[LABEL_MOST];
    size_t axis = 0;

    fprintf(f, "<polyline class=\"line %s\" points=\"", style);
    json_object_foreach((json_t *)p->space, key, values) {
        double share = share_of(values, json_object_get(keys, key));
        if (!isnan(share))
            halay_fprintf(f, "%.1f,%.1f ", x_of(p, axis), y_of(share));
        axis++;
    }
    halay_fprintf(f, "%.1f,%.1f\"><title>trial %.0f: %s %.5g;", x_of(p, axis),
                  y_of(goal_share(p, tft_json_number_at(row, "value"))), tft_json_number_at(row, "trial"), p->goal,
                  tft_json_number_at(row, "value"));
    json_object_foreach((json_t *)keys, key, values) {
        tft_json_word(values, label, sizeof label);
        fprintf(f, " ");
        tft_html_text(f, key);
        fprintf(f, "=");
        tft_html_text(f, label);
    }
    fprintf(f, "</title></polyline>\n");
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The values of all trials that have one, ascending; owned by the caller. */
static double *sort_values(const json_t *rows, size_t *count)
{
    double *values = calloc(json_array_size(rows) + 1, sizeof *values);
    const json_t *row;
    size_t i;

    *count = 0;
    json_array_foreach(rows, i, row)
        if (values && !isnan(tft_json_number_at(row, "value")))
            values[(*count)++] = tft_json_number_at(row, "value");
    if (values)
        qsort(values, *count, sizeof *values, compare_numbers);
    return values;
}

/* The worst first, so that the better ones lie above them. */
static void write_lines(FILE *f, const struct picture *p, const double *values, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        const char *style = i == 0 ? "best" : i < (count + 3) / 4 ? "good" : "rest";
        const json_t *row;
        size_t k;
        if (i + 1 < count && values[i] == values[i + 1])
            continue;
        json_array_foreach(p->rows, k, row)
            if (tft_json_number_at(row, "value") == values[i])
                write_trial(f, p, row, style);
    }
}

void tft_coordinates_write(FILE *f, const json_t *result)
{
    struct picture p = { .space = json_object_get(result, "space"),
                         .rows = json_object_get(result, "rows"),
                         .goal = json_string_value(json_object_get(result, "goal")) };
    size_t count;
    double *values = sort_values(p.rows, &count);

    if (count) {
        p.axes = json_object_size(p.space) + 1;
        p.width = LEFT + RIGHT + GAP * (int)(p.axes - 1);
        p.width = p.width > WIDTH_LEAST ? p.width : WIDTH_LEAST;
        p.gap = (double)(p.width - LEFT - RIGHT) / (double)(p.axes - 1);
        p.least = values[0];
        p.most = values[(count - 1) * 4 / 5];
        tft_figure_begin(f, p.width, HEIGHT);
        fprintf(f, "Parallel coordinates of %zu trials: an axis for each key, the last one for ", count);
        tft_html_text(f, p.goal);
        fprintf(f, ", which is best at the bottom; the table has the same numbers\">\n");
        write_lines(f, &p, values, count);
        write_axes(f, &p);
        fprintf(f, "</svg>\n</figure>\n");
    }
    free(values);
}
