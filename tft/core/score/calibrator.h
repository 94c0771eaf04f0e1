/* SPDX-License-Identifier: Apache-2.0
 *
 * The calibrator: moves the ends of each forecast's intervals, window by window.
 *
 * `conformal` takes the factors of the run's calibration. `rolling` makes an entity's factors from its own latest
 * TFT_RECENT windows before each forecast, a horizon and more apart, all of whose targets lie before the forecast's
 * first; where these have too few values, it falls back to the run's calibration: of the entity, of the horizon, none.
 */
#ifndef HALAY_TFT_CALIBRATOR_H
#define HALAY_TFT_CALIBRATOR_H

#include "tft/core/data/windows.h"
#include "tft/core/score/calibration.h"

enum { TFT_RECENT = 60 };

/* The latest windows of an entity: one more than are used, since the newest may not be over. */
struct tft_recent {
    size_t count;
    size_t origins[TFT_RECENT + 1]; /* of window i at i modulo the size */
    float *scores;                  /* owned: (size, targets, horizon, bands); NAN: none */
};

struct tft_calibrator {
    struct halay_log *log; /* borrowed, as data */
    const struct tft_data *data;
    int is_rolling;
    struct tft_calibration calibration; /* owned */
    struct tft_recent *recent;          /* owned: (the data's entities); NULL unless is_rolling */
    float *before;                      /* owned: (D, O, Q), scaled: what the model said of the last window */
    size_t by[TFT_CALIBRATED_BY_COUNT]; /* bands of forecast steps */
};

/* Takes the calibration over, also on error. */
enum halay_status tft_calibrator_init(struct halay_log *log, const struct tft_data *data, int is_rolling,
                                      struct tft_calibration *calibration, struct tft_calibrator *calibrator);
void tft_calibrator_fini(struct tft_calibrator *calibrator);

/* Calibrate the forecast of a window in place, p: (D, O, Q), scaled; then note it. An entity's windows must come in
 * order of origin. */
enum halay_status tft_calibrator_apply(struct tft_calibrator *calibrator, const struct tft_window *window, float *p);
/* Only note it, as rolling does: (D, O, Q) as the model says. */
enum halay_status tft_calibrator_note(struct tft_calibrator *calibrator, const struct tft_window *window,
                                      const float *p);

/* Scores of a window's values: (targets, horizon, bands), NAN where a target was not measured. Reads the data's rows,
 * which must have been checked. */
void tft_calibration_scores(const struct tft_calibration *calibration, const struct tft_data *data,
                            const struct tft_window *window, const float *p, float *scores);

/* Where the factors came from, as shares: {"recent": .., "entity": .., "horizon": .., "none": ..}; NULL: no memory. */
json_t *tft_calibrator_json(const struct tft_calibrator *calibrator);
/* The same in words: "60 windows of the entity: 97 %, ...". */
void tft_calibrator_describe(const json_t *shares, char *text, size_t size);

#endif
