/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of a search: a file of JSON lines, each synced before what it says takes effect, from which the search
 * goes on after whatever ended it.
 *
 *     {"search": {...}, "seconds": 0}                  what is searched and how, which does not change
 *     {"trial": 0, "keys": {...}, "seconds": 0.1}      a trial begins
 *     {"trial": 0, "rung": 0, "value": 0.41, ...}      it has come to a rung
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
    const char *path;      /* likewise */
    int file;
    int64_t begun_us;
    double before; /* seconds of earlier processes */
};

/* Begin one, or with `resume` read what there is. search: what does not change, which has to be the same then.
 * HALAY_ERR_CONFIG: it is another search's, or there is one and resume is 0; HALAY_ERR_FORMAT: it is damaged (a last
 * line that is not whole is dropped); HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY. close in any case. */
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
