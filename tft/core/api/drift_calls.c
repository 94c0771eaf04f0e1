/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift, as a call; profiles, and what models were asked.
 */
#include "base/struct_size.h"
#include "tft/core/api/model_calls.h"
#include "tft/core/api/result_files.h"
#include "tft/tools/drift/drift.h"

static const double default_rate = 0.05;

static enum halay_status read_moment(struct halay_tft *t, const struct tft_schema *s, const char *what,
                                     const char *text, int64_t *moment)
{
    if (!tft_schema_read_moment(s, text, 0, moment))
        return HALAY_OK;
    halay_error(&t->log, "'%s': '%s' is no moment, such as 2018-07-01 00:00", what, text);
    return HALAY_ERR_ARGUMENT;
}

/* Where the recent span begins: at a moment, some steps before the last row's end, or with the split test; without one
 * behind training. */
static enum halay_status find_since(struct halay_tft *t, const struct tft_data *d,
                                    const struct halay_tft_drift_options *o, int64_t *since)
{
    const struct tft_schema *s = &d->schema;
    size_t longest = 0;

    if (o->since)
        return read_moment(t, s, "since", o->since, since);
    *since = tft_data_split_end(d, s->has_split[TFT_VALID] && s->has_split[TFT_TEST] ? TFT_VALID : TFT_TRAIN);
    if (!o->last)
        return HALAY_OK;
    for (size_t e = 0; e < d->entity_count; e++) /* the entity that goes on for longest */
        if (tft_data_time(d, e, d->entities[e].first + d->entities[e].rows) >
            tft_data_time(d, longest, d->entities[longest].first + d->entities[longest].rows))
            longest = e;
    const struct tft_entity *e = &d->entities[longest];
    *since = tft_data_time(d, longest, e->first + e->rows - (o->last < e->rows ? o->last : e->rows));
    return HALAY_OK;
}

static enum halay_status read_options(struct halay_tft *t, const struct halay_tft_drift_options *options,
                                      struct halay_tft_drift_options *o, int *calibrate)
{
    *o = (struct halay_tft_drift_options){ 0 };
    enum halay_status status =
        options ? halay_struct_read(&t->log, "halay_tft_drift_options", options, sizeof *o, sizeof *o, o) : HALAY_OK;

    if (!status)
        status = tft_session_word(t, "calibrate", o->calibrate, tft_calibrate_words, -1, calibrate);
    if (!status && !(o->rate >= 0 && o->rate < 1)) {
        halay_error(&t->log, "'rate' of halay_tft_drift_options is %g: a probability below 1 is wanted", o->rate);
        status = HALAY_ERR_ARGUMENT;
    }
    return status;
}

enum halay_status halay_tft_drift(struct halay_tft_model *model, struct halay_tft_data *data,
                                  const struct halay_tft_drift_options *options, char **json)
{
    struct halay_tft_drift_options o;
    struct tft_drift_request request = { 0 };
    struct tft_result_files files = { 0 };
    json_t *result = NULL;
    int calibrate = -1;

    if (!model || !json)
        return tft_session_refuse_null("halay_tft_drift", "an argument");
    struct halay_tft *t = model->tft;
    enum halay_status status = tft_model_enter(model);
    if (!status)
        status = read_options(t, options, &o, &calibrate);
    const struct tft_model_rows rows = { .table = status ? NULL : o.table };
    if (!status && !data == !rows.table) {
        halay_error(&t->log, "what is looked at is either data or a table");
        status = HALAY_ERR_ARGUMENT;
    }
    if (!status)
        status = tft_result_files_open(t, o.file, NULL, NULL, &files);
    if (!status)
        status = data ? tft_model_lend_data(model, data, calibrate) : tft_model_read_rows(model, &rows, calibrate);
    if (!status)
        status = find_since(t, &model->inference.data, &o, &request.since);
    request.until = INT64_MAX;
    if (!status && o.until)
        status = read_moment(t, &model->inference.data.schema, "until", o.until, &request.until);
    status = tft_session_agree(t, status);
    if (!status) {
        request.rate = o.rate > 0 ? o.rate : default_rate;
        request.stride = o.stride ? o.stride : model->inference.run.schema.horizon;
        status = tft_drift(&model->inference, &request, &result);
    }
    if (!status)
        status = tft_result_files_write(&files, result, NULL);
    if (!status)
        status = tft_session_give(t, json_incref(result), json);
    json_decref(result);
    tft_result_files_abort(&files);
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

enum halay_status halay_tft_model_inputs(const struct halay_tft_model *model, char **json)
{
    if (!model || !json)
        return tft_session_refuse_null("halay_tft_model_inputs", "an argument");
    tft_session_enter(model->tft);
    json_t *inputs = tft_profile_json(model->profile, &model->inference.run.schema);
    return tft_session_leave(model->tft, tft_session_text(model->tft, inputs, json));
}
