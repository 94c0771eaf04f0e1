/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines, and the exit statuses of what they start.
 */
#include "tft/tools/cli/options.h"
#include <stdio.h>
#include <stdlib.h>

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
    halay_error(log, "%s is missing; '%s --help' says how to use it", what, line->command);
    return EXIT_USAGE;
}

int tft_exit_status(enum halay_status status)
{
    if (!status)
        return EXIT_SUCCESS;
    return status == HALAY_ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
}
