/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores, calibrations, profiles and explanations of data's windows as calls.
 */
#include "base/document.h"
#include "base/error_text.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include "tft/core/score/pictures.h"
#include "tft/tools/explain/explain.h"
#include "tft/tools/report/page.h"
#include "tft/tools/report/results.h"
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
    int split = TFT_TEST;
    enum halay_status status =
        windows ? halay_struct_read(&t->log, "halay_tft_windows", windows,
                                    offsetof(struct halay_tft_windows, has_pictures), sizeof c->given, &c->given)
                : HALAY_OK;

    if (!status)
        status = tft_session_word(t, "split", c->given.split, tft_split_names, TFT_TEST, &split);
    if (!status)
        status = tft_session_word(t, "calibrate", c->given.calibrate, tft_calibrate_words, -1, &c->calibrate);
    c->windows = (struct tft_window_choice){ (enum tft_split)split, c->given.stride ? c->given.stride : stride };
    return status;
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

static double distance_of(double regime)
{
    if (regime > 0)
        return regime;
    return regime < 0 ? 0 : TFT_REGIME_DISTANCE;
}

static struct tft_explain_request windows_request(const struct chosen_windows *c)
{
    return (struct tft_explain_request){ .windows = c->windows,
                                         .distance = distance_of(c->given.regime),
                                         .has_occlusion = c->given.has_occlusion,
                                         .tables = c->given.tables,
                                         .single = c->given.window };
}

/* Lends the data to score: given data, or a table that is read. */
static enum halay_status lend_scored(struct halay_tft_model *model, struct halay_tft_data *data,
                                     const struct tft_model_rows *rows, int calibrate)
{
    if (!data == !rows->table) {
        halay_error(&model->tft->log, "give either data or a table to score");
        return HALAY_ERR_ARGUMENT;
    }
    return data ? tft_model_lend_data(model, data, calibrate) : tft_model_read_rows(model, rows, calibrate);
}

enum halay_status halay_tft_evaluate(struct halay_tft_model *model, struct halay_tft_data *data,
                                     const struct halay_tft_windows *windows, char **json)
{
    struct chosen_windows c = { 0 };
    struct tft_result_files files = { 0 };
    json_t *result = NULL;

    if (!model || !json)
        return tft_session_refuse_null("halay_tft_evaluate", "an argument");
    struct halay_tft *t = model->tft;
    enum halay_status status = tft_model_enter(model);
    if (!status)
        status = windows_read(t, windows, model->inference.run.schema.stride, &c);
    if (!status)
        status = tft_result_files_open(t, c.given.file, c.given.csv, NULL, &files);
    if (!status)
        status = lend_scored(model, data, &(struct tft_model_rows){ .table = c.given.table }, c.calibrate);
    status = tft_session_agree(t, status);
    if (!status)
        windows_settle(model, &c.windows);
    if (!status)
        status = c.given.has_pictures ? tft_pictures_evaluate(&model->inference, &c.windows, &result)
                                      : tft_inference_evaluate(&model->inference, &c.windows, NULL, NULL, &result);
    if (!status)
        status = tft_result_files_write(&files, result);
    if (!status)
        status = tft_session_give(t, json_incref(result), json);
    json_decref(result);
    tft_result_files_abort(&files);
    tft_model_return_data(model);
    return tft_session_leave_stopped(t, status);
}

/* Gives the explanation's document, in the files and as a text. */
static enum halay_status give_explanation(const struct halay_tft_model *model,
                                          const struct tft_explanation *explanation, int has_pictures,
                                          struct tft_result_files *files, char **json)
{
    struct halay_tft *t = model->tft;
    json_t *result = t->rank == 0 ? tft_explanation_json(explanation) : NULL;
    enum halay_status status = HALAY_OK;

    *json = NULL;
    if (t->rank != 0)
        return HALAY_OK;
    if (!result) {
        halay_error(&t->log, "no memory for the explanation");
        return HALAY_ERR_NO_MEMORY;
    }
    if (has_pictures || files->page.file)
        status = tft_explanation_pictures(explanation, result);
    if (!status)
        status = tft_result_files_page(files, result);
    if (!has_pictures)
        json_object_del(result, "pictures");
    if (!status)
        status = tft_result_files_write(files, result);
    if (!status)
        return tft_session_text(t, result, json);
    json_decref(result);
    return status;
}

enum halay_status halay_tft_explain(struct halay_tft_model *model, struct halay_tft_data *data,
                                    const struct halay_tft_windows *windows, char **json)
{
    struct chosen_windows c = { 0 };
    struct tft_result_files files = { 0 };
    struct tft_explanation explanation = { 0 };

    if (!model || !json)
        return tft_session_refuse_null("halay_tft_explain", "an argument");
    struct halay_tft *t = model->tft;
    enum halay_status status = tft_model_enter(model);
    if (!status)
        status = windows_read(t, windows, model->inference.run.schema.horizon, &c);
    struct tft_explain_request request = windows_request(&c);
    c.calibrate = TFT_CALIBRATE_NONE;
    if (!status)
        status = lend_scored(model, data, &(struct tft_model_rows){ .table = c.given.table }, c.calibrate);
    if (!status)
        status = tft_result_files_open(t, c.given.file, NULL, c.given.page, &files);
    status = tft_session_agree(t, status);
    if (!status)
        windows_settle(model, &request.windows);
    if (!status)
        status = tft_explanation_init(&model->inference, &request, &explanation);
    if (!status)
        status = give_explanation(model, &explanation, c.given.has_pictures, &files, json);
    tft_result_files_abort(&files);
    tft_explanation_fini(&explanation);
    tft_model_return_data(model);
    return tft_session_leave_stopped(t, status);
}

enum halay_status halay_tft_profile(struct halay_tft_model *model, struct halay_tft_data *data, const char *folder)
{
    json_t *document = NULL;

    if (!model || !data || !folder)
        return tft_session_refuse_null("halay_tft_profile", "an argument");
    struct halay_tft *t = model->tft;
    enum halay_status status = tft_model_enter(model);
    if (!status)
        status = tft_model_lend_data(model, data, TFT_CALIBRATE_NONE);
    if (!status && t->rank == 0)
        status = tft_profile_make(&t->log, &model->inference.data, &document);
    if (!status && t->rank == 0)
        status = tft_profile_save(&t->log, folder, document);
    status = tft_session_agree(t, status);
    json_decref(document);
    tft_model_return_data(model);
    return tft_session_leave(t, status);
}

/* Sets the model's calibration (tft_calibrate); rank 0 writes it into a folder, unless that is NULL. */
static enum halay_status set_calibration(struct halay_tft_model *m, json_t *document, const char *folder)
{
    const struct tft_run *run = &m->inference.run;
    json_t *whole = tft_calibration_json(tft_model_params(run->model), run->params, &run->members, &run->blend,
                                         run->step, document);

    if (!whole) {
        halay_error(&m->tft->log, "no memory for a calibration");
        return HALAY_ERR_NO_MEMORY;
    }
    json_decref(m->calibration);
    m->calibration = whole;
    return folder && m->tft->rank == 0 ? tft_calibration_save(&m->tft->log, folder, whole) : HALAY_OK;
}

enum halay_status halay_tft_calibrate(struct halay_tft_model *model, struct halay_tft_data *data,
                                      const struct halay_tft_table *table, const char *folder, char **text)
{
    const struct tft_model_rows rows = { .table = table, .validates = 1 };
    const char *windows = table ? "windows after the training span" : "validation windows";
    json_t *document = NULL;
    char found[200];

    if (!model || !text)
        return tft_session_refuse_null("halay_tft_calibrate", "an argument");
    struct tft_inference *s = &model->inference;
    enum halay_status status = tft_model_enter(model);
    if (!status)
        status = lend_scored(model, data, &rows, TFT_CALIBRATE_NONE);
    status = tft_session_agree(model->tft, status);
    if (!status) {
        const struct tft_forecaster forecaster = { .log = s->log,
                                                   .ctx = s->ctx,
                                                   .stop = s->stop,
                                                   .model = s->run.model,
                                                   .workers = s->workers,
                                                   .params = s->run.params,
                                                   .members = &s->run.members,
                                                   .blend = &s->run.blend };
        status = tft_calibrate(&forecaster, &s->data, &s->run.config.quantiles, SIZE_MAX, &document);
    }
    if (!status && table && !tft_calibrate_found(document)) {
        tft_calibrate_describe(document, &s->data, windows, found, sizeof found);
        halay_error(s->log, "%s", found);
        status = HALAY_ERR_FORMAT;
    }
    if (!status)
        status = set_calibration(model, document, folder);
    *text = NULL;
    if (!status && s->rank == 0) {
        tft_calibrate_describe(document, &s->data, windows, found, sizeof found);
        status = tft_session_copy(model->tft, found, text);
    }
    json_decref(document);
    tft_model_return_data(model);
    return tft_session_leave_stopped(model->tft, status);
}

/* ---- files of results ---- */

enum halay_status tft_result_files_open(struct halay_tft *t, const char *json, const char *csv, const char *page,
                                        struct tft_result_files *f)
{
    enum halay_status status = HALAY_OK;

    if (json && t->rank == 0)
        status = halay_output_open(&t->log, json, &f->json);
    if (!status && csv && t->rank == 0)
        status = halay_output_open(&t->log, csv, &f->csv);
    if (!status && page && t->rank == 0)
        status = halay_output_open(&t->log, page, &f->page);
    return status;
}

enum halay_status tft_result_files_page(struct tft_result_files *f, const json_t *result)
{
    if (!f->page.file)
        return HALAY_OK;
    tft_page_write(f->page.file, result);
    return halay_output_commit(&f->page);
}

enum halay_status tft_result_files_write(struct tft_result_files *f, const json_t *result)
{
    enum halay_status status = f->json.file ? halay_document_commit(&f->json, result) : HALAY_OK;

    if (!status && f->csv.file) {
        tft_result_write_csv(f->csv.file, result);
        status = halay_output_commit(&f->csv);
    }
    return status;
}

void tft_result_files_abort(struct tft_result_files *f)
{
    halay_output_abort(&f->json);
    halay_output_abort(&f->csv);
    halay_output_abort(&f->page);
}
