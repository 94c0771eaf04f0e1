/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores, calibrations and profiles of data's windows as calls.
 */
#include "base/document.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A choice of windows of data, as names and numbers. */
struct chosen_windows {
    struct halay_tft_windows given;
    struct tft_window_choice windows;
    int calibrate;
};

/* Reads a choice of windows, which may be NULL; stride: the meaning of 0. HALAY_ERR_ARGUMENT (logged). */
static enum halay_status windows_read(struct halay_tft *t, const struct halay_tft_windows *windows, size_t stride,
                                      struct chosen_windows *c)
{
    int split;
    enum halay_status status = HALAY_OK;

    *c = (struct chosen_windows){ 0 };
    if (windows)
        status = halay_struct_read(&t->log, "halay_tft_windows", windows,
                                   offsetof(struct halay_tft_windows, has_pictures), sizeof c->given, &c->given);
    if (status || (status = tft_session_word(t, "split", c->given.split, tft_split_names, TFT_TEST, &split)) ||
        (status = tft_session_word(t, "calibrate", c->given.calibrate, tft_calibrate_words, -1, &c->calibrate)))
        return status;
    c->windows = (struct tft_window_choice){ (enum tft_split)split, c->given.stride ? c->given.stride : stride };
    return HALAY_OK;
}

/* Chooses the validation windows, with a warning, if the data that the model was lent have no test split. */
static void windows_settle(struct halay_tft_model *model, struct tft_window_choice *choice)
{
    const struct tft_schema *s = &model->inference.data.schema;

    if (choice->split != TFT_TEST || s->has_split[TFT_TEST] || !s->has_split[TFT_VALID])
        return;
    choice->split = TFT_VALID;
    if (model->tft->rank == 0)
        halay_warning(&model->tft->log,
                      "the data have no test split: these are the validation windows, by which training chose its "
                      "parameters ('prepare --test' holds one back)");
}

/* Lends the data to score: given data, or a table that is read. */
static enum halay_status lend_scored(struct halay_tft_model *model, struct halay_tft_data *data,
                                     const struct tft_model_rows *rows, int calibrate)
{
    if (!data == !rows->table)
        return halay_fail(&model->tft->log, HALAY_ERR_ARGUMENT, "give either data or a table to score");
    return data ? tft_model_lend_data(model, data, calibrate) : tft_model_read_rows(model, rows, calibrate);
}

static enum halay_status evaluate_windows(struct halay_tft_model *model, struct halay_tft_data *data,
                                          const struct halay_tft_windows *windows, char **json)
{
    struct halay_tft *t = model->tft;
    struct chosen_windows c;
    struct tft_result_files files = { 0 };
    json_t *result = NULL;
    enum halay_status status = windows_read(t, windows, model->inference.run.schema.stride, &c);

    if (status || (status = tft_result_files_open(t, c.given.file, c.given.csv, &files)) ||
        (status = lend_scored(model, data, &(struct tft_model_rows){ .table = c.given.table }, c.calibrate)) ||
        (status = tft_session_agree(t, HALAY_OK)) ||
        (data && data->path && (status = tft_session_compare_data(t, data))))
        goto abort;
    windows_settle(model, &c.windows);
    status = c.given.has_pictures ? tft_pictures_evaluate(&model->inference, &c.windows, &result)
                                  : tft_inference_evaluate(&model->inference, &c.windows, NULL, NULL, &result);
    if (!status && !(status = tft_result_files_write(&files, result)))
        status = tft_session_give(t, json_incref(result), json);
    json_decref(result);
abort:
    tft_result_files_abort(&files);
    return status;
}

enum halay_status halay_tft_evaluate(struct halay_tft_model *model, struct halay_tft_data *data,
                                     const struct halay_tft_windows *windows, char **json)
{
    return TFT_CALL_MODEL(model && json, model, evaluate_windows(model, data, windows, json));
}

static enum halay_status write_profile(struct halay_tft_model *model, struct halay_tft_data *data, const char *folder)
{
    struct halay_log *log = &model->tft->log;
    json_t *document = NULL;
    enum halay_status status = tft_model_lend_data(model, data, TFT_CALIBRATE_NONE);

    if (status || model->tft->rank != 0 || (status = tft_profile_make(log, &model->inference.data, &document)))
        return status;
    status = tft_profile_save(log, folder, document);
    json_decref(document);
    return status;
}

enum halay_status halay_tft_profile(struct halay_tft_model *model, struct halay_tft_data *data, const char *folder)
{
    if (!model || !data || !folder)
        return tft_session_refuse_null("halay_tft_profile", "an argument");
    enum halay_status status = tft_model_enter(model);
    status = tft_session_agree(model->tft, status ? status : write_profile(model, data, folder));
    tft_model_return_data(model);
    return tft_session_leave(model->tft, status);
}

/* Sets the model's calibration (tft_calibrate); rank 0 writes it into a folder, unless that is NULL. */
static enum halay_status set_calibration(struct halay_tft_model *m, json_t *document, const char *folder)
{
    const struct tft_run *run = &m->inference.run;
    json_t *whole = tft_calibration_json(tft_model_params(run->model), run->params, &run->members, &run->blend,
                                         run->step, document);

    if (!whole)
        return halay_no_memory(&m->tft->log, "for a calibration");
    json_decref(m->calibration);
    m->calibration = whole;
    return folder && m->tft->rank == 0 ? tft_calibration_save(&m->tft->log, folder, whole) : HALAY_OK;
}

static enum halay_status calibrate_model(struct halay_tft_model *model, struct halay_tft_data *data,
                                         const struct halay_tft_table *table, const char *folder, char **text)
{
    const struct tft_model_rows rows = { .table = table, .validates = 1 };
    const char *windows = table ? "windows after the training span" : "validation windows";
    const struct tft_inference *s = &model->inference;
    json_t *document = NULL;
    char found[200];
    enum halay_status status = lend_scored(model, data, &rows, TFT_CALIBRATE_NONE);

    *text = NULL;
    if (status || (status = tft_session_agree(model->tft, HALAY_OK)))
        return status;
    const struct tft_forecaster forecaster = { .log = s->log,
                                               .ctx = s->ctx,
                                               .stop = s->stop,
                                               .model = s->run.model,
                                               .workers = s->workers,
                                               .params = s->run.params,
                                               .members = &s->run.members,
                                               .blend = &s->run.blend };
    status = tft_calibrate(&forecaster, &s->data, &s->run.config.quantiles, SIZE_MAX, &document);
    if (status)
        return status;
    tft_calibrate_describe(document, &s->data, windows, found, sizeof found);
    if (table && !tft_calibrate_found(document))
        status = halay_fail(s->log, HALAY_ERR_FORMAT, "%s", found);
    else if (!(status = set_calibration(model, document, folder)) && s->rank == 0)
        status = tft_session_copy(model->tft, found, text);
    json_decref(document);
    return status;
}

enum halay_status halay_tft_calibrate(struct halay_tft_model *model, struct halay_tft_data *data,
                                      const struct halay_tft_table *table, const char *folder, char **text)
{
    return TFT_CALL_MODEL(model && text, model, calibrate_model(model, data, table, folder, text));
}

/* ---- other forms of results, and their files ---- */

enum halay_status tft_result_form(struct halay_log *log, const json_t *result, const char *form, char **text)
{
    char *json = json_dumps(result, JSON_COMPACT);
    enum halay_status status = json ? halay_tft_format(json, form, text) : halay_no_memory(log, "for a description");

    free(json);
    return status;
}

enum halay_status tft_result_files_open(struct halay_tft *t, const char *json, const char *csv,
                                        struct tft_result_files *f)
{
    enum halay_status status;

    if (t->rank == 0 && ((json && (status = halay_output_open(&t->log, json, &f->json))) ||
                         (csv && (status = halay_output_open(&t->log, csv, &f->csv)))))
        return status;
    return HALAY_OK;
}

enum halay_status tft_result_files_write(struct tft_result_files *f, const json_t *result)
{
    enum halay_status status = f->json.file ? halay_document_commit(&f->json, result) : HALAY_OK;
    char *csv;

    if (status || !f->csv.file || (status = tft_result_form(f->csv.log, result, "csv", &csv)))
        return status;
    fputs(csv, f->csv.file);
    free(csv);
    return halay_output_commit(&f->csv);
}

void tft_result_files_abort(struct tft_result_files *f)
{
    halay_output_abort(&f->json);
    halay_output_abort(&f->csv);
}
