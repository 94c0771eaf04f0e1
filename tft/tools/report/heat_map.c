/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells that would be smaller than a pixel or two share one, with their mean. All cells of a shade are one path: runs
 * of cells, each a small rectangle in whole cells, which a transformation lays over the frame.
 */
#include "tft/tools/report/heat_map.h"
#include "base/number_text.h"
#include <math.h>

enum { SHADES = 16, ROWS_MOST = 48, COLUMNS_MOST = 256 };

/* How the table is laid on cells. */
struct grid {
    size_t tall, wide; /* rows and columns of the table in a cell */
    size_t rows, columns;
    double most; /* of the cells */
};

static double cell(const struct tft_heat_map *m, const struct grid *g, size_t row, size_t column)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = row * g->tall; i < m->rows && i < (row + 1) * g->tall; i++)
        for (size_t k = column * g->wide; k < m->columns && k < (column + 1) * g->wide; k++)
            if (isfinite(m->values[i * m->columns + k])) {
                sum += m->values[i * m->columns + k];
                n++;
            }
    return n ? sum / (double)n : NAN;
}

static struct grid make_grid(const struct tft_heat_map *m)
{
    struct grid g = { .tall = (m->rows + ROWS_MOST - 1) / ROWS_MOST,
                      .wide = (m->columns + COLUMNS_MOST - 1) / COLUMNS_MOST };

    g.rows = (m->rows + g.tall - 1) / g.tall;
    g.columns = (m->columns + g.wide - 1) / g.wide;
    for (size_t row = 0; row < g.rows; row++)
        for (size_t column = 0; column < g.columns; column++)
            g.most = fmax(g.most, cell(m, &g, row, column));
    return g;
}

/* From 0 (nothing) to SHADES. */
static int shade_of(const struct grid *g, double value)
{
    return value > 0 ? (int)ceil(SHADES * value / g->most) : 0;
}

static void write_shade(FILE *file, const struct tft_heat_map *m, const struct grid *g, int shade)
{
    halay_fprintf(file, "<path class=\"heat\" fill-opacity=\"%.2f\" d=\"", (double)shade / SHADES);
    for (size_t row = 0; row < g->rows; row++)
        for (size_t column = 0; column < g->columns; column++) {
            size_t from = column;
            while (column < g->columns && shade_of(g, cell(m, g, row, column)) == shade)
                column++;
            if (column > from)
                fprintf(file, "M%zu %zuh%zuv1h-%zuz", from, g->rows - 1 - row, column - from, column - from);
        }
    fprintf(file, "\"/>\n");
}

void tft_heat_map_write(FILE *file, const struct tft_heat_map *m, double left, double top, double width, double height)
{
    struct grid g = make_grid(m);

    if (!(g.most > 0))
        return;
    halay_fprintf(file, "<g transform=\"translate(%.1f %.1f) scale(%.5f %.5f)\">\n", left, top,
                  width / (double)g.columns, height / (double)g.rows);
    for (int shade = 1; shade <= SHADES; shade++)
        write_shade(file, m, &g, shade);
    fprintf(file, "</g>\n");
}
