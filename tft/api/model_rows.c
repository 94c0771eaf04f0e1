/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that a call reads for a model, by its schema and its scalers. For forecasts behind the last ones the table is
 * extended by the horizon, whose calendar inputs are known; known columns come from the future.
 */
#include "tft/api/model_calls.h"
#include "tft/data/future.h"
#include <stdlib.h>

/* Beyond the end only the calendar's inputs are known. */
static enum halay_status check_known(struct halay_log *log, const struct tft_schema *schema)
{
    for (size_t i = 0; i < schema->input_count; i++)
        if (tft_roles[schema->inputs[i].role].is_known_ahead && schema->inputs[i].source == TFT_FROM_COLUMN &&
            !(schema->inputs[i].derivation == TFT_LAG && schema->inputs[i].lag >= schema->horizon)) {
            halay_error(
                log,
                "known input '%s' comes from a column, which ends with the rows; give its future (--future), or "
                "forecast inside them (--split)",
                schema->inputs[i].name);
            return HALAY_ERR_ARGUMENT;
        }
    return HALAY_OK;
}

static enum halay_status take_future(struct halay_tft *t, const struct halay_tft_table *future,
                                     const struct tft_schema *schema, struct tft_table *table)
{
    struct tft_frame frame = { 0 };
    struct tft_table_source source;
    enum halay_status status = tft_session_source(t, future, &frame, &source);

    frame.name = "the future's table";
    if (!status)
        status = tft_future_take(&t->log, schema, &source, schema->horizon, table);
    free((void *)frame.columns);
    return status;
}

/* Read by a copy of the model's schema and encoding, into the inference's data. */
static enum halay_status read_source(struct halay_tft_model *m, const struct tft_model_rows *rows,
                                     const struct tft_table_source *source)
{
    struct tft_inference *s = &m->inference;
    struct tft_schema schema = { 0 };
    struct tft_encoding encoding = { 0 };
    struct tft_table table = { 0 };
    enum halay_status status = tft_schema_init(s->log, "schema", s->run.schema.document, &schema);

    if (!status)
        status = tft_encoding_init(s->log, "encoding", &schema, s->run.encoding.document, &encoding);
    if (!status && rows->is_at_end) {
        schema.span[1] = INT64_MAX; /* new rows lie after the span of the training */
        status = rows->future ? HALAY_OK : check_known(s->log, &schema);
    }
    if (!status)
        status = tft_table_read_from(s->log, &schema, source, NULL, &table);
    if (!status && rows->is_at_end)
        status = tft_table_extend(s->log, schema.horizon, &table);
    if (!status && rows->future)
        status = take_future(m->tft, rows->future, &schema, &table);
    if (!status)
        status = tft_data_init(s->log, &schema, &encoding, &table, &s->data);
    tft_table_fini(&table);
    tft_encoding_fini(&encoding);
    tft_schema_fini(&schema);
    return status;
}

enum halay_status tft_model_read_rows(struct halay_tft_model *m, const struct tft_model_rows *rows, int calibrate)
{
    struct tft_frame frame = { 0 };
    struct tft_table_source source;
    enum halay_status status = tft_session_source(m->tft, rows->table, &frame, &source);

    m->owns_data = 1;
    if (!status)
        status = read_source(m, rows, &source);
    if (!status)
        status = tft_model_calibrate(m, calibrate);
    free((void *)frame.columns);
    return status;
}
