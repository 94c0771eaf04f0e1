/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of what single forecasts relied on, written one by one: the mean weights of the inputs, and attention by lag,
 * to the step this number of steps before the forecast step, mean over the heads and the steps of the horizon whose
 * window goes back that far. A window's numbers are its (all) means, then its (T) lags.
 */
#include "base/memory.h"
#include "base/number_text.h"
#include "base/output_file.h"
#include "tft/core/score/forecast_file.h"
#include <jansson.h>

void tft_explain_file_look(void *arg, const struct tft_forecast_granule *granule)
{
    const struct tft_explain_file *f = arg;
    const struct tft_weight_reader *r = f->reader;
    const struct tft_weights *w = tft_weight_reader_read(r, granule);

    for (size_t b = 0; b < granule->batch->B; b++) {
        float *more = granule->more + b * granule->stride;
        tft_weight_means(r, w, granule->batch, b, more);
        tft_weight_lags(r, w, granule->batch, b, more + r->all);
    }
}

/* Writes the column names of tft_weight_means, each after a comma: "past load", quoted where it must be. */
static void write_columns(FILE *file, const struct tft_weight_reader *r)
{
    char text[TFT_NAME_MAX + 16];

    for (int choice = 0; choice < TFT_CHOICES; choice++)
        for (size_t j = 0; j < r->V[choice]; j++) {
            snprintf(text, sizeof text, "%s %s", tft_part_names[choice], tft_weight_name(r, choice, j));
            fputc(',', file);
            halay_write_field(file, text);
        }
}

void tft_explain_file_header(const struct tft_explain_file *f)
{
    if (!f->file || f->json)
        return;
    fputs("entity,origin", f->file);
    write_columns(f->file, f->reader);
    for (size_t lag = 0; lag < f->reader->T; lag++)
        fprintf(f->file, ",lag %zu", lag);
    fputc('\n', f->file);
}

static void write_csv(const struct tft_explain_file *f, const char *entity, const char *origin, const float *more,
                      size_t lags)
{
    size_t all = f->reader->all;

    halay_write_field(f->file, entity);
    fprintf(f->file, ",%s", origin);
    for (size_t i = 0; i < all + lags; i++)
        halay_fprintf(f->file, ",%.6g", (double)more[i]);
    for (size_t lag = lags; lag < f->reader->T; lag++)
        fputc(',', f->file);
    fputc('\n', f->file);
}

static enum halay_status write_json(const struct tft_explain_file *f, const char *entity, const char *origin,
                                    const float *more, size_t lags)
{
    const struct tft_weight_reader *r = f->reader;
    json_t *row = json_pack("{ss ss}", "entity", entity, "origin", origin), *attention = json_array();
    int failed = 0;

    for (int choice = 0; choice < TFT_CHOICES; choice++) {
        json_t *part = json_object();
        for (size_t j = 0; j < r->V[choice]; j++)
            failed |= json_object_set_new(part, tft_weight_name(r, choice, j), json_real((double)*more++));
        failed |= json_object_set_new(row, tft_part_names[choice], part);
    }
    for (size_t lag = 0; lag < lags; lag++)
        failed |= json_array_append_new(attention, json_real((double)more[lag]));
    failed |= json_object_set_new(row, "attention", attention);
    if (!failed) {
        json_dumpf(row, f->file, JSON_COMPACT | JSON_REAL_PRECISION(6));
        fputc('\n', f->file);
    }
    json_decref(row);
    if (!failed)
        return HALAY_OK;
    return halay_no_memory(f->log, "for the explanation of a forecast, or its weights are not finite");
}

enum halay_status tft_explain_file_window(const struct tft_explain_file *f, const struct tft_window *w,
                                          const float *more)
{
    const struct tft_data *d = f->data;
    const char *entity = d->entities[w->entity].id;
    char origin[40];

    if (!f->file)
        return HALAY_OK;
    tft_schema_print_time(&d->schema, tft_data_time(d, w->entity, w->origin - 1), origin, sizeof origin);
    if (f->json)
        return write_json(f, entity, origin, more, w->length + f->reader->D);
    write_csv(f, entity, origin, more, w->length + f->reader->D);
    return HALAY_OK;
}
