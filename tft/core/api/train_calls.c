/* SPDX-License-Identifier: Apache-2.0
 *
 * Training and similar calls. A model for which the program gives no folder is trained in a temporary one, which is
 * removed at the end of the call.
 */
#include "base/config.h"
#include "base/error_text.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include "tft/core/data/paths.h"
#include "tft/core/train/backtest.h"
#include "tft/core/train/train.h"
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

/* ---- a folder of the call's own ---- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    remove(path); /* what remains is in the system's folder for temporary files */
    return 0;
}

static enum halay_status make_folder(struct halay_tft *t, char path[PATH_SIZE])
{
    const char *folder = halay_environment_get("TMPDIR");
    enum halay_status status = HALAY_OK;

    memset(path, 0, PATH_SIZE);
    snprintf(path, PATH_SIZE, "%.3900s/halay-tft.XXXXXX", folder && *folder ? folder : "/tmp");
    if (t->rank == 0 && !mkdtemp(path)) {
        halay_error(&t->log, "cannot make the folder '%s': %s", path, strerror(errno));
        status = HALAY_ERR_SYSTEM;
        *path = 0;
    }
    if (t->ranks > 1) {
        enum halay_status heard = halay_broadcast(t->ctx, "training folder", path, PATH_SIZE, HALAY_U8, 0);
        status = status ? status : heard;
    }
    return !status && !*path ? HALAY_ERR_PEER : status;
}

/* Removes rank 0's folder; all ranks have read it (take_model). */
static void remove_folder(struct halay_tft *t, const char *path)
{
    if (t->rank == 0 && *path)
        nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- train ---- */

static struct tft_train_options options_of(struct halay_tft *t, const struct halay_tft_train_options *o)
{
    return (struct tft_train_options){ .folder = o->folder,
                                       .checkpoints = o->checkpoints,
                                       .metrics = o->metrics,
                                       .elastic = o->elastic,
                                       .resume = o->resume,
                                       .stop = &t->stop,
                                       .listener = {
                                           .step = o->progress,
                                           .evaluation = o->metrics_line,
                                           .say = o->say,
                                           .arg = o->arg,
                                       } };
}

/* Returns nonzero if the folder has a model. */
static int has_model(struct halay_tft *t, const char *folder)
{
    char *path = tft_path_join(&t->log, folder, "model.safetensors");
    const int has = path && !access(path, F_OK);

    free(path);
    return has;
}

/* Reads the folder's model on all ranks; a stopped training may have left none. */
static enum halay_status take_model(struct halay_tft *t, const char *folder, int stays, struct halay_tft_model **model)
{
    struct halay_tft_model *taken = NULL;
    enum halay_status status = HALAY_ERR_CANCELED;

    if (has_model(t, folder) || !tft_stop_asked(&t->stop))
        status = tft_model_of_folder(t, folder, stays, &taken);
    if (status && status != HALAY_ERR_CANCELED && t->rank != 0)
        halay_error(&t->log,
                    "rank %d cannot read rank 0's folder '%s': on several hosts, give one that all of them see",
                    t->rank, folder);
    status = tft_session_agree(t, status);
    if (status)
        halay_tft_model_close(taken);
    else
        *model = taken;
    return status;
}

static enum halay_status train_model(struct halay_tft_data *data, const struct halay_tft_train_options *o,
                                     const struct tft_run_config *config, int stays, struct halay_tft_model **model)
{
    struct halay_tft *t = data->tft;
    struct tft_train_options how = options_of(t, o);
    char *checkpoints = how.checkpoints ? NULL : tft_path_join(&t->log, how.folder, "checkpoints");
    int reason = 0;

    how.folder_ends = !stays;
    if (!how.checkpoints && !checkpoints)
        return HALAY_ERR_NO_MEMORY;
    how.checkpoints = how.checkpoints ? how.checkpoints : checkpoints;
    enum halay_status status = tft_train(&t->log, t->ctx, config, &data->data, &how);
    tft_session_count_ranks(t);                                     /* of an elastic job: the current number */
    if (status == HALAY_ERR_CANCELED && has_model(t, how.folder)) { /* during the calibration of a trained model */
        halay_warning(&t->log, "the model is trained but not calibrated: the session was asked to stop");
        status = HALAY_OK;
    }
    if (!status && !o->elastic)
        status = tft_stop_share(t->ctx, &t->stop, &reason);
    if (!status && model)
        status = take_model(t, how.folder, stays, model);
    free(checkpoints);
    return status;
}

enum halay_status halay_tft_train(struct halay_tft *t, struct halay_tft_data *data,
                                  const struct halay_tft_train_options *options, struct halay_tft_model **model)
{
    struct halay_tft_train_options given = { 0 };
    struct tft_run_config config;
    char own[PATH_SIZE] = "";

    if (!t || !data || (!model && !(options && options->folder)))
        return tft_session_refuse_null("halay_tft_train",
                                       "a session, data, or both a folder and the place for the model");
    enum halay_status status = tft_session_enter_ranks(t);
    if (!status && options)
        status = halay_struct_read(&t->log, "halay_tft_train_options", options, sizeof given, sizeof given, &given);
    if (!status)
        status = tft_session_config(t, given.config, &config);
    if (!status && !given.folder && (given.resume || given.checkpoints || given.elastic)) {
        halay_error(&t->log, "resume, checkpoints and elastic go with a folder");
        status = HALAY_ERR_ARGUMENT;
    }
    const int has_folder = given.folder != NULL;
    if (!status && !has_folder) {
        status = make_folder(t, own);
        given.folder = own;
        config.keep = 0;
    }
    if (!status)
        status = train_model(data, &given, &config, has_folder, model);
    if (!has_folder)
        remove_folder(t, own);
    return tft_session_leave_stopped(t, status);
}

/* ---- similar calls ---- */

enum halay_status halay_tft_find_learning_rate(struct halay_tft *t, struct halay_tft_data *data, const char *config,
                                               double *rate, char **text)
{
    struct tft_run_config keys;
    char *found = NULL;
    size_t size;

    if (!t || !data || !rate || !text)
        return tft_session_refuse_null("halay_tft_find_learning_rate", "an argument");
    enum halay_status status = tft_session_enter_ranks(t);
    FILE *report = open_memstream(&found, &size);
    const struct tft_train_options how = { .stop = &t->stop, .finds_rate = 1, .report = report, .rate = rate };
    if (!status)
        status = tft_session_config(t, config, &keys);
    if (!status && !report) {
        halay_error(&t->log, "no memory for a text");
        status = HALAY_ERR_NO_MEMORY;
    }
    if (!status)
        status = tft_train(&t->log, t->ctx, &keys, &data->data, &how);
    if (report)
        fclose(report);
    if (status || t->rank != 0) {
        free(found);
        found = NULL;
    }
    *text = found;
    return tft_session_leave_stopped(t, status);
}

static enum halay_status read_backtest(struct halay_tft *t, const struct halay_tft_backtest_options *o,
                                       struct tft_backtest_options *how)
{
    int split = TFT_TEST, is_jsonl = 0;
    enum halay_status status = tft_session_word(t, "split", o->split, tft_split_names, TFT_TEST, &split);

    if (!status)
        status = tft_session_format(t, o->format, o->forecasts, &is_jsonl);
    if (!status && !o->folder) {
        halay_error(&t->log, "halay_tft_backtest: folder is NULL");
        status = HALAY_ERR_ARGUMENT;
    }
    *how = (struct tft_backtest_options){ .folder = o->folder,
                                          .split = (enum tft_split)split,
                                          .stride = o->stride,
                                          .fit_every = o->fit_every,
                                          .warm = o->warm_start,
                                          .resume = o->resume,
                                          .forecasts = o->forecasts,
                                          .json = is_jsonl,
                                          .stop = &t->stop,
                                          .listener = {
                                              .step = o->progress,
                                              .evaluation = o->metrics_line,
                                              .say = o->say,
                                              .arg = o->arg,
                                          } };
    return status;
}

enum halay_status halay_tft_backtest(struct halay_tft *t, struct halay_tft_data *data,
                                     const struct halay_tft_backtest_options *options, char **json)
{
    struct halay_tft_backtest_options given;
    struct tft_backtest_options how;
    struct tft_run_config config;
    struct tft_result_files files = { 0 };
    json_t *result = NULL;

    if (!t || !data || !options || !json)
        return tft_session_refuse_null("halay_tft_backtest", "an argument");
    enum halay_status status = tft_session_enter_ranks(t);
    if (!status)
        status = halay_struct_read(&t->log, "halay_tft_backtest_options", options, sizeof given, sizeof given, &given);
    if (!status)
        status = read_backtest(t, &given, &how);
    if (!status)
        status = tft_session_config(t, given.config, &config);
    if (!status)
        status = tft_result_files_open(t, given.file, given.csv, NULL, &files);
    status = tft_session_agree(t, status);
    if (how.split == TFT_TEST && !data->data.schema.has_split[TFT_TEST])
        how.split = TFT_VALID;
    if (!status)
        status = tft_backtest(&t->log, t->ctx, &config, &data->data, &how, &result);
    if (!status)
        status = tft_result_files_write(&files, result);
    if (!status)
        status = tft_session_give(t, result, json);
    else
        json_decref(result);
    tft_result_files_abort(&files);
    return tft_session_leave_stopped(t, status);
}
