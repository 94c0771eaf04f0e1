/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls of halay_tft.h share. The session's log keeps the text of an error, from any thread, until the call
 * returns it.
 */
#ifndef HALAY_TFT_API_IMPL_H
#define HALAY_TFT_API_IMPL_H

#include "base/log.h"
#include "base/memory.h"
#include "base/output_file.h"
#include "base/struct_size.h"
#include "tft/core/data/table.h"
#include "tft/core/run/ranks.h"
#include "tft/core/score/inference.h"
#include "tft/core/score/profile.h"
#include "tft/core/score/weight_reader.h"

struct halay_tft {
    struct halay_log log;
    struct halay_context *ctx; /* owned if owns_ctx, otherwise borrowed; NULL before the session has joined a job */
    int owns_ctx;
    int rank, ranks;
    char deterministic[16]; /* of the job that it will join; "": not given */
    enum tft_device_kind device;
    struct tft_stop stop;
    int stopped;               /* the reason why the last call was stopped */
    enum halay_status entered; /* how the call of all ranks began */
    int owes_status;           /* it has not agreed on a status with the other ranks yet (tft_model_begin) */
    void (*line)(void *arg, enum halay_log_level level, const char *line); /* the program's; NULL: standard error */
    void *line_arg;                                                        /* borrowed */
};

struct halay_tft_data {
    struct halay_tft *tft; /* borrowed */
    struct tft_data data;
    const struct halay_tft_model *model; /* borrowed: the model that read the data and has their schema; NULL: none */
    struct tft_spill *spill;             /* owned; NULL: none */
    json_t *description;                 /* owned: of a table that was prepared; NULL: the data were mapped */
    char *path;                          /* owned: of the file that is mapped; NULL: the data are in memory */
};

struct halay_tft_model {
    struct halay_tft *tft; /* borrowed */
    struct tft_inference inference;
    int owns_data;                          /* the inference's data are not lent, but read for a call */
    int has_warned;                         /* of changes that are lost (tft_model_look) */
    json_t *calibration;                    /* owned: what calibration.json holds; NULL: none */
    char *folder;                           /* owned: that it was read from; NULL: none that stays */
    struct tft_profile *profile;            /* owned: what profile.json holds, and what was asked; NULL: none */
    int passes;                             /* open ones: the inference's data are lent for all of them */
    const struct halay_tft_data *pass_data; /* borrowed: these data */
    int pass_calibrate;                     /* calibrated in this way */
};

/* ---- sessions ---- */

/*
 * Calls. A public function is one of these around its work, an expression of a status that is evaluated if the call can
 * begin. given: nonzero if no argument is NULL that must not be.
 */
#define TFT_CALL(given, tft, work)                                        \
    ((given) ? tft_session_leave((tft), (tft_session_enter(tft), (work))) \
             : tft_session_refuse_null(__func__, "an argument"))
/* A call of all ranks, which can be stopped: the session joins the job unless it has done so. */
#define TFT_CALL_RANKS(given, tft, work)                                                                \
    ((given) ? tft_session_leave_stopped((tft), tft_session_enter_ranks(tft) ? (tft)->entered : (work)) \
             : tft_session_refuse_null(__func__, "an argument"))
/* The same on a model, whose data the call gives back. One rank may fail before all work together: the work agrees on
 * the status of all there (tft_session_agree), and where it returns an error before, the call does. */
#define TFT_CALL_MODEL(given, model, work)                                                       \
    ((given) ? tft_model_leave((model), tft_model_begin(model) ? (model)->tft->entered : (work)) \
             : tft_session_refuse_null(__func__, "an argument"))
/* Reads a program's struct; if that is NULL, *to stays as it is. */
#define TFT_READ(tft, type, from, to) \
    ((from) ? halay_struct_read(&(tft)->log, #type, (from), sizeof(struct type), sizeof(struct type), (to)) : HALAY_OK)

/* Begin and end every call that can fail. leave returns its status, whose text it keeps. */
void tft_session_enter(struct halay_tft *tft);
enum halay_status tft_session_leave(struct halay_tft *tft, enum halay_status status);
/* Begins a call of all ranks: the session joins the job unless it has done so. Leave it also after an error. */
enum halay_status tft_session_enter_ranks(struct halay_tft *tft);
/* Exchanges the status of all ranks, before they work together and where one may have failed. Returns HALAY_OK if all
 * ranks succeeded, otherwise this rank's own error or HALAY_ERR_PEER, logged with the first failed rank, its host and
 * its error. Blocks until every rank has called it. */
enum halay_status tft_session_agree(struct halay_tft *tft, enum halay_status status);
/* Fails on all ranks unless they have the same data (HALAY_ERR_FORMAT on rank 0, which names the ranks that differ).
 * Blocks until every rank has called it. */
enum halay_status tft_session_compare_data(struct halay_tft *tft, const struct halay_tft_data *data);
/* Returns the device that forecasts, for models that are opened. Joins the job if the device depends on the rank. */
enum halay_status tft_session_device(struct halay_tft *tft, struct tft_device *device);
/* Updates the number of ranks, which may have changed in an elastic job. */
void tft_session_count_ranks(struct halay_tft *tft);
/* Ends a call that can be stopped: clears a request to stop. */
enum halay_status tft_session_leave_stopped(struct halay_tft *tft, enum halay_status status);
/* Reports that a pointer that must not be NULL is NULL: HALAY_ERR_ARGUMENT. */
enum halay_status tft_session_refuse_null(const char *call, const char *what);

/* Makes a source of rows from a program's table: the files, or *frame, which gets the columns (owned; free them:
 * columns). HALAY_ERR_ARGUMENT (logged). */
enum halay_status tft_session_source(struct halay_tft *tft, const struct halay_tft_table *table,
                                     struct tft_frame *frame, struct tft_table_source *source);

/* Makes a text that the program frees; HALAY_ERR_NO_MEMORY (logged). Takes the document, which may be NULL. */
enum halay_status tft_session_text(struct halay_tft *tft, json_t *document, char **text);
enum halay_status tft_session_copy(struct halay_tft *tft, const char *from, char **text);

/* Does the same with rank 0's document; *text is NULL on the other ranks. */
enum halay_status tft_session_give(struct halay_tft *tft, json_t *document, char **text);

/* Reads a configuration from keys, a JSON object over the defaults; NULL: the defaults. HALAY_ERR_CONFIG (logged). */
enum halay_status tft_session_config(struct halay_tft *tft, const char *keys, struct tft_run_config *config);

/* Finds the index of a word in a list that ends with NULL; `absent` for NULL. HALAY_ERR_ARGUMENT (logged) if the list
 * does not have it. */
enum halay_status tft_session_word(struct halay_tft *tft, const char *what, const char *word, const char *const *words,
                                   int absent, int *number);
/* Sets *is_jsonl to nonzero if forecasts are written as JSON lines. format: "csv", "jsonl"; NULL: by the file's name,
 * which may be NULL. */
enum halay_status tft_session_format(struct halay_tft *tft, const char *format, const char *file, int *is_jsonl);

/* Makes data without rows. HALAY_ERR_NO_MEMORY (logged); *data is then NULL. */
enum halay_status tft_data_create(struct halay_tft *tft, struct halay_tft_data **data);

/* ---- models ---- */

/* Opens the model of rank 0's folder on all ranks, which all call it. stays: the folder may be named later. Nothing is
 * held on error. */
enum halay_status tft_model_open_shared(struct halay_tft *tft, const char *folder, int stays,
                                        struct halay_tft_model **model);

/* Begins a call of all ranks on a model: the session has a job, the model has threads. Leave the session also after an
 * error. */
enum halay_status tft_model_enter(struct halay_tft_model *model);
/* Begins such a call, which agrees on a status with the other ranks, and ends it. */
enum halay_status tft_model_begin(struct halay_tft_model *model);
enum halay_status tft_model_leave(struct halay_tft_model *model, enum halay_status status);
/* Begins a pass over windows in the same way; other calls on the model are refused while it is open. */
enum halay_status tft_model_enter_pass(struct halay_tft_model *model);

/* Lends data to a model for a call, with calibrated forecasts (an index of tft_calibrate_words; -1: as the model was
 * trained). Return them with tft_model_return_data, also after an error. */
enum halay_status tft_model_lend_data(struct halay_tft_model *model, struct halay_tft_data *data, int calibrate);
void tft_model_return_data(struct halay_tft_model *model);
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

/* ---- a forecast for the program ---- */

struct tft_forecast_room {
    const struct tft_data *data;            /* borrowed */
    const struct tft_weight_reader *reader; /* borrowed; its `all` is 0 where forecasts are not explained */
    struct halay_tft_forecast forecast;
    struct halay_region memory; /* owned: what follows */
    double *numbers;            /* most of these arrays */
    int64_t *times;
    const char **names; /* targets, then inputs */
    char (*input_names)[TFT_NAME_MAX + 16];
};

/* Initialises a room. reader: initialised, or zero. fini accepts a room after an error. HALAY_ERR_NO_MEMORY
 * (logged). */
enum halay_status tft_forecast_room_init(struct halay_log *log, const struct tft_inference *inference,
                                         const struct tft_weight_reader *reader, struct tft_forecast_room *room);
void tft_forecast_room_fini(struct tft_forecast_room *room);
/* Fills in a window's entity and times and its forecast p; more: its (all) means and (T) lags, or NULL. */
enum halay_status tft_forecast_room_fill(struct tft_forecast_room *room, const struct tft_window *window,
                                         const float *p, const float *more);

/* ---- other forms of results, and their files ---- */

/* Makes another form of a result (halay_tft_format), *text, which the caller frees. */
enum halay_status tft_result_form(struct halay_log *log, const json_t *result, const char *form, char **text);

/* Zero-initialise. */
struct tft_result_files {
    struct halay_output json, csv;
};

/* Opens the files; a path may be NULL (not written) or "-" (standard output). Call abort in any case. */
enum halay_status tft_result_files_open(struct halay_tft *tft, const char *json, const char *csv,
                                        struct tft_result_files *files);
/* Writes the result into those that are open, and completes them. */
enum halay_status tft_result_files_write(struct tft_result_files *files, const json_t *result);
/* Discards incomplete files. */
void tft_result_files_abort(struct tft_result_files *files);

#endif
