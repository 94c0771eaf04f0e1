/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft evaluate: scores of a run on a split, beside the naive forecasts'; a table for people, JSON for
 * programs.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/run/interrupt.h"
#include "tft/score/inference.h"
#include "tft/score/score_output.h"

struct request {
    const char *checkpoint, *data, *json, *csv;
    struct tft_window_choice windows;
    int calibrate; /* -1: as the run's configuration says */
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint) },
    { "--data", NULL, "FILE", "data prepared by the same schema", HALAY_OPTION_TEXT, SETS(data) },
    { "--split", NULL, NULL, "whose windows (test)", HALAY_OPTION_WORD, SETS(windows.split), .words = tft_split_names },
    { "--stride", NULL, "N", "steps from one window to the next (the schema's)", HALAY_OPTION_NUMBER,
      SETS(windows.stride), .least = 1, .most = TFT_STEPS_MAX },
    { "--calibrate", NULL, NULL, "how intervals are calibrated (as the run was trained)", HALAY_OPTION_WORD,
      SETS(calibrate), .words = tft_calibrate_words },
    { "--json", NULL, "FILE", "write all numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(json) },
    { "--csv", NULL, "FILE", "write the scores of all values, by horizon and by entity as a table", HALAY_OPTION_TEXT,
      SETS(csv) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft evaluate",
    .synopsis = "--checkpoint RUN --data DATA.htd [OPTION]...",
    .about =
        "Forecasts every window of a split (or every N-th of each entity) and scores the forecasts in the target's "
        "own unit, beside naive forecasts, which repeat the last season. Under halayrun or mpirun the ranks share "
        "the windows.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status evaluate(struct halay_log *log, const struct request *r)
{
    struct tft_inference s = { 0 };
    struct tft_output out = { 0 }, csv = { 0 };
    json_t *result = NULL;
    enum halay_status status = tft_inference_init(log, r->checkpoint, r->data, &s);

    tft_interrupt_watch(); /* or another rank's death would leave this one waiting */
    if (!status && s.rank == 0)
        status = tft_score_output_open(log, r->json, &out);
    if (!status && s.rank == 0)
        status = tft_score_output_open(log, r->csv, &csv);
    if (!status)
        status = tft_inference_calibrate(&s, r->checkpoint, r->calibrate);
    struct tft_window_choice windows = r->windows;
    if (!windows.stride)
        windows.stride = s.data.schema.stride;
    if (!status)
        status = tft_inference_evaluate(&s, &windows, NULL, NULL, &result);
    if (status == HALAY_ERR_CANCELED && s.rank == 0)
        halay_error(log, "interrupted by a signal; there are no scores");
    if (!status && s.rank == 0)
        status = tft_score_output_write(log, &s.run.config.quantiles, &out, result);
    if (!status && csv.file)
        status = tft_score_output_csv(&csv, result);
    tft_output_abort(&out);
    tft_output_abort(&csv);
    json_decref(result);
    tft_inference_fini(&s);
    return status;
}

int tft_cmd_evaluate(struct halay_log *log, char **argv)
{
    struct request r = { .windows.split = TFT_TEST, .calibrate = -1 };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!r.checkpoint)
        return tft_options_missing(log, &command_line, "--checkpoint");
    if (!r.data)
        return tft_options_missing(log, &command_line, "--data");
    return tft_interrupt_exit(evaluate(log, &r));
}
