/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of lines that grow with a training, and lose their last lines where it resumes from an earlier step.
 */
#ifndef HALAY_TFT_LINES_H
#define HALAY_TFT_LINES_H

#include "base/log.h"
#include <stdint.h>
#include <stdio.h>

/* The step of a line; -1: it has none (half a line) and goes. A heading has step 0. */
typedef long long tft_step_of_line(const char *line);

/* Open the file to add lines after those of step `last`: lines of later steps go; with last 0 all do. NULL (logged): it
 * cannot be written. */
FILE *tft_lines_open(struct halay_log *log, const char *path, tft_step_of_line *step_of, uint64_t last);

#endif
