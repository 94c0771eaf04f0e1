/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons. One list of columns makes the table, the CSV file and the page's table.
 *
 * What goes over the wire follows from the strategy, for P parameters of 4 bytes and n ranks, as what a rank sends in a
 * step at least (docs/reference/algorithms.md): all-reduce 2 (n - 1) / n of them; zero1 half as much again, for the
 * weights; zero2 as all-reduce; a parameter server sends all of them n - 1 times, and gets as many. In a pipeline the
 * numbers between stages are most of it: the engine of the first stage saw them go and their gradients come; a stage in
 * the middle sends both.
 */
#include "tft/report/comparison.h"
#include "base/number_text.h"
#include "tft/report/chart.h"
#include "tft/report/json_number.h"
#include "tft/report/page.h"
#include <stdlib.h>
#include <string.h>

enum { LINES_MOST = 5 };

static const char *text_at(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));

    return text ? text : "";
}

/* ---- what stands in a row ---------------------------------------------------------------------------------------- */

static double number(const json_t *row, const char *key)
{
    return tft_json_number_at(row, key);
}

static double tensor_bytes_of_step(const json_t *row)
{
    return number(row, "steps") > 0 ? number(row, "tensor_bytes") / number(row, "steps") : NAN;
}

/* The parts of 4 P that the busiest rank sends in a step. */
static double sent_share(const json_t *row)
{
    double n = number(row, "ranks");
    const char *strategy = text_at(row, "strategy");

    if (!strcmp(strategy, "zero1"))
        return 3 * (n - 1) / n;
    return strcmp(strategy, "parameter-server") ? 2 * (n - 1) / n : n - 1;
}

/* What the engine saw of tensors in a step: gradients, and weights where they are sent. */
static double seen_share(const json_t *row)
{
    double n = number(row, "ranks");
    const char *strategy = text_at(row, "strategy");

    return !strcmp(strategy, "allreduce") ? 1 : !strcmp(strategy, "parameter-server") ? 2 : 1 + 1 / n;
}

/* Rank 0 is an end of a pipeline, which receives as much as it sends; a rank in the middle sends both. */
static double wire_bytes_of_step(const json_t *row)
{
    if (!strcmp(text_at(row, "strategy"), "pipeline") && number(row, "ranks") > 1)
        return tensor_bytes_of_step(row) / (number(row, "ranks") > 2 ? 1 : 2);
    return tensor_bytes_of_step(row) / seen_share(row) * sent_share(row);
}

static double percent_efficiency(const json_t *row)
{
    return 100 * number(row, "efficiency");
}

static double megabytes_peak(const json_t *row)
{
    return number(row, "peak_bytes") / 1e6;
}

static double megabytes_wire(const json_t *row)
{
    return wire_bytes_of_step(row) / 1e6;
}

static double percent_waiting(const json_t *row)
{
    return 100 * number(row, "waited_seconds") / number(row, "training_seconds");
}

static double speed(const json_t *row)
{
    return number(row, "samples_per_second");
}

static double loss(const json_t *row)
{
    return number(row, "valid_loss");
}

static double wall(const json_t *row)
{
    return number(row, "seconds");
}

static double cost(const json_t *row)
{
    return number(row, "cost");
}

static const struct column {
    const char *title, *key;
    double (*value)(const json_t *row);
    int digits;
} columns[] = {
    { "samples/s", "samples_per_second", speed, 1 },
    { "efficiency, %", "efficiency_percent", percent_efficiency, 1 },
    { "MB a rank", "peak_megabytes", megabytes_peak, 1 },
    { "MB sent a step", "sent_megabytes_a_step", megabytes_wire, 2 },
    { "waiting, %", "waiting_percent", percent_waiting, 1 },
    { "lowest loss", "valid_loss", loss, 5 },
    { "seconds", "seconds", wall, 1 },
    { "cost", "cost", cost, 4 },
};

enum { COLUMNS = sizeof columns / sizeof *columns };

/* Does any row have a number there? */
static int is_used(const json_t *rows, const struct column *column)
{
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
        if (!isnan(column->value(row)))
            return 1;
    return 0;
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

int tft_is_comparison(const json_t *result)
{
    return json_is_string(json_object_get(result, "comparison")) && json_is_array(json_object_get(result, "rows"));
}

void tft_comparison_print(FILE *to, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"), *row;
    size_t i;

    fprintf(to, "%-17s %5s %-5s", "strategy", "ranks", "dtype");
    for (int k = 0; k < COLUMNS; k++)
        if (is_used(rows, &columns[k]))
            fprintf(to, " %*s", (int)strlen(columns[k].title) > 9 ? (int)strlen(columns[k].title) : 9,
                    columns[k].title);
    fprintf(to, "\n");
    json_array_foreach(rows, i, row) {
        halay_fprintf(to, "%-17s %5.0f %-5s", text_at(row, "strategy"), number(row, "ranks"), text_at(row, "dtype"));
        for (int k = 0; k < COLUMNS; k++) {
            int width = (int)strlen(columns[k].title) > 9 ? (int)strlen(columns[k].title) : 9;
            double value = columns[k].value(row);
            if (is_used(rows, &columns[k]) && isnan(value))
                fprintf(to, " %*s", width, "-");
            else if (is_used(rows, &columns[k]))
                halay_fprintf(to, " %*.*f", width, columns[k].digits, value);
        }
        halay_fprintf(to, number(row, "exit_code") != 0 ? "  failed: %.0f\n" : "\n", number(row, "exit_code"));
    }
}

void tft_comparison_write_csv(FILE *to, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"), *row;
    size_t i;

    fprintf(to, "strategy,ranks,dtype,exit_code");
    for (int k = 0; k < COLUMNS; k++)
        fprintf(to, ",%s", columns[k].key);
    fprintf(to, "\n");
    json_array_foreach(rows, i, row) {
        halay_fprintf(to, "%s,%.0f,%s,%.0f", text_at(row, "strategy"), number(row, "ranks"), text_at(row, "dtype"),
                      number(row, "exit_code"));
        for (int k = 0; k < COLUMNS; k++) {
            double value = columns[k].value(row);
            halay_fprintf(to, isnan(value) ? "," : ",%.9g", value);
        }
        fprintf(to, "\n");
    }
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static void write_table(FILE *f, const json_t *rows)
{
    const json_t *row;
    size_t i, best = 0;

    json_array_foreach(rows, i, row)
        if (speed(row) > speed(json_array_get(rows, best)) || isnan(speed(json_array_get(rows, best))))
            best = i;
    fprintf(f, "<div class=\"wide\" tabindex=\"0\"><table><tr><th>strategy</th><th>ranks</th><th>type</th>");
    for (int k = 0; k < COLUMNS; k++)
        if (is_used(rows, &columns[k]))
            fprintf(f, "<th>%s</th>", columns[k].title);
    fprintf(f, "</tr>\n");
    json_array_foreach(rows, i, row) {
        fprintf(f, "<tr%s><td>", i == best ? " class=\"best\"" : "");
        tft_html_text(f, text_at(row, "strategy"));
        halay_fprintf(f, "</td><td>%.0f</td><td>", number(row, "ranks"));
        tft_html_text(f, text_at(row, "dtype"));
        fprintf(f, "</td>");
        for (int k = 0; k < COLUMNS; k++) {
            double value = columns[k].value(row);
            if (is_used(rows, &columns[k]))
                halay_fprintf(f, isnan(value) ? "<td>-</td>" : "<td>%.*f</td>", columns[k].digits, value);
        }
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</table></div>\n");
}

/* A line's numbers; the list of both is owned by x. */
static size_t take_course(const json_t *row, double **x, double **y)
{
    const json_t *course = json_object_get(row, "course");
    size_t n = json_array_size(course);

    *x = calloc(2 * n + 1, sizeof **x);
    *y = *x ? *x + n : NULL;
    for (size_t i = 0; *x && i < n; i++) {
        (*x)[i] = tft_json_number(json_array_get(json_array_get(course, i), 0));
        (*y)[i] = tft_json_number(json_array_get(json_array_get(course, i), 1));
    }
    return *x ? n : 0;
}

/* Some rows' courses in one picture: those of one number of ranks and one type, a strategy each. */
static void draw_courses(FILE *f, const json_t *rows, const json_t *like)
{
    static const char *const styles[LINES_MOST] = { "model", "naive", "second", "truth", "fifth" };
    struct tft_line lines[LINES_MOST];
    double *owned[LINES_MOST];
    char title[96];
    const json_t *row;
    size_t i, count = 0;

    json_array_foreach(rows, i, row) {
        double *x, *y;
        if (count == LINES_MOST || number(row, "ranks") != number(like, "ranks") ||
            strcmp(text_at(row, "dtype"), text_at(like, "dtype")) != 0)
            continue;
        size_t n = take_course(row, &x, &y);
        owned[count] = x;
        lines[count] = (struct tft_line){ text_at(row, "strategy"), styles[count], x, y, n };
        count++;
    }
    halay_snprintf(title, sizeof title, "%.0f rank%s, %.16s", number(like, "ranks"),
                   number(like, "ranks") == 1 ? "" : "s", text_at(like, "dtype"));
    tft_chart_write(f, &(struct tft_chart){ .title = title,
                                            .x_label = "seconds of training",
                                            .y_label = "validation loss",
                                            .width = 600,
                                            .height = 320,
                                            .lines = lines,
                                            .line_count = count });
    for (i = 0; i < count; i++)
        free(owned[i]);
}

static int is_first_of_kind(const json_t *rows, size_t at)
{
    const json_t *row = json_array_get(rows, at);

    for (size_t i = 0; i < at; i++)
        if (number(json_array_get(rows, i), "ranks") == number(row, "ranks") &&
            !strcmp(text_at(json_array_get(rows, i), "dtype"), text_at(row, "dtype")))
            return 0;
    return 1;
}

void tft_comparison_write_page(FILE *f, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"), *row;
    size_t i;

    tft_page_begin(f, "halay-tft compare");
    fprintf(f, "<h1>Strategies compared</h1><p>The same training of ");
    tft_html_text(f, text_at(result, "data"));
    fprintf(f, ", each as a job of its own, one after the other.</p>\n");
    write_table(f, rows);
    fprintf(f,
            "<p>Efficiency: of as many times what one rank makes with the same type. MB a rank: the most memory that "
            "one process had, shared pages included. MB sent a step: by the rank that sends most, as the strategy "
            "needs at least; reckoned from what the engine of rank 0 was given. Waiting: the share of training "
            "in which a core of rank 0 waited for other ranks. Seconds: from the job's start to its end.</p>\n");
    fprintf(f, "<h2>Validation loss against time</h2><div class=\"pair\">\n");
    json_array_foreach(rows, i, row)
        if (is_first_of_kind(rows, i))
            draw_courses(f, rows, row);
    fprintf(f, "</div>\n");
    tft_page_end(f);
}
