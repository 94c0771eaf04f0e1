/* SPDX-License-Identifier: Apache-2.0
 *
 * Grid: from an entity's rows in any order to a regular series without holes.
 *
 * Phases: order (by time; rows of one moment keep the order in which they were read), lay out (merge duplicate moments,
 * aggregate periods, put each on its row), fill. Cleanup: everything is zeroed first, the table's fini accepts it
 * partly initialised.
 */
#include "base/memory.h"
#include "base/number_text.h"
#include "tft/core/data/table_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An entity being completed. */
struct grid {
    struct tft_collector *c;
    const struct tft_rows *e;
    struct tft_series *series;
    size_t *order;               /* owned: numbers of its rows, by time */
    size_t cut;                  /* steps before the series' first that the schema does not keep */
    double *carried;             /* owned: (columns) the last value before them, NAN: none; NULL: nothing is cut */
    const struct tft_row **line; /* owned: (rows) the source of each moment's values; NULL: without one */
};

static enum halay_status no_memory(struct tft_collector *c)
{
    return halay_no_memory(c->log, "for the table");
}

/* ---- order ---- */

static int is_sorted(const struct tft_row *rows, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (rows[i - 1].time > rows[i].time)
            return 0;
    return 1;
}

/* Sorts numbers of rows by time, rows of one moment in their own order: a radix sort, 11 bits a pass. */
static enum halay_status order_rows(struct grid *g)
{
    enum { BITS = 11, DIGITS = 1 << BITS };
    const struct tft_row *rows = g->e->rows;
    size_t count = g->e->count, starts[DIGITS + 1];
    uint64_t least = UINT64_MAX, most = 0;

    g->order = malloc(count * sizeof *g->order);
    if (!g->order)
        return no_memory(g->c);
    for (size_t i = 0; i < count; i++) {
        uint64_t t = (uint64_t)rows[i].time ^ (uint64_t)1 << 63; /* in order as unsigned numbers */
        least = t < least ? t : least;
        most = t > most ? t : most;
        g->order[i] = i;
    }
    if (is_sorted(rows, count))
        return HALAY_OK;
    size_t *from = g->order, *to = malloc(count * sizeof *to);
    if (!to)
        return no_memory(g->c);
    for (int shift = 0; shift < 64 && (most - least) >> shift; shift += BITS) {
        memset(starts, 0, sizeof starts);
        for (size_t i = 0; i < count; i++)
            starts[((((uint64_t)rows[from[i]].time ^ (uint64_t)1 << 63) - least) >> shift & (DIGITS - 1)) + 1]++;
        for (size_t d = 0; d < DIGITS; d++)
            starts[d + 1] += starts[d];
        for (size_t i = 0; i < count; i++)
            to[starts[(((uint64_t)rows[from[i]].time ^ (uint64_t)1 << 63) - least) >> shift & (DIGITS - 1)]++] =
                from[i];
        size_t *was = from;
        from = to;
        to = was;
    }
    g->order = from;
    free(to);
    return HALAY_OK;
}

/* Moves rows to the second moment of a time that the clock passes twice: an entity's first row of that time is of the
 * first moment. Returns nonzero if rows were moved. */
static int move_repeated(const struct grid *g, struct tft_rows *e)
{
    int moved = 0;

    for (size_t i = 1, first = 0; i < e->count; i++) {
        struct tft_row *before = &e->rows[g->order[first]], *row = &e->rows[g->order[i]];
        if (row->time != before->time) {
            first = i;
        } else if (row->is_repeated && before->is_repeated) {
            int is_last = e->last == row->time;
            row->time = tft_schema_second_moment(g->c->schema, row->time);
            e->last = is_last ? row->time : e->last;
            moved = 1;
        }
    }
    return moved;
}

static enum halay_status settle_repeated(struct grid *g, struct tft_rows *e)
{
    if (!g->c->schema->rows_are_in_utc || !move_repeated(g, e))
        return HALAY_OK;
    free(g->order);
    g->order = NULL;
    return order_rows(g);
}

/* ---- lay out ---- */

/* Returns a row's moment by the series' clock. */
static int64_t series_time(const struct grid *g, int64_t time)
{
    return g->c->schema->is_in_utc ? time : tft_schema_row_clock(g->c->schema, time);
}

/* The beginning of the period that holds a row's moment. */
static int64_t period_of(const struct grid *g, int64_t time)
{
    return tft_period_floor(&g->c->schema->every, series_time(g, time));
}

/* Returns the step from one of the entity's rows to the next; the shortest one if the schema does not have it. */
static struct tft_period step_of_rows(const struct grid *g)
{
    const struct tft_row *rows = g->e->rows;
    int64_t shortest = INT64_MAX, shown = INT64_MAX;

    if (g->c->schema->rows_every.count)
        return g->c->schema->rows_every;
    for (size_t i = 1; i < g->e->count; i++) {
        int64_t from = rows[g->order[i - 1]].time, to = rows[g->order[i]].time, between = to - from;
        shortest = between && between < shortest ? between : shortest;
        between = series_time(g, to) - series_time(g, from);
        shown = between > 0 && between < shown ? between : shown;
    }
    if (shortest == INT64_MAX)
        return g->c->schema->every;
    /* A day may have 23 hours, and a clock put back shows less than there was. Whole numbers are added alike. */
    return (struct tft_period){ .kind = TFT_PERIOD_SECONDS,
                                .count = shown != INT64_MAX && shown > shortest ? shown : shortest };
}

/* Finds the periods that contain the first and the last row. The sum over part of a period is too small, so a first or
 * last period with room for another row is left out. A mean and a last value are not affected. */
static void set_periods(const struct grid *g, int64_t *first, int64_t *last)
{
    const struct tft_period *every = &g->c->schema->every, step = step_of_rows(g);
    int64_t begin = period_of(g, *first), end = period_of(g, *last), next = tft_period_add(every, end, 1);
    int sums = g->c->schema->resampling == TFT_RESAMPLE_SUM;

    *first =
        sums && tft_period_add(&step, series_time(g, *first), -1) >= begin ? tft_period_add(every, begin, 1) : begin;
    *last = sums && tft_period_add(&step, series_time(g, *last), 1) < next ? tft_period_add(every, end, -1) : end;
}

static const char *print_place(const struct grid *g, const struct tft_row *row, char text[HALAY_ERROR_PLACE_MAX])
{
    const struct halay_error_place place = tft_rows_place(g->c, row->file, row->line);

    halay_error_place_print(&place, text, HALAY_ERROR_PLACE_MAX);
    return text;
}

static enum halay_status too_wide(const struct grid *g, uint64_t steps)
{
    const struct tft_row *from = &g->e->rows[g->order[0]], *to = from;
    char before[40], after[40], place_before[HALAY_ERROR_PLACE_MAX], place_after[HALAY_ERROR_PLACE_MAX];

    for (size_t i = 1; i < g->e->count; i++) {
        const struct tft_row *a = &g->e->rows[g->order[i - 1]], *b = &g->e->rows[g->order[i]];
        if ((uint64_t)b->time - (uint64_t)a->time > (uint64_t)to->time - (uint64_t)from->time) {
            from = a;
            to = b;
        }
    }
    tft_schema_print_row_time(g->c->schema, from->time, before, sizeof before);
    tft_schema_print_row_time(g->c->schema, to->time, after, sizeof after);
    return halay_fail(
        g->c->log, HALAY_ERR_FORMAT,
        "'%s' has %zu rows where its first and last moment leave room for %llu: are 'every' and the times "
        "right? The widest gap is from %s (%s) to %s (%s)",
        g->series->id, g->e->count, (unsigned long long)steps, before, print_place(g, from, place_before), after,
        print_place(g, to, place_after));
}

/* Sets first and last moment of the series, and its number of rows, 0 if nothing is left. */
static enum halay_status set_size(struct grid *g)
{
    const struct tft_schema *s = g->c->schema;
    const struct tft_rows *e = g->e;
    int64_t first = e->rows[g->order[0]].time, last = e->rows[g->order[e->count - 1]].time;

    if (s->trim && e->first > e->last)
        return HALAY_OK;
    if (s->trim) {
        first = s->trim == TFT_TRIM_END || first > e->first ? first : e->first;
        last = last < e->last ? last : e->last;
    }
    if (s->resampling)
        set_periods(g, &first, &last);
    if (s->has_ahead) {
        const int64_t behind = tft_period_between(&s->every, first, s->ahead[0]);
        first = behind > 0 ? tft_period_add(&s->every, first, behind) : first;
        last = last < s->ahead[1] ? last : s->ahead[1];
    }
    g->series->start = first;
    if (first > last)
        return HALAY_OK;
    uint64_t steps = (uint64_t)tft_period_between(&s->every, first, last) + 1;
    if (steps > 100000 + 100 * (uint64_t)e->count)
        return too_wide(g, steps);
    if (s->keep && !g->c->source->is_future && steps > s->keep) {
        g->cut = (size_t)steps - s->keep;
        g->series->start = tft_period_add(&s->every, first, (int64_t)g->cut);
        steps = s->keep;
    }
    g->series->rows = (size_t)steps;
    return HALAY_OK;
}

/* Returns the number of the series' rows that are whole steps from a moment. */
static size_t on_grid(const struct grid *g, int64_t start)
{
    const struct tft_period *every = &g->c->schema->every;
    size_t n = 0;

    for (size_t i = 0; i < g->e->count; i++) {
        int64_t time = g->e->rows[i].time;
        n += tft_period_add(every, start, tft_period_between(every, start, time)) == time;
    }
    return n;
}

/* Reports that the row does not fit the first moment; if more rows fit it than that, the first one is named. */
static enum halay_status off_grid(const struct grid *g, const struct tft_row *row)
{
    const struct tft_row *first = &g->e->rows[g->order[0]];
    const int is_first = first->time == g->series->start && on_grid(g, row->time) > on_grid(g, first->time);
    const struct tft_row *odd = is_first ? first : row;
    char moment[40], start[40];
    struct tft_date date;

    tft_time_to_date(tft_schema_row_clock(g->c->schema, odd->time), &date);
    const enum tft_period_kind kind = g->c->schema->every.kind;
    const int is_weekend = kind == TFT_PERIOD_BUSINESS_DAYS && date.day_of_week >= 5;
    tft_schema_print_row_time(g->c->schema, odd->time, moment, sizeof moment);
    tft_schema_print_row_time(g->c->schema, is_first ? row->time : g->series->start, start, sizeof start);
    const struct halay_error_place place = tft_rows_place(g->c, odd->file, odd->line);
    return halay_fail_at(
        g->c->log, &place, HALAY_ERR_FORMAT, "%s is not a whole number of steps %s %s of '%s', %s; %s", moment,
        is_first ? "before" : "after", is_first ? "the next moment" : "the first moment", g->series->id, start,
        is_weekend ? "it is on a weekend, which business days leave out: set 'every: 1d' in the schema"
        : kind == TFT_PERIOD_HOURS
            ? "the hours of 'every' leave it out: set 'every' without hours, or with others, in the schema"
            : "'resample' combines rows of a step");
}

/* Returns nonzero in a night from a Saturday to a Sunday of October and November, or of April in the south, when clocks
 * are set back. */
static int may_be_autumn(const struct grid *g, int64_t time)
{
    const struct tft_schema *s = g->c->schema;
    struct tft_date date;

    tft_time_to_date(time, &date);
    return !s->zone && !tft_schema_counts(s) && s->every.kind == TFT_PERIOD_SECONDS && s->every.count < 86400 &&
           date.day_of_week == 6 && date.hour < 4 && (date.month == 10 || date.month == 11 || date.month == 4);
}

static enum halay_status report_doubled(const struct grid *g, const struct tft_row *a, const struct tft_row *b)
{
    const struct halay_error_place place = tft_rows_place(g->c, b->file, b->line);
    char moment[40], first[HALAY_ERROR_PLACE_MAX];

    tft_schema_print_row_time(g->c->schema, a->time, moment, sizeof moment);
    return halay_fail_at(
        g->c->log, &place, HALAY_ERR_FORMAT,
        "'%s' has a second row for %s (the first: %s); %sset 'duplicates' to choose one", g->series->id, moment,
        print_place(g, a, first),
        may_be_autumn(g, a->time) ? "if a clock was set back, give its zone (--zone, 'zone'); otherwise " : "");
}

/* Combines values of one column, in order of time. */
struct mix {
    double sum, last;
    size_t n;
};

static void mix_add(struct mix *m, double value)
{
    if (isnan(value))
        return;
    m->sum += value;
    m->last = value;
    m->n++;
}

/* Returns the mean; categories have none, so the last one counts. */
static double mix_mean(const struct mix *m, int is_category)
{
    if (!m->n)
        return NAN;
    return is_category ? m->last : m->sum / (double)m->n;
}

static double mix_resampled(const struct mix *m, const struct tft_schema *s, const struct tft_input *input)
{
    if (!m->n || s->resampling == TFT_RESAMPLE_LAST || input->is_category)
        return m->n ? m->last : NAN;
    return s->resampling == TFT_RESAMPLE_SUM ? m->sum : m->sum / (double)m->n;
}

/* Merges column k of the rows order[0 .. count), all of one moment. */
static double merge_rows(const struct grid *g, const size_t *order, size_t count, size_t k)
{
    const struct tft_schema *s = g->c->schema;
    size_t columns = g->c->table->column_count;
    struct mix m = { 0 };

    if (count == 1 || s->duplicates == TFT_DUPLICATES_FIRST)
        return g->e->values[order[0] * columns + k];
    if (s->duplicates == TFT_DUPLICATES_LAST)
        return g->e->values[order[count - 1] * columns + k];
    for (size_t i = 0; i < count; i++)
        mix_add(&m, g->e->values[order[i] * columns + k]);
    return mix_mean(&m, s->inputs[g->c->table->columns[k]].is_category);
}

/* Notes merged rows of one moment that are not equal, and the first of them. */
static void note_differing(const struct grid *g, const size_t *order, size_t count)
{
    struct tft_table *t = g->c->table;
    const double *first = &g->e->values[order[0] * t->column_count];
    char moment[40];

    for (size_t i = 1; i < count; i++) {
        const double *values = &g->e->values[order[i] * t->column_count];
        size_t equal = 0;
        while (equal < t->column_count &&
               (values[equal] == first[equal] || (isnan(values[equal]) && isnan(first[equal]))))
            equal++;
        if (equal == t->column_count || t->rows_differing++)
            continue;
        tft_schema_print_row_time(g->c->schema, g->e->rows[order[0]].time, moment, sizeof moment);
        snprintf(t->first_differing, sizeof t->first_differing, "'%.40s' has a second row for %s", g->series->id,
                 moment);
    }
}

/* Counts the rows, from order[0] on, that share one moment. */
static enum halay_status same_moment(const struct grid *g, const size_t *order, size_t count, size_t *n)
{
    const struct tft_row *rows = g->e->rows;

    for (*n = 1; *n < count && rows[order[*n]].time == rows[order[0]].time; ++*n)
        if (g->c->schema->duplicates == TFT_DUPLICATES_ERROR)
            return report_doubled(g, &rows[order[0]], &rows[order[*n]]);
    g->c->table->summary.rows_duplicated += *n - 1;
    note_differing(g, order, *n);
    return HALAY_OK;
}

/* Handles a value at a step outside the series: before it the value may begin a fill, if it was cut off. */
static void leave_out(struct grid *g, int64_t at, size_t rows, size_t k, double value)
{
    const struct tft_input *input = &g->c->schema->inputs[g->c->table->columns[k]];

    if (at >= 0 || -at > (int64_t)g->cut)
        g->c->table->summary.rows_trimmed += k ? 0 : rows;
    else if (!tft_input_is_missing(input, value))
        g->carried[k] = value;
}

/* Sets the first row to the value that was cut off, if it has none and is filled by the value before. */
static void begin_with_carried(struct grid *g, size_t k)
{
    const struct tft_input *input = &g->c->schema->inputs[g->c->table->columns[k]];
    const int takes =
        input->fill == TFT_FILL_FORWARD || input->fill == TFT_FILL_INTERPOLATE || tft_roles[input->role].is_constant;

    if (!takes || !isnan(g->series->values[k]))
        g->carried[k] = NAN;
    if (isnan(g->carried[k]))
        return;
    g->series->values[k] = g->carried[k];
    g->c->table->filled[k]++;
}

/* Puts values, of some rows, on a step. Returns zero if it is outside the series. */
static int put_values(struct grid *g, int64_t at, const struct tft_row *line, size_t rows, const double *values)
{
    const size_t columns = g->c->table->column_count;
    const int is_inside = at >= 0 && (size_t)at < g->series->rows;

    for (size_t k = 0; k < columns && !is_inside; k++)
        leave_out(g, at, rows, k, values[k]);
    if (!is_inside)
        return 0;
    memcpy(g->series->values + (size_t)at * columns, values, columns * sizeof *values);
    g->line[at] = line;
    return 1;
}

/* Places rows on their moments. */
static enum halay_status lay_moments(struct grid *g)
{
    const struct tft_period *every = &g->c->schema->every;
    double values[TFT_INPUTS_MAX];

    for (size_t i = 0, n; i < g->e->count; i += n) {
        const struct tft_row *row = &g->e->rows[g->order[i]];
        enum halay_status status = same_moment(g, g->order + i, g->e->count - i, &n);
        if (status)
            return status;
        int64_t at = tft_period_between(every, g->series->start, row->time);
        for (size_t k = 0; k < g->c->table->column_count; k++)
            values[k] = merge_rows(g, g->order + i, n, k);
        if (put_values(g, at, row, n, values) && tft_period_add(every, g->series->start, at) != row->time)
            return off_grid(g, row);
    }
    return HALAY_OK;
}

/* Combines the rows of each period. */
static enum halay_status lay_periods(struct grid *g)
{
    const struct tft_schema *s = g->c->schema;
    const struct tft_table *t = g->c->table;
    struct mix mixes[TFT_INPUTS_MAX];
    double values[TFT_INPUTS_MAX];

    for (size_t i = 0, n; i < g->e->count;) {
        const struct tft_row *row = &g->e->rows[g->order[i]];
        int64_t period = period_of(g, row->time);
        size_t moments = 0, first = i;
        memset(mixes, 0, t->column_count * sizeof *mixes);
        /* <: where a clock goes back over midnight, the hour of yesterday that it repeats is today's. */
        for (; i < g->e->count && period_of(g, g->e->rows[g->order[i]].time) <= period; i += n, moments++) {
            enum halay_status status = same_moment(g, g->order + i, g->e->count - i, &n);
            if (status)
                return status;
            for (size_t k = 0; k < t->column_count; k++)
                mix_add(&mixes[k], merge_rows(g, g->order + i, n, k));
        }
        for (size_t k = 0; k < t->column_count; k++)
            values[k] = mix_resampled(&mixes[k], s, &s->inputs[t->columns[k]]);
        if (put_values(g, tft_period_between(&s->every, g->series->start, period), row, i - first, values))
            g->c->table->summary.rows_resampled += moments - 1;
    }
    return HALAY_OK;
}

/* Applies `missing_number` and the transforms (logarithms) to the values. */
static void transform_values(struct grid *g, size_t k)
{
    const struct tft_input *input = &g->c->schema->inputs[g->c->table->columns[k]];
    size_t stride = g->c->table->column_count;
    double *v = g->series->values + k;

    if (!input->has_missing_number && !input->transform)
        return;
    for (size_t i = 0; i < g->series->rows; i++) {
        double *x = &v[i * stride];
        if (tft_input_is_missing(input, *x))
            *x = NAN;
        if (input->transform == TFT_TRANSFORM_LOG)
            *x = *x > 0 ? log(*x) : NAN;
        else if (input->transform == TFT_TRANSFORM_LOG1P)
            *x = *x > -1 ? log1p(*x) : NAN;
    }
}

static enum halay_status lay_out(struct grid *g)
{
    size_t columns = g->c->table->column_count, cells = g->series->rows * columns;
    enum halay_status status;

    for (size_t i = 0; i < cells; i++)
        g->series->values[i] = NAN;
    status = g->c->schema->resampling ? lay_periods(g) : lay_moments(g);
    if (status)
        return status;
    for (size_t i = 0; i < g->series->rows; i++)
        g->c->table->summary.rows_missing += !g->line[i];
    tft_row_gaps_add(g->series, g->line, &g->c->table->gaps);
    for (size_t k = 0; k < columns; k++) {
        if (g->carried)
            begin_with_carried(g, k);
        transform_values(g, k);
    }
    for (size_t i = 0; i < cells; i++)
        g->series->measured[i] = !isnan(g->series->values[i]);
    for (size_t k = 0; g->carried && k < columns; k++)
        g->series->measured[k] &= isnan(g->carried[k]) != 0;
    return HALAY_OK;
}

/* ---- fill ---- */

static enum halay_status cannot_fill(const struct grid *g, const struct tft_input *input, size_t row, const char *why)
{
    const struct tft_row *line = g->line[row];
    const struct halay_error_place place =
        line ? tft_rows_place(g->c, line->file, line->line)
             : (struct halay_error_place){ .subject = "no row of any file", .rank = -1 };
    char moment[40];

    tft_schema_print_time(g->c->schema, tft_period_add(&g->c->schema->every, g->series->start, (int64_t)row), moment,
                          sizeof moment);
    return halay_fail_at(g->c->log, &place, HALAY_ERR_FORMAT,
                         "'%s' has no value for input '%s' (column '%s') at %s; %s", g->series->id, input->name,
                         input->column, moment, why);
}

/* Marks rows before the first value of column k: they must not be in a window, nor rows whose lags read them. */
static void begin_behind(struct grid *g, size_t k, size_t rows)
{
    const struct tft_schema *s = g->c->schema;

    for (size_t i = 0; i < s->input_count; i++)
        if (s->inputs[i].source == TFT_FROM_COLUMN && g->c->table->column_of[i] == k &&
            rows + s->inputs[i].lag > g->series->lead)
            g->series->lead = rows + s->inputs[i].lag;
}

static enum halay_status drop_rows(struct grid *g, size_t from, size_t to)
{
    if (!g->series->dropped)
        g->series->dropped = calloc(g->series->rows, 1);
    if (!g->series->dropped)
        return no_memory(g->c);
    memset(g->series->dropped + from, 1, to - from);
    return HALAY_OK;
}

static enum halay_status fill_constant(struct grid *g, const struct tft_input *input, size_t k, size_t from, size_t to)
{
    double value = input->constant;
    size_t number;

    if (input->is_category) {
        if (tft_dictionary_add(&g->c->table->dictionaries[k], input->constant_text, &number))
            return no_memory(g->c);
        value = (double)number;
    }
    for (size_t i = from; i < to; i++)
        g->series->values[i * g->c->table->column_count + k] = value;
    return HALAY_OK;
}

/* Fills from the value before, or also from the one after. A category with `unknown: true` begins as unknown. */
static enum halay_status fill_by_values(struct grid *g, const struct tft_input *input, size_t k, size_t from, size_t to)
{
    if (g->c->source->is_future) /* filled together with the values before it */
        return HALAY_OK;
    if (from == 0 && !(input->is_category && input->unknown)) {
        if (to == g->series->rows)
            return cannot_fill(g, input, from, "nor anywhere else, so there is nothing to fill it with");
        begin_behind(g, k, to);
        return HALAY_OK;
    }
    if (from)
        g->c->table->filled[k] += to - from;
    return tft_fill_gap(input->fill, g->c->table->column_count, k, from, to, g->series) ? no_memory(g->c) : HALAY_OK;
}

/* Fills rows [from, to) of a column, all of which are missing. */
static enum halay_status fill_hole(struct grid *g, const struct tft_input *input, size_t k, size_t from, size_t to)
{
    switch (input->fill) {
    case TFT_FILL_DROP:
        return drop_rows(g, from, to);
    case TFT_FILL_CONSTANT:
        g->c->table->filled[k] += to - from;
        return fill_constant(g, input, k, from, to);
    case TFT_FILL_FORWARD:
    case TFT_FILL_INTERPOLATE:
        return fill_by_values(g, input, k, from, to);
    default:
        if (input->is_category && input->unknown) /* stays missing: the unknown category */
            return HALAY_OK;
        return cannot_fill(g, input, from, "'fill' is 'none'");
    }
}

static enum halay_status fill_column(struct grid *g, size_t k)
{
    const struct tft_input *input = &g->c->schema->inputs[g->c->table->columns[k]];
    size_t stride = g->c->table->column_count, rows = g->series->rows;
    const double *v = g->series->values + k;
    enum halay_status status = HALAY_OK;

    for (size_t from = 0, to; from < rows && !status; from = to + 1) {
        while (from < rows && !isnan(v[from * stride]))
            from++;
        to = from;
        while (to < rows && isnan(v[to * stride]))
            to++;
        if (to == from)
            break;
        status = fill_hole(g, input, k, from, to);
    }
    return status;
}

/* Checks a static input, all of whose given values must agree. The value applies from the first row that gives it. */
static enum halay_status settle_static(struct grid *g, size_t k)
{
    const struct tft_table *t = g->c->table;
    const struct tft_input *input = &g->c->schema->inputs[t->columns[k]];
    size_t stride = t->column_count;
    double *v = g->series->values + k, value = NAN;
    char from[32], to[32];

    for (size_t i = 0; i < g->series->rows; i++) {
        double x = v[i * stride];
        if (!isnan(value) && !isnan(x) && x != value) {
            halay_snprintf(from, sizeof from, "%g", value);
            halay_snprintf(to, sizeof to, "%g", x);
            return halay_fail(g->c->log, HALAY_ERR_FORMAT,
                              "'%s': static input '%s' (column '%s') changes from %.64s to %.64s", g->series->id,
                              input->name, input->column,
                              input->is_category ? t->dictionaries[k].texts[(size_t)value] : from,
                              input->is_category ? t->dictionaries[k].texts[(size_t)x] : to);
        }
        if (isnan(value) && !isnan(x)) {
            value = x;
            begin_behind(g, k, i);
        }
    }
    for (size_t i = 0; !isnan(value) && i < g->series->rows; i++)
        v[i * stride] = value;
    return HALAY_OK;
}

static enum halay_status fill_series(struct grid *g)
{
    struct tft_table *t = g->c->table;
    enum halay_status status = HALAY_OK;

    g->series->lead = g->c->schema->longest_lag;
    for (size_t k = 0; k < t->column_count && !status; k++) {
        if (!tft_rows_has_column(g->c, k))
            continue;
        if (tft_roles[g->c->schema->inputs[t->columns[k]].role].is_constant)
            status = settle_static(g, k);
        if (!status)
            status = fill_column(g, k);
    }
    for (size_t i = 0; g->series->dropped && i < g->series->rows; i++)
        t->summary.rows_dropped += g->series->dropped[i];
    return status;
}

/* Fails on gaps out of proportion to the rows, before they become rows and take memory. */
static enum halay_status limit_gaps(struct grid *g, size_t cells)
{
    enum { FREE = 1 << 18, TIMES = 32 };
    struct tft_collector *c = g->c;

    c->cells += cells;
    c->own_cells += g->e->count * c->table->column_count;
    if (!c->schema->limits_gaps || c->cells <= FREE + TIMES * c->own_cells)
        return HALAY_OK;
    return halay_fail(
        c->log, HALAY_ERR_UNSUPPORTED,
        "the rows of %zu entities up to '%s' leave gaps that are too large: with these they have %zu values, "
        "more than %d times their own; are the times right?",
        c->table->series_count, g->series->id, c->cells, TIMES);
}

static enum halay_status allocate_series(struct grid *g)
{
    struct tft_series *s = g->series;
    const size_t columns = g->c->table->column_count;
    size_t cells, bytes;
    enum halay_status status;

    if (halay_mul_overflows(s->rows, columns, &cells))
        return no_memory(g->c);
    if ((status = limit_gaps(g, cells)))
        return status;
    if (halay_mul_overflows(cells, sizeof(double), &bytes))
        return no_memory(g->c);
    if (g->cut)
        g->carried = malloc(columns * sizeof *g->carried);
    for (size_t k = 0; g->carried && k < columns; k++)
        g->carried[k] = NAN;
    s->values = malloc(bytes);
    s->measured = malloc(cells);
    g->line = calloc(s->rows, sizeof *g->line);
    return s->values && s->measured && g->line && (g->carried || !g->cut) ? HALAY_OK : no_memory(g->c);
}

/* Moves a series that is complete to the table's spill. */
static enum halay_status spill_series(struct tft_table *t, struct tft_series *s)
{
    size_t cells = s->rows * t->column_count, bridges = s->bridge_count * sizeof *s->bridges;
    struct tft_series old = *s;
    void *memory;
    enum halay_status status =
        tft_spill_get(t->spill, cells * (sizeof *s->values + 1) + bridges + (s->dropped ? s->rows : 0), &memory);

    if (status)
        return status;
    s->values = memory;
    s->bridges = (struct tft_bridge *)(void *)(s->values + cells);
    s->measured = (uint8_t *)(s->bridges + s->bridge_count);
    memcpy(s->values, old.values, cells * sizeof *s->values);
    if (bridges)
        memcpy(s->bridges, old.bridges, bridges);
    memcpy(s->measured, old.measured, cells);
    if (old.dropped) {
        s->dropped = s->measured + cells;
        memcpy(s->dropped, old.dropped, s->rows);
    }
    free(old.values);
    free(old.bridges);
    free(old.measured);
    free(old.dropped);
    s->is_spilled = 1;
    tft_series_touched(t, s);
    return HALAY_OK;
}

static enum halay_status complete_series(struct grid *g, struct tft_rows *e)
{
    struct tft_collector *c = g->c;
    enum halay_status status;

    if ((status = tft_rows_gather(c, e)) || (status = order_rows(g)) || (status = settle_repeated(g, e)) ||
        (status = set_size(g)))
        return status;
    if (!g->series->rows) {
        c->table->summary.rows_trimmed += e->count;
        return HALAY_OK;
    }
    if ((status = allocate_series(g)) || (status = lay_out(g)) || (status = fill_series(g)))
        return status;
    return c->table->spill ? spill_series(c->table, g->series) : HALAY_OK;
}

enum halay_status tft_rows_complete(struct tft_collector *c, size_t entity, struct tft_series *series)
{
    struct tft_rows *e = &c->entities[entity];
    struct grid g = { .c = c, .e = e, .series = series };
    enum halay_status status = complete_series(&g, e);

    free(g.line);
    free(g.order);
    free(g.carried);
    free(e->rows);
    free(e->values);
    e->rows = NULL;
    e->values = NULL;
    return status;
}
