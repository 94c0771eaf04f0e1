/* SPDX-License-Identifier: Apache-2.0
 *
 * Lost changes: a change is lost if the distance from one float to the next, at its place, is more than a sixteenth of
 * it. Changes of the size of a double's own rounding are not counted; changes that are large relative to the value (a
 * decay towards zero), which no unit would keep, do not count as lost.
 */
#include "tft/core/data/encoding.h"
#include <math.h>

void tft_changes_add(const struct tft_scaler *scaler, double before, double value, struct tft_changes *c)
{
    const double change = fabs(value - before), size = fmax(fabs(value), fabs(before));
    const double a = tft_scaler_exact(scaler, before), b = tft_scaler_exact(scaler, value);
    const float place = (float)fmax(fabs(a), fabs(b));

    if (!(change > 1e-14 * size))
        return;
    c->count++;
    c->most = fmax(c->most, size);
    if (change > 1e-5 * size || (double)(nextafterf(place, INFINITY) - place) * 16 <= fabs(b - a))
        return;
    c->lost++;
    c->sum += change;
}

static struct tft_changes changes_of(const struct tft_table *t, const struct tft_series *s, size_t column,
                                     const struct tft_scaler *scaler)
{
    struct tft_changes changes = { 0 };

    for (size_t i = 1; i < s->rows; i++) {
        const size_t at = i * t->column_count + column;
        if (s->measured[at] && s->measured[at - t->column_count])
            tft_changes_add(scaler, s->values[at - t->column_count], s->values[at], &changes);
    }
    return changes;
}

static void warn(struct halay_log *log, const struct tft_input *input, const char *id,
                 const struct tft_changes *changes, size_t series)
{
    const char *advice = input->scale == TFT_SCALE_NONE ? "scale it ('scale: standard')"
                         : input->per == TFT_PER_ALL    ? "scale it 'per: entity'"
                                                        : "use its differences from row to row as the column";

    halay_warning(log,
                  "input '%s' (column '%s'): 32-bit numbers do not hold its changes in %zu series; in '%.64s' they are "
                  "about %.3g from row to row, of values up to %.3g; %s",
                  input->name, input->column, series, id, changes->sum / (double)changes->lost, changes->most, advice);
}

static void check_column(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *t,
                         const struct tft_encoding *encoding, size_t column)
{
    const size_t input = t->columns[column];
    struct tft_changes first = { 0 };
    const char *id = NULL;
    size_t found = 0;

    for (size_t e = 0; e < t->series_count; e++) {
        const struct tft_series *s = &t->series[e];
        const size_t row = tft_encoding_entity(encoding, s->id);
        struct tft_changes changes = changes_of(t, s, column, &encoding->scalers[row * encoding->input_count + input]);
        tft_series_touched(t, s);
        if (!tft_changes_are_lost(&changes) || found++)
            continue;
        first = changes;
        id = s->id;
    }
    if (found)
        warn(log, &schema->inputs[input], id, &first, found);
}

void tft_lost_changes_check(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *table,
                            const struct tft_encoding *encoding)
{
    for (size_t k = 0; k < table->column_count; k++) {
        const struct tft_input *input = &schema->inputs[table->columns[k]];
        if (!input->is_category && tft_roles[input->role].is_variable && !tft_roles[input->role].is_constant)
            check_column(log, schema, table, encoding, k);
    }
}
