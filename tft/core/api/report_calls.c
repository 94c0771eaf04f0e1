/* SPDX-License-Identifier: Apache-2.0
 *
 * A page about a run, as a call: gathers the run's records, and with data its scores and some forecasts. Cleanup:
 * zero-initialised, every fini accepts half-built.
 */
#include "base/document.h"
#include "base/output_file.h"
#include "base/struct_size.h"
#include "tft/core/api/model_calls.h"
#include "tft/core/data/paths.h"
#include "tft/tools/report/report.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORECASTS_MAX = 6, HISTORY_MAX = 96 };

/* ---- the run's lines ---- */

static enum halay_status read_metrics(struct halay_log *log, const char *folder, json_t **metrics)
{
    char *path = tft_path_join(log, folder, "metrics.jsonl"), *line = NULL;
    size_t size = 0;
    FILE *file = path ? fopen(path, "re") : NULL;
    enum halay_status status = HALAY_OK;

    *metrics = json_array();
    if (!path || !*metrics) {
        status = HALAY_ERR_NO_MEMORY;
    } else if (!file && errno == ENOENT) {
        halay_warning(log, "there is no '%s' (the parameters were imported?): the page has no loss curves", path);
    } else if (!file) {
        halay_error(log, "cannot open '%s': %s", path, strerror(errno));
        status = HALAY_ERR_SYSTEM;
    }
    while (file && !status && getline(&line, &size, file) > 0) {
        json_error_t error;
        json_t *object = json_loads(line, 0, &error);
        if (json_is_object(object))
            json_array_append(*metrics, object);
        else
            halay_warning(log, "a line of '%s' is not JSON and is left out: %s", path, error.text);
        json_decref(object);
    }
    free(line);
    free(path);
    if (file)
        fclose(file);
    return status;
}

/* ---- forecasts to draw ---- */

/* Which of the split's windows to draw: spread over entities and time. */
static size_t choose_positions(const struct tft_windows *w, uint64_t *numbers)
{
    size_t entities = w->data->entity_count, n = 0;

    for (size_t k = 0; k < FORECASTS_MAX; k++) {
        size_t e = entities > FORECASTS_MAX ? k * entities / FORECASTS_MAX : k % entities;
        size_t before = tft_windows_before(w, e), count = tft_windows_before(w, e + 1) - before;
        if (count)
            numbers[n++] = before + (2 * k + 1) * count / (2 * FORECASTS_MAX);
    }
    return n;
}

struct drawing {
    struct tft_inference *inference;
    struct tft_report *report;
    uint64_t numbers[FORECASTS_MAX];
    size_t count;
};

static enum halay_status draw_chosen(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    const struct drawing *d = arg;
    const struct tft_data *data = &d->inference->data;
    enum halay_status status = HALAY_OK;

    for (size_t k = 0; k < d->count && !status; k++)
        if (d->numbers[k] == position) /* each shows one of the targets */
            status = tft_forecast_chart_init(data, &d->inference->run.config.quantiles, w, p,
                                             k % data->schema.target_count, HISTORY_MAX, &d->report->forecasts[k]);
    return status;
}

/* Score the windows, and keep some of the forecasts for drawing. */
static enum halay_status make_scores(struct tft_inference *s, const struct tft_window_choice *choice,
                                     struct tft_report *report)
{
    struct tft_windows windows = { 0 };
    struct drawing drawing = { .inference = s, .report = report };
    enum halay_status status = tft_windows_init(s->log, &s->data, choice->split, choice->stride, &windows);

    report->forecasts = calloc(FORECASTS_MAX, sizeof *report->forecasts);
    if (!status && !report->forecasts)
        status = HALAY_ERR_NO_MEMORY;
    if (!status) {
        drawing.count = choose_positions(&windows, drawing.numbers);
        status = tft_inference_evaluate(s, choice, draw_chosen, &drawing, &report->scores);
    }
    if (!status)
        report->forecast_count = drawing.count;
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(s->log, "no memory for the forecasts to draw");
    tft_windows_fini(&windows);
    return status;
}

/* What the same windows' forecasts rely on. */
static enum halay_status explain(struct tft_inference *s, const struct tft_explain_request *request,
                                 struct tft_explanation *explanation, struct tft_report *report)
{
    enum halay_status status = tft_explanation_init(s, request, explanation);

    if (status || s->rank != 0)
        return status;
    report->explanation = explanation;
    report->explained = tft_explanation_json(explanation);
    if (report->explained)
        return HALAY_OK;
    halay_error(s->log, "no memory for the explanation");
    return HALAY_ERR_NO_MEMORY;
}

static void report_fini(struct tft_report *r)
{
    for (size_t i = 0; r->forecasts && i < FORECASTS_MAX; i++)
        tft_forecast_chart_fini(&r->forecasts[i]);
    free(r->forecasts);
    json_decref(r->run);
    json_decref(r->metrics);
    json_decref(r->scores);
    json_decref(r->explained);
}

static enum halay_status write_page(struct halay_log *log, const char *path, const struct tft_report *r)
{
    struct halay_output out;
    enum halay_status status = halay_output_open(log, path, &out);

    if (status)
        return status;
    tft_report_write(out.file, r);
    return halay_output_commit(&out);
}

/* ---- the call ---- */

/* What the page has of data's windows. */
struct findings {
    struct tft_explain_request request;
    struct tft_explanation explanation;
    int calibrate;
};

static enum halay_status add_data(struct halay_tft_model *model, struct halay_tft_data *data, struct findings *f,
                                  struct tft_report *page)
{
    enum halay_status status = tft_model_enter(model);

    if (!status)
        status = tft_model_lend_data(model, data, f->calibrate);
    if (!status)
        tft_windows_settle(model, &f->request.windows);
    if (!status)
        status = make_scores(&model->inference, &f->request.windows, page);
    if (!status)
        status = explain(&model->inference, &f->request, &f->explanation, page);
    return status;
}

static enum halay_status read_windows(struct halay_tft *t, const struct halay_tft_windows *windows,
                                      const struct halay_tft_data *data, struct halay_tft_windows *given,
                                      struct findings *f)
{
    struct tft_chosen_windows c = { 0 };
    enum halay_status status = tft_windows_read(t, windows, data ? data->data.schema.horizon : 0, &c);

    *given = c.given;
    f->calibrate = c.calibrate;
    f->request = tft_windows_request(&c);
    if (status || given->page)
        return status;
    halay_error(&t->log, "halay_tft_report: 'page' of halay_tft_windows is NULL");
    return HALAY_ERR_ARGUMENT;
}

enum halay_status halay_tft_report(struct halay_tft *t, const char *folder, struct halay_tft_data *data,
                                   const struct halay_tft_windows *windows)
{
    struct halay_tft_windows given = { 0 };
    struct halay_tft_model *model = NULL;
    struct findings f = { 0 };
    struct tft_report page = { 0 };

    if (!t || !folder || !windows)
        return tft_session_refuse_null("halay_tft_report", "an argument");
    tft_session_enter(t);
    enum halay_status status = read_windows(t, windows, data, &given, &f);
    char *path = status ? NULL : tft_path_join(&t->log, folder, "run.json");
    if (!status)
        status = path ? halay_document_load(&t->log, path, NULL, &page.run) : HALAY_ERR_NO_MEMORY;
    if (!status)
        status = read_metrics(&t->log, folder, &page.metrics);
    if (!status && data)
        status = tft_model_of_folder(t, folder, 1, &model);
    if (!status && data)
        status = add_data(model, data, &f, &page);
    if (!status && t->rank == 0)
        status = write_page(&t->log, given.page, &page);
    report_fini(&page);
    tft_explanation_fini(&f.explanation);
    if (model)
        tft_model_return_data(model);
    halay_tft_model_close(model);
    free(path);
    return tft_session_leave_stopped(t, status);
}
