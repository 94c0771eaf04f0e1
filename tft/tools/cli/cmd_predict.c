/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft predict: forecasts from raw files with a run's model, schema and scalers.
 */
#include "base/config.h"
#include "tft/tools/cli/session.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct request {
    const char *checkpoint, *future, *device; /* NULL: not given */
    struct halay_arguments files;
    struct halay_tft_forecast_options how;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "FILE...", NULL, NULL, "files like those of the training, or folders of them", HALAY_OPTION_ARGUMENTS,
      SETS(files), .required = "a FILE to read" },
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint),
      .required = "--checkpoint" },
    { "--future", NULL, "FILE", "known inputs after the last rows (or a folder of files): id, time and their columns",
      HALAY_OPTION_TEXT, SETS(future) },
    { "--split", NULL, NULL, "forecast the windows of this split instead of the end", HALAY_OPTION_CHOICE,
      SETS(how.split), .choices = tft_option_splits },
    { "--stride", NULL, "N", "with --split: steps from one window to the next (the schema's)", HALAY_OPTION_NUMBER,
      SETS(how.stride), .min = 1, .max = HALAY_TFT_STEPS_MAX },
    { "--calibrate", NULL, NULL, "how intervals are calibrated (as the run was trained)", HALAY_OPTION_CHOICE,
      SETS(how.calibrate), .choices = tft_option_calibrations },
    { "--format", NULL, NULL, "jsonl: JSON lines (by OUT's name; csv)", HALAY_OPTION_CHOICE, SETS(how.format),
      .choices = tft_option_formats },
    { "--explain", NULL, "FILE", "write what each forecast relied on too: CSV or JSON lines, by FILE's name",
      HALAY_OPTION_TEXT, SETS(how.explanation) },
    { "--out", "-o", "FILE", "the file to write; - is standard output", HALAY_OPTION_TEXT, SETS(how.file),
      .required = "-o" },
    TFT_OPTION_DEVICE(SETS(device)),
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft predict",
    .synopsis = "--checkpoint RUN FILE... [--future FILE | --split NAME [--stride N]] [--explain FILE] -o OUT",
    .about = "Reads files like those of the training and forecasts with the model in RUN: the steps after the last "
             "row of each entity, or every window of a split. Writes the table's columns of id and time, origin (the "
             "last moment that a forecast has seen), horizon and each target's quantiles in its unit: "
             "unique_id,origin,ds,horizon,y_0.1,y_0.5,y_0.9.",
    .table = option_rows,
    .is_lenient = 1,
};

/* The share of an input's values outside the training's range from which it is worth a warning. */
static const double outside_max = .01;

static void warn_of_inputs(struct halay_log *log, const struct halay_tft_model *model)
{
    char *text = NULL;
    json_t *one;
    size_t i;

    if (halay_tft_model_inputs(model, &text))
        return; /* no memory, for a line that is only a hint */
    json_t *inputs = json_loads(text, 0, NULL);
    json_array_foreach(inputs, i, one) {
        double outside = json_number_value(json_object_get(one, "outside"));
        if (outside > outside_max)
            halay_warning(log,
                          "input '%s': %.0f %% of the values that forecasts saw are outside those of the training; "
                          "see 'halay-tft drift'",
                          json_string_value(json_object_get(one, "input")), 100 * outside);
    }
    json_decref(inputs);
    halay_tft_free(text);
}

/* Print what was forecast, unless a file goes to standard output. */
static enum halay_status print_summary(struct halay_log *log, const struct halay_tft_forecast_options *how,
                                       const char *text)
{
    if (!strcmp(how->file, "-") || (how->explanation && !strcmp(how->explanation, "-")))
        return HALAY_OK;
    json_t *summary = json_loads(text, 0, NULL);
    const char *calibrated = json_string_value(json_object_get(summary, "calibrated"));
    long long shorter = (long long)json_integer_value(json_object_get(summary, "short_windows"));

    printf("%lld windows", (long long)json_integer_value(json_object_get(summary, "windows")));
    if (shorter)
        printf(", %lld of them with a shorter encoder", shorter);
    if (calibrated)
        printf("\nintervals calibrated %s", calibrated);
    putchar('\n');
    json_decref(summary);
    return tft_command_flush(log);
}

static enum halay_status predict(struct halay_log *log, struct halay_tft *tft, void *request)
{
    struct request *r = request;
    const struct halay_tft_table rows = { .struct_size = sizeof rows,
                                          .files = (const char *const *)r->files.at,
                                          .file_count = r->files.count },
                                 future = { .struct_size = sizeof future, .files = &r->future, .file_count = 1 };
    struct tft_command_run_data run = { 0 };
    char *summary = NULL;
    enum halay_status status = tft_command_open(log, tft, r->checkpoint, NULL, &run);

    r->how.table = &rows;
    r->how.future = r->future ? &future : NULL;
    r->how.summary = &summary;
    if (!status)
        status = halay_tft_forecast(run.model, &r->how);
    if (status == HALAY_ERR_CANCELED && tft_command_is_first(tft)) {
        halay_error(log,
                    strcmp(r->how.file, "-") ? "interrupted by a signal; '%s' is not written"
                                             : "interrupted by a signal; '%s' is incomplete",
                    r->how.file);
        if (r->how.explanation)
            halay_error(log, "'%s' is not written either", r->how.explanation);
    }
    if (!status && tft_command_is_first(tft))
        warn_of_inputs(log, run.model);
    if (!status && tft_command_is_first(tft))
        status = print_summary(log, &r->how, summary);
    halay_tft_free(summary);
    tft_command_close(&run);
    return status;
}

int tft_cmd_predict(struct halay_log *log, char **argv)
{
    struct request r = { .device = halay_environment_get("HALAY_TFT_DEVICE"), .how.struct_size = sizeof r.how };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    const int has_odd_stride = r.how.stride && !r.how.split, has_odd_future = r.future && r.how.split;
    const int is_one_file = r.how.explanation && !strcmp(r.how.explanation, r.how.file);
    if (has_odd_stride)
        halay_error(log, "'--stride' goes with --split");
    if (has_odd_future)
        halay_error(log, "'--future' is for forecasts beyond the end, without --split");
    if (is_one_file)
        halay_error(log, "'--explain' and -o name the same file, '%s'", r.how.file);
    if (has_odd_stride || has_odd_future || is_one_file)
        return EXIT_USAGE;
    return tft_command_run(log, NULL, r.device, predict, &r);
}
