/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft predict: forecasts from raw files with a checkpoint's model, schema and scalers.
 *
 * Without --split one forecast an entity is made, from the last row that the files have: the table is extended by the
 * horizon, whose calendar inputs are known; columns that are known are read from --future. With --split the windows of
 * that split are forecast, as evaluate does. Ranks share the windows, rank 0 writes, in order of entity, origin,
 * horizon.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/data/future.h"
#include "tft/data/paths.h"
#include "tft/run/interrupt.h"
#include "tft/score/forecast_file.h"
#include "tft/score/scoring.h"
#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: halay-tft predict --checkpoint RUN FILE... [--future FILE | --split NAME [--stride N]] [--format "
    "csv|jsonl] -o "
    "OUT\n"
    "\n"
    "Reads files like those that were trained on and forecasts with the model in RUN: what comes after the last row of "
    "each\n"
    "entity, or every window of a split. Writes entity,origin,time,horizon,target and the quantiles, in the target's "
    "unit;\n"
    "origin is the last moment that a forecast has seen.\n"
    "\n"
    "  --checkpoint FOLDER  the run's folder\n"
    "  --future FILE        known inputs behind the last rows (or a folder of files): id, time and their columns\n"
    "  --split NAME         forecast the windows of train, valid or test instead of the end\n"
    "  --stride N           with --split: steps from one window to the next (the schema's)\n"
    "  --format FORMAT      csv, or jsonl for JSON lines (by OUT's name; csv)\n"
    "  -o, --out FILE       the file to write; - is standard output\n";

struct request {
    struct halay_log *log;
    const char *checkpoint, *out, *future; /* future: NULL if nothing is said of it */
    const char *const *files;
    size_t file_count;
    int from_end; /* one forecast an entity from the last row, windows unused */
    struct tft_selection windows;
    int json;
};

/* ---- read ---- */

/* At the end only what the calendar knows is known. */
static enum halay_status check_known(struct halay_log *log, const struct tft_schema *schema)
{
    for (size_t i = 0; i < schema->input_count; i++)
        if (schema->inputs[i].role == TFT_INPUT_KNOWN && schema->inputs[i].source == TFT_FROM_COLUMN &&
            !(schema->inputs[i].derivation == TFT_LAG && schema->inputs[i].lag >= schema->horizon)) {
            halay_error(log,
                        "known input '%s' comes from a column, which ends with the files; give its future by --future "
                        "(or forecast inside the files, by --split)",
                        schema->inputs[i].name);
            return HALAY_ERR_ARGUMENT;
        }
    return HALAY_OK;
}

/* The files by the checkpoint's schema and encoding, into the scoring's data. The checkpoint's own stay whole. */
static enum halay_status read_files(const struct request *r, struct tft_scoring *s)
{
    struct tft_schema schema = { 0 };
    struct tft_encoding encoding = { 0 };
    struct tft_table table = { 0 };
    enum halay_status status = tft_schema_init(r->log, "schema", s->checkpoint.schema.document, &schema);

    if (!status)
        status = tft_encoding_init(r->log, "encoding", &schema, s->checkpoint.encoding.document, &encoding);
    if (!status && r->from_end) {
        schema.span[1] = INT64_MAX; /* new rows lie after the span that was trained on */
        status = r->future ? HALAY_OK : check_known(r->log, &schema);
    }
    if (!status)
        status = tft_table_read(r->log, &schema, r->files, r->file_count, &table);
    if (!status && r->from_end)
        status = tft_table_extend(r->log, schema.horizon, &table);
    if (!status && r->future)
        status = tft_future_take(r->log, &schema, r->future, schema.horizon, &table);
    if (!status)
        status = tft_data_init(r->log, &schema, &encoding, &table, &s->data);
    tft_table_fini(&table);
    tft_encoding_fini(&encoding);
    tft_schema_fini(&schema);
    return status;
}

static void warn_left_out(struct halay_log *log, const struct tft_data *d, const struct tft_entity *e)
{
    size_t rows = e->rows - d->schema.horizon;

    if (rows < d->schema.min_encoder)
        halay_warning(log, "'%s' is not forecast: it has %zu rows, the model looks back over %zu at least", e->id, rows,
                      d->schema.min_encoder);
    else
        halay_warning(log, "'%s' is not forecast: a value with 'fill: drop' is missing near its end", e->id);
}

static enum halay_status choose_windows(const struct request *r, struct tft_scoring *s, struct tft_windows *windows)
{
    const struct tft_data *d = &s->data;
    enum halay_status status;

    if (!r->from_end)
        status = tft_windows_init(r->log, d, r->windows.split, r->windows.stride ? r->windows.stride : d->schema.stride,
                                  windows);
    else
        status = tft_windows_init_last(r->log, d, windows);
    for (size_t e = 0; e < d->entity_count && !status && r->from_end && s->rank == 0; e++)
        if (tft_windows_before(windows, e) == tft_windows_before(windows, e + 1))
            warn_left_out(r->log, d, &d->entities[e]);
    if (!status && !windows->count) {
        halay_error(r->log, "there is nothing to forecast: no entity has a window");
        status = HALAY_ERR_FORMAT;
    }
    return status;
}

/* What was forecast, unless the forecasts themselves go to standard output. */
static enum halay_status print_summary(const struct request *r, const struct tft_windows *windows)
{
    size_t shorter = tft_windows_short(windows);

    if (!strcmp(r->out, "-"))
        return HALAY_OK;
    printf("%zu windows", windows->count);
    if (shorter)
        printf(", %zu of them with a shorter encoder", shorter);
    putchar('\n');
    if (!fflush(stdout))
        return HALAY_OK;
    halay_error(r->log, "cannot write to standard output");
    return HALAY_ERR_SYSTEM;
}

static enum halay_status predict(const struct request *r)
{
    struct tft_scoring s = { 0 };
    struct tft_windows windows = { 0 };
    struct tft_forecaster forecaster = { 0 };
    struct tft_output out = { 0 };
    enum halay_status status = tft_scoring_init(r->log, r->checkpoint, NULL, &s);

    if (!status)
        status = read_files(r, &s);
    if (!status)
        status = choose_windows(r, &s, &windows);
    if (!status)
        status = tft_scoring_forecaster(&s, &windows, &forecaster);
    if (!status && s.rank == 0)
        status = tft_output_open(r->log, r->out, &out);
    if (!status) {
        struct tft_forecast_file file = {
            .file = out.file, .data = &s.data, .quantiles = &s.checkpoint.config.quantiles, .json = r->json
        };
        tft_forecast_file_header(&file);
        tft_interrupt_watch(); /* so that no half file stays */
        status = tft_forecast(&forecaster, windows.count, tft_forecast_file_window, &file);
    }
    if (status == HALAY_ERR_CANCELED && s.rank == 0)
        halay_error(r->log,
                    strcmp(r->out, "-") ? "interrupted by a signal; '%s' is not written"
                                        : "interrupted by a signal; what '%s' got is not all",
                    r->out);
    if (!status && out.file)
        status = tft_output_commit(&out);
    if (!status && s.rank == 0)
        status = print_summary(r, &windows);
    tft_output_abort(&out);
    tft_forecaster_fini(&forecaster);
    tft_windows_fini(&windows);
    tft_scoring_fini(&s);
    return status;
}

int tft_cmd_predict(struct halay_log *log, int argc, char **argv)
{
    struct request r = { .log = log };
    const char *split = NULL, *stride = NULL, *format = NULL;
    const struct tft_option list[] = { { "checkpoint", 0, &r.checkpoint, NULL },
                                       { "out", 'o', &r.out, NULL },
                                       { "split", 0, &split, NULL },
                                       { "stride", 0, &stride, NULL },
                                       { "format", 0, &format, NULL },
                                       { "future", 0, &r.future, NULL },
                                       { NULL, 0, NULL, NULL } };
    const struct tft_options options = { .log = log, .command = "halay-tft predict", .help = help, .list = list };
    int files, status = tft_options_parse(&options, argc, argv, &files);

    if (status >= 0)
        return status;
    if (!r.checkpoint)
        return tft_options_missing(&options, "--checkpoint");
    if (!files)
        return tft_options_missing(&options, "a FILE to read");
    if (!r.out)
        return tft_options_missing(&options, "-o");
    r.from_end = !split;
    r.json = tft_forecast_file_is_json(format, r.out);
    if (r.json < 0)
        halay_error(log, "'--format' must be csv or jsonl, not '%s'", format);
    if (stride && !split)
        halay_error(log, "'--stride' goes with --split");
    if (r.future && split)
        halay_error(log, "'--future' is for forecasts behind the end, without --split");
    if (r.json < 0 || (r.future && split) || (stride && !split) ||
        (split && tft_selection_parse(log, split, stride, &r.windows)))
        return TFT_EXIT_USAGE;
    r.files = (const char *const *)argv;
    r.file_count = (size_t)files;
    return tft_interrupt_exit(predict(&r));
}
