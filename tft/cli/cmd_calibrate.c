/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft calibrate: makes a run's calibration from the validation windows of prepared data, for `evaluate`,
 * `predict` and `report`; what `train` does at its end with `calibrate: conformal` or `rolling`.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/run/interrupt.h"
#include "tft/score/inference.h"
#include <stdio.h>

struct request {
    const char *checkpoint, *data;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder, which calibration.json is written into", HALAY_OPTION_TEXT,
      SETS(checkpoint) },
    { "--data", NULL, "FILE", "data prepared by the same schema", HALAY_OPTION_TEXT, SETS(data) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft calibrate",
    .synopsis = "--checkpoint RUN --data DATA.htd",
    .about = "Forecasts the validation windows, a horizon apart, and writes how far the ends of intervals have to move "
             "so that they hold what they promise. evaluate, predict and report then take --calibrate.",
    .table = option_rows,
    .is_lenient = 1,
};

static enum halay_status write_calibration(struct halay_log *log, const struct request *r, struct tft_inference *s,
                                           json_t *document)
{
    char text[200];
    enum halay_status status =
        tft_calibration_save(log, r->checkpoint, tft_model_params(s->run.model), s->run.params, s->run.step, document);

    if (status)
        return status;
    tft_calibrate_describe(document, &s->data, text, sizeof text);
    printf("%s\n", text);
    if (!fflush(stdout))
        return HALAY_OK;
    halay_error(log, "cannot write to standard output");
    return HALAY_ERR_SYSTEM;
}

static enum halay_status calibrate(struct halay_log *log, const struct request *r)
{
    struct tft_inference s = { 0 };
    json_t *document = NULL;
    enum halay_status status = tft_inference_init(log, r->checkpoint, r->data, &s);

    tft_interrupt_watch(); /* or another rank's death would leave this one waiting */
    if (!status) {
        const struct tft_forecaster forecaster = { .log = log,
                                                   .ctx = s.ctx,
                                                   .model = s.run.model,
                                                   .workers = s.workers,
                                                   .params = s.run.params,
                                                   .blend = &s.run.blend };
        status = tft_calibrate(&forecaster, &s.data, &s.run.config.quantiles, &document);
    }
    if (status == HALAY_ERR_CANCELED && s.rank == 0)
        halay_error(log, "interrupted by a signal; there is no calibration");
    if (!status && s.rank == 0)
        status = write_calibration(log, r, &s, document);
    json_decref(document);
    tft_inference_fini(&s);
    return status;
}

int tft_cmd_calibrate(struct halay_log *log, char **argv)
{
    struct request r = { 0 };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!r.checkpoint)
        return tft_options_missing(log, &command_line, "--checkpoint");
    if (!r.data)
        return tft_options_missing(log, &command_line, "--data");
    return tft_interrupt_exit(calibrate(log, &r));
}
