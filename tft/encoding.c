/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding: scalers fitted on the training span, and the entities' codes, kept as a JSON document.
 *
 * A scaler sees rows before the end of the training split; of the target only what was measured, of other inputs also
 * what was filled. Mean and variance are taken in two passes in double precision; the deviation is the population's
 * (divided by n). A constant input has scale 1. The document is what is saved; the arrays are what is used; one is made
 * from the other in one place, so that data that are read back are scaled by the very same numbers. Cleanup: zeroed
 * first, fini accepts half-built.
 */
#include "tft/data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Collects the values that one scaler is fitted on. */
struct fit {
    size_t n;
    double sum, squares, mean, least, most;
};

/* Where the values of an input are found; calendar inputs are computed. */
struct view {
    const struct tft_schema *schema;
    const struct tft_table *table;
    int64_t origin;
    size_t input, column; /* the input, and its column in the table if it has one */
};

static double view_value(const struct view *v, const struct tft_series *s, size_t row)
{
    const struct tft_input *input = &v->schema->inputs[v->input];

    if (input->source == TFT_FROM_COLUMN)
        return s->values[row * v->table->column_count + v->column];
    return tft_calendar_value(input->calendar, s->start + (int64_t)row * v->schema->every, v->origin, v->schema->every);
}

/* One pass over the training rows of a series: with the mean not known yet (0), or known (1). */
static void fit_series(const struct view *v, const struct tft_series *s, int pass, struct fit *fit)
{
    int is_target = v->schema->inputs[v->input].role == TFT_INPUT_TARGET;

    for (size_t i = 0; i < s->rows; i++) {
        if (s->start + (int64_t)i * v->schema->every >= v->schema->split_end[TFT_TRAIN])
            break;
        if (is_target && !s->present[i])
            continue;
        double x = view_value(v, s, i);
        if (pass) {
            fit->squares += (x - fit->mean) * (x - fit->mean);
            continue;
        }
        fit->least = fit->n ? fmin(fit->least, x) : x;
        fit->most = fit->n ? fmax(fit->most, x) : x;
        fit->n++;
        fit->sum += x;
    }
}

static struct tft_scaler fit_scaler(enum tft_scale kind, const struct fit *fit)
{
    struct tft_scaler scaler = { 0, 1 };

    if (kind == TFT_SCALE_STANDARD)
        scaler = (struct tft_scaler){ fit->mean, sqrt(fit->squares / (double)fit->n) };
    else if (kind == TFT_SCALE_MINMAX)
        scaler = (struct tft_scaler){ fit->least, fit->most - fit->least };
    if (!(scaler.scale > 1e-12 * (fabs(scaler.shift) + 1e-300)) || !isfinite(scaler.scale))
        scaler.scale = 1;
    return scaler;
}

/* Fit one input over series first to last; all get the same scaler. */
static enum halay_status fit_input(struct halay_log *log, const struct view *v, size_t first, size_t last,
                                   struct tft_scaler *scalers)
{
    const struct tft_schema *schema = v->schema;
    const struct tft_input *input = &schema->inputs[v->input];
    struct fit fit = { 0 };

    for (size_t e = first; e < last; e++)
        fit_series(v, &v->table->series[e], 0, &fit);
    if (!fit.n) {
        halay_error(log, "'%s' has no value for input '%s' in the training span; leave it out, or scale by 'per: all'",
                    v->table->series[first].id, input->name);
        return HALAY_ERR_FORMAT;
    }
    fit.mean = fit.sum / (double)fit.n;
    for (size_t e = first; e < last; e++)
        fit_series(v, &v->table->series[e], 1, &fit);
    struct tft_scaler scaler = fit_scaler(input->scale, &fit);
    for (size_t e = first; e < last; e++)
        scalers[e * schema->input_count + v->input] = scaler;
    return HALAY_OK;
}

static enum halay_status fit_all(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *table,
                                 int64_t origin, struct tft_scaler *scalers)
{
    for (size_t i = 0; i < schema->input_count; i++) {
        const struct tft_input *input = &schema->inputs[i];
        struct view v = { .schema = schema, .table = table, .origin = origin, .input = i };
        size_t step = input->per_entity ? 1 : table->series_count;
        for (size_t e = 0; e < table->series_count; e++)
            scalers[e * schema->input_count + i] = (struct tft_scaler){ 0, 1 };
        while (input->source == TFT_FROM_COLUMN && table->columns[v.column] != i)
            v.column++;
        for (size_t e = 0; input->scale != TFT_SCALE_NONE && e < table->series_count; e += step) {
            enum halay_status status = fit_input(log, &v, e, e + step, scalers);
            if (status)
                return status;
        }
    }
    return HALAY_OK;
}

static json_t *make_document(const struct tft_schema *schema, const struct tft_table *table, int64_t origin,
                             const struct tft_scaler *scalers)
{
    json_t *entities = json_array(), *document = json_object();
    int failed = !entities || !document;

    for (size_t e = 0; e < table->series_count && !failed; e++) {
        json_t *of_inputs = json_object();
        for (size_t i = 0; i < schema->input_count && !failed; i++) {
            const struct tft_scaler *s = &scalers[e * schema->input_count + i];
            if (schema->inputs[i].scale != TFT_SCALE_NONE)
                failed = !of_inputs ||
                         json_object_set_new(of_inputs, schema->inputs[i].name, json_pack("[ff]", s->shift, s->scale));
        }
        failed = failed ||
                 json_array_append_new(entities, json_pack("{ss so}", "id", table->series[e].id, "scalers", of_inputs));
    }
    if (failed || json_object_set_new(document, "origin", json_integer(origin)) ||
        json_object_set(document, "entities", entities)) {
        json_decref(document);
        document = NULL;
    }
    json_decref(entities);
    return document;
}

enum halay_status tft_encoding_fit(struct halay_log *log, const struct tft_schema *schema,
                                   const struct tft_table *table, struct tft_encoding *encoding)
{
    enum halay_status status;
    int64_t origin = INT64_MAX;
    struct tft_scaler *scalers = calloc(table->series_count * schema->input_count, sizeof *scalers);
    json_t *document = NULL;

    for (size_t e = 0; e < table->series_count; e++)
        origin = table->series[e].start < origin ? table->series[e].start : origin;
    status = scalers ? fit_all(log, schema, table, origin, scalers) : HALAY_ERR_NO_MEMORY;
    if (!status) {
        document = make_document(schema, table, origin, scalers);
        status = document ? tft_encoding_init(log, "encoding", schema, document, encoding) : HALAY_ERR_NO_MEMORY;
    }
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(log, "no memory for the scalers (or an id that is not UTF-8)");
    json_decref(document);
    free(scalers);
    return status;
}

static enum halay_status bad_encoding(struct halay_log *log, const char *where, const char *what)
{
    halay_error(log, "%s: the entities' scalers are damaged: %s", where, what);
    return HALAY_ERR_FORMAT;
}

static enum halay_status take_entity(struct halay_log *log, const char *where, const struct tft_schema *schema,
                                     const json_t *entity, const char **id, struct tft_scaler *scalers)
{
    const json_t *of_inputs = json_object_get(entity, "scalers");

    *id = json_string_value(json_object_get(entity, "id"));
    if (!*id || !json_is_object(of_inputs))
        return bad_encoding(log, where, "an entity has no id or no scalers");
    for (size_t i = 0; i < schema->input_count; i++) {
        const json_t *pair = json_object_get(of_inputs, schema->inputs[i].name);
        scalers[i] = (struct tft_scaler){ 0, 1 };
        if (schema->inputs[i].scale == TFT_SCALE_NONE)
            continue;
        const json_t *shift = json_array_get(pair, 0), *scale = json_array_get(pair, 1);
        if (!json_is_number(shift) || !json_is_number(scale) || !(json_number_value(scale) > 0))
            return bad_encoding(log, where, "an input has no numbers");
        scalers[i] = (struct tft_scaler){ json_number_value(shift), json_number_value(scale) };
    }
    return HALAY_OK;
}

enum halay_status tft_encoding_init(struct halay_log *log, const char *where, const struct tft_schema *schema,
                                    json_t *document, struct tft_encoding *encoding)
{
    const json_t *entities = json_object_get(document, "entities"), *origin = json_object_get(document, "origin");
    struct tft_encoding e = { .entity_count = json_array_size(entities), .origin = json_integer_value(origin) };
    enum halay_status status = HALAY_OK;

    if (!json_is_integer(origin) || !e.entity_count)
        return bad_encoding(log, where, "no origin or no entities");
    e.ids = calloc(e.entity_count, sizeof *e.ids);
    e.scalers = calloc(e.entity_count * schema->input_count, sizeof *e.scalers);
    if (!e.ids || !e.scalers) {
        halay_error(log, "no memory for the scalers");
        status = HALAY_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < e.entity_count && !status; i++) {
        status = take_entity(log, where, schema, json_array_get(entities, i), &e.ids[i],
                             e.scalers + i * schema->input_count);
        if (!status && i && strcmp(e.ids[i - 1], e.ids[i]) >= 0)
            status = bad_encoding(log, where, "ids are not in order");
    }
    if (status) {
        tft_encoding_fini(&e);
        return status;
    }
    e.document = json_incref(document);
    *encoding = e;
    return HALAY_OK;
}

void tft_encoding_fini(struct tft_encoding *encoding)
{
    json_decref(encoding->document);
    free(encoding->ids);
    free(encoding->scalers);
    *encoding = (struct tft_encoding){ 0 };
}
