/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift. Inputs are measured by the training span, errors by the validation span, whose forecasts are no better than
 * those of the time behind it. Each of the two may raise half of the false alarms.
 */
#include "tft/tools/drift/drift.h"
#include "tft/tools/drift/errors.h"
#include "tft/tools/drift/inputs.h"
#include <math.h>

enum { TIME_MOST = 48, COURSE_MOST = 400 };

/* The first moment of all entities, and the moment of the step behind the last one. */
static void find_ends(const struct tft_data *d, int64_t *begin, int64_t *end)
{
    *begin = INT64_MAX;
    *end = INT64_MIN;
    for (size_t e = 0; e < d->entity_count; e++) {
        const struct tft_entity *entity = &d->entities[e];
        int64_t last = tft_data_time(d, e, entity->first + entity->rows);
        *begin = entity->start < *begin ? entity->start : *begin;
        *end = last > *end ? last : *end;
    }
}

static enum halay_status refuse(struct tft_inference *s, int64_t since, const char *what, int64_t moment)
{
    char at[TIME_MOST], other[TIME_MOST];

    tft_schema_print_time(&s->data.schema, since, at, sizeof at);
    tft_schema_print_time(&s->data.schema, moment, other, sizeof other);
    halay_error(s->log, "the recent rows cannot begin at %s: %s %s", at, what, other);
    return HALAY_ERR_ARGUMENT;
}

static size_t separate_blocks(const struct tft_spans *spans)
{
    return spans->blocks ? spans->slots / spans->block : 0;
}

/* Of the blocks, from the oldest on, when each ends and how far its largest statistic went. */
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

static json_t *describe(struct tft_findings *f, const struct tft_spans *spans)
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

static enum halay_status find_in_inputs(struct tft_inference *s, const struct tft_spans *spans, double rate,
                                        json_t **object, size_t *drifted)
{
    struct tft_findings findings;
    size_t short_series = 0, all;
    enum halay_status status =
        tft_findings_init(s->log, rate, spans->blocks, spans->block, separate_blocks(spans), &findings);

    if (!status)
        status = tft_drift_of_inputs(s->log, &s->data, s->stop, spans, &findings, &short_series);
    if (!status) {
        *object = describe(&findings, spans);
        status = *object ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        json_object_set_new(*object, "short", json_integer((json_int_t)short_series));
        *drifted = tft_findings_drifted(&findings, &all);
    }
    tft_findings_fini(&findings);
    return status;
}

static enum halay_status find_in_errors(struct tft_inference *s, const struct tft_spans *spans, double rate,
                                        size_t stride, json_t **object, size_t *drifted)
{
    struct tft_findings findings;
    size_t windows = 0, all;
    enum halay_status status =
        tft_findings_init(s->log, rate, spans->blocks, spans->block, separate_blocks(spans), &findings);

    if (!status)
        status = tft_drift_of_errors(s, spans, stride, &findings, &windows);
    if (!status && windows) {
        *object = describe(&findings, spans);
        status = *object ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        json_object_set_new(*object, "windows", json_integer((json_int_t)windows));
        *drifted = tft_findings_drifted(&findings, &all);
    }
    tft_findings_fini(&findings);
    return status;
}

static json_t *describe_all(const struct tft_inference *s, const struct tft_spans *spans, json_t *inputs,
                            json_t *errors, size_t drifted)
{
    char since[TIME_MOST], until[TIME_MOST];

    tft_schema_print_time(&s->data.schema, spans->since, since, sizeof since);
    tft_schema_print_time(&s->data.schema, spans->until, until, sizeof until);
    return json_pack("{s:s, s:b, s:s, s:s, s:I, s:O, s:o}", "kind", "drift", "drifted", drifted > 0, "since", since,
                     "until", until, "year", (json_int_t)spans->year, "inputs", inputs, "errors",
                     errors ? json_incref(errors) : json_null());
}

enum halay_status tft_drift(struct tft_inference *s, const struct tft_drift_request *request, json_t **result)
{
    const struct tft_schema *schema = &s->data.schema;
    struct tft_spans past, valid;
    json_t *inputs = NULL, *errors = NULL;
    size_t drifted[2] = { 0 };
    int64_t begin, end, train_end = tft_data_split_end(&s->data, TFT_TRAIN);
    int64_t valid_end = schema->has_split[TFT_VALID] ? tft_data_split_end(&s->data, TFT_VALID) : 0;
    enum halay_status status = HALAY_OK;

    find_ends(&s->data, &begin, &end);
    end = request->until < end ? request->until : end;
    if (request->since < train_end)
        return refuse(s, request->since, "the training span goes up to", train_end);
    if (request->since >= end)
        return refuse(s, request->since, "they end before", end);
    tft_spans_init(schema, begin, train_end, request->since, end, &past);
    valid_end = valid_end < request->since ? valid_end : request->since;
    tft_spans_init(schema, train_end, valid_end, request->since, end, &valid);
    valid.is_seasonal = 0; /* they are compared with all of the span */
    if (schema->has_split[TFT_VALID] && valid_end > train_end)
        status = find_in_errors(s, &valid, request->rate / 2, request->stride, &errors, &drifted[1]);
    const double rate = errors ? request->rate / 2 : request->rate;
    tft_spans_narrow(&past, rate);
    if (!status)
        status = find_in_inputs(s, &past, rate, &inputs, &drifted[0]);
    if (!status) {
        *result = describe_all(s, &past, inputs, errors, drifted[0] + drifted[1]);
        status = *result ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    }
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(s->log, "no memory for what has drifted");
    json_decref(inputs);
    json_decref(errors);
    return status;
}
