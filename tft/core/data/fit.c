/* SPDX-License-Identifier: Apache-2.0
 *
 * Fit: scalers and vocabularies from the training span of a table.
 *
 * A scaler is fitted on rows before the end of the training split: of the target only measured values; of other inputs
 * also filled ones, filled as they would be at that end; never a dropped row. Mean and variance are taken in two passes
 * in double precision; the deviation is the population's (divided by n). A constant column is scaled by its size, any
 * other column without a deviation by 1. Categories are the names in those rows, entities those with a measured target
 * there. Later rows do not change any number.
 */
#include "base/bins.h"
#include "tft/core/data/encoding.h"
#include "tft/core/data/table_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A column of smaller values is 0, within rounding. */
#define DUST 1e-12

/* Statistics for one scaler. */
struct fit {
    size_t n;
    double sum, squares, mean, least, most;
    int failed;    /* a value for which log(1 + x) is undefined */
    size_t listed; /* values in the fitter's list, for quantiles */
};

struct fitter {
    struct halay_log *log;
    const struct tft_schema *schema;
    const struct tft_table *table;
    struct tft_view view;
    double *values;             /* owned: (rows) scratch for quantiles; NULL if not needed */
    struct tft_scaler *scalers; /* owned: (entities + 1, inputs); the last row is for entities not seen */
};

/* Returns nonzero if a series may end with this row. Under `active: trim` the row must have a target. */
static int ends_series(const struct tft_schema *schema, const struct tft_table *table, const uint8_t *measured)
{
    for (size_t k = 0; k < table->column_count; k++)
        if (measured[k] && (!schema->trim || schema->inputs[table->columns[k]].role == TFT_INPUT_TARGET))
            return 1;
    return 0;
}

/* Finds rows [*low, *high) of a series that fitting may use, without rows that exist only because others follow after
 * the span. */
static void training_rows(const struct tft_schema *schema, const struct tft_table *table, const struct tft_series *s,
                          size_t *low, size_t *high)
{
    int64_t before = schema->splits_by_entity
                         ? (int64_t)s->rows - (int64_t)schema->split_left[TFT_TRAIN]
                         : tft_period_between(&schema->every, s->start, schema->split_end[TFT_TRAIN] - 1) + 1;

    *low = s->lead;
    *high = before > 0 ? (size_t)before : 0;
    if (*high > s->rows)
        *high = s->rows;
    while (*high && !ends_series(schema, table, s->measured + (*high - 1) * table->column_count))
        --*high;
}

/* Returns the number of targets with a measured value in the training span. */
static size_t trained_targets(const struct tft_schema *schema, const struct tft_table *table,
                              const struct tft_series *s)
{
    size_t low, high, columns = table->column_count, n = 0;

    training_rows(schema, table, s, &low, &high);
    for (size_t o = 0; o < schema->target_count; o++) {
        size_t k = table->column_of[schema->targets[o]], i = low;
        while (i < high && (!s->measured[i * columns + k] || (s->dropped && s->dropped[i])))
            i++;
        n += i < high;
    }
    tft_series_touched(table, s);
    return n;
}

/* Returns nonzero if training has seen the entity; others are ignored. */
static int is_seen(const struct fitter *f, size_t entity)
{
    return trained_targets(f->schema, f->table, &f->table->series[entity]) > 0;
}

/* Returns nonzero if the row counts for the input. */
static int row_counts(const struct fitter *f, size_t input, size_t row)
{
    const struct tft_series *s = f->view.series;
    size_t columns = f->table->column_count;

    if (s->dropped && s->dropped[row])
        return 0;
    return f->schema->inputs[input].role != TFT_INPUT_TARGET || s->measured[row * columns + f->table->column_of[input]];
}

/* Returns the bridge of an input's column over the end of the training span, or NULL. */
static const struct tft_bridge *bridge_at(const struct fitter *f, size_t input, size_t end)
{
    const struct tft_input *x = &f->schema->inputs[input];
    int drawn = x->source == TFT_FROM_COLUMN && x->derivation != TFT_WAS_MISSING && end;

    return drawn ? tft_series_bridge(f->view.series, f->table->column_of[input], end - 1) : NULL;
}

/* Returns an input's value in a row. open: the bridge that ends after the training span, or NULL. NAN if the row that a
 * lag reads was dropped. */
static double value_of(const struct fitter *f, size_t input, size_t row, const struct tft_bridge *open, struct fit *fit)
{
    size_t from = row - f->schema->inputs[input].lag;
    double x = open && (int64_t)from >= open->first ? open->before : tft_view_real(&f->view, input, row);

    if (f->schema->inputs[input].scale != TFT_SCALE_LOG1P)
        return x;
    fit->failed |= x <= -1;
    return x <= -1 ? 0 : log1p(x);
}

/* Runs a pass over the view's series. The first finds count, sum and extremes; the second squared deviations from the
 * mean and, for quantiles, the values. */
static void measure_rows(const struct fitter *f, size_t input, int is_second, struct fit *fit)
{
    const int lists = is_second && f->schema->inputs[input].scale == TFT_SCALE_ROBUST;
    size_t low, high;

    training_rows(f->schema, f->table, f->view.series, &low, &high);
    const struct tft_bridge *open = bridge_at(f, input, high);
    for (size_t i = low; i < high; i++) {
        if (!row_counts(f, input, i))
            continue;
        const double x = value_of(f, input, i, open, fit);
        if (isnan(x))
            continue;
        if (lists)
            f->values[fit->listed++] = x;
        if (is_second) {
            fit->squares += (x - fit->mean) * (x - fit->mean);
            continue;
        }
        fit->least = !fit->n || x < fit->least ? x : fit->least;
        fit->most = !fit->n || x > fit->most ? x : fit->most;
        fit->n++;
        fit->sum += x;
    }
}

/* Interpolates linearly between the two nearest values. */
static double quantile_of(const double *sorted, size_t n, double quantile)
{
    double at = quantile * (double)(n - 1);
    size_t below = (size_t)at, above = below + 1 < n ? below + 1 : below;

    return sorted[below] + (sorted[above] - sorted[below]) * (at - (double)below);
}

static struct tft_scaler make_scaler(struct fitter *f, const struct tft_input *input, const struct fit *fit)
{
    const enum tft_scale kind = input->scale;
    struct tft_scaler s = { 0, 1, kind == TFT_SCALE_LOG1P };

    if (kind == TFT_SCALE_STANDARD || kind == TFT_SCALE_LOG1P) {
        s.shift = fit->mean;
        s.scale = sqrt(fit->squares / (double)fit->n);
    } else if (kind == TFT_SCALE_ROBUST) {
        halay_sort_doubles(f->values, fit->listed);
        s.shift = quantile_of(f->values, fit->listed, 0.5);
        s.scale = quantile_of(f->values, fit->listed, 0.75) - quantile_of(f->values, fit->listed, 0.25);
    }
    if (!(s.scale > 1e-12 * (fabs(s.shift) + 1e-300)) || !isfinite(s.scale)) {
        int is_constant = kind != TFT_SCALE_ROBUST || fit->most == fit->least;
        s.scale = input->source == TFT_FROM_COLUMN && is_constant && fabs(s.shift) > DUST ? fabs(s.shift) : 1;
    }
    return s;
}

static enum halay_status check_fit(const struct fitter *f, size_t input, const char *id, const struct fit *fit)
{
    const char *name = f->schema->inputs[input].name;

    if (fit->failed)
        return halay_fail(f->log, HALAY_ERR_FORMAT,
                          "'%s': input '%s' has a value of -1 or less, 'scale: log1p-standard' needs values above that",
                          id, name);
    if (fit->n)
        return HALAY_OK;
    return halay_fail(f->log, HALAY_ERR_FORMAT,
                      "'%s' has no value for input '%s' in the training span; leave it out, or scale by 'per: all'", id,
                      name);
}

/* Fits one input on the series from first to last, all of which get the same scaler. */
static enum halay_status fit_input(struct fitter *f, size_t input, size_t first, size_t last)
{
    const struct tft_series *series = f->table->series;
    struct fit fit = { 0 };

    for (int pass = 0; pass < 2; pass++) {
        for (size_t e = first; e < last; e++) {
            if (last - first > 1)
                tft_view_choose(&f->view, &series[e]);
            measure_rows(f, input, pass, &fit);
        }
        enum halay_status status = pass ? HALAY_OK : check_fit(f, input, series[first].id, &fit);
        if (status)
            return status;
        fit.mean = fit.sum / (double)fit.n;
    }
    struct tft_scaler scaler = make_scaler(f, &f->schema->inputs[input], &fit);
    for (size_t e = first; e < last; e++)
        f->scalers[e * f->schema->input_count + input] = scaler;
    return HALAY_OK;
}

/* Returns nonzero if an entity's scaler is fitted alone. Under `per: window` and `auto` an entity without a value has
 * the scaler of all. */
static int is_fitted_alone(const struct fitter *f, size_t input)
{
    const struct tft_input *x = &f->schema->inputs[input];
    struct fit fit = { 0 };

    if (x->scale == TFT_SCALE_NONE || x->per == TFT_PER_ALL)
        return 0;
    if (x->per != TFT_PER_ENTITY)
        measure_rows(f, input, 0, &fit);
    return x->per == TFT_PER_ENTITY || fit.n;
}

/* Fits the scalers of each of the series [first, last) alone. */
static enum halay_status fit_series(struct fitter *f, size_t first, size_t last)
{
    enum halay_status status = HALAY_OK;

    for (size_t e = first; e < last && !status; e++) {
        tft_view_choose(&f->view, &f->table->series[e]);
        for (size_t i = 0; i < f->schema->input_count && !status; i++)
            if (is_fitted_alone(f, i))
                status = fit_input(f, i, e, e + 1);
    }
    return status;
}

/* Does the same for a slice, on a thread. */
static enum halay_status fit_slice(void *arg, size_t number)
{
    const struct fitter *all = arg;
    struct fitter f = *all;
    size_t first, last;

    f.log = NULL;
    enum halay_status status = tft_view_init(NULL, f.schema, f.table, f.view.origin, &f.view);
    if (status)
        return status;
    if (f.values)
        f.values = malloc((f.view.rows + 1) * sizeof *f.values);
    tft_slice(f.table->series_count, number, tft_table_slices(f.table), &first, &last);
    status = all->values && !f.values ? HALAY_ERR_NO_MEMORY : fit_series(&f, first, last);
    free(f.values);
    tft_view_fini(&f.view);
    return status;
}

static enum halay_status fit_all(struct fitter *f)
{
    const struct tft_schema *s = f->schema;
    size_t count = f->table->series_count;
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < s->input_count && !status; i++)
        if (s->inputs[i].scale != TFT_SCALE_NONE && s->inputs[i].per != TFT_PER_ENTITY) {
            tft_view_choose(&f->view, &f->table->series[0]);
            status = fit_input(f, i, 0, count);
            f->scalers[count * s->input_count + i] = f->scalers[i];
        }
    if (status || (tft_table_slices(f->table) > 1 && !tft_slices_run(tft_table_slices(f->table), fit_slice, f)))
        return status;
    return fit_series(f, 0, count); /* finds the first error again, and logs it */
}

/* Computes the mean of the weights; 1 without them. */
static enum halay_status fit_weight(struct fitter *f, double *mean)
{
    struct fit fit = { 0 };

    *mean = 1;
    for (size_t e = 0; f->schema->has_weight && e < f->table->series_count; e++) {
        tft_view_choose(&f->view, &f->table->series[e]);
        measure_rows(f, f->schema->weight, 0, &fit);
    }
    if (!f->schema->has_weight || (fit.n && fit.sum > 0)) {
        *mean = fit.n ? fit.sum / (double)fit.n : 1;
        return HALAY_OK;
    }
    return halay_fail(f->log, HALAY_ERR_FORMAT, "all weights in the training span are zero");
}

/* ---- vocabularies ---- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the distinct names of a list, in order, as a JSON array. */
static json_t *make_names(const char **names, size_t count)
{
    json_t *list = json_array();

    qsort(names, count, sizeof *names, compare_texts);
    for (size_t i = 0; list && i < count; i++)
        if ((!i || strcmp(names[i - 1], names[i])) && json_array_append_new(list, json_string(names[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Returns the names in a column's rows of the training span. */
static json_t *column_names(struct fitter *f, size_t input)
{
    size_t columns = f->table->column_count, k = f->table->column_of[input], n = 0;
    const struct tft_dictionary *d = &f->table->dictionaries[k];
    const char **names = calloc(d->count + 1, sizeof *names);
    uint8_t *seen = calloc(d->count + 1, 1);
    const json_t *map = f->schema->inputs[input].map;
    json_t *list = NULL;

    for (size_t e = 0; seen && e < f->table->series_count; e++) {
        const struct tft_series *s = &f->table->series[e];
        size_t low, high;
        training_rows(f->schema, f->table, s, &low, &high);
        for (size_t i = low; i < high; i++)
            if (!(s->dropped && s->dropped[i]) && !isnan(s->values[i * columns + k]))
                seen[(size_t)s->values[i * columns + k]] = 1;
        tft_series_touched(f->table, s);
    }
    for (size_t i = 0; names && seen && i < d->count; i++) {
        const char *name = map ? json_string_value(json_object_get(map, d->texts[i])) : d->texts[i];
        if (seen[i] && name)
            names[n++] = name;
    }
    if (names && seen)
        list = make_names(names, n);
    free(names);
    free(seen);
    return list;
}

/* Returns the names that a map gives to the ids that training has seen. */
static json_t *id_names(const struct fitter *f, size_t input)
{
    const char **names = calloc(f->table->series_count + 1, sizeof *names);
    json_t *list = NULL;
    size_t n = 0;

    for (size_t e = 0; names && e < f->table->series_count; e++) {
        names[n] = json_string_value(json_object_get(f->schema->inputs[input].map, f->table->series[e].id));
        n += names[n] && is_seen(f, e);
    }
    if (names)
        list = make_names(names, n);
    free(names);
    return list;
}

/* ---- the document ---- */

static json_t *scaler_list(const struct fitter *f, size_t input)
{
    enum tft_scale_by per = f->schema->inputs[input].per;
    size_t count = f->table->series_count, first = per == TFT_PER_ALL ? count : 0,
           last = per == TFT_PER_ENTITY ? count : count + 1;
    json_t *list = json_array();

    for (size_t e = first; list && e < last; e++) {
        const struct tft_scaler *s = &f->scalers[e * f->schema->input_count + input];
        if (e < count && !is_seen(f, e)) /* not under `per: entity` */
            continue;
        if (json_array_append_new(list, json_real(s->shift)) || json_array_append_new(list, json_real(s->scale))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Fills the two objects; returns 0 without memory. */
static int describe_inputs(struct fitter *f, json_t *scalers, json_t *categories)
{
    for (size_t i = 0; i < f->schema->input_count; i++) {
        const struct tft_input *input = &f->schema->inputs[i];
        if (input->scale != TFT_SCALE_NONE && json_object_set_new(scalers, input->name, scaler_list(f, i)))
            return 0;
        if (!input->is_category)
            continue;
        if (input->source == TFT_FROM_COLUMN && json_object_set_new(categories, input->name, column_names(f, i)))
            return 0;
        if (input->source == TFT_FROM_ID && input->map && json_object_set_new(categories, input->name, id_names(f, i)))
            return 0;
    }
    return 1;
}

static json_t *make_document(struct fitter *f, double weight)
{
    json_t *entities = json_array(), *scalers = json_object(), *categories = json_object();
    const struct tft_encoding_document d = { f->view.origin, weight, entities, scalers, categories, f->table->clocks };
    int ok = entities && scalers && categories && describe_inputs(f, scalers, categories);

    for (size_t e = 0; ok && e < f->table->series_count; e++)
        ok = !is_seen(f, e) || !json_array_append_new(entities, json_string(f->table->series[e].id));
    json_t *document = ok ? tft_members_write(tft_encoding_members, &d) : NULL;
    if (f->schema->zone || !d.clocks)
        json_object_del(document, "clocks");
    json_decref(entities);
    json_decref(scalers);
    json_decref(categories);
    return document;
}

static int64_t first_moment(const struct tft_table *table)
{
    int64_t origin = INT64_MAX;

    for (size_t e = 0; e < table->series_count; e++)
        origin = table->series[e].start < origin ? table->series[e].start : origin;
    return origin;
}

/* Allocates the scalers, and scratch for quantiles if an input needs them. */
static enum halay_status allocate_scalers(struct fitter *f)
{
    size_t rows = 0;
    int quantiles = 0;

    for (size_t e = 0; e < f->table->series_count; e++)
        rows += f->table->series[e].rows;
    for (size_t i = 0; i < f->schema->input_count; i++)
        quantiles |= f->schema->inputs[i].scale == TFT_SCALE_ROBUST;
    f->scalers = calloc((f->table->series_count + 1) * f->schema->input_count, sizeof *f->scalers);
    if (quantiles)
        f->values = malloc((rows + 1) * sizeof *f->values);
    return f->scalers && (!quantiles || f->values) ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

enum halay_status tft_encoding_fit(struct halay_log *log, const struct tft_schema *schema,
                                   const struct tft_table *table, struct tft_encoding *encoding)
{
    struct fitter f = { .log = log, .schema = schema, .table = table };
    json_t *document = NULL;
    double weight = 1;
    size_t seen = 0;
    enum halay_status status;

    for (size_t e = 0; e < table->series_count; e++)
        seen += (size_t)is_seen(&f, e);
    if (!seen && schema->longest_lag)
        return halay_fail(
            log, HALAY_ERR_FORMAT,
            "no entity has a measured target in the training span after its first %zu rows, which the lags need",
            schema->longest_lag);
    if (!seen)
        return halay_fail(log, HALAY_ERR_FORMAT, "no entity has a measured target in the training span");
    if ((status = tft_view_init(log, schema, table, first_moment(table), &f.view)))
        return status;
    if (!(status = allocate_scalers(&f)) && !(status = fit_all(&f)) && !(status = fit_weight(&f, &weight))) {
        document = make_document(&f, weight);
        status = document ? tft_encoding_init(log, "encoding", schema, document, encoding) : HALAY_ERR_NO_MEMORY;
    }
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(log, "no memory for the scalers (or a name that is not UTF-8)");
    json_decref(document);
    free(f.values);
    free(f.scalers);
    tft_view_fini(&f.view);
    return status;
}

void tft_encoding_drop_untrained(struct halay_log *log, const struct tft_schema *schema, struct tft_table *t)
{
    size_t kept = 0, dropped = 0;
    char first[128] = "";

    if (!tft_encoding_needs_entity(schema))
        return;
    for (size_t e = 0; e < t->series_count; e++) {
        struct tft_series *s = &t->series[e];
        if (trained_targets(schema, t, s) == schema->target_count) {
            t->series[kept++] = *s;
            continue;
        }
        if (!dropped++)
            snprintf(first, sizeof first, "%.100s", s->id);
        tft_series_fini(s);
    }
    t->series_count = kept;
    t->summary.entities_untrained = dropped;
    if (dropped)
        halay_warning(log, "%zu entities are left out, '%s' first: the training span has no measured target for them",
                      dropped, first);
}

void tft_encoding_drop_unknown(struct halay_log *log, const struct tft_schema *schema,
                               const struct tft_encoding *encoding, struct tft_table *t)
{
    size_t known = 0, kept = 0;
    char ids[200] = "";

    if (!tft_encoding_needs_entity(schema))
        return;
    for (size_t e = 0; e < t->series_count; e++)
        known += tft_encoding_entity(encoding, t->series[e].id) < encoding->entity_count;
    if (!known || known == t->series_count)
        return;
    for (size_t e = 0, dropped = 0; e < t->series_count; e++) {
        struct tft_series *s = &t->series[e];
        if (tft_encoding_entity(encoding, s->id) < encoding->entity_count) {
            t->series[kept++] = *s;
            continue;
        }
        if (dropped++ < 3)
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s'%.60s'", *ids ? ", " : "", s->id);
        tft_series_fini(s);
    }
    halay_warning(log,
                  "%zu of %zu entities are not forecast, as training has not seen them: %s%s; set 'per: all' or 'per: "
                  "window' for each input that is scaled and 'unknown: true' for the id to forecast new ones",
                  t->series_count - known, t->series_count, ids, t->series_count - known > 3 ? " and others" : "");
    t->series_count = kept;
}
