/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that a call reads for a model, by its schema and its scalers. For forecasts after the last row the table is
 * extended by the horizon: calendar inputs are computed, known columns are read from the future.
 */
#include "tft/core/api/api_impl.h"
#include "tft/core/data/data.h"
#include "tft/core/data/table.h"
#include "tft/core/run/baselines.h"
#include "tft/core/score/calibration.h"
#include <stdlib.h>
#include <string.h>

/* Returns the first known input that the calendar cannot compute beyond the end, or NULL. */
static const struct tft_input *find_open(const struct tft_schema *schema)
{
    for (size_t i = 0; i < schema->input_count; i++)
        if (tft_roles[schema->inputs[i].role].is_known_ahead && schema->inputs[i].source == TFT_FROM_COLUMN &&
            !(schema->inputs[i].derivation == TFT_LAG && schema->inputs[i].lag >= schema->horizon))
            return &schema->inputs[i];
    return NULL;
}

int tft_model_needs_future(const struct halay_tft_model *m)
{
    return find_open(&m->inference.run.schema) != NULL;
}

static enum halay_status check_known(struct halay_log *log, const struct tft_schema *schema)
{
    const struct tft_input *open = find_open(schema);

    if (!open)
        return HALAY_OK;
    return halay_fail(
        log, HALAY_ERR_ARGUMENT,
        "known input '%s' is read from a column, which ends with the rows; give its future (--future), or "
        "forecast inside them (--split)",
        open->name);
}

/* Sets where rows are read; between parts of them, the function of the model's owner is called. */
static enum halay_status find_source(const struct halay_tft_model *m, const struct halay_tft_table *given,
                                     struct tft_frame *frame, struct tft_table_source *source)
{
    enum halay_status status = tft_session_source(m->tft, given, frame, source);

    source->between = status ? NULL : m->inference.between;
    source->between_arg = m->inference.between_arg;
    return status;
}

static enum halay_status take_future(const struct halay_tft_model *m, const struct halay_tft_table *future,
                                     const struct tft_schema *schema, struct tft_table *table)
{
    struct tft_frame frame = { 0 };
    struct tft_table_source source;
    enum halay_status status = find_source(m, future, &frame, &source);

    if (status)
        return status;
    if (source.frame && !strcmp(frame.name, "table"))
        frame.name = "the future's table";
    status = tft_future_take(m->inference.log, schema, &source, schema->horizon, table);
    free((void *)frame.columns);
    return status;
}

/* Fails if an entity was left out where all must be forecast; the error names the first reason. */
static enum halay_status check_all_there(struct halay_log *log, const struct tft_data *d, size_t series)
{
    const struct tft_table_summary *s = &d->summary;

    if (s->entities_empty)
        halay_error(log, "%zu entities have no measured target", s->entities_empty);
    else if (s->entities_short)
        halay_error(log, "%zu entities have no row with a value of every input%s", s->entities_short,
                    d->schema.longest_lag ? " and its lags" : "");
    else if (d->entity_count < series)
        halay_error(log, "the future has no row for %zu entities", series - d->entity_count);
    else
        return HALAY_OK;
    return HALAY_ERR_FORMAT;
}

/* Returns nonzero if a missing target gets a constant, so that rows without one are not the future. */
static int has_constant(const struct tft_schema *schema)
{
    for (size_t o = 0; o < schema->target_count; o++)
        if (schema->inputs[schema->targets[o]].fill == TFT_FILL_CONSTANT)
            return 1;
    return 0;
}

/* Finds the future that belongs to a table: the given one, or the table's own rows after the last measured target if
 * they have the known inputs. *future: NULL if nothing is needed. */
static enum halay_status find_future(struct halay_log *log, const struct tft_model_rows *rows,
                                     const struct tft_schema *schema, const struct tft_table *table,
                                     const struct halay_tft_table **future)
{
    *future = rows->future;
    if (rows->future || !rows->is_at_end || !find_open(schema))
        return HALAY_OK;
    if (!table->summary.rows_trimmed)
        return check_known(log, schema);
    *future = rows->table;
    return HALAY_OK;
}

/* Reads the table, up to the last row that is forecast. */
static enum halay_status read_table(struct halay_tft_model *m, const struct tft_model_rows *rows,
                                    const struct tft_schema *schema, const struct tft_table_source *source,
                                    struct tft_table *table)
{
    struct halay_log *log = m->inference.log;
    const struct halay_tft_table *future = NULL;
    enum halay_status status = tft_table_read_from(log, schema, source, NULL, table);

    if (status || (!rows->is_whole && (status = tft_row_gaps_check(log, schema, table, 0))))
        return status;
    if (!rows->is_whole && table->summary.entities_empty)
        halay_warning(log, "%zu entities have no measured target and are not forecast", table->summary.entities_empty);
    if ((status = find_future(log, rows, schema, table, &future)) ||
        (rows->is_at_end && (status = tft_table_extend(log, schema->horizon, table))))
        return status;
    return future ? take_future(m, future, schema, table) : HALAY_OK;
}

/* Returns the number of rows that forecasts after the last rows read of a series: windows of a rolling calibration, the
 * same number again since some of these may be missing, and the rows that baselines read before them. */
static size_t rows_seen(const struct tft_schema *s)
{
    const size_t season = s->season_count ? s->seasons[s->season_count - 1] : 0,
                 windows = (TFT_RECENT + 1) * s->horizon;
    const size_t rows = 2 * (s->longest_lag + s->encoder + season + windows);
    const size_t of_baselines = s->longest_lag + tft_baselines_rows(s) + windows;

    return rows > of_baselines ? rows : of_baselines;
}

/* Fits a schema, a copy, to the rows that are read for a forecast after the last one, or for a calibration. */
static void fit_schema(const struct tft_model_rows *rows, struct tft_schema *schema)
{
    if (rows->is_at_end || rows->validates)
        schema->span[1] = INT64_MAX; /* new rows are after the training span */
    if (rows->is_at_end)
        schema->keep = rows_seen(schema);
    if (rows->validates) {
        schema->has_split[TFT_VALID] = 1;
        schema->has_split[TFT_TEST] = 0;
        schema->split_end[TFT_VALID] = INT64_MAX;
        schema->split_left[TFT_VALID] = 0;
    }
    schema->limits_gaps = rows->is_whole;
    /* Rows after the last measured target are the future, unless one is given separately. */
    if (rows->is_at_end && !schema->trim && (rows->future ? rows->future == rows->table : !has_constant(schema)))
        schema->trim = TFT_TRIM_END;
}

enum halay_status tft_model_read_data(struct halay_tft_model *m, const struct tft_model_rows *rows,
                                      struct tft_data *data)
{
    struct tft_inference *s = &m->inference;
    struct tft_schema schema = s->run.schema; /* these two borrow the run's members, and so do the data */
    struct tft_encoding encoding = s->run.encoding;
    const int is_partial = rows->is_at_end && !rows->is_whole;
    struct tft_frame frame = { 0 };
    struct tft_table_source source;
    struct tft_table table = { 0 };
    enum halay_status status = find_source(m, rows->table, &frame, &source);

    if (status)
        return status;
    fit_schema(rows, &schema);
    schema.clocks = encoding.clocks;
    source.encoding = rows->is_whole ? &encoding : NULL; /* before memory is spent on its rows */
    if ((status = read_table(m, rows, &schema, &source, &table)))
        goto release;
    const size_t series = table.series_count + table.summary.entities_empty;
    if (is_partial)
        tft_encoding_drop_unknown(s->log, &schema, &encoding, &table);
    if ((status = tft_data_init(s->log, &schema, &encoding, &table, data)))
        goto release;
    if (is_partial && data->summary.entities_short)
        halay_warning(s->log, "%zu entities are not forecast: none of their rows has a value of every input and lag",
                      data->summary.entities_short);
    if (rows->is_whole && (status = check_all_there(s->log, data, series)))
        tft_data_end(data);
    else
        tft_model_look(m, data);
release:
    tft_table_fini(&table);
    free((void *)frame.columns);
    return status;
}

enum halay_status tft_model_read_rows(struct halay_tft_model *m, const struct tft_model_rows *rows, int calibrate)
{
    enum halay_status status = tft_model_read_data(m, rows, &m->inference.data);

    m->owns_data = !status;
    return status ? status : tft_model_calibrate(m, calibrate);
}

static enum halay_status read_data(struct halay_tft_model *m, const struct tft_model_rows *rows,
                                   struct halay_tft_data **data)
{
    struct halay_tft_data *made;
    enum halay_status status = tft_data_create(m->tft, &made);

    m->inference.rank = m->tft->rank;
    if (status || (status = tft_model_read_data(m, rows, &made->data))) {
        free(made);
        return status;
    }
    made->model = m;
    *data = made;
    return HALAY_OK;
}

enum halay_status halay_tft_model_read(struct halay_tft_model *m, const struct halay_tft_table *table, int is_newest,
                                       const struct halay_tft_table *future, struct halay_tft_data **data)
{
    const struct tft_model_rows rows = { .table = table, .is_at_end = is_newest, .future = future };

    return TFT_CALL(m && table && data, m->tft, read_data(m, &rows, data));
}
