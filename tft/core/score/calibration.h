/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration: the factors of conformal bands that a run's validation windows give, for each target, horizon
 * and band: of each entity that has enough windows, and of all entities together.
 *
 * It is the file calibration.json of a run's folder:
 *
 *     {"format": 1, "parameters": CRC-32 of those it was made with, members and blend included, "step": theirs,
 *      "quantiles": [...], "windows": how many, "targets": {NAME: {"by_horizon": FACTORS, "by_entity": {ID: FACTORS}}}}
 *
 * FACTORS is a list for each horizon of a factor for each band, those for flat forecasts last; null where there were
 * too few values. An entity without any is left out.
 */
#ifndef HALAY_TFT_CALIBRATION_H
#define HALAY_TFT_CALIBRATION_H

#include "base/memory.h"
#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"
#include "tft/core/run/run_folder.h"
#include <stddef.h>

/*
 * Conformal bands: how far the ends of intervals have to move so that they hold what they promise (conformalised
 * quantile regression, with errors relative to the width).
 *
 * A band is a central interval of two quantiles, or, where a quantile has no partner, its one side: from it to the
 * median. The median stays. The score of a value y is how far it is outside, in widths, negative inside:
 *
 *     score = max(low - y, y - high) / (high - low)
 *
 * A forecast that is flat, a band (nearly) without width, as of series that are mostly 0, has no width to count: its
 * score is the distance itself, in the forecast's unit, and only such scores make its factor. So each band is
 * there twice, once for either kind of forecast; only one of the two applies to a forecast.
 *
 * Of n scores the ceil((n + 1) * level)-th smallest is the factor f: the band [low - f * width, high + f * width] holds
 * the next value with probability `level` at least, if that value is exchangeable with those n. Validation windows are
 * not quite: they have chosen the checkpoint and the blend, and share some weeks. So of a negative factor, by which a
 * band gets narrower, n / (n + 30) is kept.
 */

enum { TFT_BANDS_MAX = 32 };

/* Fewer scores than this give no factor: the share that the band then holds varies by 7 points and more. */
enum { TFT_CONFORMAL_LEAST = 30 };

/* The width that counts as none, in the unit of the scaled values, whose spread is about 1. A factor of widths that are
 * next to nothing would be next to infinite. */
#define TFT_FLAT_WIDTH 1e-3

struct tft_band {
    size_t low, high;      /* quantiles; of a one-sided band one of them is the median */
    int has_low, has_high; /* does this end move? */
    int is_flat;           /* is it for forecasts without width? */
    double level;          /* the share of values that it promises to hold */
};

/* The bands of ascending quantiles, then the same for flat forecasts; how many in all. */
size_t tft_bands_of(const double *quantiles, size_t count, struct tft_band bands[TFT_BANDS_MAX]);

/* Returns nonzero if a forecast, p (quantiles) in order, is of the band's kind. */
int tft_band_applies(const struct tft_band *band, const double *p);

/* The score of a value; p: (quantiles), in order. NAN for a band that does not apply, or of what is not finite. */
double tft_band_score(const struct tft_band *band, const double *p, double y);

/* The factor of scores, which it puts in order; those that are NAN must have been left out. NAN: they are too few. */
double tft_conformal_factor(double *scores, size_t count, double level);

/* Returns the part that is kept of a factor that this many validation windows gave. */
double tft_conformal_kept(double factor, size_t count);

/* The least factor, at which the ends meet. */
double tft_band_least(const struct tft_band *band);

/* Put quantiles in order, move the ends of each band that applies by its factor (NAN: leave them), and keep the order.
 */
void tft_bands_widen(const struct tft_band *bands, size_t band_count, const double *factors, size_t median, double *p,
                     size_t count);
/* The first of these steps alone. */
void tft_quantiles_sort(double *p, size_t count);

/* ---- the calibration ---- */

struct tft_calibration {
    size_t target_count, horizon, band_count, quantile_count, median, windows;
    struct tft_band bands[TFT_BANDS_MAX];
    double *by_horizon;         /* (targets, horizon, bands); NAN: none */
    double *by_entity;          /* (entries, targets, horizon, bands) */
    size_t *entry;              /* (the data's entities) which of these; SIZE_MAX: none */
    struct halay_region memory; /* owned: of these */
};

/* The sources of an entity's factors. */
enum tft_calibrated_by { TFT_BY_RECENT, TFT_BY_ENTITY, TFT_BY_HORIZON, TFT_BY_NOTHING, TFT_CALIBRATED_BY_COUNT };

/* Makes the file's contents: a new reference; NULL without memory. document: its keys quantiles, windows and targets
 * (tft_calibrate), to which what identifies the parameters is added. */
json_t *tft_calibration_json(const struct tft_param_table *table, const float *params,
                             const struct tft_members *members, const struct tft_blend *blend, long long step,
                             json_t *document);
/* Write it into a folder. whole: NULL is an error. */
enum halay_status tft_calibration_save(struct halay_log *log, const char *folder, const json_t *whole);
/* Reads the folder's file: a new reference, NULL without one. */
enum halay_status tft_calibration_find(struct halay_log *log, const char *folder, json_t **document);
/* The same; HALAY_ERR_ARGUMENT (logged) if the folder has none. */
enum halay_status tft_calibration_read(struct halay_log *log, const char *folder, json_t **document);
/* Returns nonzero if there is a document that was made with the parameters and the weights of a blend that the run has
 * now. Warns of one that was made with others: where nothing asks for a calibration, forecasts do without. */
int tft_calibration_suits(struct halay_log *log, const char *folder, const json_t *document, const struct tft_run *run);
/* Takes the factors of a document of the run's, for the entities of data. HALAY_ERR_FORMAT (logged): it belongs to
 * other parameters, or is damaged. folder: for messages; NULL: the document is in memory only. Nothing is held on
 * error. */
enum halay_status tft_calibration_take(struct halay_log *log, const char *folder, const json_t *document,
                                       const struct tft_run *run, const struct tft_data *data,
                                       struct tft_calibration *calibration);
/* Checks the document in the same way, and describes it as halay_tft_model_calibration documents it: a new
 * reference. */
enum halay_status tft_calibration_describe(struct halay_log *log, const char *folder, const json_t *document,
                                           const struct tft_run *run, json_t **described);
/* No factors. Nothing is held on error. */
enum halay_status tft_calibration_init(struct halay_log *log, const struct tft_list *quantiles,
                                       const struct tft_data *data, struct tft_calibration *calibration);
void tft_calibration_fini(struct tft_calibration *calibration);

/* Returns the factor of a band, NAN if it has none; *by: the group that it was found for. */
double tft_calibration_factor(const struct tft_calibration *calibration, size_t entity, size_t target, size_t horizon,
                              size_t band, enum tft_calibrated_by *by);

/*
 * The calibrator: moves the ends of each forecast's intervals, window by window.
 *
 * `conformal` takes the factors of the run's calibration. `rolling` makes an entity's factors from its own latest
 * TFT_RECENT windows before each forecast, a horizon and more apart, all of whose targets lie before the forecast's
 * first; where these have too few values, it falls back to the run's calibration: of the entity, of the horizon, none.
 */

enum { TFT_RECENT = 60 };

/* The latest windows of an entity: one more than are used, since the newest may not be over. */
struct tft_recent {
    size_t count;
    size_t origins[TFT_RECENT + 1]; /* of window i at i modulo the size */
    float *scores;                  /* (size, targets, horizon, bands); NAN: none */
};

struct tft_calibrator {
    struct halay_log *log; /* borrowed, as data */
    const struct tft_data *data;
    int is_rolling;
    struct tft_calibration calibration; /* owned, with the memory of the next two */
    struct tft_recent *recent;          /* (the data's entities); none unless is_rolling */
    float *before;                      /* (D, O, Q), scaled: the model's own forecast of the last window */
    size_t by[TFT_CALIBRATED_BY_COUNT]; /* bands of forecast steps */
};

/* Takes the calibration over, also on error. */
enum halay_status tft_calibrator_init(struct halay_log *log, const struct tft_data *data, int is_rolling,
                                      struct tft_calibration *calibration, struct tft_calibrator *calibrator);
void tft_calibrator_fini(struct tft_calibrator *calibrator);

/* Calibrate the forecast of a window in place, p: (D, O, Q), scaled; then note it. An entity's windows must come in
 * order of origin. */
enum halay_status tft_calibrator_apply(struct tft_calibrator *calibrator, const struct tft_window *window, float *p);
/* Only note it, as rolling does: (D, O, Q) as the model forecasts. */
enum halay_status tft_calibrator_note(struct tft_calibrator *calibrator, const struct tft_window *window,
                                      const float *p);

/* Scores of a window's values: (targets, horizon, bands), NAN where a target was not measured. Reads the data's rows,
 * which must have been checked. */
void tft_calibration_scores(const struct tft_calibration *calibration, const struct tft_data *data,
                            const struct tft_window *window, const float *p, float *scores);

/* Returns the sources of the factors, as shares: {"recent": .., "entity": .., "horizon": .., "none": ..}; NULL: no
 * memory. */
json_t *tft_calibrator_json(const struct tft_calibrator *calibrator);

/* ---- making calibrations (calibrate.c) ---- */

struct tft_forecaster;

/* Forecast the validation windows, the horizon apart (of more than `most`, or of very many, some that are spread over
 * all), and make the calibration's document: a new reference, the same on all ranks. The forecaster needs everything
 * but windows and chunk. */
enum halay_status tft_calibrate(const struct tft_forecaster *forecaster, const struct tft_data *data,
                                const struct tft_list *quantiles, size_t most, json_t **document);
/* Returns how many factors a calibration has for all entities; 0: its windows are too few. */
size_t tft_calibrate_found(const json_t *document);
/* Describes the calibration in a sentence: how many entities have factors of their own, and what is missing. windows:
 * what they are called. */
void tft_calibrate_describe(const json_t *document, const struct tft_data *data, const char *windows, char *text,
                            size_t size);

/* Before the windows of a forecaster are forecast: note those that precede them, for its calibrator to be rolling. Does
 * nothing without one that is. */
enum halay_status tft_calibrate_recall(const struct tft_forecaster *forecaster);

#endif
