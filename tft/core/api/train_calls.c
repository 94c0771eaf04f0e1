/* SPDX-License-Identifier: Apache-2.0
 *
 * Training and similar calls. A model for which the program gives no folder is trained in a temporary one, which is
 * removed at the end of the call.
 */
#include "base/config.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include "tft/core/data/paths.h"
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
    enum halay_status status = HALAY_OK, shared = HALAY_OK;

    memset(path, 0, PATH_SIZE);
    snprintf(path, PATH_SIZE, "%.3900s/halay-tft.XXXXXX", folder && *folder ? folder : "/tmp");
    if (t->rank == 0 && !mkdtemp(path)) {
        status = halay_fail(&t->log, HALAY_ERR_SYSTEM, "cannot make the folder '%s': %s", path, strerror(errno));
        *path = 0;
    }
    if (t->ranks > 1)
        shared = halay_broadcast(t->ctx, "training folder", path, PATH_SIZE, HALAY_U8, 0);
    if (status || shared)
        return status ? status : shared;
    return *path ? HALAY_OK : HALAY_ERR_PEER;
}

/* Removes rank 0's folder; all ranks have read it (take_model). */
static void remove_folder(struct halay_tft *t, const char *path)
{
    if (t->rank == 0 && *path)
        nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- train ---- */

/* Returns nonzero if rank 0's folder holds a model; other hosts need not have that folder. */
static int has_model(struct halay_tft *t, const char *folder)
{
    int32_t has = tft_run_has_model(folder);

    if (t->ranks > 1 && halay_broadcast(t->ctx, "training ended", &has, 1, HALAY_I32, 0))
        return 0;
    return has;
}

/* Opens the model of rank 0's folder on all ranks; a stopped training may have left none. */
static enum halay_status take_model(struct halay_tft *t, const char *folder, int stays, struct halay_tft_model **model)
{
    if (!has_model(t, folder) && tft_stop_asked(&t->stop))
        return HALAY_ERR_CANCELED;
    return tft_model_open_shared(t, folder, stays, model);
}

static enum halay_status train_model(struct halay_tft_data *data, const struct halay_tft_train_options *o,
                                     const struct tft_run_config *config, int stays, struct halay_tft_model **model)
{
    struct halay_tft *t = data->tft;
    const struct tft_path checkpoints = tft_path_in(o->folder, "checkpoints");
    const struct tft_train_options how = {
        .folder = o->folder,
        .folder_ends = !stays,
        .checkpoints = o->checkpoints ? o->checkpoints : checkpoints.text,
        .metrics = o->metrics,
        .elastic = o->elastic,
        .resume = o->resume,
        .stop = &t->stop,
        .listener = { .step = o->progress, .evaluation = o->metrics_line, .say = o->say, .arg = o->arg },
    };
    int reason = 0;

    enum halay_status status = o->elastic ? HALAY_OK : tft_session_compare_data(t, data);
    if (!status)
        status = tft_train(&t->log, t->ctx, config, &data->data, &how);
    tft_session_count_ranks(t); /* of an elastic job: the current number */
    /* During the calibration of a trained model; ranks of an elastic job may differ in that. */
    if (status == HALAY_ERR_CANCELED && (o->elastic ? tft_run_has_model(how.folder) : has_model(t, how.folder))) {
        halay_warning(&t->log, "the model is trained but not calibrated: the session was asked to stop");
        status = HALAY_OK;
    }
    if (status || (!o->elastic && (status = tft_stop_share(t->ctx, &t->stop, &reason))))
        return status;
    return model ? take_model(t, how.folder, stays, model) : HALAY_OK;
}

static enum halay_status train_in_folder(struct halay_tft *t, struct halay_tft_data *data,
                                         const struct halay_tft_train_options *options, struct halay_tft_model **model)
{
    struct halay_tft_train_options given = { 0 };
    struct tft_run_config config;
    char own[PATH_SIZE];
    enum halay_status status;

    if ((status = TFT_READ(t, halay_tft_train_options, options, &given)) ||
        (status = tft_session_config(t, given.config, &config)))
        return status;
    if (given.folder)
        return train_model(data, &given, &config, 1, model);
    if (given.resume || given.checkpoints || given.elastic)
        return halay_fail(&t->log, HALAY_ERR_ARGUMENT, "resume, checkpoints and elastic go with a folder");
    status = make_folder(t, own);
    given.folder = own;
    config.keep = 0;
    if (!status)
        status = train_model(data, &given, &config, 0, model);
    remove_folder(t, own);
    return status;
}

enum halay_status halay_tft_train(struct halay_tft *t, struct halay_tft_data *data,
                                  const struct halay_tft_train_options *options, struct halay_tft_model **model)
{
    if (!t || !data || (!model && !(options && options->folder)))
        return tft_session_refuse_null("halay_tft_train",
                                       "a session, data, or both a folder and the place for the model");
    return TFT_CALL_RANKS(1, t, train_in_folder(t, data, options, model));
}

/* ---- similar calls ---- */

static enum halay_status find_learning_rate(struct halay_tft *t, struct halay_tft_data *data, const char *config,
                                            double *rate, char **text)
{
    struct tft_run_config keys;
    size_t size;
    enum halay_status status = tft_session_config(t, config, &keys);

    *text = NULL;
    if (status)
        return status;
    FILE *report = open_memstream(text, &size);
    if (!report)
        return halay_no_memory(&t->log, "for a text");
    const struct tft_train_options how = { .stop = &t->stop, .finds_rate = 1, .report = report, .rate = rate };
    status = tft_session_compare_data(t, data);
    if (!status)
        status = tft_train(&t->log, t->ctx, &keys, &data->data, &how);
    fclose(report);
    if (status || t->rank != 0) {
        free(*text);
        *text = NULL;
    }
    return status;
}

enum halay_status halay_tft_find_learning_rate(struct halay_tft *t, struct halay_tft_data *data, const char *config,
                                               double *rate, char **text)
{
    return TFT_CALL_RANKS(t && data && rate && text, t, find_learning_rate(t, data, config, rate, text));
}

/* Reads a backtest's options and opens its files, which may fail on one rank. */
static enum halay_status begin_backtest(struct halay_tft *t, const struct halay_tft_backtest_options *options,
                                        struct tft_run_config *config, struct tft_backtest_options *how,
                                        struct tft_result_files *files)
{
    struct halay_tft_backtest_options o;
    int split, is_jsonl;
    enum halay_status status;

    if ((status = TFT_READ(t, halay_tft_backtest_options, options, &o)) ||
        (status = tft_session_word(t, "split", o.split, tft_split_names, TFT_TEST, &split)) ||
        (status = tft_session_format(t, o.format, o.forecasts, &is_jsonl)))
        return status;
    if (!o.folder)
        return halay_fail(&t->log, HALAY_ERR_ARGUMENT, "halay_tft_backtest: folder is NULL");
    *how = (struct tft_backtest_options){
        .folder = o.folder,
        .split = (enum tft_split)split,
        .stride = o.stride,
        .fit_every = o.fit_every,
        .warm = o.warm_start,
        .resume = o.resume,
        .forecasts = o.forecasts,
        .json = is_jsonl,
        .stop = &t->stop,
        .listener = { .step = o.progress, .evaluation = o.metrics_line, .say = o.say, .arg = o.arg },
    };
    status = tft_session_config(t, o.config, config);
    return status ? status : tft_result_files_open(t, o.file, o.csv, files);
}

static enum halay_status run_backtest(struct halay_tft *t, struct halay_tft_data *data,
                                      const struct halay_tft_backtest_options *options, char **json)
{
    struct tft_backtest_options how;
    struct tft_run_config config;
    struct tft_result_files files = { 0 };
    json_t *result = NULL;
    enum halay_status status = tft_session_agree(t, begin_backtest(t, options, &config, &how, &files));

    if (status || (status = tft_session_compare_data(t, data)))
        goto abort;
    if (how.split == TFT_TEST && !data->data.schema.has_split[TFT_TEST])
        how.split = TFT_VALID;
    status = tft_backtest(&t->log, t->ctx, &config, &data->data, &how, &result);
    if (!status && !(status = tft_result_files_write(&files, result)))
        status = tft_session_give(t, json_incref(result), json);
    json_decref(result);
abort:
    tft_result_files_abort(&files);
    return status;
}

enum halay_status halay_tft_backtest(struct halay_tft *t, struct halay_tft_data *data,
                                     const struct halay_tft_backtest_options *options, char **json)
{
    return TFT_CALL_RANKS(t && data && options && json, t, run_backtest(t, data, options, json));
}
