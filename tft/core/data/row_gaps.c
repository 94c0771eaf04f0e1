/* SPDX-License-Identifier: Apache-2.0
 *
 * Gaps: if most rows were made up, a model would learn the filling instead of the series, and one wrong date stretches
 * a series over centuries. Both are found when the rows are laid on their grid.
 */
#include "tft/core/data/table.h"
#include "tft/core/data/table_impl.h"
#include <stdio.h>

void tft_row_gaps_add(const struct tft_series *s, const struct tft_row *const *line, struct tft_row_gaps *gaps)
{
    struct tft_row_gap widest = { .series = s };
    size_t own = 0, before = 0, missing = 0;

    for (size_t i = 0; i < s->rows; i++) {
        if (!line[i]) {
            missing++;
            continue;
        }
        if (missing > widest.missing) {
            widest.row = i - missing - 1;
            widest.missing = missing;
            before = own;
        }
        own++;
        missing = 0;
    }
    gaps->own += own;
    if (widest.missing > gaps->widest.missing)
        gaps->widest = widest;
    if (!widest.missing || !tft_gap_is_odd(widest.missing, before, own))
        return;
    if (widest.missing > gaps->oddest.missing)
        gaps->oddest = widest;
    gaps->odd++;
}

/* Prints "of 'a' 66444 rows are missing between 2022-06-01 00:00:00 and 2204-05-01 00:00:00". */
static void describe_gap(const struct tft_schema *schema, const struct tft_row_gap *gap, char *text, size_t size)
{
    const int64_t start = gap->series->start, row = (int64_t)gap->row;
    char from[40], to[40];

    tft_schema_print_time(schema, tft_period_add(&schema->every, start, row), from, sizeof from);
    tft_schema_print_time(schema, tft_period_add(&schema->every, start, row + (int64_t)gap->missing + 1), to,
                          sizeof to);
    snprintf(text, size, "of '%.64s' %zu rows are missing between %s and %s", gap->series->id, gap->missing, from, to);
}

/* Returns nonzero if missing rows get values that are derived from other rows only. */
static int makes_values_up(const struct tft_schema *schema)
{
    for (size_t o = 0; o < schema->target_count; o++) {
        enum tft_filling fill = schema->inputs[schema->targets[o]].fill;
        if (fill == TFT_FILL_FORWARD || fill == TFT_FILL_INTERPOLATE)
            return 1;
    }
    return 0;
}

/* Warns of targets most of whose values are filled: rows without a value of a target do not lengthen the series, and
 * yet are filled. */
static void warn_of_filled(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *table)
{
    const size_t rows = table->gaps.own + table->summary.rows_missing;

    for (size_t o = 0; o < schema->target_count; o++) {
        const struct tft_input *target = &schema->inputs[schema->targets[o]];
        const size_t filled = table->filled[table->column_of[schema->targets[o]]];
        if ((target->fill == TFT_FILL_FORWARD || target->fill == TFT_FILL_INTERPOLATE) && 2 * filled > rows)
            halay_warning(log,
                          "target '%s': %zu of %zu values were not measured, and are filled; if that is meant, say "
                          "'gaps: fill'",
                          target->name, filled, rows);
    }
}

enum halay_status tft_row_gaps_check(struct halay_log *log, const struct tft_schema *schema,
                                     const struct tft_table *table, int refuse)
{
    const struct tft_row_gaps *gaps = &table->gaps;
    const size_t added = table->summary.rows_missing;
    char gap[300];

    if (schema->fills_gaps)
        return HALAY_OK;
    if (added > gaps->own && gaps->widest.missing && makes_values_up(schema)) {
        describe_gap(schema, &gaps->widest, gap, sizeof gap);
        if (!refuse) {
            halay_warning(log, "%zu rows were added to the %zu that there are, and filled; %s", added, gaps->own, gap);
            return HALAY_OK;
        }
        return halay_fail(
            log, HALAY_ERR_FORMAT,
            "%zu rows would be added to the %zu that there are, and filled; %s. Correct a wrong time or a "
            "wrong 'every', number the rows if they skip nights or weekends (a whole number as time), "
            "'resample' them, or allow it by 'gaps: fill'",
            added, gaps->own, gap);
    }
    if (refuse)
        warn_of_filled(log, schema, table);
    if (!gaps->odd)
        return HALAY_OK;
    describe_gap(schema, &gaps->oddest, gap, sizeof gap);
    halay_warning(log, "%zu series %s a gap that looks like a wrong time: %s", gaps->odd,
                  gaps->odd == 1 ? "has" : "have", gap);
    return HALAY_OK;
}
