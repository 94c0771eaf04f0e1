/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of forecasts, written one by one.
 */
#include "tft/score/forecast_file.h"
#include "base/number_text.h"
#include "tft/score/scores.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

/* The fields of a row. */
struct row {
    const char *entity, *origin, *time, *target;
    size_t horizon;
    const double *p;      /* (quantiles) */
    const double *actual; /* NULL: it was not measured */
    int digits;           /* significant ones of values */
};

void tft_write_field(FILE *file, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static size_t written_count(const struct tft_forecast_file *f)
{
    return f->chosen ? f->chosen_count : f->quantiles->count;
}

/* The number of the i-th quantile that is written. */
static size_t written(const struct tft_forecast_file *f, size_t i)
{
    return f->chosen ? f->chosen[i] : i;
}

void tft_forecast_file_header(const struct tft_forecast_file *f)
{
    if (!f->file || f->json)
        return;
    fputs("entity,origin,time,horizon,target", f->file);
    for (size_t i = 0; i < written_count(f); i++) {
        char name[32];
        tft_quantile_name(f->quantiles->values[written(f, i)], name, sizeof name);
        fprintf(f->file, ",%s", name);
    }
    fputs(f->backtest ? ",actual,fit\n" : "\n", f->file);
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

static void write_json(const struct tft_forecast_file *f, const struct row *r)
{
    json_t *row = json_pack("{ss ss ss sI ss}", "entity", r->entity, "origin", r->origin, "time", r->time, "horizon",
                            (json_int_t)r->horizon, "target", r->target);

    for (size_t i = 0; row && i < written_count(f); i++) {
        char name[32];
        tft_quantile_name(f->quantiles->values[written(f, i)], name, sizeof name);
        json_object_set_new(row, name, json_real(r->p[written(f, i)]));
    }
    if (f->backtest) {
        json_object_set_new(row, "actual", r->actual ? json_real(*r->actual) : json_null());
        json_object_set_new(row, "fit", json_integer((json_int_t)f->fit));
    }
    json_dumpf(row, f->file, JSON_COMPACT | JSON_REAL_PRECISION((size_t)r->digits));
    json_decref(row);
    fputc('\n', f->file);
}

static void write_csv(const struct tft_forecast_file *f, const struct row *r)
{
    tft_write_field(f->file, r->entity);
    fprintf(f->file, ",%s,%s,%zu,", r->origin, r->time, r->horizon);
    tft_write_field(f->file, r->target);
    for (size_t i = 0; i < written_count(f); i++)
        halay_fprintf(f->file, ",%.*g", r->digits, r->p[written(f, i)]);
    if (f->backtest && r->actual)
        halay_fprintf(f->file, ",%.*g,%zu", r->digits, *r->actual, f->fit);
    else if (f->backtest)
        fprintf(f->file, ",,%zu", f->fit);
    fputc('\n', f->file);
}

enum halay_status tft_forecast_file_window(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    const struct tft_forecast_file *f = arg;
    const struct tft_data *d = f->data;
    size_t Q = f->quantiles->count, O = d->schema.target_count;
    char origin[40], time[40];
    enum halay_status status;

    (void)position;
    if (!f->file)
        return HALAY_OK;
    status = tft_data_check(d, w->origin, d->schema.horizon);
    if (status)
        return status;
    tft_schema_print_time(&d->schema, tft_data_time(d, w->entity, w->origin - 1), origin, sizeof origin);
    for (size_t i = 0; i < d->schema.horizon * O; i++) {
        const struct tft_scaler *scaler = tft_data_target_scaler(d, w->entity, i % O);
        size_t at = w->origin * O + i;
        double unscaled[TFT_SCORE_QUANTILES_MAX];
        for (size_t q = 0; q < Q; q++)
            unscaled[q] = tft_scaler_undo(scaler, (double)p[i * Q + q]);
        tft_schema_print_time(&d->schema, tft_data_time(d, w->entity, w->origin + i / O), time, sizeof time);
        const struct row row = { .entity = d->entities[w->entity].id,
                                 .origin = origin,
                                 .time = time,
                                 .target = d->schema.inputs[d->schema.targets[i % O]].name,
                                 .horizon = i / O + 1,
                                 .p = unscaled,
                                 .digits = digits_of(scaler, unscaled, Q),
                                 .actual = d->present[at] ? &d->target[at] : NULL };
        if (f->json)
            write_json(f, &row);
        else
            write_csv(f, &row);
    }
    return HALAY_OK;
}
