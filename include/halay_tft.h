/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft: trains Temporal Fusion Transformers on tables of time series, forecasts with them, and explains what a
 * forecast relied on: what halay-tft(1) does, as calls. Link libhalay-tft.
 *
 * Concepts. A *session* holds what calls have in common: the log function, the ranks that work together, the request to
 * stop. A *table* is rows as the program has them: columns in memory, or CSV files. A *schema* describes the columns
 * (docs/reference/schema.md). *Data* are a table prepared by a schema: sorted, filled, scaled, in memory or mapped from
 * a file. A *model* is the result of training: weights with their schema and scalers, in memory; as files it is a
 * *run's folder*, which halay-tft's commands read and write. A *window* is one forecast: an entity (one time series),
 * an origin (the last moment whose values it knows), and the horizon after it.
 *
 * Times are seconds since 1970-01-01 00:00 of the clock by which the table is written, or of UTC where the schema has a
 * time zone and a step below a day; where the schema counts in whole numbers they are these. Forecasts are in the
 * targets' own units.
 *
 * Ranks. A session includes all ranks of a job (halay.h). Calls on data, and opening and saving models, are local to
 * this rank. Training, forecasts, scores and explanations are collective: all ranks call them in the same order, with
 * the same arguments and the same data, and each blocks until all have. Results and callbacks are on rank 0 alone where
 * stated.
 *
 * Ownership. Arguments are borrowed for the duration of the call. The caller owns data and models, and closes them
 * before their session. Texts that a call returns are freed by halay_tft_free.
 *
 * Errors. Statuses are those of halay_types.h; halay_tft_error_text returns the last one's text. An error leaves only
 * files that were complete before. Nothing here exits, handles a signal, or prints except to the log.
 *
 * Threads. A session, its data and its models are used by one thread at a time; several sessions work in parallel.
 * halay_tft_stop may be called from anywhere. Callbacks run on the thread that made the call, unless stated otherwise.
 * They may stop the session, and must make no other call on it.
 */
#ifndef HALAY_TFT_H
#define HALAY_TFT_H

#include "halay.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HALAY_TFT_STEPS_MAX = 100000 }; /* of an encoder, a horizon, a lag, a stride */

struct halay_tft;       /* a session */
struct halay_tft_data;  /* prepared data */
struct halay_tft_model; /* a trained model */

/* ---- session ---------------------------------------------------------------------------------------------------- */

/* Options of a session. Zero-initialise, set struct_size to sizeof, then what differs from the default. */
struct halay_tft_options {
    size_t struct_size;
    /* The job, borrowed until halay_tft_fini, which must precede halay_fini. NULL: the session joins the job when
     * needed (halay_tft_join); a program that was not started as a rank is alone. */
    struct halay_context *ctx;
    /* Without ctx: "off", "run" or "ranks", HALAY_DETERMINISTIC of that job; NULL: "run". Should equal the key
     * `deterministic` of trainings. */
    const char *deterministic;
    /* Receives log lines (without newline): errors and warnings; NULL: standard error. Called from any thread, with no
     * lock held. */
    void (*log)(void *arg, enum halay_log_level level, const char *line);
    void *log_arg; /* borrowed until halay_tft_fini */
    /* Nonzero: the program shows the texts of errors itself (halay_tft_error_text): they are not in the log. */
    int reports_errors;
    /* The device for forecasts: "cpu" or "cuda" (the host's GPUs, distributed among its ranks); NULL: "cpu". A training
     * computes on the device of its key `device`. */
    const char *device;
};

/* Begins a session. options may be NULL. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_init(const struct halay_tft_options *options, struct halay_tft **tft);

/* Joins the job now; otherwise the first collective call joins it, and has halay_init's errors, too. Blocks as
 * halay_init does. Does nothing if the session has a job. */
HALAY_API enum halay_status halay_tft_join(struct halay_tft *tft);

/* Ends a session, and leaves the job if the session joined it. Its data and models must have been closed. NULL is
 * allowed. */
HALAY_API void halay_tft_fini(struct halay_tft *tft);

/*
 * Requests that the session stops. The call in progress, or else the next one that can be stopped, ends soon: a
 * training after its step, with HALAY_OK and its result so far; any other call with HALAY_ERR_CANCELED. A request on
 * one rank stops all ranks. reason: above 0, for example a signal's number; 0 withdraws a request that no call has
 * acted on yet, for example when the call has just ended. May be called from any thread, in a callback, in a signal
 * handler.
 */
HALAY_API void halay_tft_stop(struct halay_tft *tft, int reason);

/* Returns the reason why the last call was stopped, on this rank or another; 0 if it was not. */
HALAY_API int halay_tft_stopped(const struct halay_tft *tft);

/* Returns the session's job, borrowed; NULL before it has joined one. */
HALAY_API struct halay_context *halay_tft_context(const struct halay_tft *tft);

/* Returns the text of the last error that a call of this header returned on this thread: which file, column or key, and
 * what would be right. Never NULL, "" if no call has failed; valid until another call on this thread fails. */
HALAY_API const char *halay_tft_error_text(void);

/* Returns the error whose text that is, as fields: for a cell of a table, its row and column. Never NULL, valid as long
 * as the text. */
HALAY_API const struct halay_error *halay_tft_last_error(void);

/* Frees a text that a call returned. NULL is allowed. */
HALAY_API void halay_tft_free(char *text);

/* ---- tables ----------------------------------------------------------------------------------------------------- */

/* The types of a column's values. */
enum halay_tft_kind {
    HALAY_TFT_REALS = 0,    /* const double *; NaN: no value */
    HALAY_TFT_INTEGERS = 1, /* const int64_t *; INT64_MIN: no value. A number, an id, a category, a time that counts */
    HALAY_TFT_TEXTS = 2,    /* const char *const *, UTF-8; NULL: no value. As in a CSV file: a time is read by the
                               schema's format */
    HALAY_TFT_CODES = 3,    /* const int32_t *, numbers of the column's texts; below 0: no value */
    HALAY_TFT_TIMES = 4,    /* const int64_t *, seconds since 1970 as above; INT64_MIN: no value */
};

/* A column in memory, as an array element: halay_tft_table.column_bytes is the size of an element, so that members
 * which later versions add count as zero. */
struct halay_tft_column {
    const char *name;
    enum halay_tft_kind kind;
    const void *values;       /* as many as the table has rows */
    const char *const *texts; /* of HALAY_TFT_CODES */
    size_t text_count;
};

/* Rows in any order: columns in memory, files, or a text. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_table {
    size_t struct_size;
    const struct halay_tft_column *columns;
    size_t column_count, column_bytes; /* column_bytes: sizeof(struct halay_tft_column) */
    size_t rows;
    int times_are_utc;        /* HALAY_TFT_TIMES are of UTC, not of the clock of the schema's zone */
    const char *const *files; /* in place of columns: CSV files, plain or compressed by gzip, or folders of them */
    size_t file_count;
    const char *name; /* of columns or a text: what errors call it, and the file's name that ids may come from; NULL:
                         "table", "text" */
    const char *text; /* in place of columns and files: what a CSV file would hold, text_bytes of it */
    size_t text_bytes;
};

/* ---- data ------------------------------------------------------------------------------------------------------- */

/* How to prepare a table. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_prepare_options {
    size_t struct_size;
    /* The schema: its file, or its text, YAML or JSON; with the key `preset`, missing parts are derived from the rows.
     * Neither: a table with columns unique_id, ds and y, whose schema is derived from the rows. */
    const char *schema, *schema_text;
    size_t encoder, horizon; /* of these: steps of a window; 0: chosen by the step */
    const char *zone;        /* and the time zone of the files' clock; NULL: not known */
    const char *path;        /* write the data to this file, and map it; NULL: they stay in memory */
    size_t threads;          /* 0: as many as the process may run on */
    size_t memory; /* with path: maximal bytes in memory; the rest is kept on disk. 0: half of the host's memory */
    int test;      /* with what is found in the rows: hold the last tenth back for a test */
};

/* Prepares a table for training. Blocks while it reads. Errors: HALAY_ERR_FORMAT (a value contradicts the schema, or no
 * entity is long enough), HALAY_ERR_CONFIG (the schema is wrong), HALAY_ERR_SYSTEM (a file cannot be read or written),
 * HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_prepare(struct halay_tft *tft, const struct halay_tft_table *table,
                                              const struct halay_tft_prepare_options *options,
                                              struct halay_tft_data **data);

/* Maps a file of prepared data. Errors: HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT (damaged, or of another version). */
HALAY_API enum halay_status halay_tft_data_open(struct halay_tft *tft, const char *path, struct halay_tft_data **data);

/* Writes data to a file, which replaces another one when it is complete. Errors: HALAY_ERR_SYSTEM. */
HALAY_API enum halay_status halay_tft_data_save(const struct halay_tft_data *data, const char *path);

/*
 * Describes data and the preparation of their rows: a JSON object with "schema" (name), "document" (the schema itself),
 * "entities", "rows", "begin" and "end" (times), "summary" (counts: "rows_read", "rows_missing", "filled", ...),
 * "windows" (of each split: "all", "short", "masked_targets"), "inputs" (a list: "name", "role", "scale", "categories",
 * and "filled" unless the data were opened), "preset" (whether one completed the schema, unless the data were opened).
 * Later versions may add keys. Errors: HALAY_ERR_NO_MEMORY, HALAY_ERR_FORMAT (damaged).
 */
HALAY_API enum halay_status halay_tft_data_describe(const struct halay_tft_data *data, char **json);

/* Unmaps or frees data. NULL is allowed. */
HALAY_API void halay_tft_data_close(struct halay_tft_data *data);

/* ---- configurations ---------------------------------------------------------------------------------------------- */

/* Describes the keys of trainings: a JSON array of objects with "name", "kind" ("whole", "real", "word", "set" and
 * "list", of words and of numbers, "text"), "default" (null: no default), "least" and "most" (of numbers),
 * "words" (of words and sets), "help". Needs no session. Errors: HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_keys(char **json);

/*
 * Adds keys to a configuration, or overrides existing ones. config: the result of an earlier call; NULL: empty. keys: a
 * JSON object; its values may be texts, too ("0.1,0.5,0.9"). where: the source that errors name ("file 'x.yaml'").
 * *more: a JSON object of all keys given. Needs no session. Errors: HALAY_ERR_CONFIG (a key or value is wrong),
 * HALAY_ERR_UNSUPPORTED (a key of older versions; the text has its replacement), HALAY_ERR_ARGUMENT,
 * HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_config_add(const char *config, const char *where, const char *keys, char **more);

/* Checks that the values of a configuration fit together, as trainings do. *all: a JSON object of all keys that have a
 * value, defaults included; all may be NULL. Needs no session. Errors: HALAY_ERR_CONFIG, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_config_check(const char *config, char **all);

/* ---- training --------------------------------------------------------------------------------------------------- */

/* Progress of a training after a step. Created by the library; later versions add members at its end. */
struct halay_tft_progress {
    uint64_t step, steps; /* done, and in all, as far as is known */
    uint64_t epoch;       /* from 1 */
    uint64_t samples;     /* since the beginning */
    double loss;          /* of this step's batch */
    double seconds;       /* of training, earlier processes included */
    double seconds_left;  /* at most */
    double samples_per_second;
};

/* How a model is trained. Zero-initialise, set struct_size to sizeof, then what differs from the default. */
struct halay_tft_train_options {
    size_t struct_size;
    const char *config;      /* keys and values as a JSON object: "{\"hidden_size\": 64, \"max_time\": 60}"; those of
                           halay-tft train. NULL: defaults */
    const char *folder;      /* the run's: the model, its description, metrics.jsonl and checkpoints. It must not hold a
                           model yet. NULL: one that is removed at the end, and no checkpoints are kept */
    const char *checkpoints; /* the folder of checkpoints; NULL: "checkpoints" in the run's */
    const char *metrics;     /* the folder of metrics.jsonl; NULL: the run's */
    int resume;              /* resume from the newest good checkpoint, if there is one */
    int elastic;             /* continue when ranks are lost or join (halay_elastic.h) */
    /* Callbacks, all of rank 0; each may be NULL. */
    void (*progress)(void *arg, const struct halay_tft_progress *progress); /* after each step */
    void (*metrics_line)(void *arg, const char *json); /* after each evaluation: what metrics.jsonl gets */
    void (*say)(void *arg, const char *text); /* a line for people: how the training begins, evaluations, how it ends */
    void *arg;                                /* the callbacks get it */
};

/*
 * Trains a model. Blocks until it is trained. After halay_tft_stop it ends with HALAY_OK and the best weights so far
 * (not calibrated if calibration had not run), or with HALAY_ERR_CANCELED if a model is requested but has no weights
 * yet; a checkpoint in the folder has everything to resume. Parts of the schema that are `auto` are chosen in the data,
 * too. model may be NULL: then only the folder has it. All ranks get the same model, from rank 0,
 * whose host alone has the folder. Errors: HALAY_ERR_CONFIG (a key or value is wrong), HALAY_ERR_ARGUMENT (a model or
 * checkpoint exists already), HALAY_ERR_FORMAT (the loss is not finite, the data are damaged, or the ranks' data
 * differ), HALAY_ERR_PEER (a rank is lost or has failed), HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_train(struct halay_tft *tft, struct halay_tft_data *data,
                                            const struct halay_tft_train_options *options,
                                            struct halay_tft_model **model);

/* ---- like a training -------------------------------------------------------------------------------------------- */

/* Searches a learning rate: 100 steps from 1e-6 to 1, whose weights are discarded. config: as in
 * halay_tft_train_options. *rate: the rate to train with; 0: the loss fell at no rate. *text, NULL except on rank 0, is
 * a human-readable table. Errors are those of halay_tft_train. */
HALAY_API enum halay_status halay_tft_find_learning_rate(struct halay_tft *tft, struct halay_tft_data *data,
                                                         const char *config, double *rate, char **text);

/* A backtest: trainings and forecasts through a split. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_backtest_options {
    size_t struct_size;
    const char *config; /* of each training, as in halay_tft_train_options */
    const char *folder; /* where the runs fit-0001, fit-0002, ... go */
    const char *split;  /* "valid" or "test"; NULL: "test" */
    size_t stride;      /* steps from one forecast's origin to the next; 0: the horizon */
    size_t fit_every;   /* trains again after this number of origins, on everything before; 0: one training */
    int warm_start;     /* a training starts from the parameters of the one before */
    int resume;         /* resume from the runs in the folder */
    /* Files that rank 0 writes; NULL: none; "-": standard output. */
    const char *forecasts;  /* all forecasts, as halay_tft_forecast_options.file, with the actual values and the number
                              of the fit */
    const char *format;     /* of these */
    const char *file, *csv; /* the result, as in halay_tft_windows */
    /* Callbacks, as in halay_tft_train_options. */
    void (*progress)(void *arg, const struct halay_tft_progress *progress);
    void (*metrics_line)(void *arg, const char *json);
    void (*say)(void *arg, const char *text);
    void *arg;
};

/* Trains, forecasts and scores repeatedly through a split: writes what `halay-tft backtest --json` does. *json is NULL
 * except on rank 0. Errors are those of halay_tft_train and halay_tft_forecast; HALAY_ERR_CANCELED (halay_tft_stop). */
HALAY_API enum halay_status halay_tft_backtest(struct halay_tft *tft, struct halay_tft_data *data,
                                               const struct halay_tft_backtest_options *options, char **json);

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* Loads a run's folder, or the newest good checkpoint of a folder of them. Errors: HALAY_ERR_SYSTEM,
 * HALAY_ERR_FORMAT. */
HALAY_API enum halay_status halay_tft_model_open(struct halay_tft *tft, const char *folder,
                                                 struct halay_tft_model **model);

/* Does the same on all ranks: rank 0 reads the folder, which other hosts need not have, and gives the model to all. All
 * ranks call it. Errors: also HALAY_ERR_PEER. */
HALAY_API enum halay_status halay_tft_model_open_shared(struct halay_tft *tft, const char *folder,
                                                        struct halay_tft_model **model);

/* Writes a model into a folder, which is created if necessary and must not hold a model yet (HALAY_ERR_ARGUMENT).
 * Errors: also HALAY_ERR_SYSTEM. */
HALAY_API enum halay_status halay_tft_model_save(const struct halay_tft_model *model, const char *folder);

/*
 * Describes a model: a JSON object with "config" (all keys), "schema", "encoder" and "horizon" (steps), "quantiles" and
 * "targets" (lists), "parameters" (their number, of one member), "members" (models whose forecasts are averaged),
 * "inputs" (the network's, in its order: a list of "name", "role", "type" ("real" or "category"), "categories"),
 * "selected" (the inputs of "static", "past" and "future", three lists of names in the order of weights), "heads" (of
 * attention), "step" (of the weights), "calibrated" (whether it has a calibration), "refitted" (whether forecasts after
 * the last row use refitted weights), "needs_future" (whether forecasts after the last rows need known inputs of a
 * future), "blended" (whether forecasts also use a baseline). Later versions may add keys. Errors: HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_model_describe(const struct halay_tft_model *model, char **json);

/* Returns one of a model's weight tensors, of the first member and the best evaluation, by its index from 0: *name
 * ("encoder.kernel"), *shape of *dimensions sizes, *values in row-major order; after the last one all are NULL or 0.
 * The model owns them. Errors: HALAY_ERR_ARGUMENT (an argument is NULL). */
HALAY_API enum halay_status halay_tft_model_weights(const struct halay_tft_model *model, size_t number,
                                                    const char **name, size_t *dimensions, const size_t **shape,
                                                    const float **values);

/*
 * Describes how a model encodes the values of a table, for programs that compute its forecasts themselves: a JSON
 * object with "schema" (its name), "origin" (the moment from which steps are counted), "missing" (texts for missing
 * values), "min_encoder" (the fewest steps of history), "entities" (the ids of the training, in order), "needs_entity"
 * (whether others are refused), "inputs" and "formulas".
 *
 * "inputs" has the schema's inputs in order, those derived from a column after it, each an object with the schema's
 * words for it: "name", "role", "type", "column", "calendar", "days" and "most", "period" ("period_in_steps"), "map",
 * "transform", "missing_number", "fill" ("constant" with "constant", of a category a code), "scale", "per"; and
 *   "source"      "column", "calendar" (of which "count" values begin at "first"), "holidays", "fourier", "id"
 *   "derivation"  "none", "lag" (of "lag" steps), "missing" (1 for a missing value), "sine", "cosine" ("harmonic")
 *   "base"        number of the input that this one is derived from, or its own
 *   "steps"       of a window: 0 (static), the encoder's, or those and the horizon's
 *   "categories"  number of codes, with "codes" (an object: of texts, -1 for a missing value; without it the code is
 *                 the number of the entity, or the calendar's value minus "first") and "unknown" (of other texts)
 *   "shifts", "scales"  scaled = (value - shift) / scale, where "scale" is log1p-standard of log(1 + value): one for
 *                 all entities, or one of each, and one more for others unless they are refused
 *
 * "formulas" has "spread_least" (of a window by which an input is scaled), and of losses and layers "deviation_least"
 * and "normal_quantiles" (of the loss gaussian), "skip_scales" (an object: of each tensor "....mask", the factors of a
 * resampled skip connection). Later versions may add keys. HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_model_encoding(const struct halay_tft_model *model, char **json);

/*
 * Returns the factors by which a calibration moves the ends of a model's intervals, in the unit of the loss: a JSON
 * object with "method" ("conformal", "rolling": these, where an entity has too few recent forecasts; "none", without
 * other members), "median" (index of the quantile that stays), "bands" (a list: "low" and "high", indices of quantiles,
 * "moves_low" and "moves_high", "least", the smallest factor, and "is_flat": for forecasts of at most "flat_width"),
 * "targets" (objects by name: "by_horizon", a list for each step of a factor for each band, null if there were too few
 * windows, and "by_entity", such lists by id, which have precedence). An end moves by the factor times the band's
 * width; a flat forecast's by the factor itself. calibrate: as in halay_tft_forecast_options. Errors:
 * HALAY_ERR_ARGUMENT (the model is not calibrated), HALAY_ERR_FORMAT (the calibration was made with other weights, or
 * is damaged), HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_model_calibration(const struct halay_tft_model *model, const char *calibrate,
                                                        char **json);

/* A model with given weights. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_create_options {
    size_t struct_size;
    /* Inputs, scalers and categories: those of data, with the keys of a configuration (NULL: the defaults), ... */
    struct halay_tft_data *data;
    const char *config;
    const struct halay_tft_model *like; /* ... or those of this model, whose keys it has, too */
    const float *weights; /* all tensors one after the other, in halay_tft_model_weights' order; NULL: 0 */
    size_t weight_count;  /* numbers of weights */
};

/* Creates a model with given weights, without members, refitted weights and calibration. Errors: HALAY_ERR_CONFIG (the
 * keys are wrong), HALAY_ERR_ARGUMENT (weight_count is not the model's), HALAY_ERR_FORMAT (a target has a 'blend',
 * whose weights only a training finds), HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_model_create(struct halay_tft *tft,
                                                   const struct halay_tft_create_options *options,
                                                   struct halay_tft_model **model);

/* A model as an ONNX graph that forecasts from a table's own values (docs/guides/onnx.md). Zero-initialise, set
 * struct_size to sizeof, then the rest. */
struct halay_tft_export_options {
    size_t struct_size;
    const char *format;    /* NULL or "onnx" */
    const char *path;      /* the file, replaced when it is complete */
    const char *calibrate; /* "none" or "conformal"; NULL: as the model was trained */
    int explains;          /* with the weights of inputs, and attention, as further outputs */
    const char *about;     /* a file for *json, indented; NULL: none; "-": standard output */
};

/* Writes a model for another program. *json has the graph's inputs, in order, and the values to feed to each. This rank
 * writes. Errors: HALAY_ERR_ARGUMENT (the format cannot express the model, or it is not calibrated),
 * HALAY_ERR_UNSUPPORTED, HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_model_export(const struct halay_tft_model *model,
                                                   const struct halay_tft_export_options *options, char **json);

/* Frees a model; its folder stays. NULL is allowed. */
HALAY_API void halay_tft_model_close(struct halay_tft_model *model);

/* ---- forecasts -------------------------------------------------------------------------------------------------- */

/* One window's forecast. Created by the library, and valid until the callback returns; later versions add members at
 * its end. */
struct halay_tft_forecast {
    const char *entity;
    int64_t origin; /* the last moment that it knows */
    size_t horizon, target_count, quantile_count;
    const int64_t *times;       /* (horizon) */
    const char *const *targets; /* (targets) names */
    const double *quantiles;    /* (quantiles); of a loss that forecasts one number: 0.5 alone */
    const double *values;       /* (horizon, targets, quantiles) */
    const double *actuals;      /* (horizon, targets); NaN: not measured */
    size_t input_count;         /* the next two, with `explains`; otherwise 0 */
    const char *const *inputs;  /* "past load", "future hour", "static region": parts and inputs */
    const double *weights;      /* (inputs) weights of variable selection; those of a part add up to 1 */
    size_t lag_count;
    const double *lags; /* (lags) mean attention to the step this lag before the forecast step */
    /* The window, and its forecast in the unit of the loss that trained the model. */
    size_t number;                /* of the entity in the data */
    size_t past;                  /* steps that the window looks back over, at most the encoder's */
    const float *scaled;          /* (horizon, targets, quantiles) */
    const double *scaled_actuals; /* (horizon, targets); NaN: not measured */
    const double *scales;         /* (targets) what differences in that unit are divided by to compare entities */
    /* The next two of a pass alone (halay_tft_pass_open), as it asks for them; otherwise NULL. */
    const float *numbers;                    /* (number_count) what `measure` has written */
    const struct halay_tft_weights *weighed; /* what the forecast weighed */
    size_t row;                              /* of the entity's rows, the first that is forecast */
};

/* Options of a forecast. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_forecast_options {
    size_t struct_size;
    /* Rows like those of the training; or, with split, data prepared by the same schema. */
    const struct halay_tft_table *table;
    struct halay_tft_data *data;
    const struct halay_tft_table *future; /* known inputs after the last rows: id, time and their columns. NULL: none */
    const char *split; /* the windows of "train", "valid" or "test"; NULL: one after each entity's last row */
    size_t stride;     /* with split: steps from one window to the next; 0: the schema's */
    /* The calibration of intervals: "none", "conformal" or "rolling"; NULL: as the model was trained. */
    const char *calibrate;
    int explains; /* fill in what each forecast relied on */
    /* Called with each window in order of entity and origin, on every rank; a result other than HALAY_OK ends the call
     * with that status. May be NULL if there is a file. */
    enum halay_status (*take)(void *arg, const struct halay_tft_forecast *forecast);
    void *arg;
    /* Files that rank 0 writes, like `halay-tft predict`; NULL: none; "-": standard output. */
    const char *file;        /* the forecasts */
    const char *format;      /* of these: "csv" or "jsonl"; NULL: by the file's name */
    const char *explanation; /* what each forecast relied on; its format is that of its name */
    char **summary; /* NULL, or where a JSON object goes: "windows", "short_windows" (those with a shorter past),
                                "calibrated" (in words, how the intervals were; null: not) */
};

/*
 * Forecasts. Blocks until all windows have been passed to the callback. Memory does not grow with their number. Errors:
 * HALAY_ERR_FORMAT (no window to forecast, or rows do not fit the schema), HALAY_ERR_ARGUMENT (an entity or category is
 * unknown to the model, a known input's future is missing, the model is not calibrated), HALAY_ERR_CANCELED
 * (halay_tft_stop), HALAY_ERR_PEER, HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_forecast(struct halay_tft_model *model,
                                               const struct halay_tft_forecast_options *options);

/* One of several tables to forecast together, and its result. Zero-initialise, then set the table. */
struct halay_tft_query {
    const struct halay_tft_table *table;
    /* As in halay_tft_forecast_options. The table itself: its rows after the last measured target are the future. */
    const struct halay_tft_table *future;
    /* Set by the call; freed by halay_tft_queries_clear. */
    enum halay_status status;
    char *error;        /* its text; NULL: HALAY_OK */
    char *forecasts;    /* what the file of forecasts would hold; NULL on an error */
    char *explanations; /* and the file of explanations; NULL: not requested */
    size_t windows;     /* one for each entity */
    size_t filled; /* of these, with a target without a value in the past: its forecast is based on filled values */
    /* The error's fields, as in struct halay_error: NULL or 0 if unknown. */
    char *subject, *column;
    size_t row;
};

/* Several queries. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_queries {
    size_t struct_size;
    struct halay_tft_query *queries;
    size_t count, query_bytes; /* query_bytes: sizeof(struct halay_tft_query) */
    /* For all queries, as in halay_tft_forecast_options. */
    const char *calibrate, *format;
    int explains;
    const double *quantiles; /* those of the model's that are given; NULL: all */
    size_t quantile_count;
    /* Called on the caller's thread between parts of long work: after every few queries or thousand rows read, and
     * every few hundred windows. It may make other forecasts with the model, which change no bit of these. NULL:
     * none. */
    void (*between)(void *arg);
    void *arg;
};

/*
 * Forecasts the horizon after the last row of each entity, for all queries together: faster than one call for each. A
 * wrong query fails alone (its status and error), also if one of its entities cannot be forecast, which
 * halay_tft_forecast skips. Local to this rank. Without a query it checks whether forecasts with this calibration are
 * possible. Returns HALAY_OK if each query has its status. Errors: HALAY_ERR_ARGUMENT (a quantile is not the model's,
 * or the model is not calibrated), HALAY_ERR_FORMAT (the calibration is another model's), HALAY_ERR_CANCELED
 * (halay_tft_stop), HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_forecast_queries(struct halay_tft_model *model,
                                                       const struct halay_tft_queries *queries);

/* Frees the results that the call set, however it ended. */
HALAY_API void halay_tft_queries_clear(const struct halay_tft_queries *queries);

/* The windows of data to score or explain. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_windows {
    size_t struct_size;
    const char *split;     /* NULL: "test"; where the schema has no test, validation's, with a warning */
    size_t stride;         /* 0: the schema's to score, the horizon to explain */
    const char *calibrate; /* as in halay_tft_forecast_options; to score only */
    double regime;         /* to explain: from this distance of its attention from the mean, a window is another
                              regime; 0: 0.3, below 0: any distance */
    int has_occlusion;     /* to explain: forecast again without each input, as a check on the weights */
    const char *tables;    /* to explain: a folder for importance.csv, attention.csv and windows.csv; NULL: none */
    /* Files for the result, which rank 0 writes, too; NULL: none; "-": standard output. */
    const char *file;   /* JSON, indented */
    const char *csv;    /* to score: CSV (halay_tft_format) */
    const char *page;   /* to explain or report: an HTML page with pictures */
    const char *window; /* to explain: a forecast to look at, "ENTITY,TIME": the last moment that it has seen */
    const struct halay_tft_table *table; /* in place of data, which are NULL then: rows like those of the training */
    int has_pictures; /* the result also has "pictures": what charts need, for example some forecasts */
};

/* Scores a model's forecasts beside naive ones, whose errors in the training span are those of the same rows: writes
 * what `halay-tft evaluate --json` does. windows may be NULL. *json is NULL except on rank 0. Errors are those of
 * halay_tft_forecast. */
HALAY_API enum halay_status halay_tft_evaluate(struct halay_tft_model *model, struct halay_tft_data *data,
                                               const struct halay_tft_windows *windows, char **json);

/* A comparison of recent rows with those of a training. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_drift_options {
    size_t struct_size;
    const char *since;     /* the recent rows begin at this moment, "2018-07-01 00:00"; NULL: */
    size_t last;           /* they are this number of last steps; 0: they begin with the split test, or
                            * after training without such a split */
    const char *until;     /* they end before this moment; NULL: with the last row */
    double rate;           /* the probability that all comparisons together report drift by mistake; 0: 0.05 */
    size_t stride;         /* steps from one forecast to the next; 0: the horizon */
    const char *calibrate; /* as in halay_tft_forecast_options */
    const char *file;      /* rank 0 writes the result into it, too, as in halay_tft_windows */
    const struct halay_tft_table *table; /* in place of data, which are NULL then: rows like those of the training */
};

/*
 * Compares recent rows with those that the model was trained on: for each entity and input the distribution (population
 * stability index; Kolmogorov-Smirnov distance), for targets the missing values; and the errors and the coverage of
 * forecasts with those of the validation span. Data include the training's rows. Thresholds are derived from stretches
 * of the past, each compared with the rest (docs/guides/drift.md). *json: the output of `halay-tft drift --json`, with
 * "drifted"; NULL except on rank 0. options may be NULL. Errors: HALAY_ERR_ARGUMENT (the recent rows are in the
 * training span, or missing); otherwise those of halay_tft_forecast.
 */
HALAY_API enum halay_status halay_tft_drift(struct halay_tft_model *model, struct halay_tft_data *data,
                                            const struct halay_tft_drift_options *options, char **json);

/* Writes the distribution of a model's inputs in the data's training span into a run's folder, as profile.json: a model
 * opened from there compares the rows that it forecasts from with it. Collective; rank 0 writes. Errors:
 * HALAY_ERR_FORMAT (the data are not the model's), HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_profile(struct halay_tft_model *model, struct halay_tft_data *data,
                                              const char *folder);

/*
 * Compares a model's queries with its profile: a JSON array with an object for each input that a column gives: "input",
 * "values" (the number of measured values in encoders: of halay_tft_forecast's last call, and of
 * halay_tft_forecast_queries' calls since, of which old ones fade), "outside" (the share beyond the range of the
 * entity's training span, or of categories that it did not have), "psi" (the population stability index). Empty without
 * a profile. Errors: HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_model_inputs(const struct halay_tft_model *model, char **json);

/*
 * Calibrates a model: finds by how far the ends of intervals have to move to reach their nominal coverage. The model
 * uses the calibration from now on. data: from their validation windows; or table: from the windows of rows like those
 * of the training, after the training span and up to the last row (where splits are by entity: in the same number of
 * last steps of each as training held back). folder: where rank 0 writes calibration.json, the run's; NULL: nowhere.
 * *text, NULL except on rank 0, is a human-readable sentence with the result. Errors: HALAY_ERR_ARGUMENT (neither or
 * both of data and table), HALAY_ERR_FORMAT (the table has too few such windows; the model keeps its calibration);
 * otherwise those of halay_tft_forecast.
 */
HALAY_API enum halay_status halay_tft_calibrate(struct halay_tft_model *model, struct halay_tft_data *data,
                                                const struct halay_tft_table *table, const char *folder, char **text);

/* Explains what a model's forecasts rely on: writes what `halay-tft explain --json` does. windows may be NULL. *json is
 * NULL except on rank 0. Errors are those of halay_tft_forecast. */
HALAY_API enum halay_status halay_tft_explain(struct halay_tft_model *model, struct halay_tft_data *data,
                                              const struct halay_tft_windows *windows, char **json);

/* Reads a run's records: a JSON object with "kind" ("run"), "halay" (the version that trained), "config", "schema", and
 * "metrics", a list of the lines of metrics.jsonl so far. Local to this rank. Errors: HALAY_ERR_SYSTEM,
 * HALAY_ERR_FORMAT, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_run_describe(struct halay_tft *tft, const char *folder, char **json);

/* Writes a page about a run's folder, windows->page: loss curves; with data also scores, some forecasts, and what they
 * rely on. data may be NULL: then it is local to this rank. Errors are those of halay_tft_forecast. */
HALAY_API enum halay_status halay_tft_report(struct halay_tft *tft, const char *folder, struct halay_tft_data *data,
                                             const struct halay_tft_windows *windows);

/* Writes a result in another form, which depends on its member "kind". "scores" and "backtest" (halay_tft_evaluate,
 * _backtest), "explanation" (halay_tft_explain), "tuning" (`halay-tft tune --json`) and "drift" (halay_tft_drift) have
 * "table", for people; "csv": of scores a row for all values, one for each horizon and one for each entity, of an
 * explanation a row for each input, of a tuning for each training, of drift for each statistic; and "tables", JSON with
 * all tables by name: {"columns": [...], "rows": [[...], ...]}. "scores" have "calibrated", how intervals were
 * calibrated, in words; "tuning" and "drift" "page", an HTML page; "drift" "metrics", gauges for Prometheus. The kinds
 * "data", "model", "encoding", "calibration", "forecast" and "graph" (halay_tft_data_describe, _model_describe,
 * _model_encoding, _model_calibration, _forecast, _model_export) have no other forms. Needs no session.
 * HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_format(const char *json, const char *form, char **text);

/* ---- passes over windows ----------------------------------------------------------------------------------------- */

struct halay_tft_pass; /* forecasts of windows, one after the other */

/* The weights within a forecast, by the parameters of the model's first member. Inputs are in the order of "selected"
 * of halay_tft_model_describe. Created by the library; later versions add members at its end. */
struct halay_tft_weights {
    size_t number;          /* of the entity in the data */
    size_t past;            /* steps that the window looks back over, at most the encoder's */
    const float *statics;   /* (static inputs) */
    const float *history;   /* (encoder, past inputs); rows before the last `past` mean nothing */
    const float *future;    /* (horizon, future inputs) */
    const float *attention; /* (heads, horizon, encoder + horizon), of each step of the horizon to each of the window */
};

/* Options of a pass: its windows and their fields. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_pass_options {
    size_t struct_size;
    const char *split;     /* NULL: the last horizon of each entity, by the parameters that forecast the future */
    size_t stride;         /* with split: steps from one window to the next; 0: the schema's */
    int64_t begin, end;    /* if end is after begin: the windows whose targets are in [begin, end), in place of those of
                              the split, and with pasts as they have */
    const char *calibrate; /* as in halay_tft_forecast_options */
    const char *without;   /* an input that is taken away: an ordinary value replaces it at each step */
    int is_list;           /* entity, origin and past alone: nothing is forecast, and nothing is exchanged */
    int explains;          /* fill in inputs, weights, lags */
    int has_weights;       /* fill in `weighed`, on every rank: some ten kilobytes a window */
    /* Called with each window that this rank computes, in any order, on any of the library's threads, several at a
     * time. The numbers that it writes are sent with the window to every rank. NULL: none. */
    void (*measure)(void *arg, const struct halay_tft_weights *weights, float *numbers);
    size_t number_count;
    void *arg;
};

/*
 * Begins a pass over windows of data. Until it is closed, the model may make other forecasts only in further passes
 * over the same data, with the same calibration. Ranks compute parts of the windows, and each rank gets all of them, in
 * order of entity and origin. Memory does not grow with their number. Collective; all ranks fail together. Errors:
 * HALAY_ERR_ARGUMENT (`without` is not an input, the model is not calibrated, a pass over other data is open),
 * HALAY_ERR_FORMAT (the data are not the model's), HALAY_ERR_PEER, HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_pass_open(struct halay_tft_model *model, struct halay_tft_data *data,
                                                const struct halay_tft_pass_options *options,
                                                struct halay_tft_pass **pass);

/* Continues with the windows of entities first to first + count - 1. Returns their number. */
HALAY_API size_t halay_tft_pass_seek(struct halay_tft_pass *pass, size_t first, size_t count);

/* Returns the next window; *window is NULL after the last one, and valid until the next call on the pass. Blocks
 * from time to time until all ranks have reached the same window. Errors are those of halay_tft_forecast, and end
 * the pass. */
HALAY_API enum halay_status halay_tft_pass_next(struct halay_tft_pass *pass, const struct halay_tft_forecast **window);

/* Returns the q-risk of the windows so far, the mean over the targets, as (quantiles) numbers; 0: nothing was
 * measured. */
HALAY_API void halay_tft_pass_q_risk(const struct halay_tft_pass *pass, double *q_risk);

/* Ends a pass; all ranks call it after the same window. NULL is allowed. */
HALAY_API void halay_tft_pass_close(struct halay_tft_pass *pass);

/* Agrees on a status, which each rank passes: returns HALAY_OK if all ranks passed it, otherwise this rank's own
 * status, or HALAY_ERR_PEER. Call it where one rank may fail alone (a file that it cannot write), before collective
 * calls. Blocks until all ranks have called it. */
HALAY_API enum halay_status halay_tft_agree(struct halay_tft *tft, enum halay_status status);

/* Return the session of a model, and a session's log (base/log.h), for tools that are built with halay: what they log
 * is an error's text once halay_tft_agree has returned it. Both are borrowed. */
struct halay_log;
HALAY_API struct halay_tft *halay_tft_model_session(const struct halay_tft_model *model);
HALAY_API struct halay_log *halay_tft_log(struct halay_tft *tft);

/* ---- rows of data ------------------------------------------------------------------------------------------------ */

/* Reads a table by a model's own schema, scalers and categories: data for passes and rows, closed before the model.
 * future, which may be NULL: known inputs after the last rows, for a pass over the last horizon of each entity, which
 * is_newest requests. Local to this rank. Errors are those of halay_tft_forecast. */
HALAY_API enum halay_status halay_tft_model_read(struct halay_tft_model *model, const struct halay_tft_table *table,
                                                 int is_newest, const struct halay_tft_table *future,
                                                 struct halay_tft_data **data);

/* The size of data, and the ends of their splits. Set struct_size to sizeof. Moments are as above. */
struct halay_tft_extent {
    size_t struct_size;
    size_t entities;
    size_t inputs; /* over time: reals, then categories, of each the known ones after the observed; targets are the last
                      of the reals */
    size_t targets, encoder, horizon;
    int64_t begin, end;                     /* the first moment, and that after the last one */
    int64_t train_end, valid_end, test_end; /* without such a split INT64_MIN; splits by entity: the latest */
    int counts;                             /* moments are whole numbers, not seconds */
};
HALAY_API enum halay_status halay_tft_data_extent(const struct halay_tft_data *data, struct halay_tft_extent *extent);

/* Returns the name of an entity, borrowed from the data, and its number of rows; rows may be NULL. NULL: no such
 * entity. */
HALAY_API const char *halay_tft_data_entity(const struct halay_tft_data *data, size_t entity, size_t *rows);

/* An input over time. Set struct_size to sizeof; the name is borrowed from the data. HALAY_ERR_ARGUMENT: no such
 * input. */
struct halay_tft_input {
    size_t struct_size;
    const char *name;
    int is_category, is_target;
    int is_own;        /* a column gives it, and it is not a lag of another input */
    size_t categories; /* codes are below this number */
    size_t unknown;    /* the code of values that training has not seen; SIZE_MAX: no such code */
};
HALAY_API enum halay_status halay_tft_data_input(const struct halay_tft_data *data, size_t input,
                                                 struct halay_tft_input *of);

/* Returns the name of a category's code, borrowed from the data; NULL if it has no name, as a weekday. */
HALAY_API const char *halay_tft_data_category(const struct halay_tft_data *data, size_t input, size_t code);

/* Reads the moments of an entity's rows first to first + count - 1; the moment of the row after its last one can be
 * read, too. is_gap, which may be NULL: nonzero for a row in a gap, whose cells are undefined. Errors:
 * HALAY_ERR_ARGUMENT (no such rows). */
HALAY_API enum halay_status halay_tft_data_times(const struct halay_tft_data *data, size_t entity, size_t first,
                                                 size_t count, int64_t *times, unsigned char *is_gap);

/* Reads an input's values in rows of an entity, in its own unit, as (count) numbers: as filled, but NaN where a target
 * was not measured; the code of a category. Errors: HALAY_ERR_ARGUMENT (no such rows or inputs), HALAY_ERR_FORMAT (the
 * file is damaged), HALAY_ERR_CANCELED (halay_tft_stop). */
HALAY_API enum halay_status halay_tft_data_cells(const struct halay_tft_data *data, size_t entity, size_t input,
                                                 size_t first, size_t count, double *values);

/* Reads the targets' values as measured in rows of an entity, as (count, targets) numbers; NaN: not measured. Those of
 * a window are its `actuals`, and its past ends before its `row`. Errors are those of halay_tft_data_cells. */
HALAY_API enum halay_status halay_tft_data_actuals(const struct halay_tft_data *data, size_t entity, size_t first,
                                                   size_t count, double *values);

/* Prints a moment as the schema counts time, into 40 bytes; and reads one, "2018-07-01 00:00": HALAY_ERR_FORMAT, not
 * logged. */
HALAY_API void halay_tft_data_print_time(const struct halay_tft_data *data, int64_t moment, char text[40]);
HALAY_API enum halay_status halay_tft_data_read_time(const struct halay_tft_data *data, const char *text,
                                                     int64_t *moment);

#ifdef __cplusplus
}
#endif
#endif
