/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on data: prepare, open, save, describe.
 */
#include "base/error_text.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include "tft/core/data/data.h"
#include "tft/core/data/encoding.h"
#include "tft/core/data/table.h"
#include "tft/core/data/windows.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- describe ---- */

/* table: NULL once it is freed. */
static json_t *describe_summary(const struct halay_tft_data *d, const struct tft_table *table)
{
    const struct tft_table_summary *s = &d->data.summary;
    const struct {
        const char *name;
        size_t count;
    } counts[] = {
        { "files", s->files },
        { "rows_read", s->rows_read },
        { "rows_outside_span", s->rows_outside_span },
        { "rows_repeated", s->rows_repeated },
        { "rows_skipped", s->rows_skipped },
        { "rows_duplicated", s->rows_duplicated },
        { "rows_resampled", s->rows_resampled },
        { "rows_trimmed", s->rows_trimmed },
        { "rows_missing", s->rows_missing },
        { "rows_dropped", s->rows_dropped },
        { "filled", s->filled },
        { "entities_empty", s->entities_empty },
        { "entities_untrained", s->entities_untrained },
        { "entities_short", s->entities_short },
        { "columns_ignored", s->columns_ignored },
    };
    json_t *object = json_object();

    for (size_t i = 0; object && i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(object, counts[i].name, json_integer((json_int_t)counts[i].count));
    if (object && table)
        json_object_set_new(object, "ignored", json_string(table->ignored));
    return object;
}

static const char *source_of(const struct tft_input *input)
{
    switch (input->source) {
    case TFT_FROM_COLUMN:
        return input->column;
    case TFT_FROM_CALENDAR:
        return tft_calendar_names[input->calendar];
    case TFT_FROM_HOLIDAYS:
        return "holidays";
    case TFT_FROM_WAVE:
        return "fourier";
    default:
        return "id";
    }
}

static json_t *describe_input(const struct halay_tft_data *d, const struct tft_table *table, size_t i)
{
    static const char *const scales[] = { "none", "standard", "robust", "log1p-standard" };
    const struct tft_input *input = &d->data.schema.inputs[i];
    json_t *object =
        json_pack("{ss ss ss}", "name", input->name, "from", source_of(input), "role", tft_roles[input->role].name);

    if (object && input->is_category)
        json_object_set_new(object, "categories",
                            json_integer((json_int_t)tft_encoding_categories(&d->data.schema, &d->data.encoding, i)));
    else if (object)
        json_object_set_new(object, "scale", json_string(scales[input->scale]));
    if (object && table && input->source == TFT_FROM_COLUMN && input->derivation == TFT_PLAIN)
        json_object_set_new(object, "filled", json_integer((json_int_t)table->filled[table->column_of[i]]));
    return object;
}

static enum halay_status describe_windows(const struct halay_tft_data *d, json_t *of_splits)
{
    const struct tft_data *data = &d->data;

    for (int i = 0; i < TFT_SPLIT_COUNT; i++) {
        struct tft_windows w;
        enum halay_status status = tft_windows_init(&d->tft->log, data, (enum tft_split)i, data->schema.stride, &w);
        if (status)
            return status;
        const size_t targets = w.count * data->schema.horizon * data->schema.target_count;
        json_t *of_split = json_pack("{sI sI sI sI}", "all", (json_int_t)w.count, "short",
                                     (json_int_t)tft_windows_short(&w), "targets", (json_int_t)targets,
                                     "masked_targets", (json_int_t)(targets - tft_windows_targets(&w)));
        tft_windows_fini(&w);
        if (json_object_set_new(of_splits, tft_split_names[i], of_split))
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

static void find_span(const struct tft_data *d, int64_t *begin, int64_t *end)
{
    *begin = INT64_MAX;
    *end = INT64_MIN;
    for (size_t e = 0; e < d->entity_count; e++) {
        int64_t last = tft_data_time(d, e, d->entities[e].first + d->entities[e].rows - 1);
        *begin = d->entities[e].start < *begin ? d->entities[e].start : *begin;
        *end = last > *end ? last : *end;
    }
}

static enum halay_status describe_data(const struct halay_tft_data *d, const struct tft_table *table,
                                       json_t **description)
{
    const struct tft_schema *s = &d->data.schema;
    char first[40], last[40];
    int64_t begin, end;
    json_t *windows = json_object(), *inputs = json_array();
    enum halay_status status = tft_data_check(&d->data, 0, d->data.rows);

    find_span(&d->data, &begin, &end);
    tft_schema_print_time(s, begin, first, sizeof first);
    tft_schema_print_time(s, end, last, sizeof last);
    if (!status)
        status = windows && inputs ? describe_windows(d, windows) : HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < s->input_count && inputs; i++)
        json_array_append_new(inputs, describe_input(d, table, i));
    json_t *all =
        json_pack("{ss ss sO sI sI ss ss sI sI so so so}", "kind", "data", "schema", s->name, "document", s->document,
                  "entities", (json_int_t)d->data.entity_count, "rows", (json_int_t)d->data.rows, "begin", first, "end",
                  last, "encoder", (json_int_t)s->encoder, "horizon", (json_int_t)s->horizon, "summary",
                  describe_summary(d, table), "windows", windows, "inputs", inputs);
    if (!status && !all)
        status = halay_no_memory(&d->tft->log, "for a description");
    if (status)
        json_decref(all);
    else
        *description = all;
    return status;
}

/* ---- prepare ---- */

/* State of one preparation of a table. */
struct work {
    struct halay_tft *tft;
    struct halay_tft_prepare_options options;
    struct tft_frame frame;
    struct tft_table_source source;
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;
    int has_preset;
    struct halay_tft_data *out;
};

static size_t threads_of(const struct halay_tft_prepare_options *o)
{
    cpu_set_t set;

    if (o->threads)
        return o->threads;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (size_t)CPU_COUNT(&set);
}

static enum halay_status read_schema(struct work *w)
{
    const struct halay_tft_prepare_options *o = &w->options;
    const struct tft_schema_source given = { o->schema, o->schema_text };
    const struct tft_preset preset = { o->encoder, o->horizon, o->zone, o->test != 0 };

    return tft_preset_read(&w->tft->log, &given, &w->source, &preset, &w->schema, &w->has_preset);
}

static enum halay_status check_options(struct halay_tft *t, const struct halay_tft_prepare_options *o)
{
    if (o->schema && o->schema_text)
        halay_error(&t->log, "schema and schema_text: one of them");
    else if ((o->schema || o->schema_text) && (o->encoder || o->horizon || o->zone))
        halay_error(&t->log, "encoder, horizon and zone are given without a schema, which defines them");
    else
        return HALAY_OK;
    return HALAY_ERR_ARGUMENT;
}

/* Warns of each split that the schema has and in which nothing can be scored. */
static void warn_of_splits(struct halay_log *log, const struct halay_tft_data *data)
{
    const struct tft_schema *s = &data->data.schema;
    const json_t *windows = json_object_get(data->description, "windows");

    for (int split = TFT_TRAIN + 1; split <= TFT_TEST; split++) {
        const json_t *of = json_object_get(windows, tft_split_names[split]);
        if (s->has_split[split] && !json_integer_value(json_object_get(of, "all")))
            halay_warning(log, "split '%s' has no window: no entity has %zu rows in it, and %zu before them",
                          tft_split_names[split], s->horizon, s->min_encoder);
    }
}

/* Warns of duplicate rows that a preset merged although their values differed. */
static void warn_of_merged(struct halay_log *log, const struct work *w)
{
    if (w->has_preset && w->schema.duplicates == TFT_DUPLICATES_MEAN && w->table.rows_differing)
        halay_warning(
            log,
            "%zu rows have the series and time of another row and other values; their mean is used (first: %s); "
            "if a clock was set back, --zone distinguishes the two; 'duplicates' in a schema chooses otherwise",
            w->table.rows_differing, w->table.first_differing);
}

/* Fails if no entity is long enough for a training window. */
static enum halay_status check_windows(struct halay_log *log, const struct halay_tft_data *data)
{
    const json_t *train = json_object_get(json_object_get(data->description, "windows"), tft_split_names[TFT_TRAIN]);
    const struct tft_data *d = &data->data;

    if (json_integer_value(json_object_get(train, "all"))) {
        warn_of_splits(log, data);
        return HALAY_OK;
    }
    const struct tft_entity *longest = &d->entities[0];
    for (size_t e = 1; e < d->entity_count; e++)
        longest = d->entities[e].rows > longest->rows ? &d->entities[e] : longest;
    return halay_fail(
        log, HALAY_ERR_FORMAT,
        "no entity is long enough for a training window of %zu + %zu steps; the longest, '%.64s', has %zu in all",
        d->schema.min_encoder, d->schema.horizon, longest->id, longest->rows);
}

static enum halay_status map_file(struct halay_tft_data *d, const char *path)
{
    d->path = strdup(path);
    if (d->path)
        return tft_htd_open(&d->tft->log, path, &d->data);
    return halay_no_memory(&d->tft->log, "for data");
}

/* Writes the data and maps the file instead. */
static enum halay_status move_to_file(struct work *w)
{
    struct halay_tft_data *d = w->out;
    enum halay_status status = tft_htd_write(&w->tft->log, w->options.path, &d->data);

    tft_data_fini(&d->data);
    tft_spill_destroy(d->spill);
    d->spill = NULL;
    return status ? status : map_file(d, w->options.path);
}

static enum halay_status prepare_data(struct work *w)
{
    struct halay_log *log = &w->tft->log;
    struct halay_tft_data *d = w->out;
    enum halay_status status;

    if ((status = read_schema(w)) ||
        (w->options.path && (status = tft_spill_create(log, w->options.path, w->options.memory, &d->spill))) ||
        (status = tft_table_read_from(log, &w->schema, &w->source, d->spill, &w->table)))
        return status;
    w->table.threads = threads_of(&w->options);
    if ((status = tft_row_gaps_check(log, &w->schema, &w->table, 1)))
        return status;
    warn_of_merged(log, w);
    tft_encoding_drop_untrained(log, &w->schema, &w->table);
    if ((status = tft_encoding_fit(log, &w->schema, &w->table, &w->encoding)))
        return status;
    tft_lost_changes_check(log, &w->schema, &w->table, &w->encoding);
    if ((status = tft_data_init(log, &w->schema, &w->encoding, &w->table, &d->data)) ||
        (status = describe_data(d, &w->table, &d->description)))
        return status;
    if (json_object_set_new(d->description, "preset", json_boolean(w->has_preset)))
        return HALAY_ERR_NO_MEMORY;
    status = check_windows(log, d);
    return status || !w->options.path ? status : move_to_file(w);
}

enum halay_status tft_data_create(struct halay_tft *tft, struct halay_tft_data **data)
{
    *data = calloc(1, sizeof **data);
    if (!*data)
        return halay_no_memory(&tft->log, "for data");
    (*data)->tft = tft;
    return HALAY_OK;
}

static enum halay_status prepare_table(struct halay_tft *tft, const struct halay_tft_table *table,
                                       const struct halay_tft_prepare_options *options, struct halay_tft_data **data)
{
    struct work w = { .tft = tft };
    enum halay_status status;

    if ((status = TFT_READ(tft, halay_tft_prepare_options, options, &w.options)) ||
        (status = check_options(tft, &w.options)) || (status = tft_session_source(tft, table, &w.frame, &w.source)) ||
        (status = tft_data_create(tft, &w.out)) || (status = prepare_data(&w)))
        halay_tft_data_close(w.out);
    else
        *data = w.out;
    tft_encoding_fini(&w.encoding);
    tft_table_fini(&w.table);
    tft_schema_fini(&w.schema);
    free((void *)w.frame.columns);
    return status;
}

enum halay_status halay_tft_prepare(struct halay_tft *tft, const struct halay_tft_table *table,
                                    const struct halay_tft_prepare_options *options, struct halay_tft_data **data)
{
    if (!tft || !table || !data)
        return tft_session_refuse_null("halay_tft_prepare", "a session, a table or the place for the data");
    return TFT_CALL(1, tft, prepare_table(tft, table, options, data));
}

/* ---- files ---- */

static enum halay_status open_data(struct halay_tft *tft, const char *path, struct halay_tft_data **data)
{
    struct halay_tft_data *d;
    enum halay_status status = tft_data_create(tft, &d);

    if (!status && !(status = map_file(d, path)))
        *data = d;
    else
        halay_tft_data_close(d);
    return status;
}

enum halay_status halay_tft_data_open(struct halay_tft *tft, const char *path, struct halay_tft_data **data)
{
    return TFT_CALL(tft && path && data, tft, open_data(tft, path, data));
}

enum halay_status halay_tft_data_save(const struct halay_tft_data *data, const char *path)
{
    return TFT_CALL(data && path, data->tft, tft_htd_write(&data->tft->log, path, &data->data));
}

void halay_tft_data_close(struct halay_tft_data *d)
{
    if (!d)
        return;
    if (d->model)
        tft_data_end(&d->data);
    else
        tft_data_fini(&d->data);
    tft_spill_destroy(d->spill);
    json_decref(d->description);
    free(d->path);
    free(d);
}

static enum halay_status data_text(const struct halay_tft_data *d, char **json)
{
    json_t *document = json_incref(d->description);
    enum halay_status status = document ? HALAY_OK : describe_data(d, NULL, &document);

    return status ? status : tft_session_text(d->tft, document, json);
}

enum halay_status halay_tft_data_describe(const struct halay_tft_data *d, char **json)
{
    return TFT_CALL(d && json, d->tft, data_text(d, json));
}
