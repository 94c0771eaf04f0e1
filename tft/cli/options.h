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

/* The exit status for a function's status: 2 if the use is wrong, 1 for other errors. */
int tft_exit_status(enum halay_status status);
/* That of a command which a signal may end (tft/run/interrupt.h): 128 + the signal's number if status is
 * HALAY_ERR_CANCELED and one came, else 0 or 1. */
int tft_interrupt_exit(enum halay_status status);

#endif
