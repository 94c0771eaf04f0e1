/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a training, which rank 0 reads and writes: the run's folder, checkpoints, and the state that they give:
 * fresh, from another run's parameters, or from a checkpoint.
 */
#include "halay_tools.h"
#include "tft/core/data/paths.h"
#include "tft/core/train/trainer.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Makes the run's description, with what is chosen now. */
static enum halay_status describe_run(struct tft_trainer *t)
{
    json_decref(t->files.run);
    t->files.run = tft_run_describe(t->log, t->config, &t->data->schema, &t->data->encoding);
    if (t->files.run && t->made_of.blend.errors &&
        json_object_set_new(t->files.run, "blend", tft_blend_json(&t->made_of.blend))) {
        json_decref(t->files.run);
        t->files.run = NULL;
    }
    return t->files.run ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

/* Two processes that write the same files would spoil both runs. */
static enum halay_status lock_folders(struct tft_trainer *t)
{
    const char *const folders[2] = { t->options->folder, t->options->checkpoints };
    enum halay_status status;

    for (size_t i = 0; i < 2; i++) {
        if (i == 1 && !t->config->keep && !tft_checkpoints_has_any(&t->files.checkpoints))
            continue;
        if ((status = tft_make_folder(t->log, folders[i])) ||
            (status = tft_lock_folder(t->log, folders[i], "training into", &t->files.locks[i])))
            return status;
    }
    return HALAY_OK;
}

/* ---- the state to begin with ---- */

static enum halay_status init_from(struct tft_trainer *t)
{
    const struct tft_transfer_to to = { &t->data->schema, &t->data->encoding, tft_model_config(t->model), t->table };
    struct tft_run from;
    enum halay_status status = tft_run_load_first(t->log, t->config->init_from, &from);

    if (status)
        return status;
    status = tft_transfer(t->log, t->config->init_from, &from, &to, t->blocks.host.params);
    tft_run_fini(&from);
    return status;
}

/* The order of an epoch's windows is drawn again, so there must be as many as before. */
static enum halay_status check_windows(struct tft_trainer *t, const char *where)
{
    if ((t->state.windows == t->epoch.train.count || !t->state.windows) && t->state.position <= t->epoch.samples) {
        t->state.windows = t->epoch.train.count;
        return HALAY_OK;
    }
    return halay_fail(
        t->log, HALAY_ERR_FORMAT, "%s: the run began with other data: they had %llu training windows, these have %zu",
        where, (unsigned long long)(t->state.windows ? t->state.windows : t->state.position), t->epoch.train.count);
}

/* Reads the blocks of the checkpoint's own step. */
static enum halay_status read_blocks(struct tft_trainer *t)
{
    const struct tft_block_set *host = &t->blocks.host;
    float *const blocks[] = { [TFT_CHECKPOINT_PARAMS] = host->params,
                              [TFT_CHECKPOINT_MOMENT1] = host->moments[0],
                              [TFT_CHECKPOINT_MOMENT2] = host->moments[1],
                              [TFT_CHECKPOINT_AVERAGE] = host->average };
    enum halay_status status = HALAY_OK;

    for (int k = 0; k < TFT_CHECKPOINT_BLOCKS && !status; k++)
        if (blocks[k])
            status = tft_checkpoints_read(&t->files.checkpoints, t->files.manifest, (enum tft_checkpoint_block)k,
                                          t->table, blocks[k]);
    return status;
}

static enum halay_status take_checkpoint(struct tft_trainer *t)
{
    struct tft_checkpoints *checkpoints = &t->files.checkpoints;
    const json_t *manifest = t->files.manifest, *run;
    float *params = t->blocks.host.params;
    char where[300];
    long long best = -1;
    enum halay_status status;

    snprintf(where, sizeof where, "checkpoint in '%.200s'", checkpoints->folder);
    if ((status = tft_checkpoints_state(checkpoints, manifest, &run, &t->state)) ||
        (status = tft_run_check_resume(t->log, where, run, t->config, t->data)) || (status = check_windows(t, where)))
        return status;
    tft_run_length_resume(&t->limits, &t->state.length);
    t->files.saved = 1; /* whatever happens now, the checkpoints stay */
    if ((status = tft_run_begin(t->log, t->options->folder, t->files.run, 1)) ||
        (status = tft_checkpoints_resume(checkpoints, manifest, t->table, params, &best)))
        return status;
    /* The folder may have what an evaluation after the checkpoint was best by, and what was chosen at the end. */
    if (best >= 0 && !tft_run_has_best(t->options->folder, t->files.run, t->table, best, (long long)t->state.step) &&
        (status = tft_files_keep(t, params, (uint64_t)best, 0)))
        return status;
    return read_blocks(t);
}

static enum halay_status begin_fresh(struct tft_trainer *t)
{
    enum halay_status status = HALAY_OK;

    if (!t->options->resume && tft_checkpoints_has_any(&t->files.checkpoints))
        return halay_fail(t->log, HALAY_ERR_ARGUMENT,
                          "'%s' holds checkpoints already; use --resume to continue from them",
                          t->files.checkpoints.folder);
    if (t->config->init_from[0])
        status = init_from(t);
    if (!status)
        status = tft_run_begin(t->log, t->options->folder, t->files.run, 0);
    t->files.begun = !status;
    return status;
}

enum halay_status tft_files_begin(struct tft_trainer *t)
{
    enum halay_status status;

    if (t->options->finds_rate)
        return t->config->init_from[0] ? init_from(t) : HALAY_OK;
    if ((status = describe_run(t)) || (status = lock_folders(t)) ||
        (t->options->resume && (status = tft_checkpoints_find(&t->files.checkpoints, &t->files.manifest))))
        return status;
    status = t->files.manifest ? take_checkpoint(t) : begin_fresh(t);
    return status ? status : tft_report_begin(t);
}

/* ---- later ---- */

/* Continues after the newest checkpoint of the former rank 0. */
static enum halay_status follow_checkpoints(struct tft_trainer *t)
{
    json_t *manifest = NULL;
    long long best;

    if (!tft_checkpoints_has_any(&t->files.checkpoints))
        return HALAY_OK;
    enum halay_status status = tft_checkpoints_find(&t->files.checkpoints, &manifest);
    if (status || !manifest)
        return status;
    float *scratch = malloc(t->table->reals * sizeof *scratch);
    status = scratch ? tft_checkpoints_resume(&t->files.checkpoints, manifest, t->table, scratch, &best)
                     : halay_no_memory(t->log, "for %zu parameters", t->table->reals);
    free(scratch);
    json_decref(manifest);
    return status;
}

enum halay_status tft_files_take_over(struct tft_trainer *t)
{
    enum halay_status status;

    t->files.saved = 1; /* whatever happens now, existing files stay */
    if ((status = describe_run(t)) || (status = lock_folders(t)) || (status = follow_checkpoints(t)) ||
        (status = tft_run_begin(t->log, t->options->folder, t->files.run, 1)))
        return status;
    return tft_report_begin(t);
}

enum halay_status tft_files_save(struct tft_trainer *t)
{
    const struct tft_block_set *host = &t->blocks.host;
    const float *const blocks[TFT_CHECKPOINT_BLOCKS] = { host->params, host->moments[0], host->moments[1],
                                                         host->average };

    if (!t->config->keep)
        return HALAY_OK;
    enum halay_status status = tft_blocks_download(&t->blocks);
    if (status || t->rank != 0)
        return status;
    status = tft_checkpoints_save(&t->files.checkpoints, t->files.run, &t->state, t->table, blocks);
    t->files.saved |= !status;
    if (!status) /* for programs that watch the job */
        halay_gauge_set(t->ctx, "checkpoint_step", (double)t->state.step);
    return status;
}

enum halay_status tft_files_keep(struct tft_trainer *t, const float *params, uint64_t step, int is_chosen)
{
    if (t->rank != 0)
        return HALAY_OK;
    enum halay_status status = tft_run_save_best(t->log, t->options->folder, t->files.run, (long long)step,
                                                 &t->made_of.blend, t->table, params, !is_chosen);
    t->files.saved |= !status;
    return status;
}

void tft_files_fini(struct tft_run_files *files)
{
    tft_checkpoints_fini(&files->checkpoints);
    for (size_t i = 0; i < 2; i++)
        if (files->locks[i] >= 0)
            close(files->locks[i]);
    json_decref(files->manifest);
    json_decref(files->run);
}
