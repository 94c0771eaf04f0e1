/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft predict: forecasts from raw files with a run's model, schema and scalers.
 *
 * Without --split each entity gets one forecast, from its last row in the files: the table is extended by the horizon,
 * whose calendar inputs are known; known columns are read from --future. With --split the windows of that split are
 * forecast, as evaluate does. Ranks share the windows, rank 0 writes, in order of entity, origin, horizon.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/data/future.h"
#include "tft/data/output_file.h"
#include "tft/explain/explain_file.h"
#include "tft/run/interrupt.h"
#include "tft/score/forecast_file.h"
#include "tft/score/inference.h"
#include <stdio.h>
#include <string.h>

struct request {
    struct halay_log *log;
    const char *checkpoint, *out, *future; /* future: NULL if not given */
    const char *format;
    struct halay_arguments files;
    int from_end; /* one forecast for each entity from its last row; windows is unused */
    struct tft_window_choice windows;
    int calibrate; /* -1: as the run's configuration says */
    int json;
    const char *explain; /* NULL: forecasts are not explained */
    int explain_json;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

enum { AT_END = TFT_SPLIT_COUNT }; /* in place of a split: after the last rows */

static const struct halay_option option_rows[] = {
    { "FILE...", NULL, NULL, "files like those of the training, or folders of them", HALAY_OPTION_ARGUMENTS,
      SETS(files) },
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint) },
    { "--future", NULL, "FILE", "known inputs after the last rows (or a folder of files): id, time and their columns",
      HALAY_OPTION_TEXT, SETS(future) },
    { "--split", NULL, NULL, "forecast the windows of this split instead of the end", HALAY_OPTION_WORD,
      SETS(windows.split), .words = tft_split_names },
    { "--stride", NULL, "N", "with --split: steps from one window to the next (the schema's)", HALAY_OPTION_NUMBER,
      SETS(windows.stride), .least = 1, .most = TFT_STEPS_MAX },
    { "--calibrate", NULL, NULL, "how intervals are calibrated (as the run was trained)", HALAY_OPTION_WORD,
      SETS(calibrate), .words = tft_calibrate_words },
    { "--format", NULL, "csv|jsonl", "jsonl: JSON lines (by OUT's name; csv)", HALAY_OPTION_TEXT, SETS(format) },
    { "--explain", NULL, "FILE", "write what each forecast relied on too: CSV or JSON lines, by FILE's name",
      HALAY_OPTION_TEXT, SETS(explain) },
    { "--out", "-o", "FILE", "the file to write; - is standard output", HALAY_OPTION_TEXT, SETS(out) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft predict",
    .synopsis = "--checkpoint RUN FILE... [--future FILE | --split NAME [--stride N]] [--explain FILE] -o OUT",
    .about = "Reads files like those of the training and forecasts with the model in RUN: what comes after the last "
             "row of each entity, or every window of a split. Writes entity,origin,time,horizon,target and the "
             "quantiles, in the target's unit; origin is the last moment that a forecast has seen.",
    .table = option_rows,
    .is_lenient = 1,
};

/* ---- read ---- */

/* Beyond the end only the calendar's inputs are known. */
static enum halay_status check_known(struct halay_log *log, const struct tft_schema *schema)
{
    for (size_t i = 0; i < schema->input_count; i++)
        if (tft_roles[schema->inputs[i].role].is_known_ahead && schema->inputs[i].source == TFT_FROM_COLUMN &&
            !(schema->inputs[i].derivation == TFT_LAG && schema->inputs[i].lag >= schema->horizon)) {
            halay_error(log,
                        "known input '%s' comes from a column, which ends with the files; give its future by --future "
                        "(or forecast inside the files, by --split)",
                        schema->inputs[i].name);
            return HALAY_ERR_ARGUMENT;
        }
    return HALAY_OK;
}

/* Read the files with a copy of the run's schema and encoding, into the inference's data. */
static enum halay_status read_new_files(const struct request *r, struct tft_inference *s)
{
    struct tft_schema schema = { 0 };
    struct tft_encoding encoding = { 0 };
    struct tft_table table = { 0 };
    enum halay_status status = tft_schema_init(r->log, "schema", s->run.schema.document, &schema);

    if (!status)
        status = tft_encoding_init(r->log, "encoding", &schema, s->run.encoding.document, &encoding);
    if (!status && r->from_end) {
        schema.span[1] = INT64_MAX; /* new rows lie after the span of the training */
        status = r->future ? HALAY_OK : check_known(r->log, &schema);
    }
    if (!status)
        status = tft_table_read(r->log, &schema, (const char *const *)r->files.at, r->files.count, &table);
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
        halay_warning(log, "'%s' is not forecast: it has %zu rows, the model looks back over at least %zu", e->id, rows,
                      d->schema.min_encoder);
    else
        halay_warning(log, "'%s' is not forecast: a value with 'fill: drop' is missing near its end", e->id);
}

static enum halay_status choose_windows(const struct request *r, struct tft_inference *s, struct tft_windows *windows)
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

/* Print what was forecast, unless a file goes to standard output. */
static enum halay_status print_window_count(const struct request *r, const struct tft_inference *s,
                                            const struct tft_windows *windows)
{
    size_t shorter = tft_windows_short(windows);
    json_t *shares = s->calibrator.data ? tft_calibrator_json(&s->calibrator) : NULL;
    char calibrated[200];

    tft_calibrator_describe(shares, calibrated, sizeof calibrated);
    json_decref(shares);
    if (!strcmp(r->out, "-") || (r->explain && !strcmp(r->explain, "-")))
        return HALAY_OK;
    printf("%zu windows", windows->count);
    if (shorter)
        printf(", %zu of them with a shorter encoder", shorter);
    printf(*calibrated ? "\nintervals calibrated %s\n" : "\n", calibrated);
    if (!fflush(stdout))
        return HALAY_OK;
    halay_error(r->log, "cannot write to standard output");
    return HALAY_ERR_SYSTEM;
}

/* ---- write ---- */

/* The files, while they are written; only rank 0 has them open. */
struct writing {
    struct tft_weight_reader reader; /* of an explanation */
    struct tft_forecaster forecaster;
    struct tft_output out, explain;
    struct tft_forecast_file forecasts;
    struct tft_explain_file explanation;
    size_t values; /* numbers of a forecast, before those that explain it */
};

static enum halay_status open_files(const struct request *r, struct writing *w)
{
    enum halay_status status = tft_output_open(r->log, r->out, &w->out);

    return status || !r->explain ? status : tft_output_open(r->log, r->explain, &w->explain);
}

static enum halay_status writing_init(const struct request *r, struct tft_inference *s,
                                      const struct tft_windows *windows, struct writing *w)
{
    enum halay_status status = HALAY_OK;

    if (r->explain)
        status = tft_weight_reader_init(r->log, s->run.model, (size_t)tft_pool_threads(s->pool), &w->reader);
    if (!status)
        status =
            tft_inference_forecaster(s, windows, r->explain ? tft_explain_file_more(&w->reader) : 0, &w->forecaster);
    if (!status && s->rank == 0)
        status = open_files(r, w);
    if (r->explain) {
        w->forecaster.look = tft_explain_file_look;
        w->forecaster.look_arg = &w->explanation;
    }
    w->forecasts = (struct tft_forecast_file){
        .file = w->out.file, .data = &s->data, .quantiles = &s->run.config.quantiles, .json = r->json
    };
    w->explanation = (struct tft_explain_file){
        .log = r->log, .file = w->explain.file, .json = r->explain_json, .data = &s->data, .reader = &w->reader
    };
    w->values = s->data.schema.horizon * s->data.schema.target_count * s->run.config.quantiles.count;
    return status;
}

static void writing_fini(struct writing *w)
{
    tft_output_abort(&w->out);
    tft_output_abort(&w->explain);
    tft_forecaster_fini(&w->forecaster);
    tft_weight_reader_fini(&w->reader);
}

static enum halay_status write_window(void *arg, size_t position, const struct tft_window *window, const float *p)
{
    struct writing *w = arg;
    enum halay_status status = tft_forecast_file_window(&w->forecasts, position, window, p);

    return status ? status : tft_explain_file_window(&w->explanation, window, p + w->values);
}

static enum halay_status write_forecasts(const struct request *r, size_t count, struct writing *w)
{
    tft_forecast_file_header(&w->forecasts);
    tft_explain_file_header(&w->explanation);
    tft_interrupt_watch(); /* so that no partial file stays */
    enum halay_status status = tft_forecast(&w->forecaster, count, write_window, w);
    if (status == HALAY_ERR_CANCELED && w->out.file)
        halay_error(r->log,
                    strcmp(r->out, "-") ? "interrupted by a signal; '%s' is not written"
                                        : "interrupted by a signal; '%s' is incomplete",
                    r->out);
    if (status == HALAY_ERR_CANCELED && w->explain.file)
        halay_error(r->log, "'%s' is not written either", r->explain);
    if (!status && w->explain.file)
        status = tft_output_commit(&w->explain);
    if (!status && w->out.file)
        status = tft_output_commit(&w->out);
    return status;
}

static enum halay_status predict(const struct request *r)
{
    struct tft_inference s = { 0 };
    struct tft_windows windows = { 0 };
    struct writing w = { 0 };
    enum halay_status status = tft_inference_init(r->log, r->checkpoint, NULL, &s);

    if (!status)
        status = read_new_files(r, &s);
    if (!status)
        status = choose_windows(r, &s, &windows);
    if (!status)
        status = tft_inference_calibrate(&s, r->checkpoint, r->calibrate);
    if (!status)
        status = writing_init(r, &s, &windows, &w);
    if (!status)
        status = write_forecasts(r, windows.count, &w);
    if (!status && s.rank == 0)
        status = print_window_count(r, &s, &windows);
    writing_fini(&w);
    tft_windows_fini(&windows);
    tft_inference_fini(&s);
    return status;
}

int tft_cmd_predict(struct halay_log *log, char **argv)
{
    struct request r = { .log = log, .windows.split = (enum tft_split)AT_END, .calibrate = -1 };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!r.checkpoint)
        return tft_options_missing(log, &command_line, "--checkpoint");
    if (!r.files.count)
        return tft_options_missing(log, &command_line, "a FILE to read");
    if (!r.out)
        return tft_options_missing(log, &command_line, "-o");
    r.from_end = (int)r.windows.split == AT_END;
    if (r.windows.stride && r.from_end)
        halay_error(log, "'--stride' goes with --split");
    if (r.future && !r.from_end)
        halay_error(log, "'--future' is for forecasts beyond the end, without --split");
    const int is_one_file = r.explain && !strcmp(r.explain, r.out);
    if (is_one_file)
        halay_error(log, "'--explain' and -o name the same file, '%s'", r.out);
    if ((r.windows.stride && r.from_end) || (r.future && !r.from_end) || is_one_file ||
        tft_forecast_file_format(log, r.format, r.out, &r.json) ||
        (r.explain && tft_forecast_file_format(log, NULL, r.explain, &r.explain_json)))
        return EXIT_USAGE;
    return tft_interrupt_exit(predict(&r));
}
