/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks: the formats in which a training's numbers are written for other programs (key `log`), each in the run's
 * folder.
 */
#ifndef HALAY_TFT_TRACKS_H
#define HALAY_TFT_TRACKS_H

#include "base/log.h"
#include "tft/core/run/row.h"

/* As bits of a set; in the order of the key's words. */
enum tft_track { TFT_TRACK_TENSORBOARD = 1, TFT_TRACK_CSV = 2 };

struct tft_tracks;

/* last: of each table the last step whose rows stay, where the training resumes; 0: none. set: of enum tft_track. */
enum halay_status tft_tracks_create(struct halay_log *log, const char *folder, unsigned set,
                                    const uint64_t last[TFT_ROW_TABLES], struct tft_tracks **tracks);
/* Write a row to each. tracks may be NULL in all calls: nothing is written. */
enum halay_status tft_tracks_add(struct tft_tracks *tracks, const struct tft_row *row);
/* Does one of them draw histograms? */
int tft_tracks_take_values(const struct tft_tracks *tracks);
enum halay_status tft_tracks_add_values(struct tft_tracks *tracks, uint64_t step, double seconds,
                                        const struct tft_values *values);
void tft_tracks_destroy(struct tft_tracks *tracks);

#endif
