/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over windows as calls. Several passes of a model have the same data, which the first one lends to the model. A
 * pass is zero-initialised; close accepts a partly initialised one.
 */
#include "base/error_text.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include <stdlib.h>
#include <string.h>

enum { LAST_HORIZON = TFT_SPLIT_COUNT }; /* instead of a split */

struct halay_tft_pass {
    struct halay_tft_model *model; /* borrowed */
    struct halay_tft_pass_options options;
    int is_open; /* it is one of the model's passes */
    struct tft_windows windows;
    struct tft_occlusion occlusion;
    struct tft_weight_reader reader;
    struct tft_weight_reader unread; /* of forecasts that are not explained: zero */
    struct tft_forecaster forecaster;
    struct tft_forecast_scores scores;
    struct tft_forecast_room room;
    struct halay_tft_weights weighed;
    size_t values, explained; /* numbers of a window: of its forecast, of its explanation */
    size_t base, count;       /* windows [base, base + count) */
    size_t listed;            /* of these, if they are listed */
    enum halay_status failed; /* the error with which this rank gives up at the next window */
};

/* ---- weights of a window ---- */

static size_t attention_of(const struct tft_weight_reader *r)
{
    return r->heads * r->D * r->T;
}

/* Returns the number of all weights of a window. */
static size_t weights_count(const struct tft_weight_reader *r)
{
    size_t count = attention_of(r);

    for (int choice = 0; choice < TFT_CHOICES; choice++)
        count += tft_weight_steps(r, choice) * r->V[choice];
    return count;
}

/* Points `weights` at a window's weights, which begin at an address. */
static void find_weights(const struct tft_weight_reader *r, const float *at, struct halay_tft_weights *weights)
{
    weights->statics = at;
    weights->history = weights->statics + r->V[TFT_CHOICE_STATIC];
    weights->future = weights->history + r->E * r->V[TFT_CHOICE_HISTORY];
    weights->attention = weights->future + r->D * r->V[TFT_CHOICE_FUTURE];
}

/* Returns the weights of a granule's sample b, at their addresses. */
static struct halay_tft_weights weights_of(const struct tft_weight_reader *r, const struct tft_weights *w, size_t b)
{
    return (struct halay_tft_weights){ .statics = w->statics + b * r->V[TFT_CHOICE_STATIC],
                                       .history = w->history + b * r->E * r->V[TFT_CHOICE_HISTORY],
                                       .future = w->future + b * r->D * r->V[TFT_CHOICE_FUTURE],
                                       .attention = w->attention + b * attention_of(r) };
}

static void copy_weights(const struct tft_weight_reader *r, const struct halay_tft_weights *from, float *to)
{
    memcpy(to, from->statics, r->V[TFT_CHOICE_STATIC] * sizeof *to);
    to += r->V[TFT_CHOICE_STATIC];
    memcpy(to, from->history, r->E * r->V[TFT_CHOICE_HISTORY] * sizeof *to);
    to += r->E * r->V[TFT_CHOICE_HISTORY];
    memcpy(to, from->future, r->D * r->V[TFT_CHOICE_FUTURE] * sizeof *to);
    to += r->D * r->V[TFT_CHOICE_FUTURE];
    memcpy(to, from->attention, attention_of(r) * sizeof *to);
}

/* Copies a granule's forecasts and weights (a tft_forecast_look); the program's weights are a window's explanation. */
static void copy_granule(void *arg, const struct tft_forecast_granule *granule)
{
    const struct halay_tft_pass *pass = arg;
    const struct halay_tft_pass_options *o = &pass->options;
    const struct tft_weight_reader *r = &pass->reader;
    const struct tft_weights *w = tft_weight_reader_read(r, granule);

    for (size_t b = 0; b < granule->batch->B; b++) {
        float *more = granule->more + b * granule->stride;
        struct halay_tft_weights weights = weights_of(r, w, b);
        weights.number = tft_gather_window(granule->gather, (size_t)granule->batch->position + b).entity;
        weights.past = granule->batch->lengths[b];
        if (o->explains) {
            tft_weight_means(r, w, granule->batch, b, more);
            tft_weight_lags(r, w, granule->batch, b, more + r->all);
        }
        if (o->measure)
            o->measure(o->arg, &weights, more + pass->explained);
        if (o->has_weights)
            copy_weights(r, &weights, more + pass->explained + o->number_count);
    }
}

/* ---- open ---- */

static enum halay_status choose_windows(struct halay_tft_pass *pass, int split)
{
    const struct halay_tft_pass_options *o = &pass->options;
    const struct tft_inference *s = &pass->model->inference;
    const size_t stride = o->stride ? o->stride : s->data.schema.stride;

    if (split == LAST_HORIZON)
        return tft_windows_init_last(s->log, &s->data, &pass->windows);
    if (o->end > o->begin)
        return tft_windows_init_between(s->log, &s->data, (enum tft_split)split, o->begin, o->end, stride,
                                        &pass->windows);
    return tft_windows_init(s->log, &s->data, (enum tft_split)split, stride, &pass->windows);
}

static enum halay_status take_away(struct halay_tft_pass *pass)
{
    const struct tft_inference *s = &pass->model->inference;
    const char *name = pass->options.without;

    for (size_t i = 0; name && i < s->data.schema.input_count; i++)
        if (!strcmp(s->data.schema.inputs[i].name, name))
            return tft_occlusion_init(s->log, &s->data, i, &pass->occlusion);
    if (!name)
        return HALAY_OK;
    return halay_fail(s->log, HALAY_ERR_ARGUMENT, "'without' of halay_tft_pass_options is '%s', not an input", name);
}

/* Creates the forecaster of the windows. */
static enum halay_status make_forecaster(struct halay_tft_pass *pass, int split)
{
    struct tft_inference *s = &pass->model->inference;
    const struct halay_tft_pass_options *o = &pass->options;
    const struct tft_model_config *c = tft_model_config(s->run.model);
    const int looks = o->explains || o->has_weights || o->measure;
    size_t more = o->number_count;
    enum halay_status status = HALAY_OK;

    if (looks)
        status = tft_weight_reader_init(s->log, s->run.model, (size_t)tft_pool_threads(s->pool), &pass->reader);
    pass->explained = o->explains ? tft_weight_numbers(&pass->reader) : 0;
    more += pass->explained + (o->has_weights ? weights_count(&pass->reader) : 0);
    if (status || (status = take_away(pass)) ||
        (status = tft_inference_forecaster(s, &pass->windows, more, &pass->forecaster)))
        return status;
    if (split == LAST_HORIZON)
        pass->forecaster.params = tft_run_future_params(&s->run);
    if (o->without)
        pass->forecaster.gather.occlusion = &pass->occlusion;
    if (looks) {
        pass->forecaster.look = copy_granule;
        pass->forecaster.look_arg = pass;
    }
    return tft_forecast_scores_init(s->log, c->quantiles, c->quantile_count, &s->data, 1, &pass->scores);
}

/* Lends these data to the model for as long as it has passes. */
static enum halay_status lend_data(struct halay_tft_pass *pass, struct halay_tft_data *data, int calibrate)
{
    struct halay_tft_model *m = pass->model;

    if (m->passes && (m->pass_data != data || m->pass_calibrate != calibrate))
        return halay_fail(&m->tft->log, HALAY_ERR_ARGUMENT,
                          "a pass over other windows with this model is open: halay_tft_pass_close ends it");
    pass->is_open = 1;
    m->pass_data = data;
    m->pass_calibrate = calibrate;
    return m->passes++ ? HALAY_OK : tft_model_lend_data(m, data, calibrate);
}

static enum halay_status open_pass(struct halay_tft_pass *pass, struct halay_tft_data *data,
                                   const struct halay_tft_pass_options *options)
{
    struct halay_tft *t = pass->model->tft;
    const struct halay_tft_pass_options *o = &pass->options;
    int split, calibrate;
    enum halay_status status;

    if ((status = TFT_READ(t, halay_tft_pass_options, options, &pass->options)) ||
        (status = tft_session_word(t, "split", o->split, tft_split_names, LAST_HORIZON, &split)) ||
        (status = tft_session_word(t, "calibrate", o->calibrate, tft_calibrate_words, -1, &calibrate)) ||
        (status = lend_data(pass, data, calibrate)) || (status = choose_windows(pass, split)) ||
        (!o->is_list && (status = make_forecaster(pass, split))))
        return status;
    return tft_forecast_room_init(&t->log, &pass->model->inference, o->explains ? &pass->reader : &pass->unread,
                                  &pass->room);
}

enum halay_status halay_tft_pass_open(struct halay_tft_model *model, struct halay_tft_data *data,
                                      const struct halay_tft_pass_options *options, struct halay_tft_pass **pass)
{
    if (!model || !data || !options || !pass)
        return tft_session_refuse_null("halay_tft_pass_open", "an argument");
    enum halay_status status = tft_model_enter_pass(model);
    struct halay_tft_pass *p = calloc(1, sizeof *p);
    if (!status && !p)
        status = halay_no_memory(&model->tft->log, "for a pass over windows");
    if (p)
        p->model = model;
    status = tft_session_agree(model->tft, status ? status : open_pass(p, data, options));
    if (!status) {
        halay_tft_pass_seek(p, 0, data->data.entity_count);
        *pass = p;
    } else {
        halay_tft_pass_close(p);
    }
    return tft_session_leave(model->tft, status);
}

void halay_tft_pass_close(struct halay_tft_pass *pass)
{
    if (!pass)
        return;
    tft_forecast_room_fini(&pass->room);
    tft_forecast_scores_fini(&pass->scores);
    tft_forecaster_fini(&pass->forecaster);
    tft_weight_reader_fini(&pass->reader);
    tft_occlusion_fini(&pass->occlusion);
    tft_windows_fini(&pass->windows);
    if (pass->is_open && !--pass->model->passes)
        tft_model_return_data(pass->model);
    free(pass);
}

/* ---- windows ---- */

size_t halay_tft_pass_seek(struct halay_tft_pass *pass, size_t first, size_t count)
{
    const size_t entities = pass->windows.data->entity_count;

    first = first < entities ? first : entities;
    count = count < entities - first ? count : entities - first;
    pass->base = tft_windows_before(&pass->windows, first);
    pass->count = tft_windows_before(&pass->windows, first + count) - pass->base;
    pass->listed = 0;
    pass->forecaster.gather.base = pass->base;
    tft_forecast_begin(&pass->forecaster, pass->count);
    return pass->count;
}

/* Copies the next window with its results. */
static enum halay_status fill_window(struct halay_tft_pass *pass, const struct tft_window *window, const float *p)
{
    struct halay_tft_forecast *f = &pass->room.forecast;
    const size_t values = f->horizon * f->target_count * f->quantile_count;
    enum halay_status status;

    if ((status = tft_forecast_room_fill(&pass->room, window, p, p + values)) ||
        (status = tft_forecast_scores_add_window(&pass->forecaster, NULL, window, p, &pass->scores)))
        return status;
    f->numbers = pass->options.number_count ? p + values + pass->explained : NULL;
    if (pass->options.has_weights) {
        find_weights(&pass->reader, p + values + pass->explained + pass->options.number_count, &pass->weighed);
        pass->weighed.number = window->entity;
        pass->weighed.past = window->length;
        f->weighed = &pass->weighed;
    }
    return HALAY_OK;
}

enum halay_status halay_tft_pass_next(struct halay_tft_pass *pass, const struct halay_tft_forecast **window)
{
    struct halay_tft *t = pass->model->tft;
    struct tft_window w;
    const float *p = NULL;
    size_t position;

    *window = NULL;
    if (pass->options.is_list && pass->listed == pass->count)
        return HALAY_OK;
    if (pass->options.is_list) {
        w = tft_windows_get(&pass->windows, pass->base + pass->listed++);
        tft_forecast_room_fill(&pass->room, &w, NULL, NULL);
        *window = &pass->room.forecast;
        return HALAY_OK;
    }
    enum halay_status status = tft_forecast_next(&pass->forecaster, pass->failed, &position, &w, &p);
    if (!status && p) {
        pass->failed = fill_window(pass, &w, p); /* the other ranks receive it with the next chunk */
        status = pass->failed ? tft_forecast_next(&pass->forecaster, pass->failed, &position, &w, &p) : HALAY_OK;
        *window = status ? NULL : &pass->room.forecast;
    }
    return status ? tft_session_leave_stopped(t, status) : HALAY_OK;
}

void halay_tft_pass_q_risk(const struct halay_tft_pass *pass, double *q_risk)
{
    const struct tft_forecast_scores *s = &pass->scores;

    for (size_t q = 0; s->scores && q < s->scores->quantile_count; q++)
        q_risk[q] = tft_scores_mean_q_risk(s->scores, s->target_count, q);
}

enum halay_status halay_tft_agree(struct halay_tft *tft, enum halay_status status)
{
    if (!tft)
        return tft_session_refuse_null("halay_tft_agree", "tft");
    const enum halay_status joined = status ? HALAY_OK : tft_session_enter_ranks(tft); /* keeps an error's text */
    const enum halay_status agreed = joined ? joined : tft_session_agree(tft, status);
    if (agreed == HALAY_ERR_CANCELED && tft->stopped)
        return halay_refuses(agreed, "the session was asked to stop");
    return tft_session_leave(tft, agreed);
}

struct halay_tft *halay_tft_model_session(const struct halay_tft_model *model)
{
    return model->tft;
}

struct halay_log *halay_tft_log(struct halay_tft *tft)
{
    return &tft->log;
}
