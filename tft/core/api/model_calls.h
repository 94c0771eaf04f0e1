/* SPDX-License-Identifier: Apache-2.0
 *
 * Models, for the calls that make one.
 */
#ifndef HALAY_TFT_MODEL_CALLS_H
#define HALAY_TFT_MODEL_CALLS_H

#include "tft/core/api/session.h"
#include "tft/tools/explain/explain.h"

/* The model of a folder, on this rank. stays: the folder may be named later. Nothing is held on error. */
enum halay_status tft_model_of_folder(struct halay_tft *tft, const char *folder, int stays,
                                      struct halay_tft_model **model);

/* A call of all ranks on a model begins: the session has a job, the model threads. Leave the session also after an
 * error. */
enum halay_status tft_model_enter(struct halay_tft_model *model);
/* The same of a pass over windows, beside which other calls are refused. */
enum halay_status tft_model_enter_pass(struct halay_tft_model *model);

/* Lend data to a model for a call, with calibrated forecasts (a word of tft_calibrate_words; -1: as it was trained).
 * Ended by tft_model_return_data, also after an error. */
enum halay_status tft_model_lend_data(struct halay_tft_model *model, struct halay_tft_data *data, int calibrate);
void tft_model_return_data(struct halay_tft_model *model);
/* The model has this calibration from now on (tft_calibrate); rank 0 writes it into a folder, unless that is NULL. */
enum halay_status tft_model_take_calibration(struct halay_tft_model *model, json_t *document, const char *folder);
/* Rows that a model reads itself: a table like that of the training; and, to forecast behind its last rows, of which
 * `future` has the known inputs (NULL: none). Otherwise like tft_model_lend_data. */
struct tft_model_rows {
    const struct halay_tft_table *table;
    int is_at_end;
    const struct halay_tft_table *future; /* may be the table itself: its rows behind the last measured target */
    int is_whole;                         /* an entity that would be left out is an error */
    int validates;                        /* all rows behind the training span are validation's */
};
/* Read them. The data borrow from the model, and are ended by tft_data_end. */
enum halay_status tft_model_read_data(struct halay_tft_model *model, const struct tft_model_rows *rows,
                                      struct tft_data *data);
enum halay_status tft_model_read_rows(struct halay_tft_model *model, const struct tft_model_rows *rows, int calibrate);
/* Warn, once a model, of targets in data whose changes are lost in it. Rank 0 does. */
void tft_model_look(struct halay_tft_model *model, struct tft_data *data);
/* The calibration of such forecasts, of the model's data. */
enum halay_status tft_model_calibrate(struct halay_tft_model *model, int calibrate);
/* Does a forecast behind the last rows need known inputs of a future? */
int tft_model_needs_future(const struct halay_tft_model *model);

/* Which windows of data, as words and numbers. */
struct tft_chosen_windows {
    struct halay_tft_windows given;
    struct tft_window_choice windows;
    int calibrate;
};

/* windows may be NULL; stride: what 0 means. HALAY_ERR_ARGUMENT (logged). */
enum halay_status tft_windows_read(struct halay_tft *tft, const struct halay_tft_windows *windows, size_t stride,
                                   struct tft_chosen_windows *chosen);
/* Where the data that the model was lent have no test, its windows are those of validation, with a warning. */
void tft_windows_settle(struct halay_tft_model *model, struct tft_window_choice *choice);
/* What is asked of an explanation. */
struct tft_explain_request tft_windows_request(const struct tft_chosen_windows *chosen);

#endif
