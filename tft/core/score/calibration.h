/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration: the factors (tft/core/score/conformal.h) that a run's validation windows give, for each target, horizon
 * and band: of each entity that has enough windows, and of all entities together.
 *
 * It is the file calibration.json of a run's folder:
 *
 *     {"format": 1, "parameters": CRC-32 of those it was made with, members and blend included, "step": theirs,
 *      "quantiles": [...], "windows": how many, "targets": {NAME: {"by_horizon": FACTORS, "by_entity": {ID: FACTORS}}}}
 *
 * FACTORS is a list for each horizon of a factor for each band, those for flat forecasts last; null where there were
 * too few values. An entity without
 * any is left out.
 */
#ifndef HALAY_TFT_CALIBRATION_H
#define HALAY_TFT_CALIBRATION_H

#include "tft/core/data/data.h"
#include "tft/core/run/run_folder.h"
#include "tft/core/score/conformal.h"

struct tft_calibration {
    size_t target_count, horizon, band_count, quantile_count, median, windows;
    struct tft_band bands[TFT_BANDS_MAX];
    double *by_horizon; /* owned: (targets, horizon, bands); NAN: none */
    double *by_entity;  /* owned: (entries, targets, horizon, bands) */
    size_t *entry;      /* owned: (the data's entities) which of these; SIZE_MAX: none */
};

/* Where an entity's factors come from. */
enum tft_calibrated_by { TFT_BY_RECENT, TFT_BY_ENTITY, TFT_BY_HORIZON, TFT_BY_NOTHING, TFT_CALIBRATED_BY_COUNT };

/* What the file holds: a new reference; NULL if there is no memory. document: its keys quantiles, windows and targets
 * (tft_calibrate), to which what identifies the parameters is added. */
json_t *tft_calibration_json(const struct tft_param_table *table, const float *params,
                             const struct tft_members *members, const struct tft_blend *blend, long long step,
                             json_t *document);
/* Write it into a folder. whole: NULL is an error. */
enum halay_status tft_calibration_save(struct halay_log *log, const char *folder, const json_t *whole);
/* What the folder's file holds: a new reference, NULL if there is none. */
enum halay_status tft_calibration_find(struct halay_log *log, const char *folder, json_t **document);
/* The same; HALAY_ERR_ARGUMENT (logged) if there is none. */
enum halay_status tft_calibration_read(struct halay_log *log, const char *folder, json_t **document);
/* Returns nonzero if there is a document that was made with the parameters and the weights of a blend that the run has
 * now. Warns of one that was made with others: where nothing asks for a calibration, forecasts do without. */
int tft_calibration_suits(struct halay_log *log, const char *folder, const json_t *document, const struct tft_run *run);
/* Read the run's, for the entities of data. HALAY_ERR_ARGUMENT (logged): there is none; HALAY_ERR_FORMAT: it belongs to
 * other parameters. Nothing is held on error. */
enum halay_status tft_calibration_load(struct halay_log *log, const char *folder, const struct tft_run *run,
                                       const struct tft_data *data, struct tft_calibration *calibration);
/* The same of the document of such a file. folder: for messages; NULL: none, it is in memory. */
enum halay_status tft_calibration_take(struct halay_log *log, const char *folder, const json_t *document,
                                       const struct tft_run *run, const struct tft_data *data,
                                       struct tft_calibration *calibration);
/* No factors. Nothing is held on error. */
enum halay_status tft_calibration_init(struct halay_log *log, const struct tft_list *quantiles,
                                       const struct tft_data *data, struct tft_calibration *calibration);
void tft_calibration_fini(struct tft_calibration *calibration);

/* The factor of a band, NAN if there is none, and whose it is. */
double tft_calibration_factor(const struct tft_calibration *calibration, size_t entity, size_t target, size_t horizon,
                              size_t band, enum tft_calibrated_by *by);

#endif
