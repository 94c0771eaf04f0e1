/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift. Inputs are compared with the training span, errors with the validation span: its forecasts are as good as
 * those of the time after it, since it was not trained on. Each of the two may raise half of the false alarms.
 */
#include "tft/tools/drift/drift.h"
#include "base/document.h"
#include "base/error_text.h"
#include "base/struct_size.h"
#include <math.h>

enum { TIME_MOST = 48, COURSE_MOST = 400 };

static const double default_rate = 0.05;

/* ---- which rows are recent --------------------------------------------------------------------------------------- */

static enum halay_status read_moment(const struct tft_drift *d, const char *what, const char *text, int64_t *moment)
{
    if (!halay_tft_data_read_time(d->data, text, moment))
        return HALAY_OK;
    halay_error(d->log, "'%s': '%s' is not a moment, such as 2018-07-01 00:00", what, text);
    return HALAY_ERR_ARGUMENT;
}

/* Finds the moment of the row that is `last` rows before the end of the entity that ends last. */
static enum halay_status find_last(const struct tft_drift *d, size_t last, int64_t *since)
{
    int64_t end, latest = INT64_MIN;
    size_t rows, longest = 0, of_longest = 0;

    for (size_t e = 0; halay_tft_data_entity(d->data, e, &rows); e++) {
        enum halay_status status = halay_tft_data_times(d->data, e, rows, 1, &end, NULL);
        if (status)
            return status;
        if (e && end <= latest)
            continue;
        latest = end;
        longest = e;
        of_longest = rows;
    }
    return halay_tft_data_times(d->data, longest, of_longest - (last < of_longest ? last : of_longest), 1, since, NULL);
}

/* The recent span begins at a moment, some steps before the last row's end, or with the split test; without one after
 * training. It ends at a moment, with the rows at the latest. */
static enum halay_status find_recent(const struct tft_drift *d, const struct halay_tft_drift_options *o, int64_t *since,
                                     int64_t *until)
{
    const struct halay_tft_extent *x = &d->extent;
    enum halay_status status;

    *since = x->valid_end != INT64_MIN && x->test_end != INT64_MIN ? x->valid_end : x->train_end;
    *until = INT64_MAX;
    if (o->since)
        status = read_moment(d, "since", o->since, since);
    else
        status = o->last ? find_last(d, o->last, since) : HALAY_OK;
    if (!status && o->until)
        status = read_moment(d, "until", o->until, until);
    *until = *until < x->end ? *until : x->end;
    return status;
}

static enum halay_status refuse_since(const struct tft_drift *d, int64_t since, const char *what, int64_t moment)
{
    char at[TIME_MOST], other[TIME_MOST];

    halay_tft_data_print_time(d->data, since, at);
    halay_tft_data_print_time(d->data, moment, other);
    halay_error(d->log, "the recent rows cannot begin at %s: %s %s", at, what, other);
    return HALAY_ERR_ARGUMENT;
}

/* ---- what is found ----------------------------------------------------------------------------------------------- */

static size_t separate_blocks(const struct tft_spans *spans)
{
    return spans->blocks ? spans->slots / spans->block : 0;
}

/* Returns the end of each block, from the oldest on, and its largest statistic as a part of the threshold. */
static json_t *course_of(const struct tft_spans *spans, const struct tft_findings *f)
{
    json_t *course = json_array();
    size_t every = f->blocks / COURSE_MOST + 1;

    for (size_t k = 0; k < f->blocks; k += every) {
        size_t b = f->blocks - 1 - k;
        double largest = f->largest[b] / f->threshold;
        if (!isnan(largest))
            json_array_append_new(course,
                                  json_pack("[f, f]", (double)(spans->end - (int64_t)b * spans->width), largest));
    }
    if (!isnan(f->most / f->threshold))
        json_array_append_new(course, json_pack("[f, f]", (double)spans->until, f->most / f->threshold));
    return course;
}

static json_t *describe_findings(struct tft_findings *f, const struct tft_spans *spans)
{
    tft_findings_finish(f);
    json_t *object = json_pack("{s:I, s:b, s:b, s:O}", "blocks", (json_int_t)f->used, "seasonal", spans->is_seasonal,
                               "extrapolated", f->is_extrapolated, "rows", f->rows);

    if (!object)
        return NULL;
    json_object_set_new(object, "rate", isnan(f->rate) ? json_null() : json_real(f->rate));
    json_object_set_new(object, "severity",
                        isfinite(f->most / f->threshold) ? json_real(f->most / f->threshold) : json_null());
    json_object_set_new(object, "course", course_of(spans, f));
    return object;
}

/* Compares inputs, or with a stride errors. *object stays NULL if no forecasts can be compared. */
static enum halay_status compare_family(const struct tft_drift *d, const struct tft_spans *spans, double rate,
                                        size_t stride, json_t **object, size_t *drifted)
{
    struct tft_findings findings;
    size_t compared = 0, all;
    enum halay_status status =
        tft_findings_init(d->log, rate, spans->blocks, spans->block, separate_blocks(spans), &findings);

    if (!status)
        status = stride ? tft_drift_of_errors(d, spans, stride, &findings, &compared)
                        : tft_drift_of_inputs(d, spans, &findings, &compared);
    if (!status && (compared || !stride)) {
        *object = describe_findings(&findings, spans);
        status = *object ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        json_object_set_new(*object, stride ? "windows" : "short", json_integer((json_int_t)compared));
        *drifted += tft_findings_drifted(&findings, &all);
    }
    tft_findings_fini(&findings);
    return status;
}

static json_t *describe_all(const struct tft_drift *d, const struct tft_spans *spans, json_t *inputs, json_t *errors,
                            size_t drifted)
{
    char since[TIME_MOST], until[TIME_MOST];

    halay_tft_data_print_time(d->data, spans->since, since);
    halay_tft_data_print_time(d->data, spans->until, until);
    return json_pack("{s:s, s:b, s:s, s:s, s:I, s:O, s:O?}", "kind", "drift", "drifted", drifted > 0, "since", since,
                     "until", until, "year", (json_int_t)spans->year, "inputs", inputs, "errors", errors);
}

/* Compares inputs with the past up to the end of training, and errors with the validation span. */
static enum halay_status compare_all(const struct tft_drift *d, const struct halay_tft_drift_options *o, int64_t since,
                                     int64_t until, json_t **result)
{
    const struct halay_tft_extent *x = &d->extent;
    const double given = o->rate > 0 ? o->rate : default_rate;
    const int64_t valid_end = x->valid_end < since ? x->valid_end : since;
    struct tft_spans past, valid;
    json_t *inputs = NULL, *errors = NULL;
    size_t drifted = 0;
    enum halay_status status = HALAY_OK;

    if (since < x->train_end)
        return refuse_since(d, since, "the training span goes up to", x->train_end);
    if (since >= until)
        return refuse_since(d, since, "they end before", until);
    tft_spans_init(x->counts, x->begin, x->train_end, since, until, &past);
    tft_spans_init(x->counts, x->train_end, valid_end, since, until, &valid);
    valid.is_seasonal = 0; /* they are compared with all of the span */
    if (x->valid_end != INT64_MIN && valid_end > x->train_end)
        status = compare_family(d, &valid, given / 2, o->stride ? o->stride : x->horizon, &errors, &drifted);
    const double rate = errors ? given / 2 : given;
    tft_spans_narrow(&past, rate);
    if (!status)
        status = compare_family(d, &past, rate, 0, &inputs, &drifted);
    if (!status) {
        *result = describe_all(d, &past, inputs, errors ? errors : json_null(), drifted);
        status = *result ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    }
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(d->log, "no memory for the result of drift");
    json_decref(inputs);
    json_decref(errors);
    return status;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static enum halay_status read_options(struct halay_log *log, const struct halay_tft_drift_options *options,
                                      struct halay_tft_drift_options *o)
{
    enum halay_status status =
        options ? halay_struct_read(log, "halay_tft_drift_options", options, sizeof *o, sizeof *o, o) : HALAY_OK;

    if (status || (o->rate >= 0 && o->rate < 1))
        return status;
    halay_error(log, "'rate' of halay_tft_drift_options is %g: a probability below 1 is wanted", o->rate);
    return HALAY_ERR_ARGUMENT;
}

/* Reads a table, if given, as data of the model (*read). A pass without forecasts, *hold, keeps the data and the
 * calibration in use. */
static enum halay_status drift_begin(struct tft_drift *d, const struct halay_tft_table *table,
                                     struct halay_tft_data **read, struct halay_tft_pass **hold)
{
    const struct halay_tft_pass_options o = {
        .struct_size = sizeof o, .split = "train", .calibrate = d->calibrate, .is_list = 1
    };
    enum halay_status status = HALAY_OK;

    if (!d->data == !table) {
        halay_error(d->log, "give either data or a table");
        return HALAY_ERR_ARGUMENT;
    }
    if (table)
        status = halay_tft_model_read(d->model, table, 0, NULL, read);
    if ((status = halay_tft_agree(halay_tft_model_session(d->model), status)))
        return status;
    if (table)
        d->data = *read;
    d->extent.struct_size = sizeof d->extent;
    status = halay_tft_pass_open(d->model, d->data, &o, hold);
    return status ? status : halay_tft_data_extent(d->data, &d->extent);
}

static enum halay_status write_result(struct halay_output *out, const json_t *result, int is_first, char **json)
{
    enum halay_status status = out->file ? halay_document_commit(out, result) : HALAY_OK;

    if (status || !is_first)
        return status;
    *json = json_dumps(result, JSON_COMPACT);
    return *json ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

enum halay_status halay_tft_drift(struct halay_tft_model *model, struct halay_tft_data *data,
                                  const struct halay_tft_drift_options *options, char **json)
{
    struct halay_tft_drift_options o = { 0 };
    struct tft_drift d = { .model = model, .data = data };
    struct halay_output out = { 0 };
    struct halay_tft_data *read = NULL;
    struct halay_tft_pass *hold = NULL;
    json_t *result = NULL;
    int64_t since, until;

    if (!model || !json)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_tft_drift: an argument is NULL");
    struct halay_tft *t = halay_tft_model_session(model);
    enum halay_status status = halay_tft_join(t);
    if (status)
        return status;
    const int is_first = halay_rank(halay_tft_context(t)) == 0;
    d.log = halay_tft_log(t);
    *json = NULL;
    status = read_options(d.log, options, &o);
    d.calibrate = o.calibrate;
    if (!status && o.file && is_first)
        status = halay_output_open(d.log, o.file, &out);
    if (!(status = halay_tft_agree(t, status)) && !(status = drift_begin(&d, o.table, &read, &hold)) &&
        !(status = find_recent(&d, &o, &since, &until)) && !(status = compare_all(&d, &o, since, until, &result)))
        status = write_result(&out, result, is_first, json);
    json_decref(result);
    halay_output_abort(&out);
    halay_tft_pass_close(hold);
    halay_tft_data_close(read);
    return halay_tft_agree(t, status);
}
