/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft evaluate: scores of a checkpoint on a split, beside the naive forecasts'; a table for people, JSON for
 * programs.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/run/interrupt.h"
#include "tft/score/score_table.h"
#include "tft/score/scoring.h"

static const char help[] =
    "usage: halay-tft evaluate --checkpoint RUN --data DATA.htd [--split test] [--stride N] [--json FILE]\n"
    "\n"
    "Forecasts every window of a split (or every N-th of each entity) and scores the forecasts in the target's own "
    "unit,\n"
    "beside naive forecasts, which repeat the last season. Under halayrun or mpirun the ranks share the windows.\n"
    "\n"
    "  --checkpoint FOLDER  the run's folder\n"
    "  --data FILE          data prepared by the same schema\n"
    "  --split NAME         train, valid or test (test)\n"
    "  --stride N           steps from one window to the next (the schema's)\n"
    "  --json FILE          write all numbers as one JSON object; - is standard output\n";

static enum halay_status evaluate(struct halay_log *log, const char *checkpoint, const char *data,
                                  const struct tft_selection *windows, const char *json)
{
    struct tft_scoring s = { 0 };
    struct tft_output out = { 0 };
    json_t *result = NULL;
    enum halay_status status = tft_scoring_init(log, checkpoint, data, &s);

    tft_interrupt_watch(); /* so that no rank is left by another that dies */
    if (!status && s.rank == 0)
        status = tft_scores_open(log, json, &out);
    if (!status)
        status =
            tft_scoring_evaluate(&s, windows->split, windows->stride ? windows->stride : s.data.schema.stride, &result);
    if (status == HALAY_ERR_CANCELED && s.rank == 0)
        halay_error(log, "interrupted by a signal; there are no scores");
    if (!status && s.rank == 0)
        status = tft_scores_say(log, &s.checkpoint.config.quantiles, &out, result);
    tft_output_abort(&out);
    json_decref(result);
    tft_scoring_fini(&s);
    return status;
}

int tft_cmd_evaluate(struct halay_log *log, int argc, char **argv)
{
    const char *checkpoint = NULL, *data = NULL, *split = "test", *stride = NULL, *json = NULL;
    const struct tft_option list[] = {
        { "checkpoint", 0, &checkpoint, NULL }, { "data", 0, &data, NULL }, { "split", 0, &split, NULL },
        { "stride", 0, &stride, NULL },         { "json", 0, &json, NULL }, { NULL, 0, NULL, NULL }
    };
    const struct tft_options options = { .log = log, .command = "halay-tft evaluate", .help = help, .list = list };
    int status = tft_options_parse(&options, argc, argv, NULL);
    struct tft_selection windows;

    if (status >= 0)
        return status;
    if (!checkpoint)
        return tft_options_missing(&options, "--checkpoint");
    if (!data)
        return tft_options_missing(&options, "--data");
    if (tft_selection_parse(log, split, stride, &windows))
        return TFT_EXIT_USAGE;
    return tft_interrupt_exit(evaluate(log, checkpoint, data, &windows, json));
}
