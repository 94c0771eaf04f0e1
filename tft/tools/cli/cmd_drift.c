/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft drift: whether recent rows are still like those of the training, and forecasts as good as they were; an
 * exit code for pipelines.
 */
#include "base/config.h"
#include "tft/tools/cli/session.h"
#include <jansson.h>
#include <string.h>

/* Neither success nor an error. */
enum { EXIT_DRIFTED = 3 };

struct request {
    const char *checkpoint, *data, *csv, *page, *metrics, *device;
    struct halay_tft_drift_options how;
    int profile;
    int drifted; /* what was found */
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint),
      .required = "--checkpoint" },
    { "--data", NULL, "FILE", "data prepared by the same schema, from the training's rows to the recent ones",
      HALAY_OPTION_TEXT, SETS(data), .required = "--data" },
    { "--since", NULL, "TIME", "the recent rows begin here (with the split test)", HALAY_OPTION_TEXT, SETS(how.since) },
    { "--last", NULL, "N", "or are the last N steps", HALAY_OPTION_NUMBER, SETS(how.last), .min = 1,
      .max = 1000000000 },
    { "--until", NULL, "TIME", "and end before this (with the last row)", HALAY_OPTION_TEXT, SETS(how.until) },
    { "--rate", NULL, "X", "probability of a false alarm (0.05)", HALAY_OPTION_REAL, SETS(how.rate), .min = 1e-6,
      .max = 0.5 },
    { "--stride", NULL, "N", "steps from one forecast to the next (the horizon)", HALAY_OPTION_NUMBER, SETS(how.stride),
      .min = 1, .max = HALAY_TFT_STEPS_MAX },
    { "--calibrate", NULL, NULL, "how intervals are calibrated (as the run was trained)", HALAY_OPTION_CHOICE,
      SETS(how.calibrate), .choices = tft_option_calibrations },
    { "--json", NULL, "FILE", "write all numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(how.file) },
    { "--csv", NULL, "FILE", "write a row for each statistic", HALAY_OPTION_TEXT, SETS(csv) },
    { "--page", "-o", "FILE", "write a page", HALAY_OPTION_TEXT, SETS(page) },
    { "--metrics", NULL, "FILE", "write gauges for Prometheus (its textfile collector)", HALAY_OPTION_TEXT,
      SETS(metrics) },
    { "--profile", NULL, NULL, "look at nothing; write RUN/profile.json, which serve and predict compare with",
      HALAY_OPTION_FLAG, SETS(profile) },
    TFT_OPTION_DEVICE(SETS(device)),
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft drift",
    .synopsis = "--checkpoint RUN --data DATA.htd [--since TIME | --last N] [--until TIME] [OPTION]...",
    .about =
        "Compares recent rows with those that a model was trained on, input by input and entity by entity, and the "
        "errors and the coverage of forecasts with those of the validation span. What counts as drift is what "
        "stretches of the past of the same length show rarely: all comparisons together raise a false alarm with the "
        "probability --rate. The exit status is 3 if something has drifted, 0 if not.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status write_forms(struct halay_log *log, const struct request *r, const char *json)
{
    enum halay_status status = r->csv ? tft_command_write_form(log, json, "csv", r->csv) : HALAY_OK;

    if (!status && r->page)
        status = tft_command_write_form(log, json, "page", r->page);
    if (!status && r->metrics)
        status = tft_command_write_form(log, json, "metrics", r->metrics);
    return status ? status : tft_command_print_table(log, json, r->how.file, r->csv);
}

static int has_drifted(const char *json)
{
    json_t *result = json_loads(json, 0, NULL);
    int drifted = json_is_true(json_object_get(result, "drifted"));

    json_decref(result);
    return drifted;
}

static enum halay_status look(struct halay_log *log, struct halay_tft *tft, void *request)
{
    struct request *r = request;
    struct tft_command_run_data run = { 0 };
    char *json = NULL;
    enum halay_status status = tft_command_open(log, tft, r->checkpoint, r->data, &run);

    if (!status && r->profile)
        status = halay_tft_profile(run.model, run.data, r->checkpoint);
    else if (!status)
        status = halay_tft_drift(run.model, run.data, &r->how, &json);
    if (status == HALAY_ERR_CANCELED && tft_command_is_first(tft))
        halay_error(log, "interrupted by a signal; nothing was found out");
    if (!status && json) {
        r->drifted = has_drifted(json);
        status = write_forms(log, r, json);
    }
    halay_tft_free(json);
    tft_command_close(&run);
    return status;
}

int tft_cmd_drift(struct halay_log *log, char **argv)
{
    struct request r = { .device = halay_environment_get("HALAY_TFT_DEVICE"), .how.struct_size = sizeof r.how };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (r.how.last && (r.how.since || r.how.until)) {
        halay_error(log, "'--last' is up to the last row: give it, or '--since' and '--until'");
        return EXIT_USAGE;
    }
    if (r.profile && (r.how.file || r.csv || r.page || r.metrics || r.how.last || r.how.since || r.how.until)) {
        halay_error(log, "'--profile' looks at nothing: give it alone, with --checkpoint and --data");
        return EXIT_USAGE;
    }
    status = tft_command_run(log, NULL, r.device, look, &r);
    return !status && r.drifted ? EXIT_DRIFTED : status;
}
