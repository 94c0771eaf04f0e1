/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls of halay_tft.h share. The session's log keeps the text of an error, whichever thread found it, until
 * the call returns it.
 */
#ifndef HALAY_TFT_SESSION_H
#define HALAY_TFT_SESSION_H

#include "base/log.h"
#include "tft/core/data/table.h"
#include "tft/core/run/ranks.h"
#include "tft/core/score/inference.h"
#include "tft/core/score/profile.h"

struct halay_tft {
    struct halay_log log;
    struct halay_context *ctx; /* owned if owns_ctx, otherwise borrowed; NULL before the session has joined a job */
    int owns_ctx;
    int rank, ranks;
    char deterministic[16]; /* of the job that it will join; "": not said */
    enum tft_device_kind device;
    struct tft_stop stop;
    int stopped;                                                           /* why the last call was */
    void (*line)(void *arg, enum halay_log_level level, const char *line); /* the program's; NULL: standard error */
    void *line_arg;                                                        /* borrowed */
};

struct halay_tft_data {
    struct halay_tft *tft; /* borrowed */
    struct tft_data data;
    const struct halay_tft_model *model; /* borrowed: which has read the data, and has their schema; NULL: none */
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

/* Every call but those that cannot fail begins and ends with these. leave returns its status, whose text it keeps. */
void tft_session_enter(struct halay_tft *tft);
enum halay_status tft_session_leave(struct halay_tft *tft, enum halay_status status);
/* The beginning of a call of all ranks: the session joins the job, if it has not. Leave it also after an error. */
enum halay_status tft_session_enter_ranks(struct halay_tft *tft);
/* Inside a call of all ranks, before they work together and where one may have given up, all of them come here with
 * what they have: HALAY_OK if that is so everywhere, otherwise this rank's own error or HALAY_ERR_PEER (logged). Blocks
 * until all have come. */
enum halay_status tft_session_agree(struct halay_tft *tft, enum halay_status status);
/* The device that forecasts, for models that are opened. Joins the job if that says which of several it is. */
enum halay_status tft_session_device(struct halay_tft *tft, struct tft_device *device);
/* The ranks may have changed: an elastic job. */
void tft_session_count_ranks(struct halay_tft *tft);
/* The end of a call that can be stopped: a request to stop has been heard. */
enum halay_status tft_session_leave_stopped(struct halay_tft *tft, enum halay_status status);
/* A pointer that must not be NULL is: HALAY_ERR_ARGUMENT. */
enum halay_status tft_session_refuse_null(const char *call, const char *what);

/* A program's table as a source of rows: the files, or *frame, which gets the columns (owned, to be freed: columns).
 * HALAY_ERR_ARGUMENT (logged). */
enum halay_status tft_session_source(struct halay_tft *tft, const struct halay_tft_table *table,
                                     struct tft_frame *frame, struct tft_table_source *source);

/* A text that the program frees; HALAY_ERR_NO_MEMORY (logged). Takes the document, which may be NULL. */
enum halay_status tft_session_text(struct halay_tft *tft, json_t *document, char **text);
enum halay_status tft_session_copy(struct halay_tft *tft, const char *from, char **text);

/* The same of rank 0's document; *text is NULL on the others. */
enum halay_status tft_session_give(struct halay_tft *tft, json_t *document, char **text);

/* The configuration that keys make, as a JSON object, over the defaults; NULL: these. HALAY_ERR_CONFIG (logged). */
enum halay_status tft_session_config(struct halay_tft *tft, const char *keys, struct tft_run_config *config);

/* The number of a word in a list that ends with NULL, `absent` for NULL. HALAY_ERR_ARGUMENT (logged) if it is none. */
enum halay_status tft_session_word(struct halay_tft *tft, const char *what, const char *word, const char *const *words,
                                   int absent, int *number);
/* Are forecasts written as JSON lines? format: "csv", "jsonl"; NULL: by the file's name, which may be NULL. */
enum halay_status tft_session_format(struct halay_tft *tft, const char *format, const char *file, int *is_jsonl);

#endif
