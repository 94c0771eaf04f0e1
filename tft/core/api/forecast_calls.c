/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts as a call. Without a split each entity gets one forecast, from its last row. Ranks share the windows, and
 * each rank gets all forecasts, in order of entity and origin.
 */
#include "base/output_file.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include "tft/core/score/forecast_file.h"
#include <stdlib.h>

enum { AT_END = TFT_SPLIT_COUNT }; /* instead of a split: after the last rows */

/* State of one call. */
struct work {
    struct halay_tft_model *model;
    struct halay_tft_forecast_options options;
    int split, calibrate;
    struct tft_windows windows;
    struct tft_weight_reader reader;    /* of explained forecasts */
    struct halay_output out, explained; /* rank 0, if files are requested */
    struct tft_forecast_file file;
    struct tft_explain_file look;
    struct tft_forecast_room room; /* each window's result for the program */
};

/* ---- the windows ---- */

static void warn_left_out(struct halay_log *log, const struct tft_data *d, const struct tft_entity *e)
{
    if (e->rows <= d->schema.horizon)
        halay_warning(log, "'%s' is not forecast: none of its rows has a value of every input and lag", e->id);
    else
        halay_warning(log, "'%s' is not forecast: a value with 'fill: drop' is missing near its end", e->id);
}

/* Warns of forecasts whose encoder has filled values only: they contain no information about the series. */
static enum halay_status warn_filled(struct work *w)
{
    struct tft_inference *s = &w->model->inference;
    const struct tft_data *d = &s->data;
    size_t filled = 0, entity = 0;
    enum halay_status status;

    for (size_t i = 0; i < w->windows.count; i++) {
        struct tft_window window = tft_windows_get(&w->windows, i);
        if ((status = tft_data_check(d, window.origin - window.length, window.length)))
            return status;
        if (tft_window_is_filled(d, &window) && !filled++)
            entity = window.entity;
    }
    if (filled && s->rank == 0)
        halay_warning(s->log,
                      "%zu of %zu forecasts rest on filled values only: the rows that they look back over have no "
                      "measured value of a target ('%s' first)",
                      filled, w->windows.count, d->entities[entity].id);
    return HALAY_OK;
}

/* Warns of forecasts from fewer rows than any training window had. */
static void warn_short(struct halay_log *log, const struct tft_data *d, const struct tft_windows *windows)
{
    size_t count = 0;
    struct tft_window first = { 0 };

    for (size_t i = 0; i < windows->count; i++) {
        struct tft_window window = tft_windows_get(windows, i);
        if (window.length < d->schema.min_encoder && !count++)
            first = window;
    }
    if (count)
        halay_warning(log,
                      "%zu of %zu forecasts look back over fewer rows than any in training, which are at least %zu "
                      "('%s' first, %zu): their intervals are likely too narrow",
                      count, windows->count, d->schema.min_encoder, d->entities[first.entity].id, first.length);
}

/* Names the reason for the first entities without a window and counts all of them. */
static void warn_all_left_out(struct halay_log *log, const struct tft_data *d, const struct tft_windows *windows)
{
    enum { NAMED = 3 };
    size_t left_out = 0;

    for (size_t e = 0; e < d->entity_count; e++)
        if (tft_windows_before(windows, e) == tft_windows_before(windows, e + 1) && left_out++ < NAMED)
            warn_left_out(log, d, &d->entities[e]);
    if (left_out > NAMED)
        halay_warning(log, "%zu entities in all are not forecast for such reasons, %zu are", left_out,
                      d->entity_count - left_out);
}

static enum halay_status choose_windows(struct work *w)
{
    struct tft_inference *s = &w->model->inference;
    const struct tft_data *d = &s->data;
    const size_t stride = w->options.stride ? w->options.stride : d->schema.stride;
    enum halay_status status = w->split == AT_END
                                   ? tft_windows_init_last(s->log, d, &w->windows)
                                   : tft_windows_init(s->log, d, (enum tft_split)w->split, stride, &w->windows);

    if (status)
        return status;
    if (w->split == AT_END && s->rank == 0) {
        warn_all_left_out(s->log, d, &w->windows);
        warn_short(s->log, d, &w->windows);
    }
    if (!w->windows.count)
        return halay_fail(s->log, HALAY_ERR_FORMAT, "there is nothing to forecast: no entity has a window");
    return warn_filled(w);
}

static enum halay_status take_window(void *arg, size_t position, const struct tft_window *window, const float *p)
{
    struct work *w = arg;
    const struct halay_tft_forecast *f = &w->room.forecast;
    const float *more = p + f->horizon * f->target_count * f->quantile_count;
    enum halay_status status;

    if ((status = tft_forecast_file_window(&w->file, position, window, p)) ||
        (status = tft_explain_file_window(&w->look, window, more)) || !w->options.take ||
        (status = tft_forecast_room_fill(&w->room, window, p, more)))
        return status;
    return w->options.take(w->options.arg, f);
}

/* ---- the files ---- */

static enum halay_status open_files(struct work *w)
{
    const struct halay_tft_forecast_options *o = &w->options;
    struct tft_inference *s = &w->model->inference;
    int is_jsonl, explanation_is_jsonl;
    enum halay_status status;

    if ((status = tft_session_format(w->model->tft, o->format, o->file, &is_jsonl)) ||
        (status = tft_session_format(w->model->tft, NULL, o->explanation, &explanation_is_jsonl)) ||
        (o->file && s->rank == 0 && (status = halay_output_open(s->log, o->file, &w->out))) ||
        (o->explanation && s->rank == 0 && (status = halay_output_open(s->log, o->explanation, &w->explained))))
        return status;
    w->file = (struct tft_forecast_file){
        .file = w->out.file, .data = &s->data, .quantiles = &s->run.config.quantiles, .json = is_jsonl
    };
    w->look = (struct tft_explain_file){
        .log = s->log, .file = w->explained.file, .json = explanation_is_jsonl, .data = &s->data, .reader = &w->reader
    };
    tft_forecast_file_header(&w->file);
    tft_explain_file_header(&w->look);
    return HALAY_OK;
}

static enum halay_status complete_files(struct work *w)
{
    enum halay_status status = w->explained.file ? halay_output_commit(&w->explained) : HALAY_OK;

    return status || !w->out.file ? status : halay_output_commit(&w->out);
}

/* ---- the call ---- */

static enum halay_status summarize_forecasts(struct work *w, char **summary)
{
    const struct tft_calibrator *calibrator = &w->model->inference.calibrator;
    json_t *shares = calibrator->data ? tft_calibrator_json(calibrator) : NULL;
    json_t *scores = json_pack("{ss so*}", "kind", "scores", "calibration", shares);
    char *calibrated = NULL;
    enum halay_status status = tft_result_form(&w->model->tft->log, scores, "calibrated", &calibrated);

    json_decref(scores);
    if (status)
        return status;
    status = tft_session_text(w->model->tft,
                              json_pack("{ss sI sI ss?}", "kind", "forecast", "windows", (json_int_t)w->windows.count,
                                        "short_windows", (json_int_t)tft_windows_short(&w->windows), "calibrated",
                                        *calibrated ? calibrated : NULL),
                              summary);
    free(calibrated);
    return status;
}

static enum halay_status forecast_windows(struct work *w)
{
    struct tft_inference *s = &w->model->inference;
    struct tft_forecaster forecaster = { 0 };
    const int explains = w->options.explains || w->options.explanation;
    enum halay_status status = HALAY_OK;

    if (explains)
        status = tft_weight_reader_init(s->log, s->run.model, (size_t)tft_pool_threads(s->pool), &w->reader);
    if (status || (status = tft_forecast_room_init(s->log, s, &w->reader, &w->room)) ||
        (status = tft_inference_forecaster(s, &w->windows, tft_weight_numbers(&w->reader), &forecaster)) ||
        (status = open_files(w)) || (status = tft_session_agree(w->model->tft, HALAY_OK)))
        goto release;
    if (w->split == AT_END)
        forecaster.params = tft_run_future_params(&s->run);
    if (explains) {
        forecaster.look = tft_explain_file_look;
        forecaster.look_arg = &w->look;
    }
    status = tft_forecast(&forecaster, w->windows.count, take_window, w);
release:
    tft_forecaster_fini(&forecaster);
    return status ? status : complete_files(w);
}

static enum halay_status check_options(const struct work *w)
{
    struct halay_tft *t = w->model->tft;
    const struct halay_tft_forecast_options *o = &w->options;

    if (!o->take && !o->file)
        halay_error(&t->log, "halay_tft_forecast: take and file are NULL");
    else if (!o->table == !o->data)
        halay_error(&t->log, "give either a table or data to forecast");
    else if (o->data && !o->split)
        halay_error(&t->log, "data are forecast inside a split; forecasts after the last rows need a table");
    else if ((o->stride && !o->split) || (o->future && o->split))
        halay_error(&t->log, o->stride ? "a stride goes with a split" : "a future goes without a split");
    else
        return HALAY_OK;
    return HALAY_ERR_ARGUMENT;
}

static enum halay_status forecast_all(struct work *w, const struct halay_tft_forecast_options *options)
{
    const struct halay_tft_forecast_options *o = &w->options;
    struct halay_tft_model *m = w->model;
    enum halay_status status;

    tft_profile_clear(m->profile);
    if ((status = TFT_READ(m->tft, halay_tft_forecast_options, options, &w->options)) || (status = check_options(w)) ||
        (status = tft_session_word(m->tft, "split", o->split, tft_split_names, AT_END, &w->split)) ||
        (status = tft_session_word(m->tft, "calibrate", o->calibrate, tft_calibrate_words, -1, &w->calibrate)))
        return status;
    const struct tft_model_rows rows = { .table = o->table, .is_at_end = w->split == AT_END, .future = o->future };
    status = o->table ? tft_model_read_rows(m, &rows, w->calibrate) : tft_model_lend_data(m, o->data, w->calibrate);
    if (status || (status = choose_windows(w)) || (status = forecast_windows(w)) ||
        (status = tft_profile_add(m->profile, &w->windows)))
        return status;
    return o->summary ? summarize_forecasts(w, o->summary) : HALAY_OK;
}

enum halay_status halay_tft_forecast(struct halay_tft_model *model, const struct halay_tft_forecast_options *options)
{
    struct work w = { .model = model };
    const enum halay_status status = TFT_CALL_MODEL(model && options, model, forecast_all(&w, options));

    halay_output_abort(&w.out);
    halay_output_abort(&w.explained);
    tft_weight_reader_fini(&w.reader);
    tft_windows_fini(&w.windows);
    tft_forecast_room_fini(&w.room);
    return status;
}
