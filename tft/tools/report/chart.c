/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts: a frame from data to pixels, round ticks, polylines. The stream's owner checks its errors.
 */
#include "tft/tools/report/chart.h"
#include "base/number_text.h"
#include <math.h>

enum { LEFT = 64, RIGHT = 14, RIGHT_AXIS = 58, TOP = 46, BOTTOM = 40 };

/* How much of the height an area on the right axis takes. */
static const double share_height = .4;

struct frame {
    double x0, x1, y0, y1;           /* data */
    double left, right, top, bottom; /* pixels */
};

void tft_html_text(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc(*text, file);
        }
}

static double px(const struct frame *f, double x)
{
    return f->left + (x - f->x0) / (f->x1 - f->x0) * (f->right - f->left);
}

static double py(const struct frame *f, double y)
{
    return f->bottom - (y - f->y0) / (f->y1 - f->y0) * (f->bottom - f->top);
}

static void include(struct frame *f, const double *x, const double *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        f->x0 = fmin(f->x0, x[i]);
        f->x1 = fmax(f->x1, x[i]);
        f->y0 = fmin(f->y0, y[i]);
        f->y1 = fmax(f->y1, y[i]);
    }
}

/* The round step (1, 2 or 5 times a power of ten) that gives about `ticks` of them. */
static double round_step(double range, int ticks)
{
    double rough = range / ticks, power = pow(10, floor(log10(rough))), lead = rough / power;

    if (lead < 1.5)
        return power;
    if (lead < 3.5)
        return power * 2;
    return power * (lead < 7.5 ? 5 : 10);
}

static struct frame make_frame(const struct tft_chart *c)
{
    struct frame f = { .x0 = INFINITY,
                       .x1 = -INFINITY,
                       .y0 = INFINITY,
                       .y1 = -INFINITY,
                       .left = LEFT,
                       .right = c->width - (c->share.count ? RIGHT_AXIS : RIGHT),
                       .top = TOP,
                       .bottom = c->height - BOTTOM };

    for (size_t i = 0; i < c->line_count; i++)
        include(&f, c->lines[i].x, c->lines[i].y, c->lines[i].count);
    include(&f, c->band_x, c->band_low, c->band_count);
    include(&f, c->band_x, c->band_high, c->band_count);
    if (c->heat.rows) {
        const double x[] = { -.5, (double)c->heat.columns - .5 }, y[] = { 0, (double)c->heat.rows };
        include(&f, x, y, 2);
    }
    if (!(f.x0 <= f.x1)) { /* nothing to draw */
        f.x0 = f.y0 = 0;
        f.x1 = f.y1 = 1;
    }
    if (c->from_zero)
        f.y0 = fmin(f.y0, 0);
    if (f.x1 <= f.x0) { /* a single point stands in the middle */
        f.x0 -= fmax(1, fabs(f.x0));
        f.x1 += fmax(1, fabs(f.x1));
    }
    if (f.y1 <= f.y0)
        f.y1 = f.y0 + fmax(1e-9, fabs(f.y0));
    double step = round_step(f.y1 - f.y0, 5);
    f.y0 = floor(f.y0 / step) * step;
    f.y1 = ceil(f.y1 / step) * step;
    return f;
}

/* Writes a month since 1970 as 2017-08. */
static void write_month(FILE *file, double month)
{
    halay_fprintf(file, "%.0f-%02.0f", 1970 + floor(month / 12), month - 12 * floor(month / 12) + 1);
}

/* The step of the ticks on the x axis. */
static double x_step(const struct tft_chart *c, const struct frame *f)
{
    static const double months[] = { 1, 2, 3, 6, 12, 24, 60 };
    double step = round_step(f->x1 - f->x0, 8);

    if (c->x_kind == TFT_X_REAL)
        return step;
    for (size_t i = 0; c->x_kind == TFT_X_MONTHS && i < sizeof months / sizeof *months; i++)
        if ((f->x1 - f->x0) / months[i] <= 10)
            return months[i];
    return fmax(step, 1);
}

static void write_axes(FILE *file, const struct tft_chart *c, const struct frame *f)
{
    double step = round_step(f->y1 - f->y0, 5);

    for (double y = f->y0; y <= f->y1 + step / 2; y += step) {
        double value = fabs(y) < step / 1e6 ? 0 : y;
        halay_fprintf(
            file,
            "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"end\">%.6g</text>\n",
            f->left, f->right, py(f, y), py(f, y), f->left - 6, py(f, y) + 4, value);
    }
    step = x_step(c, f);
    for (double x = ceil(f->x0 / step) * step; x <= f->x1 + step / 1e6; x += step) {
        halay_fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", px(f, x), f->bottom + 16);
        if (c->x_kind == TFT_X_MONTHS)
            write_month(file, x);
        else
            halay_fprintf(file, "%.6g", fabs(x) < step / 1e6 ? 0 : x);
        fprintf(file, "</text>\n");
    }
    halay_fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", (f->left + f->right) / 2, c->height - 6);
    tft_html_text(file, c->x_label);
    fprintf(file, "</text><text class=\"title\" x=\"%d\" y=\"16\">", 4);
    tft_html_text(file, c->title);
    fprintf(file, "</text>");
    if (c->y_label) {
        fprintf(file, "<text x=\"4\" y=\"%d\">", TOP - 12);
        tft_html_text(file, c->y_label);
        fprintf(file, "</text>");
    }
    fprintf(file, "\n");
}

static void write_band(FILE *file, const struct tft_chart *c, const struct frame *f)
{
    if (!c->band_count)
        return;
    fprintf(file, "<polygon class=\"band\" points=\"");
    for (size_t i = 0; i < c->band_count; i++)
        halay_fprintf(file, "%.1f,%.1f ", px(f, c->band_x[i]), py(f, c->band_high[i]));
    for (size_t i = c->band_count; i-- > 0;)
        halay_fprintf(file, "%.1f,%.1f ", px(f, c->band_x[i]), py(f, c->band_low[i]));
    fprintf(file, "\"/>\n");
}

/* From its points down to the bottom. */
static void write_area(FILE *file, const struct tft_line *line, const struct frame *f)
{
    fprintf(file, "<polygon class=\"%s\" points=\"", line->style);
    for (size_t i = 0; i < line->count; i++)
        halay_fprintf(file, "%.1f,%.1f ", px(f, line->x[i]), py(f, line->y[i]));
    halay_fprintf(file, "%.1f,%.1f %.1f,%.1f\"/>\n", px(f, line->x[line->count - 1]), f->bottom, px(f, line->x[0]),
                  f->bottom);
}

/* The area of shares, with its ticks on the right. */
static void write_share(FILE *file, const struct tft_chart *c, const struct frame *f)
{
    struct frame of = *f;
    double most = 0;

    for (size_t i = 0; i < c->share.count; i++)
        most = fmax(most, c->share.y[i]);
    if (!(most > 0))
        return;
    of.y0 = 0;
    of.y1 = most / share_height;
    write_area(file, &c->share, &of);
    double step = round_step(most, 2);
    for (double y = step; y <= most + step / 1e6; y += step)
        halay_fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">%.3g %%</text>\n", of.right + 6, py(&of, y) + 4, 100 * y);
}

/* A single point, which a polyline would not show, is a ring. */
static void write_line(FILE *file, const struct tft_line *line, const struct frame *f)
{
    size_t shown = 0, last = 0;

    fprintf(file, "<polyline class=\"line %s\" points=\"", line->style);
    for (size_t i = 0; i < line->count; i++)
        if (isfinite(line->x[i]) && isfinite(line->y[i])) {
            halay_fprintf(file, "%.1f,%.1f ", px(f, line->x[i]), py(f, line->y[i]));
            last = i;
            shown++;
        }
    fprintf(file, "\"/>\n");
    if (shown == 1)
        halay_fprintf(file, "<circle class=\"line %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", line->style,
                      px(f, line->x[last]), py(f, line->y[last]));
}

/* The label of a line, or, after the last line, of the band and of the shares; NULL: none. */
static const char *label_of(const struct tft_chart *c, size_t i)
{
    if (i < c->line_count)
        return c->lines[i].label;
    if (i == c->line_count)
        return c->band_count ? c->band_label : NULL;
    return c->share.count ? c->share.label : NULL;
}

/* Labels from the right end of the frame's top, each after a stroke of its line. */
static void write_legend(FILE *file, const struct tft_chart *c, const struct frame *f)
{
    double x = f->right;

    for (size_t i = c->line_count + 2; i-- > 0;) {
        const char *label = label_of(c, i);
        if (!label)
            continue;
        size_t letters = 0;
        for (const char *t = label; *t; t++)
            letters++;
        x -= (double)letters * 6.6 + 36;
        if (i >= c->line_count)
            halay_fprintf(file, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"18\" height=\"10\"/>",
                          i == c->line_count ? "band" : c->share.style, x, TOP - 21);
        else if (c->lines[i].count == 1)
            halay_fprintf(file, "<circle class=\"line %s\" cx=\"%.1f\" cy=\"%d\" r=\"3\"/>", c->lines[i].style, x + 12,
                          TOP - 16);
        else
            halay_fprintf(file, "<line class=\"line %s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>",
                          c->lines[i].style, x, x + 18, TOP - 16, TOP - 16);
        halay_fprintf(file, "<text x=\"%.1f\" y=\"%d\">", x + 23, TOP - 12);
        tft_html_text(file, label);
        fprintf(file, "</text>\n");
    }
}

/* What is to be seen, in words: each line's name and range. */
static void write_words(FILE *file, const struct tft_chart *c)
{
    tft_html_text(file, c->title);
    for (size_t i = 0; i < c->line_count; i++) {
        struct frame range = { INFINITY, -INFINITY, INFINITY, -INFINITY, 0, 0, 0, 0 };
        include(&range, c->lines[i].x, c->lines[i].y, c->lines[i].count);
        if (!c->lines[i].label || !(range.y0 <= range.y1))
            continue;
        fprintf(file, "; ");
        tft_html_text(file, c->lines[i].label);
        halay_fprintf(file, ": %.4g to %.4g", range.y0, range.y1);
    }
    fprintf(file, "; over ");
    tft_html_text(file, c->x_label);
}

void tft_figure_begin(FILE *file, int width, int height)
{
    fprintf(file,
            "<figure tabindex=\"0\">\n<svg viewBox=\"0 0 %d %d\" style=\"min-width:%dpx\" role=\"img\" aria-label=\"",
            width, height, width * 3 / 5);
}

void tft_chart_write(FILE *file, const struct tft_chart *c)
{
    struct frame f = make_frame(c);

    tft_figure_begin(file, c->width, c->height);
    write_words(file, c);
    fprintf(file, "\">\n");
    write_axes(file, c, &f);
    if (c->heat.rows)
        tft_heat_map_write(file, &c->heat, px(&f, -.5), py(&f, (double)c->heat.rows),
                           px(&f, (double)c->heat.columns - .5) - px(&f, -.5),
                           py(&f, 0) - py(&f, (double)c->heat.rows));
    write_share(file, c, &f);
    write_band(file, c, &f);
    if (c->has_mark)
        halay_fprintf(file, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", px(&f, c->mark),
                      px(&f, c->mark), f.top, f.bottom);
    for (size_t i = 0; i < c->line_count; i++)
        write_line(file, &c->lines[i], &f);
    write_legend(file, c, &f);
    fprintf(file, "</svg>\n</figure>\n");
}
