/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft: Temporal Fusion Transformers that are trained on tables of time series, forecast them, and say what a
 * forecast relied on. What halay-tft(1) does, as calls; link libhalay-tft.
 *
 * Concepts. A *session* holds what calls have in common: where log lines go, the ranks that work together, the request
 * to stop. A *table* is rows as the program has them: columns in memory, or CSV files. A *schema* says what the columns
 * mean (docs/reference/schema.md). *Data* are a table prepared by a schema: sorted, filled, scaled, in memory or mapped
 * from a file. A *model* is what training leaves: weights with their schema and scalers, in memory; as files it is a
 * *run's folder*, which halay-tft's commands read and write. A *window* is one forecast: an entity (one time series),
 * an origin (the last moment whose values it knows), and the horizon behind it.
 *
 * Times are seconds since 1970-01-01 00:00 of the clock by which the table is written, or of UTC where the schema has a
 * time zone and a step below a day; where the schema counts in whole numbers they are these. Forecasts are in the
 * targets' own units.
 *
 * Ranks. A session is of all ranks of a job (halay.h). Calls on data, and opening and saving models, are of this rank
 * alone. Training, forecasts, scores and explanations are the work of all ranks together: each calls them in the same
 * order, with the same arguments and the same data, and blocks until all have. Results and callbacks are rank 0's alone
 * where it says so.
 *
 * Ownership. What is passed in is borrowed for the duration of the call. Data and models belong to the caller, who
 * closes them before their session. Texts that a call makes are given back by halay_tft_free.
 *
 * Errors. Statuses are those of halay_types.h; halay_tft_error_text has the last one's text. An error leaves nothing
 * behind but files that were complete before. Nothing here exits or handles a signal, nor prints but to the log.
 *
 * Threads. A session, its data and its models are used by one thread at a time; several sessions work side by side.
 * halay_tft_stop may be called from anywhere. Callbacks run on the thread that made the call, unless it says otherwise.
 * They may stop the session, and make no other call on it.
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

/* Zero-initialise, set struct_size to sizeof, then what differs from the default. */
struct halay_tft_options {
    size_t struct_size;
    /* The job, borrowed until halay_tft_fini, which comes before halay_fini. NULL: the session joins it when it is
     * needed (halay_tft_join); a program that nothing started as a rank is alone. */
    struct halay_context *ctx;
    /* Without ctx: "off", "run" or "ranks", HALAY_DETERMINISTIC of that job; NULL: "run". It should be what the key
     * `deterministic` of trainings is. */
    const char *deterministic;
    /* Where log lines (without newline) go: errors, warnings; NULL: standard error. Called from any thread, with no
     * lock held. */
    void (*log)(void *arg, enum halay_log_level level, const char *line);
    void *log_arg; /* borrowed until halay_tft_fini */
    /* Nonzero: the program shows the texts of errors itself (halay_tft_error_text): they are not in the log. */
    int reports_errors;
    /* What forecasts with models: "cpu" or "cuda", a GPU, which are dealt out among the ranks of a host; NULL: "cpu". A
     * training computes on what its key `device` says. */
    const char *device;
};

/* Begin a session. options may be NULL. HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_init(const struct halay_tft_options *options, struct halay_tft **tft);

/* Join the job now, and not with the first call that is the work of all ranks, which then has halay_init's errors, too.
 * Blocks as halay_init does. Does nothing if the session has a job. */
HALAY_API enum halay_status halay_tft_join(struct halay_tft *tft);

/* End a session, and leave the job if it has joined one. All that belongs to it has been closed. NULL is allowed. */
HALAY_API void halay_tft_fini(struct halay_tft *tft);

/*
 * Ask the session to stop. The call under way, or else the next one that can be stopped, ends soon: a training after
 * its step, with HALAY_OK and what it has; anything else with HALAY_ERR_CANCELED. That is so on all ranks if one of
 * them is asked. reason: above 0, a signal's number for example; 0 takes back what was asked and no call has heard yet,
 * as when the call has just ended. From any thread, in a callback, in a signal's handler.
 */
HALAY_API void halay_tft_stop(struct halay_tft *tft, int reason);

/* Why the last call was stopped, on this rank or another; 0 if it was not. */
HALAY_API int halay_tft_stopped(const struct halay_tft *tft);

/* The job that the session works in; borrowed. NULL before it has joined one. */
HALAY_API struct halay_context *halay_tft_context(const struct halay_tft *tft);

/* The text of the last error that a call of this header returned on this thread: which file, column or key, and what
 * would be right. Never NULL, "" if no call has failed; valid until another call on this thread fails. */
HALAY_API const char *halay_tft_error_text(void);

/* The error whose text that is, as fields: of a cell of a table, its row and column. Never NULL, valid as long as the
 * text. */
HALAY_API const struct halay_error *halay_tft_last_error(void);

/* Give back a text that a call made. NULL is allowed. */
HALAY_API void halay_tft_free(char *text);

/* ---- tables ----------------------------------------------------------------------------------------------------- */

/* What a column's values are. */
enum halay_tft_kind {
    HALAY_TFT_REALS = 0,    /* const double *; NaN: no value */
    HALAY_TFT_INTEGERS = 1, /* const int64_t *; INT64_MIN: no value. A number, an id, a category, a time that counts */
    HALAY_TFT_TEXTS = 2,    /* const char *const *, UTF-8; NULL: no value. As in a CSV file: a time is read by the
                               schema's format */
    HALAY_TFT_CODES = 3,    /* const int32_t *, numbers of the column's texts; below 0: no value */
    HALAY_TFT_TIMES = 4,    /* const int64_t *, seconds since 1970 as above; INT64_MIN: no value */
};

/* A column in memory, in an array of them: halay_tft_table.column_bytes says how large each is, so that a member that a
 * later version adds counts as zero. */
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

/* How a table is prepared. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_prepare_options {
    size_t struct_size;
    /* The schema: its file, or its text, YAML or JSON; with the key `preset`, what it leaves out is found in the rows.
     * Neither: a table with columns unique_id, ds and y, of which all is found. */
    const char *schema, *schema_text;
    size_t encoder, horizon; /* of these: steps of a window; 0: chosen by the step */
    const char *zone;        /* and the time zone of the files' clock; NULL: not known */
    const char *path;        /* write the data to this file, and map it; NULL: they stay in memory */
    size_t threads;          /* 0: as many as the process may run on */
    size_t memory; /* with path: bytes to hold at most; what is beyond lies on the disk meanwhile. 0: half of the host's
                      memory */
    int test;      /* with what is found in the rows: hold the last tenth back for a test */
};

/*
 * Prepare a table for training. Blocks while it reads. HALAY_ERR_FORMAT: a value does not mean what the schema says,
 * or no entity is long enough; HALAY_ERR_CONFIG: the schema is wrong; HALAY_ERR_SYSTEM: a file cannot be read or
 * written; HALAY_ERR_ARGUMENT; HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_prepare(struct halay_tft *tft, const struct halay_tft_table *table,
                                              const struct halay_tft_prepare_options *options,
                                              struct halay_tft_data **data);

/* Map a file of prepared data. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT (damaged, or of another version). */
HALAY_API enum halay_status halay_tft_data_open(struct halay_tft *tft, const char *path, struct halay_tft_data **data);

/* Write data to a file, which replaces another one when it is complete. HALAY_ERR_SYSTEM. */
HALAY_API enum halay_status halay_tft_data_save(const struct halay_tft_data *data, const char *path);

/*
 * What the data hold, and what happened to the table's rows: a JSON object with "schema" (name), "document" (the schema
 * itself), "entities", "rows", "begin" and "end" (times), "summary" (counts: "rows_read", "rows_missing", "filled",
 * ...), "windows" (of each split: "all", "short", "masked_targets"), "inputs" (a list: "name", "role", "scale",
 * "categories", "filled" unless the data were opened), "preset" (whether one completed the schema, likewise). Later
 * versions may add keys. HALAY_ERR_NO_MEMORY, HALAY_ERR_FORMAT (damaged).
 */
HALAY_API enum halay_status halay_tft_data_describe(const struct halay_tft_data *data, char **json);

/* Unmap or free data. NULL is allowed. */
HALAY_API void halay_tft_data_close(struct halay_tft_data *data);

/* ---- configurations ---------------------------------------------------------------------------------------------- */

/*
 * The keys of trainings: a JSON array of objects with "name", "kind" ("whole", "real", "word", "set" and "list", of
 * words and of numbers, "text"), "default" (null: none), "least" and "most" (of numbers), "words" (of words and sets),
 * "help". Needs no session. HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_keys(char **json);

/*
 * Add keys to a configuration, or override those that it has. config: what an earlier call gave; NULL: none so far.
 * keys: a JSON object, whose values may be texts, too ("0.1,0.5,0.9"). where: what errors call them ("file 'x.yaml'").
 * *more: a JSON object of all that were given. Needs no session. HALAY_ERR_CONFIG: a key or value is wrong;
 * HALAY_ERR_UNSUPPORTED: a key that older versions had, and what replaces it; HALAY_ERR_ARGUMENT;
 * HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_config_add(const char *config, const char *where, const char *keys, char **more);

/* Do the values of a configuration fit together? Trainings ask that, too. *all: a JSON object of all keys that have a
 * value, defaults included; all may be NULL. Needs no session. HALAY_ERR_CONFIG, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_config_check(const char *config, char **all);

/* ---- training --------------------------------------------------------------------------------------------------- */

/* Where a training stands after a step. The library makes it; later versions add members at its end. */
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
    int resume;              /* go on from the newest good checkpoint, if there is one */
    int elastic;             /* continue when ranks are lost or join (halay_elastic.h) */
    /* Callbacks, all of rank 0; each may be NULL. */
    void (*progress)(void *arg, const struct halay_tft_progress *progress); /* after each step */
    void (*metrics_line)(void *arg, const char *json); /* after each evaluation: what metrics.jsonl gets */
    void (*say)(void *arg, const char *text); /* a line for people: how the training begins, evaluations, how it ends */
    void *arg;                                /* the callbacks get it */
};

/*
 * Train a model. Blocks until it is trained. After halay_tft_stop it ends with HALAY_OK and the best weights so far
 * (not calibrated, if they were about to be), or with HALAY_ERR_CANCELED if a model is asked for and there are none
 * yet; a checkpoint of the folder's has all to go on. What the schema leaves to training (`auto`) is chosen in the
 * data, too. model may be NULL: then the folder alone has it. On all ranks it is the same model, which all read in rank
 * 0's folder: on several hosts one that all of them see. HALAY_ERR_CONFIG: a key or value is wrong; HALAY_ERR_ARGUMENT:
 * there is a model or a checkpoint already; HALAY_ERR_FORMAT: the loss is not finite, or the data are damaged;
 * HALAY_ERR_PEER: a rank is lost or has given up; HALAY_ERR_SYSTEM; HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_train(struct halay_tft *tft, struct halay_tft_data *data,
                                            const struct halay_tft_train_options *options,
                                            struct halay_tft_model **model);

/* ---- like a training -------------------------------------------------------------------------------------------- */

/*
 * Look for a learning rate: 100 steps from 1e-6 to 1, which leave nothing behind. config: as in
 * halay_tft_train_options. *rate: what to train with; 0: the loss fell at no rate. *text, which is NULL but on rank 0,
 * is a table for people. Errors are those of halay_tft_train.
 */
HALAY_API enum halay_status halay_tft_find_learning_rate(struct halay_tft *tft, struct halay_tft_data *data,
                                                         const char *config, double *rate, char **text);

/* Trainings and forecasts through a split. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_backtest_options {
    size_t struct_size;
    const char *config; /* of each training, as in halay_tft_train_options */
    const char *folder; /* where the runs fit-0001, fit-0002, ... go */
    const char *split;  /* "valid" or "test"; NULL: "test" */
    size_t stride;      /* steps from one forecast's origin to the next; 0: the horizon */
    size_t fit_every;   /* so many origins, then it trains again on everything before; 0: one training */
    int warm_start;     /* a training starts from the parameters of the one before */
    int resume;         /* go on with what the folder has */
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

/* Train, forecast and score on, through a split: what `halay-tft backtest --json` writes. *json is NULL but on rank 0.
 * Errors are those of halay_tft_train and halay_tft_forecast; HALAY_ERR_CANCELED: halay_tft_stop. */
HALAY_API enum halay_status halay_tft_backtest(struct halay_tft *tft, struct halay_tft_data *data,
                                               const struct halay_tft_backtest_options *options, char **json);

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* Load a run's folder, or the newest good checkpoint of a folder of them. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT. */
HALAY_API enum halay_status halay_tft_model_open(struct halay_tft *tft, const char *folder,
                                                 struct halay_tft_model **model);

/* Write a model into a folder, which is made if need be and must not hold a model yet (HALAY_ERR_ARGUMENT).
 * HALAY_ERR_SYSTEM. */
HALAY_API enum halay_status halay_tft_model_save(const struct halay_tft_model *model, const char *folder);

/*
 * What a model is: a JSON object with "config" (all keys), "schema", "encoder" and "horizon" (steps), "quantiles" and
 * "targets" (lists), "parameters" (their number, of one member), "members" (models whose forecasts are averaged),
 * "inputs" (the network's, in its order: a list of "name", "role", "type" ("real" or "category"), "categories"),
 * "selected" (the inputs of "static", "past" and "future", three lists of names in the order of weights), "heads" (of
 * attention), "step" (of the weights), "calibrated" (whether it has a calibration), "refitted" (whether forecasts after
 * the last row are of refitted weights), "needs_future" (whether forecasts behind the last rows need known inputs of a
 * future), "blended" (whether forecasts also rest on a baseline). Later versions may add keys. HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_model_describe(const struct halay_tft_model *model, char **json);

/*
 * One of a model's tensors of weights, of the first member and the best evaluation, by its number from 0: *name
 * ("encoder.kernel"), *shape of *dimensions sizes, *values in row-major order; past the last one all are NULL or 0.
 * They stay the model's. HALAY_ERR_ARGUMENT: an argument is NULL.
 */
HALAY_API enum halay_status halay_tft_model_weights(const struct halay_tft_model *model, size_t number,
                                                    const char **name, size_t *dimensions, const size_t **shape,
                                                    const float **values);

/*
 * How a model encodes the values of a table, for programs that compute its forecasts themselves: a JSON object with
 * "schema" (its name), "origin" (the moment from which steps are counted), "missing" (texts that mean no value),
 * "min_encoder" (the fewest steps of history), "entities" (the ids that training has seen, in order), "needs_entity"
 * (whether others are refused), "inputs" and "formulas".
 *
 * "inputs" has the schema's inputs in order, those derived from a column after it, each an object with the schema's
 * words for it: "name", "role", "type", "column", "calendar", "days" and "most", "period" ("period_in_steps"), "map",
 * "transform", "missing_number", "fill" ("constant" with "constant", of a category a code), "scale", "per"; and
 *   "source"      "column", "calendar" (of which "count" values begin at "first"), "holidays", "fourier", "id"
 *   "derivation"  "none", "lag" (of "lag" steps), "missing" (1 where there is no value), "sine", "cosine" ("harmonic")
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
 * The factors by which a calibration moves the ends of a model's intervals, in the unit of the loss: a JSON object with
 * "method" ("conformal", "rolling": these, where an entity's latest forecasts are too few; "none", without more),
 * "median" (number of the quantile that stays), "bands" (a list: "low" and "high", numbers of quantiles, "moves_low"
 * and "moves_high", "least", the smallest factor, and "is_flat": for forecasts of at most "flat_width"), "targets"
 * (objects by name: "by_horizon", a list for each step of a factor for each band, null if there were too few windows,
 * and "by_entity", such lists by id, which have precedence). An end moves by the factor times the band's width; a flat
 * forecast's by the factor itself. calibrate: as in halay_tft_forecast_options. HALAY_ERR_ARGUMENT: the model has no
 * calibration; HALAY_ERR_FORMAT: it was made with other weights, or is damaged; HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_model_calibration(const struct halay_tft_model *model, const char *calibrate,
                                                        char **json);

/* A model that no training has made. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_create_options {
    size_t struct_size;
    /* Inputs, scalers and categories: those of data, with the keys of a configuration (NULL: the defaults), ... */
    struct halay_tft_data *data;
    const char *config;
    const struct halay_tft_model *like; /* ... or those of this model, whose keys it has, too */
    const float *weights; /* all tensors one after the other, in halay_tft_model_weights' order; NULL: 0 */
    size_t weight_count;  /* numbers of weights */
};

/* Make a model of given weights, without members, refitted weights and calibration. HALAY_ERR_CONFIG: the keys are
 * wrong; HALAY_ERR_ARGUMENT: weight_count is not the model's; HALAY_ERR_FORMAT: a target has a 'blend', whose weights
 * only a training finds; HALAY_ERR_NO_MEMORY. */
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

/*
 * Write a model for another program. *json has the graph's inputs, in order, and what to feed to each. This rank
 * writes. HALAY_ERR_ARGUMENT: the format cannot express the model, or it has no calibration; HALAY_ERR_UNSUPPORTED;
 * HALAY_ERR_SYSTEM; HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_model_export(const struct halay_tft_model *model,
                                                   const struct halay_tft_export_options *options, char **json);

/* Free a model; a folder stays. NULL is allowed. */
HALAY_API void halay_tft_model_close(struct halay_tft_model *model);

/* ---- forecasts -------------------------------------------------------------------------------------------------- */

/* One window's forecast. The library makes it, and it is good until the callback returns; later versions add members at
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
    const double *weights;      /* (inputs) how much variable selection weighs each; of a part they add up to 1 */
    size_t lag_count;
    const double *lags; /* (lags) mean attention to what lies so many steps before the step that is forecast */
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

/* What is forecast. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_forecast_options {
    size_t struct_size;
    /* Rows like those of the training; or, with split, data prepared by the same schema. */
    const struct halay_tft_table *table;
    struct halay_tft_data *data;
    const struct halay_tft_table
        *future;       /* known inputs behind the last rows: id, time and their columns. NULL: none */
    const char *split; /* the windows of "train", "valid" or "test"; NULL: one behind each entity's last row */
    size_t stride;     /* with split: steps from one window to the next; 0: the schema's */
    /* How intervals are calibrated: "none", "conformal" or "rolling"; NULL: as the model was trained. */
    const char *calibrate;
    int explains; /* fill in what each forecast relied on */
    /* Called with each window in order of entity and origin, on every rank; what is not HALAY_OK ends the call with
     * that status. May be NULL if there is a file. */
    enum halay_status (*take)(void *arg, const struct halay_tft_forecast *forecast);
    void *arg;
    /* Files that rank 0 writes, as `halay-tft predict` does; NULL: none; "-": standard output. */
    const char *file;        /* the forecasts */
    const char *format;      /* of these: "csv" or "jsonl"; NULL: by the file's name */
    const char *explanation; /* what each forecast relied on; its format is that of its name */
    char **summary; /* NULL, or where a JSON object goes: "windows", "short_windows" (those with a shorter past),
                                "calibrated" (in words, how the intervals were; null: not) */
};

/*
 * Forecast. Blocks until all windows have been taken. Memory does not grow with their number. HALAY_ERR_FORMAT: there
 * is nothing to forecast, or rows do not fit the schema; HALAY_ERR_ARGUMENT: an entity or category is unknown to the
 * model, a known input's future is missing, there is no calibration; HALAY_ERR_CANCELED: halay_tft_stop;
 * HALAY_ERR_PEER; HALAY_ERR_SYSTEM; HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_forecast(struct halay_tft_model *model,
                                               const struct halay_tft_forecast_options *options);

/* One of several tables that are forecast together, and what comes of it. Zero-initialise, then set the table. */
struct halay_tft_query {
    const struct halay_tft_table *table;
    /* As in halay_tft_forecast_options. The table itself: its rows behind the last measured target are the future. */
    const struct halay_tft_table *future;
    /* The call sets these; halay_tft_queries_clear gives them back. */
    enum halay_status status;
    char *error;        /* its text; NULL: HALAY_OK */
    char *forecasts;    /* what the file of forecasts would hold; NULL on an error */
    char *explanations; /* and the file of explanations; NULL: not asked for */
    size_t windows;     /* one for each entity */
    size_t filled;      /* of them, those with a target without a value in their past: its own rests on filled values */
    /* The error's fields, as in struct halay_error: NULL or 0 if it has none. */
    char *subject, *column;
    size_t row;
};

/* Several of them. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_queries {
    size_t struct_size;
    struct halay_tft_query *queries;
    size_t count, query_bytes; /* query_bytes: sizeof(struct halay_tft_query) */
    /* Of all of them, as in halay_tft_forecast_options. */
    const char *calibrate, *format;
    int explains;
    const double *quantiles; /* those of the model's that are given; NULL: all */
    size_t quantile_count;
    /* Called on the caller's thread between parts of the work, if there is much of it: every few queries or thousand
     * rows that have been read, and every few hundred windows. It may make other forecasts with the model, and changes
     * no bit of these. NULL: none. */
    void (*between)(void *arg);
    void *arg;
};

/*
 * Forecast what comes behind the last row of each entity, for all queries in one go: faster than one call for each. A
 * query that is wrong fails alone (its status and error), also if an entity of it cannot be forecast, which
 * halay_tft_forecast leaves out. The work of this rank alone. Without a query it says whether there could be forecasts
 * with this calibration. Returns HALAY_OK if each query has got its status; HALAY_ERR_ARGUMENT: a quantile is not the
 * model's, or there is no calibration; HALAY_ERR_FORMAT: it is another model's; HALAY_ERR_CANCELED: halay_tft_stop;
 * HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_forecast_queries(struct halay_tft_model *model,
                                                       const struct halay_tft_queries *queries);

/* Give back what the call set, however it ended. */
HALAY_API void halay_tft_queries_clear(const struct halay_tft_queries *queries);

/* Which windows of data are scored or explained. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_windows {
    size_t struct_size;
    const char *split;     /* NULL: "test"; where the schema has no test, validation's, with a warning */
    size_t stride;         /* 0: the schema's to score, the horizon to explain */
    const char *calibrate; /* as in halay_tft_forecast_options; to score only */
    double regime;         /* to explain: from this distance of its attention from the mean, a window is another
                              regime; 0: 0.3, below 0: any distance */
    int has_occlusion;     /* to explain: forecast again without each input, as a check on the weights */
    const char *tables;    /* to explain: a folder for importance.csv, attention.csv and windows.csv; NULL: none */
    /* Files that rank 0 writes the result into, too; NULL: none; "-": standard output. */
    const char *file;   /* JSON, indented */
    const char *csv;    /* to score: CSV (halay_tft_format) */
    const char *page;   /* to explain or report: an HTML page with pictures */
    const char *window; /* to explain: a forecast to look at, "ENTITY,TIME": the last moment that it has seen */
    const struct halay_tft_table *table; /* in place of data, which are NULL then: rows like those of the training */
    int has_pictures; /* the result also has "pictures": what charts need, for example some forecasts */
};

/* Score a model's forecasts beside naive ones, whose errors in the training span are those of the same rows: what
 * `halay-tft evaluate --json` writes. windows may be NULL. *json is NULL but on rank 0. Errors are those of
 * halay_tft_forecast. */
HALAY_API enum halay_status halay_tft_evaluate(struct halay_tft_model *model, struct halay_tft_data *data,
                                               const struct halay_tft_windows *windows, char **json);

/* How recent rows are compared with those of a training. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_drift_options {
    size_t struct_size;
    const char *since;     /* the recent rows begin at this moment, "2018-07-01 00:00"; NULL: */
    size_t last;           /* they are this number of last steps; 0: they begin with the split test, or
                            * after training where there is none */
    const char *until;     /* they end before this moment; NULL: with the last row */
    double rate;           /* the probability that all comparisons together find drift where there is none; 0: 0.05 */
    size_t stride;         /* steps from one forecast to the next; 0: the horizon */
    const char *calibrate; /* as in halay_tft_forecast_options */
    const char *file;      /* rank 0 writes the result into it, too, as in halay_tft_windows */
    const struct halay_tft_table *table; /* in place of data, which are NULL then: rows like those of the training */
};

/*
 * Compare recent rows with those that the model was trained on: of each entity and input the distribution (population
 * stability index; Kolmogorov and Smirnov's distance), of targets what is missing; and the errors and the coverage of
 * forecasts with those of the validation span. Data hold the training's rows, too. Thresholds follow from stretches of
 * the past, each compared with the rest alike (docs/guides/drift.md). *json: what `halay-tft drift --json` writes, with
 * "drifted"; NULL but on rank 0. options may be NULL. HALAY_ERR_ARGUMENT: the recent rows lie in the training span, or
 * there are none; other errors are those of halay_tft_forecast.
 */
HALAY_API enum halay_status halay_tft_drift(struct halay_tft_model *model, struct halay_tft_data *data,
                                            const struct halay_tft_drift_options *options, char **json);

/* Write what a model's inputs were like in the data's training span into a run's folder, as profile.json: a model that
 * is opened there compares with it what it forecasts from. The work of all ranks; rank 0 writes. HALAY_ERR_FORMAT: the
 * data are not the model's; HALAY_ERR_SYSTEM; HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_profile(struct halay_tft_model *model, struct halay_tft_data *data,
                                              const char *folder);

/*
 * What a model was asked, against its profile: a JSON array with an object for each input that a column gives: "input",
 * "values" (how many measured ones encoders held: of halay_tft_forecast's last call, and of halay_tft_forecast_queries'
 * calls since, of which old ones fade), "outside" (the share that is beyond all that the entity's training span had, or
 * a category that it did not have), "psi" (the population stability index). Empty without a profile.
 * HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_model_inputs(const struct halay_tft_model *model, char **json);

/*
 * Make a model's calibration: how far the ends of intervals have to move so that they hold what they promise. The model
 * has it from now on. data: from their validation windows; or table: from the windows of rows like those of the
 * training that lie behind the training span, up to the last row (where splits are by entity: in as many last steps of
 * each as training held back). folder: where rank 0 writes calibration.json, the run's; NULL: nowhere. *text, which is
 * NULL but on rank 0, is a sentence for people that says what was found. HALAY_ERR_ARGUMENT: neither or both of data
 * and table; HALAY_ERR_FORMAT: the table has too few such windows, and the model keeps the calibration that it has;
 * other errors are those of halay_tft_forecast.
 */
HALAY_API enum halay_status halay_tft_calibrate(struct halay_tft_model *model, struct halay_tft_data *data,
                                                const struct halay_tft_table *table, const char *folder, char **text);

/* Say what a model's forecasts rely on: what `halay-tft explain --json` writes. windows may be NULL. *json is NULL but
 * on rank 0. Errors are those of halay_tft_forecast. */
HALAY_API enum halay_status halay_tft_explain(struct halay_tft_model *model, struct halay_tft_data *data,
                                              const struct halay_tft_windows *windows, char **json);

/* Read a run's records: a JSON object with "kind" ("run"), "halay" (the version that trained), "config", "schema", and
 * "metrics", a list of what metrics.jsonl has so far. This rank's work alone. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT,
 * HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_tft_run_describe(struct halay_tft *tft, const char *folder, char **json);

/* Write a page about a run's folder, windows->page: loss curves; with data also scores, some forecasts, and what they
 * rely on. data may be NULL: then it is this rank's work alone. Errors are those of halay_tft_forecast. */
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

/* What a forecast weighed, by the parameters of the model's first member. Inputs are in the order of "selected" of
 * halay_tft_model_describe. The library makes it; later versions add members at its end. */
struct halay_tft_weights {
    size_t number;          /* of the entity in the data */
    size_t past;            /* steps that the window looks back over, at most the encoder's */
    const float *statics;   /* (static inputs) */
    const float *history;   /* (encoder, past inputs); rows before the last `past` mean nothing */
    const float *future;    /* (horizon, future inputs) */
    const float *attention; /* (heads, horizon, encoder + horizon), of each step of the horizon to each of the window */
};

/* Which windows, and what of each. Zero-initialise, set struct_size to sizeof, then the rest. */
struct halay_tft_pass_options {
    size_t struct_size;
    const char *split;     /* NULL: the last horizon of each entity, by the parameters that forecast the future */
    size_t stride;         /* with split: steps from one window to the next; 0: the schema's */
    int64_t begin, end;    /* if end is after begin: the windows whose targets lie in [begin, end), in place of those of
                              the split, and with pasts as they have */
    const char *calibrate; /* as in halay_tft_forecast_options */
    const char *without;   /* an input that is taken away: an ordinary value stands in for it at each step */
    int is_list;           /* entity, origin and past alone: nothing is forecast, and nothing is exchanged */
    int explains;          /* fill in inputs, weights, lags */
    int has_weights;       /* fill in `weighed`, on every rank: some ten kilobytes a window */
    /* Called with each window that this rank computes, in any order, on any of the library's threads, several at a
     * time. The numbers that it writes come with the window to every rank. NULL: none. */
    void (*measure)(void *arg, const struct halay_tft_weights *weights, float *numbers);
    size_t number_count;
    void *arg;
};

/*
 * Begin a pass over windows of data. Until it is closed, the model makes no other forecasts but those of further passes
 * over the same data, calibrated the same way. Ranks compute parts of the windows, and each rank gets all of them, in
 * order of entity and origin. Memory does not grow with their number. The work of all ranks, which fail together.
 * HALAY_ERR_ARGUMENT: `without` is not an input, there is no calibration, a pass over other data is open;
 * HALAY_ERR_FORMAT: the data are not the model's; HALAY_ERR_PEER; HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_tft_pass_open(struct halay_tft_model *model, struct halay_tft_data *data,
                                                const struct halay_tft_pass_options *options,
                                                struct halay_tft_pass **pass);

/* Continue with the windows of entities first to first + count - 1. Returns how many they are. */
HALAY_API size_t halay_tft_pass_seek(struct halay_tft_pass *pass, size_t first, size_t count);

/* Get the next window; *window is NULL after the last one, and good until the next call on the pass. Blocks, now and
 * then, until all ranks have come as far. Errors are those of halay_tft_forecast, and end the pass. */
HALAY_API enum halay_status halay_tft_pass_next(struct halay_tft_pass *pass, const struct halay_tft_forecast **window);

/* Get the q-risk of the windows so far, the mean over the targets, as (quantiles) numbers; 0: nothing was measured. */
HALAY_API void halay_tft_pass_q_risk(const struct halay_tft_pass *pass, double *q_risk);

/* End a pass, which all ranks do after the same window. NULL is allowed. */
HALAY_API void halay_tft_pass_close(struct halay_tft_pass *pass);

/* Agree on a status, which each rank brings: HALAY_OK if that is all ranks', otherwise this rank's own, or
 * HALAY_ERR_PEER. Call it where one rank may give up alone, as one that cannot write a file, before calls of all
 * ranks. Blocks until all ranks have called it. */
HALAY_API enum halay_status halay_tft_agree(struct halay_tft *tft, enum halay_status status);

/* The session of a model, and a session's log (base/log.h), for tools that are built with halay: what they log is an
 * error's text once halay_tft_agree has returned it. Both are borrowed. */
struct halay_log;
HALAY_API struct halay_tft *halay_tft_model_session(const struct halay_tft_model *model);
HALAY_API struct halay_log *halay_tft_log(struct halay_tft *tft);

/* ---- rows of data ------------------------------------------------------------------------------------------------ */

/* Read a table by a model's own schema, scalers and categories: data for passes and rows, closed before the model.
 * future, which may be NULL: known inputs after the last rows, for a pass over the last horizon of each entity, which
 * is_newest asks for. Errors are those of halay_tft_forecast. This rank's work alone. */
HALAY_API enum halay_status halay_tft_model_read(struct halay_tft_model *model, const struct halay_tft_table *table,
                                                 int is_newest, const struct halay_tft_table *future,
                                                 struct halay_tft_data **data);

/* How large data are, and when their splits end. Set struct_size to sizeof. Moments are as above. */
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

/* The name of an entity, borrowed from the data, and how many rows it has; rows may be NULL. NULL: no such entity. */
HALAY_API const char *halay_tft_data_entity(const struct halay_tft_data *data, size_t entity, size_t *rows);

/* An input over time. Set struct_size to sizeof; the name is borrowed from the data. HALAY_ERR_ARGUMENT: none. */
struct halay_tft_input {
    size_t struct_size;
    const char *name;
    int is_category, is_target;
    int is_own;        /* a column gives it, and it is not a lag of another input */
    size_t categories; /* codes are below this number */
    size_t unknown;    /* the code of what training has not seen; SIZE_MAX: there is none */
};
HALAY_API enum halay_status halay_tft_data_input(const struct halay_tft_data *data, size_t input,
                                                 struct halay_tft_input *of);

/* The name of a category's code, borrowed from the data; NULL: it has none, as a weekday. */
HALAY_API const char *halay_tft_data_category(const struct halay_tft_data *data, size_t input, size_t code);

/* Read the moments of an entity's rows first to first + count - 1; also that of the row after its last one can be read.
 * is_gap, which may be NULL: whether the row is one of a gap, whose cells mean nothing. HALAY_ERR_ARGUMENT: there
 * are no such rows. */
HALAY_API enum halay_status halay_tft_data_times(const struct halay_tft_data *data, size_t entity, size_t first,
                                                 size_t count, int64_t *times, unsigned char *is_gap);

/* Read an input's values in rows of an entity, in its own unit, as (count) numbers: as filled, but NaN where a target
 * was not measured; the code of a category. HALAY_ERR_ARGUMENT: there are no such rows or inputs; HALAY_ERR_FORMAT: the
 * file is damaged; HALAY_ERR_CANCELED: halay_tft_stop. */
HALAY_API enum halay_status halay_tft_data_cells(const struct halay_tft_data *data, size_t entity, size_t input,
                                                 size_t first, size_t count, double *values);

/* Read the targets' values as they were measured in rows of an entity, as (count, targets) numbers; NaN: not measured.
 * Those of a window are its `actuals`, and its past ends before its `row`. Errors are those of halay_tft_data_cells. */
HALAY_API enum halay_status halay_tft_data_actuals(const struct halay_tft_data *data, size_t entity, size_t first,
                                                   size_t count, double *values);

/* Print a moment as the schema counts time, into 40 bytes; and read one, "2018-07-01 00:00": HALAY_ERR_FORMAT, not
 * logged. */
HALAY_API void halay_tft_data_print_time(const struct halay_tft_data *data, int64_t moment, char text[40]);
HALAY_API enum halay_status halay_tft_data_read_time(const struct halay_tft_data *data, const char *text,
                                                     int64_t *moment);

#ifdef __cplusplus
}
#endif
#endif
