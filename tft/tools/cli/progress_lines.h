/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress lines: how a training goes on, on standard error. On a terminal one line that is rewritten; elsewhere a
 * plain line now and then; what is said is a line of its own in both cases.
 */
#ifndef HALAY_TFT_PROGRESS_LINES_H
#define HALAY_TFT_PROGRESS_LINES_H

#include "halay_tft.h"
#include <stdint.h>

/* Zero-initialise. */
struct tft_progress_lines {
    int64_t said_us;
};

/* Callbacks of trainings; arg is a struct tft_progress_lines. */
void tft_progress_lines_step(void *arg, const struct halay_tft_progress *progress);
void tft_progress_lines_say(void *arg, const char *text);

#endif
