/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft report: gathers a run's records, and with data its scores and some forecasts, for the page. Cleanup:
 * zero-initialised, every fini accepts half-built.
 */
#include "base/document.h"
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/data/output_file.h"
#include "tft/data/paths.h"
#include "tft/report/report.h"
#include "tft/run/interrupt.h"
#include "tft/score/inference.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    const char *run, *data, *out;
    struct tft_window_choice windows;
    int calibrate; /* -1: as the run's configuration says */
    int has_occlusion;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--run", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(run) },
    { "--data", NULL, "FILE", "data prepared by the same schema", HALAY_OPTION_TEXT, SETS(data) },
    { "--split", NULL, NULL, "the split to score (test)", HALAY_OPTION_WORD, SETS(windows.split),
      .words = tft_split_names },
    { "--stride", NULL, "N", "steps between its windows (the horizon)", HALAY_OPTION_NUMBER, SETS(windows.stride),
      .least = 1, .most = TFT_STEPS_MAX },
    { "--calibrate", NULL, NULL, "how intervals are calibrated (as the run was trained)", HALAY_OPTION_WORD,
      SETS(calibrate), .words = tft_calibrate_words },
    { "--occlusion", NULL, NULL, "also forecast again without each input", HALAY_OPTION_FLAG, SETS(has_occlusion) },
    { "--out", "-o", "FILE", "the page", HALAY_OPTION_TEXT, SETS(out) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft report",
    .synopsis = "--run RUN [--data DATA.htd [--split NAME] [--stride N] [--occlusion]] -o PAGE.html",
    .about = "Writes one self-contained HTML page about a run: loss curves; with data also scores beside the naive "
             "forecasts', scores by horizon and entity, some forecasts over the actual values, and what the forecasts "
             "rely on, as halay-tft explain finds it.",
    .table = option_rows,
    .is_lenient = 1,
};

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

/* The drawing number k, of a forecast. */
static enum halay_status draw(const struct drawing *d, size_t k, const struct tft_window *w, const float *p)
{
    const struct tft_data *data = &d->inference->data;
    struct tft_report_forecast *f = &d->report->forecasts[k];
    const struct tft_entity *e = &data->entities[w->entity];
    const struct tft_list *q = &d->inference->run.config.quantiles;
    size_t D = data->schema.horizon, median = tft_median_of(q->values, q->count);
    size_t O = data->schema.target_count, o = k % O; /* each shows one of the targets */
    const struct tft_scaler *s = tft_data_target_scaler(data, w->entity, o);
    char moment[40];

    f->history = w->length < HISTORY_MAX ? w->length : HISTORY_MAX;
    f->horizon = D;
    enum halay_status status = tft_data_check(data, w->origin - f->history, f->history + D);
    if (status)
        return status;
    f->truth = calloc(f->history + D, sizeof *f->truth);
    f->low = calloc(D, sizeof *f->low);
    f->middle = calloc(D, sizeof *f->middle);
    f->high = calloc(D, sizeof *f->high);
    if (!f->truth || !f->low || !f->middle || !f->high)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < f->history + D; i++) {
        size_t row = w->origin - f->history + i;
        f->truth[i] = data->present[row * O + o] ? data->target[row * O + o] : NAN;
    }
    for (size_t h = 0; h < D; h++) {
        const float *of_step = p + (h * O + o) * q->count;
        f->low[h] = tft_scaler_undo(s, (double)of_step[0]);
        f->middle[h] = tft_scaler_undo(s, (double)of_step[median]);
        f->high[h] = tft_scaler_undo(s, (double)of_step[q->count - 1]);
    }
    tft_schema_print_time(&data->schema, tft_data_time(data, w->entity, w->origin), moment, sizeof moment);
    snprintf(f->title, sizeof f->title, "%.60s%s%.60s, from %.16s", e->id, O > 1 ? ", " : "",
             O > 1 ? data->schema.inputs[data->schema.targets[o]].name : "", moment);
    return HALAY_OK;
}

static enum halay_status draw_chosen(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    const struct drawing *d = arg;
    enum halay_status status = HALAY_OK;

    for (size_t k = 0; k < d->count && !status; k++)
        if (d->numbers[k] == position)
            status = draw(d, k, w, p);
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
    for (size_t i = 0; r->forecasts && i < FORECASTS_MAX; i++) {
        free(r->forecasts[i].truth);
        free(r->forecasts[i].low);
        free(r->forecasts[i].middle);
        free(r->forecasts[i].high);
    }
    free(r->forecasts);
    json_decref(r->run);
    json_decref(r->metrics);
    json_decref(r->scores);
    json_decref(r->explained);
}

static enum halay_status write_page(struct halay_log *log, const char *path, const struct tft_report *r)
{
    struct tft_output out;
    enum halay_status status = tft_output_open(log, path, &out);

    if (status)
        return status;
    tft_report_write(out.file, r);
    return tft_output_commit(&out);
}

static enum halay_status add_data(const struct request *r, const struct tft_explain_request *explained,
                                  struct tft_inference *s, struct tft_explanation *explanation, struct tft_report *page)
{
    enum halay_status status = tft_inference_calibrate(s, r->run, r->calibrate);

    if (!status)
        status = make_scores(s, &explained->windows, page);
    if (!status)
        status = explain(s, explained, explanation, page);
    return status;
}

static enum halay_status report_run(struct halay_log *log, const struct request *r)
{
    struct tft_inference s = { 0 };
    struct tft_explain_request explained = { .windows = r->windows,
                                             .distance = TFT_REGIME_DISTANCE,
                                             .has_occlusion = r->has_occlusion };
    struct tft_explanation explanation = { 0 };
    struct tft_report page = { 0 };
    char *path = tft_path_join(log, r->run, "run.json");
    enum halay_status status = path ? halay_document_load(log, path, NULL, &page.run) : HALAY_ERR_NO_MEMORY;

    tft_interrupt_watch();
    if (!status)
        status = read_metrics(log, r->run, &page.metrics);
    if (!status && r->data) {
        status = tft_inference_init(log, r->run, r->data, &s);
        if (!explained.windows.stride)
            explained.windows.stride = s.data.schema.horizon;
        if (!status)
            status = add_data(r, &explained, &s, &explanation, &page);
    }
    if (status == HALAY_ERR_CANCELED && s.rank == 0)
        halay_error(log, "interrupted by a signal; there is no page");
    if (!status && s.rank == 0)
        status = write_page(log, r->out, &page);
    report_fini(&page);
    tft_explanation_fini(&explanation);
    tft_inference_fini(&s);
    free(path);
    return status;
}

int tft_cmd_report(struct halay_log *log, char **argv)
{
    struct request r = { .windows.split = TFT_TEST, .calibrate = -1 };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!r.run)
        return tft_options_missing(log, &command_line, "--run");
    if (!r.out)
        return tft_options_missing(log, &command_line, "-o");
    return tft_interrupt_exit(report_run(log, &r));
}
