/* SPDX-License-Identifier: Apache-2.0
 *
 * Models, for the calls that use one.
 */
#ifndef HALAY_TFT_MODEL_CALLS_H
#define HALAY_TFT_MODEL_CALLS_H

#include "tft/core/api/session.h"
#include "tft/tools/explain/explain.h"

/* Opens a folder's model on this rank. stays: the folder may be named later. Nothing is held on error. */
enum halay_status tft_model_of_folder(struct halay_tft *tft, const char *folder, int stays,
                                      struct halay_tft_model **model);

/* Begins a call of all ranks on a model: the session has a job, the model has threads. Leave the session also after an
 * error. */
enum halay_status tft_model_enter(struct halay_tft_model *model);
/* Begins a pass over windows in the same way; other calls on the model are refused while it is open. */
enum halay_status tft_model_enter_pass(struct halay_tft_model *model);

/* Lends data to a model for a call, with calibrated forecasts (an index of tft_calibrate_words; -1: as the model was
 * trained). Return them with tft_model_return_data, also after an error. */
enum halay_status tft_model_lend_data(struct halay_tft_model *model, struct halay_tft_data *data, int calibrate);
void tft_model_return_data(struct halay_tft_model *model);
/* Sets the model's calibration (tft_calibrate); rank 0 writes it into a folder, unless that is NULL. */
enum halay_status tft_model_take_calibration(struct halay_tft_model *model, json_t *document, const char *folder);
/* Rows that a model reads itself: a table like that of the training and, to forecast after its last rows, `future` with
 * the known inputs (may be NULL). Otherwise like tft_model_lend_data. */
struct tft_model_rows {
    const struct halay_tft_table *table;
    int is_at_end;
    const struct halay_tft_table *future; /* may be the table itself: its rows after the last measured target */
    int is_whole;                         /* an entity that would be left out is an error */
    int validates;                        /* all rows after the training span are validation's */
};
/* Reads them. The data borrow from the model; end them with tft_data_end. */
enum halay_status tft_model_read_data(struct halay_tft_model *model, const struct tft_model_rows *rows,
                                      struct tft_data *data);
enum halay_status tft_model_read_rows(struct halay_tft_model *model, const struct tft_model_rows *rows, int calibrate);
/* Warns, once a model, of targets in data whose changes are lost in floats. Rank 0 does so. */
void tft_model_look(struct halay_tft_model *model, struct tft_data *data);
/* Sets the calibration of such forecasts, of the model's data. */
enum halay_status tft_model_calibrate(struct halay_tft_model *model, int calibrate);
/* Returns nonzero if a forecast after the last rows needs known inputs of a future. */
int tft_model_needs_future(const struct halay_tft_model *model);

/* A choice of windows of data, as names and numbers. */
struct tft_chosen_windows {
    struct halay_tft_windows given;
    struct tft_window_choice windows;
    int calibrate;
};

/* Reads a choice of windows, which may be NULL; stride: the meaning of 0. HALAY_ERR_ARGUMENT (logged). */
enum halay_status tft_windows_read(struct halay_tft *tft, const struct halay_tft_windows *windows, size_t stride,
                                   struct tft_chosen_windows *chosen);
/* Chooses the validation windows, with a warning, if the data that the model was lent have no test split. */
void tft_windows_settle(struct halay_tft_model *model, struct tft_window_choice *choice);
/* Returns the request for an explanation of the chosen windows. */
struct tft_explain_request tft_windows_request(const struct tft_chosen_windows *chosen);

#endif
