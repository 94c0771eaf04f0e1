/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of forecasts, written one by one.
 */
#include "tft/core/score/forecast_file.h"
#include "base/number_text.h"
#include "base/output_file.h"
#include "tft/core/score/scores.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

static size_t written_count(const struct tft_forecast_file *f)
{
    return f->chosen ? f->chosen_count : f->quantiles->count;
}

/* The number of the i-th quantile that is written. */
static size_t written_at(const struct tft_forecast_file *f, size_t i)
{
    return f->chosen ? f->chosen[i] : i;
}

/* ---- names of columns: the table's own where it has them ---- */

enum { NAME_SIZE = 1024 };

static const char *target_name(const struct tft_schema *s, size_t target)
{
    return s->inputs[s->targets[target]].name;
}

/* Returns nonzero if it is the table's own name of ids, times or a target. */
static int is_named(const struct tft_schema *s, const char *name)
{
    int found = (s->id_column && !strcmp(name, s->id_column)) ||
                (s->time_column_count == 1 && !strcmp(name, s->time_columns[0]));

    for (size_t o = 0; o < s->target_count && !found; o++)
        found = !strcmp(name, target_name(s, o));
    return found;
}

/* The name of a column that the table does not have: with underscores after it where it has one of that name. */
static const char *own_name(const struct tft_schema *s, const char *base, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "%s", base);
    while (is_named(s, name) && strlen(name) + 1 < NAME_SIZE)
        strcat(name, "_");
    return name;
}

static const char *id_name(const struct tft_schema *s, char name[NAME_SIZE])
{
    return s->id_column ? s->id_column : own_name(s, "entity", name);
}

static const char *time_name(const struct tft_schema *s, char name[NAME_SIZE])
{
    return s->time_column_count == 1 ? s->time_columns[0] : own_name(s, "time", name);
}

static const char *quantile_column(const struct tft_forecast_file *f, size_t target, size_t i, char name[NAME_SIZE])
{
    const struct tft_schema *s = &f->data->schema;
    char base[NAME_SIZE];

    halay_snprintf(base, sizeof base, "%s_%g", target_name(s, target), f->quantiles->values[written_at(f, i)]);
    return own_name(s, base, name);
}

void tft_forecast_file_header(const struct tft_forecast_file *f)
{
    const struct tft_schema *s = &f->data->schema;
    char name[NAME_SIZE];

    if (!f->file || f->json)
        return;
    halay_write_field(f->file, id_name(s, name));
    fprintf(f->file, ",%s,", own_name(s, "origin", name));
    halay_write_field(f->file, time_name(s, name));
    fprintf(f->file, ",%s", own_name(s, "horizon", name));
    for (size_t o = 0; o < s->target_count; o++) {
        if (f->backtest) {
            fputc(',', f->file);
            halay_write_field(f->file, target_name(s, o));
        }
        for (size_t i = 0; i < written_count(f); i++) {
            fputc(',', f->file);
            halay_write_field(f->file, quantile_column(f, o, i, name));
        }
    }
    if (f->backtest)
        fprintf(f->file, ",%s", own_name(s, "fit", name));
    fputc('\n', f->file);
}

/* Nine digits are what a float holds. A forecast is a float in units of its scaler, beside a level that may be much
 * larger than these: then as many more as keep that float. */
static int digits_of(const struct tft_scaler *scaler, const double *p, size_t count)
{
    enum { OF_FLOAT = 9, OF_DOUBLE = 17 };
    double most = 0;

    for (size_t q = 0; q < count; q++)
        most = fmax(most, fabs(p[q]));
    const double ratio = scaler->log1p ? 1 : most / scaler->scale;
    const int more = ratio > 100 && isfinite(ratio) ? (int)ceil(log10(ratio)) - 2 : 0;
    return OF_FLOAT + more < OF_DOUBLE ? OF_FLOAT + more : OF_DOUBLE;
}

/* A row: a step of a window. */
struct row {
    const struct tft_window *window;
    const char *origin, *time;
    size_t h;
    const float *p; /* (targets, quantiles), scaled */
};

/* The forecast of a target in its unit; how many digits it has. */
static int unscale_row(const struct tft_forecast_file *f, const struct row *r, size_t target, double *p)
{
    const size_t Q = f->quantiles->count;
    const struct tft_scaler *scaler = tft_data_target_scaler(f->data, r->window->entity, target);

    for (size_t q = 0; q < Q; q++)
        p[q] = tft_scaler_undo(scaler, (double)r->p[target * Q + q]);
    return digits_of(scaler, p, Q);
}

/* Returns what was measured; NULL: nothing. */
static const double *actual_of(const struct tft_forecast_file *f, const struct row *r, size_t target)
{
    const size_t at = (r->window->origin + r->h) * f->data->schema.target_count + target;

    return f->data->present[at] ? &f->data->target[at] : NULL;
}

static void write_json(const struct tft_forecast_file *f, const struct row *r)
{
    const struct tft_schema *s = &f->data->schema;
    json_t *row = json_object();
    char name[NAME_SIZE];
    int most = 0;

    json_object_set_new(row, id_name(s, name), json_string(f->data->entities[r->window->entity].id));
    json_object_set_new(row, own_name(s, "origin", name), json_string(r->origin));
    json_object_set_new(row, time_name(s, name), json_string(r->time));
    json_object_set_new(row, own_name(s, "horizon", name), json_integer((json_int_t)r->h + 1));
    for (size_t o = 0; o < s->target_count; o++) {
        const double *actual = actual_of(f, r, o);
        double p[TFT_SCORE_QUANTILES_MAX];
        int digits = unscale_row(f, r, o, p);
        most = digits > most ? digits : most;
        if (f->backtest)
            json_object_set_new(row, target_name(s, o), actual ? json_real(*actual) : json_null());
        for (size_t i = 0; i < written_count(f); i++)
            json_object_set_new(row, quantile_column(f, o, i, name), json_real(p[written_at(f, i)]));
    }
    if (f->backtest)
        json_object_set_new(row, own_name(s, "fit", name), json_integer((json_int_t)f->fit));
    json_dumpf(row, f->file, JSON_COMPACT | JSON_REAL_PRECISION((size_t)most));
    json_decref(row);
    fputc('\n', f->file);
}

static void write_csv(const struct tft_forecast_file *f, const struct row *r)
{
    halay_write_field(f->file, f->data->entities[r->window->entity].id);
    fprintf(f->file, ",%s,%s,%zu", r->origin, r->time, r->h + 1);
    for (size_t o = 0; o < f->data->schema.target_count; o++) {
        const double *actual = actual_of(f, r, o);
        double p[TFT_SCORE_QUANTILES_MAX];
        int digits = unscale_row(f, r, o, p);
        if (f->backtest && actual)
            halay_fprintf(f->file, ",%.*g", digits, *actual);
        else if (f->backtest)
            fputc(',', f->file);
        for (size_t i = 0; i < written_count(f); i++)
            halay_fprintf(f->file, ",%.*g", digits, p[written_at(f, i)]);
    }
    if (f->backtest)
        fprintf(f->file, ",%zu", f->fit);
    fputc('\n', f->file);
}

enum halay_status tft_forecast_file_window(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    const struct tft_forecast_file *f = arg;
    const struct tft_data *d = f->data;
    char origin[40], time[40];

    (void)position;
    if (!f->file)
        return HALAY_OK;
    enum halay_status status = tft_data_check(d, w->origin, d->schema.horizon);
    if (status)
        return status;
    tft_schema_print_time(&d->schema, tft_data_time(d, w->entity, w->origin - 1), origin, sizeof origin);
    for (size_t h = 0; h < d->schema.horizon; h++) {
        tft_schema_print_time(&d->schema, tft_data_time(d, w->entity, w->origin + h), time, sizeof time);
        const struct row row = { w, origin, time, h, p + h * d->schema.target_count * f->quantiles->count };
        if (f->json)
            write_json(f, &row);
        else
            write_csv(f, &row);
    }
    return HALAY_OK;
}
