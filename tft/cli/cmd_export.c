/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft export: a run's parameters as a file for PyTorch, and what its model's constructor wants.
 */
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/data/paths.h"
#include "tft/interop/torch_file.h"
#include "tft/run/run_folder.h"
#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: halay-tft export --checkpoint RUN --format nvidia|pytorch-forecasting -o FILE.safetensors [--config FILE]\n"
    "\n"
    "Writes the parameters of a trained model with the names, shapes and layouts that another implementation's "
    "state_dict() has,\n"
    "for its load_state_dict(), and prints the arguments of the constructor that makes such a model.\n"
    "\n"
    "  --checkpoint FOLDER  the run's folder\n"
    "  --format FORMAT      nvidia: DeepLearningExamples' TFT, of a model trained with 'conformance: nvidia' or "
    "published;\n"
    "                       pytorch-forecasting: of one trained with 'conformance: pytorch-forecasting'\n"
    "  -o, --out FILE       the file to write\n"
    "  --config FILE        write the arguments there instead of printing them\n";

static enum halay_status write_arguments(struct halay_log *log, const char *path, enum tft_peer peer,
                                         const struct tft_checkpoint *c)
{
    struct tft_output out = { 0 };
    json_t *arguments = tft_peer_arguments(peer, tft_model_config(c->model), &c->config);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (arguments)
        status = tft_output_open(log, path, &out);
    else
        halay_error(log, "no memory for the arguments");
    if (!status) {
        json_dumpf(arguments, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        fputc('\n', out.file);
        status = tft_output_commit(&out);
    }
    json_decref(arguments);
    return status;
}

static enum halay_status export_run(struct halay_log *log, enum tft_peer peer, const char *checkpoint, const char *out,
                                    const char *config)
{
    struct tft_checkpoint c = { 0 };
    struct tft_peer_map map = { 0 };
    enum halay_status status = tft_checkpoint_load(log, checkpoint, &c);

    if (status)
        return status;
    status = tft_peer_check(log, peer, tft_model_config(c.model), &c.schema);
    if (!status)
        status = tft_peer_map_init(log, peer, tft_model_config(c.model), tft_model_params(c.model), &map);
    if (!status)
        status = tft_peer_file_write(log, out, &map, c.params);
    if (!status)
        status = write_arguments(log, config, peer, &c);
    tft_peer_map_fini(&map);
    tft_checkpoint_fini(&c);
    return status;
}

int tft_cmd_export(struct halay_log *log, int argc, char **argv)
{
    const char *checkpoint = NULL, *format = NULL, *out = NULL, *config = NULL;
    const struct tft_option list[] = { { "checkpoint", 0, &checkpoint, NULL },
                                       { "format", 0, &format, NULL },
                                       { "out", 'o', &out, NULL },
                                       { "config", 0, &config, NULL },
                                       { NULL, 0, NULL, NULL } };
    const struct tft_options options = { .log = log, .command = "halay-tft export", .help = help, .list = list };
    int status = tft_options_parse(&options, argc, argv, NULL);
    enum tft_peer peer;

    if (status >= 0)
        return status;
    if (!checkpoint)
        return tft_options_missing(&options, "--checkpoint");
    if (!format)
        return tft_options_missing(&options, "--format");
    if (!out)
        return tft_options_missing(&options, "-o");
    if (!strcmp(out, "-") && !config)
        return tft_options_missing(&options, "--config FILE (standard output is taken by -o)");
    if (tft_peer_named(log, format, &peer))
        return TFT_EXIT_USAGE;
    return export_run(log, peer, checkpoint, out, config ? config : "-") ? TFT_EXIT_FAILED : TFT_EXIT_OK;
}
