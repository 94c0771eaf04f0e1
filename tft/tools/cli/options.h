/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands share: base/options.h reads their lines, and errors go to the log, which may keep them.
 */
#ifndef HALAY_TFT_OPTIONS_H
#define HALAY_TFT_OPTIONS_H

#include "base/log.h"
#include "base/options.h"

/* Parse a command's words into values, where the line's rows say. A status to exit with (help was printed, or what is
 * wrong logged), or -1 to go on. */
int tft_options_parse(struct halay_log *log, const struct halay_command_line *line, char **argv, void *values);

/* Logs what is missing and how to get help; EXIT_USAGE. */
int tft_options_missing(struct halay_log *log, const struct halay_command_line *line, const char *what);

/* Words of several commands' options, with NULL at the end. */
extern const char *const tft_option_splits[], *const tft_option_calibrations[], *const tft_option_formats[];
/* A row for the device that forecasts. Without it a command takes HALAY_TFT_DEVICE. */
extern const char *const tft_option_devices[];
#define TFT_OPTION_DEVICE(sets)                                                                                     \
    {                                                                                                               \
        "--device", NULL, NULL, "what computes: the processor, or GPUs, one a rank (cpu)", HALAY_OPTION_WORD, sets, \
            .words = tft_option_devices                                                                             \
    }

/* The exit status for a function's status: 2 if the use is wrong, 1 for other errors. */
int tft_exit_status(enum halay_status status);

#endif
