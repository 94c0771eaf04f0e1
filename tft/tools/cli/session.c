/* SPDX-License-Identifier: Apache-2.0
 *
 * Options, sessions and output of commands.
 */
#include "tft/tools/cli/session.h"
#include "base/output_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

const char *const tft_option_splits[] = { "train", "valid", "test", NULL };
const char *const tft_option_calibrations[] = { "none", "conformal", "rolling", NULL };
const char *const tft_option_devices[] = { "cpu", "cuda", NULL };
const char *const tft_option_formats[] = { "csv", "jsonl", NULL };

int tft_options_parse(struct halay_log *log, const struct halay_command_line *line, char **argv, void *values)
{
    char why[512];

    switch (halay_command_line_parse(line, argv, values, stdout, why, sizeof why)) {
    case HALAY_PARSED:
        return -1;
    case HALAY_PARSED_ANSWERED:
        if (!fflush(stdout))
            return EXIT_SUCCESS;
        halay_error(log, "cannot write to standard output");
        return EXIT_FAILURE;
    default:
        halay_error(log, "%s", why);
        return EXIT_USAGE;
    }
}

int tft_options_missing(struct halay_log *log, const struct halay_command_line *line, const char *what)
{
    halay_error(log, "%s is missing; see '%s --help'", what, line->command);
    return EXIT_USAGE;
}

int tft_exit_status(enum halay_status status)
{
    if (!status)
        return EXIT_SUCCESS;
    return status == HALAY_ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
}

/* ---- sessions ---- */

int tft_command_run(struct halay_log *log, const char *deterministic, const char *device, tft_command_work *work,
                    void *request)
{
    const struct halay_tft_options options = { .struct_size = sizeof options,
                                               .deterministic = deterministic,
                                               .log = log->write,
                                               .log_arg = log->arg,
                                               .device = device };
    struct halay_tft *tft = NULL;
    int stopped = 0;
    enum halay_status status = halay_tft_init(&options, &tft);

    if (status) {
        halay_error(log, "%s", halay_tft_error_text());
    } else {
        status = work(log, tft, request);
        stopped = halay_tft_stopped(tft);
    }
    tft_interrupt_forget();
    halay_tft_fini(tft);
    if (status == HALAY_ERR_CANCELED && stopped)
        return 128 + stopped;
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}

enum halay_status tft_command_join(struct halay_log *log, struct halay_tft *tft)
{
    enum halay_status status = halay_tft_join(tft);

    if (status)
        return status;
    if (halay_size(halay_tft_context(tft)) > 1)
        log->rank = halay_rank(halay_tft_context(tft));
    return HALAY_OK;
}

int tft_command_is_first(const struct halay_tft *tft)
{
    return halay_tft_context(tft) && halay_rank(halay_tft_context(tft)) == 0;
}

enum halay_status tft_command_open(struct halay_log *log, struct halay_tft *tft, const char *folder, const char *data,
                                   struct tft_command_run_data *o)
{
    enum halay_status status = tft_command_join(log, tft);

    if (!status)
        status = halay_tft_model_open_shared(tft, folder, &o->model);
    if (!status && data)
        status = halay_tft_agree(tft, halay_tft_data_open(tft, data, &o->data));
    tft_interrupt_watch(tft); /* or another rank's death would leave this one waiting */
    return status;
}

void tft_command_close(struct tft_command_run_data *o)
{
    halay_tft_model_close(o->model);
    halay_tft_data_close(o->data);
}

enum halay_status tft_command_flush(struct halay_log *log)
{
    if (!fflush(stdout))
        return HALAY_OK;
    halay_error(log, "cannot write to standard output");
    return HALAY_ERR_SYSTEM;
}

enum halay_status tft_command_write_form(struct halay_log *log, const char *json, const char *form, const char *path)
{
    char *text = NULL;
    enum halay_status status = halay_tft_format(json, form, &text);

    if (status)
        halay_error(log, "%s", halay_tft_error_text());
    else
        status = halay_output_text(log, path, text);
    halay_tft_free(text);
    return status;
}

static int is_standard_output(const char *path)
{
    return path && !strcmp(path, "-");
}

enum halay_status tft_command_print_table(struct halay_log *log, const char *json, const char *file, const char *csv)
{
    char *table = NULL;

    if (is_standard_output(file) || is_standard_output(csv))
        return HALAY_OK;
    enum halay_status status = halay_tft_format(json, "table", &table);
    if (status) {
        halay_error(log, "%s", halay_tft_error_text());
        return status;
    }
    fputs(table, stdout);
    halay_tft_free(table);
    return tft_command_flush(log);
}
