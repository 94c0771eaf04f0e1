/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks: the formats in which a training's numbers are written for other programs (key `log`), each in the run's
 * folder: RUN/steps.csv and RUN/evaluations.csv, and RUN/tensorboard with the event file of TensorBoard.
 */
#ifndef HALAY_TFT_TRACKS_H
#define HALAY_TFT_TRACKS_H

#include "base/log.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Tracks, as bits of a set, in the order of the key's words. */
enum tft_track { TFT_TRACK_TENSORBOARD = 1, TFT_TRACK_CSV = 2 };

/* A format makes a table of each: all its rows have the same names in the same order. */
enum tft_row_table { TFT_ROW_STEP, TFT_ROW_EVALUATION, TFT_ROW_TABLES };

struct tft_number {
    const char *name; /* letters, digits, '_' */
    double value;     /* may be NaN or infinite */
};

struct tft_row {
    enum tft_row_table table;
    uint64_t step;  /* optimizer's, from 1 */
    double seconds; /* of the clock, since 1970 */
    const struct tft_number *numbers;
    size_t count;
};

/* A tensor whose values are counted in buckets of equal width; those that are not finite are left out. */
struct tft_values {
    const char *group, *name; /* "gradients", "output.quantiles.kernel" */
    const float *values;
    size_t count;
};

struct tft_tracks;

/* last: for each table the last step whose rows stay, where the training resumes; 0: no row stays. A new event file
 * makes TensorBoard drop what earlier ones hold after it. set: of enum tft_track. */
enum halay_status tft_tracks_create(struct halay_log *log, const char *folder, unsigned set,
                                    const uint64_t last[TFT_ROW_TABLES], struct tft_tracks **tracks);
/* Writes a row to each. tracks may be NULL in all calls: nothing is written. */
enum halay_status tft_tracks_add(struct tft_tracks *tracks, const struct tft_row *row);
/* Returns nonzero if one of them draws histograms. */
int tft_tracks_take_values(const struct tft_tracks *tracks);
enum halay_status tft_tracks_add_values(struct tft_tracks *tracks, uint64_t step, double seconds,
                                        const struct tft_values *values);
void tft_tracks_destroy(struct tft_tracks *tracks);

/* ---- files of lines that grow with a training ---- */

/* Returns the step of a line; -1: it has none (half a line) and is removed. A heading has step 0. */
typedef long long tft_step_of_line(const char *line);

/* Opens the file to add lines after those of step `last`: lines of later steps are removed; with last 0 all are. NULL
 * (logged): it cannot be written. */
FILE *tft_lines_open(struct halay_log *log, const char *path, tft_step_of_line *step_of, uint64_t last);

#endif
