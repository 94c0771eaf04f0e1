/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of a search: a file of JSON lines, each synced before it takes effect, from which a search that ended
 * for any reason continues.
 *
 *     {"search": {...}, "seconds": 0}                  the space and the options, which do not change
 *     {"trial": 0, "keys": {...}, "seconds": 0.1}      a trial begins
 *     {"trial": 0, "rung": 0, "value": 0.41, ...}      it has reached a rung
 *     {"trial": 0, "state": "done", "value": ..., ...} it has ended
 *
 * "seconds" are those of the search so far, of all its processes.
 */
#ifndef HALAY_TFT_TUNE_JOURNAL_H
#define HALAY_TFT_TUNE_JOURNAL_H

#include "tft/tools/tune/trials.h"
#include <stdint.h>

struct tft_journal {
    struct halay_log *log; /* borrowed */
    const char *path;      /* borrowed */
    int file;
    int64_t begun_us;
    double before; /* seconds of earlier processes */
};

/* Begins a journal, or with `resume` reads the one that exists. search: its first line, which has to be the same then.
 * HALAY_ERR_CONFIG: the journal is another search's, or one exists and resume is 0; HALAY_ERR_FORMAT: it is damaged (an
 * incomplete last line is dropped); HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY. close in any case. */
enum halay_status tft_journal_open(struct halay_log *log, const char *path, int resume, const json_t *search,
                                   const struct tft_space *space, struct tft_trials *trials,
                                   struct tft_journal *journal);
void tft_journal_close(struct tft_journal *journal);

double tft_journal_seconds(const struct tft_journal *journal);

/* Errors are HALAY_ERR_SYSTEM and HALAY_ERR_NO_MEMORY, logged. */
enum halay_status tft_journal_begin(struct tft_journal *journal, size_t trial, const json_t *keys);
enum halay_status tft_journal_rung(struct tft_journal *journal, size_t trial, size_t rung, double value);
enum halay_status tft_journal_end(struct tft_journal *journal, size_t trial, const struct tft_trial *what);

#endif
