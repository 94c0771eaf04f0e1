/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer in an elastic job (halay_elastic.h): its state is the block of parameters, moments and average, and where
 * training stands. It is the same on every rank, and a step's sums are over all present ranks, so that any number of
 * them can continue.
 *
 *     join       the first ranks: rank 0 begins, or takes a checkpoint, and the others get its state
 *                later: the state of the others
 *     commit     every step, and around an evaluation: so that lines and files are written once
 *     recover    a rank is lost: the state of the last commit; the step, or the evaluation, is made again
 *
 * Rank 0 writes the files. When it is lost, the lowest remaining rank takes them over, like a process that resumes.
 *
 * Under 'deterministic: ranks' the largest power of two of the ranks compute; the others add zeros, which changes no
 * sum.
 */
#include "base/clock.h"
#include "halay_elastic.h"
#include "tft/core/data/paths.h"
#include "tft/core/run/run_folder.h"
#include "tft/core/train/trainer.h"
#include <stdlib.h>
#include <unistd.h>

enum halay_status tft_trainer_check_elastic(const struct tft_trainer *t)
{
    if (!t->options->elastic)
        return HALAY_OK;
    if (!halay_elastic_is_on(t->ctx)) {
        halay_error(t->log, "--elastic: this job is not elastic. 'halayrun --min-np N' starts one; an MPI's launcher "
                            "cannot: MPI ends the whole job when a rank is lost");
        return HALAY_ERR_UNSUPPORTED;
    }
    return HALAY_OK;
}

/* ---- files, on rank 0 -------------------------------------------------------------------------------------------- */

static enum halay_status begin_progress(struct tft_trainer *t)
{
    const struct tft_progress_start start = {
        .step = t->state.step, .samples = t->state.samples, .seconds = t->state.seconds, .pending = t->state.pending
    };

    tft_progress_fini(&t->progress);
    enum halay_status status = tft_progress_init(t->log, t->options->metrics ? t->options->metrics : t->options->folder,
                                                 &t->options->listener, tft_trainer_steps(t), &start, &t->progress);
    return status ? status : tft_trainer_begin_notes(t);
}

/* Continue after the newest checkpoint of the former rank 0. */
static enum halay_status take_checkpoints(struct tft_trainer *t)
{
    json_t *manifest = NULL;
    long long best;

    if (!tft_checkpoints_has_any(&t->checkpoints))
        return HALAY_OK;
    enum halay_status status = tft_checkpoints_find(&t->checkpoints, &manifest);
    float *scratch = malloc(t->table->reals * sizeof *scratch);
    if (!status && !scratch)
        status = HALAY_ERR_NO_MEMORY;
    if (!status && manifest)
        status = tft_checkpoints_resume(&t->checkpoints, manifest, t->table, scratch, &best);
    free(scratch);
    json_decref(manifest);
    return status;
}

static enum halay_status take_files(struct tft_trainer *t)
{
    t->saved = 1; /* whatever happens now, existing files stay */
    enum halay_status status = tft_trainer_describe(t);
    if (!status)
        status = tft_trainer_lock_folders(t);
    if (!status)
        status = take_checkpoints(t);
    if (!status)
        status = tft_run_begin(t->log, t->options->folder, t->run, 1);
    return status ? status : begin_progress(t);
}

/* ---- other ranks ------------------------------------------------------------------------------------------------- */

static int has_model(const struct tft_trainer *t)
{
    char *path = tft_path_join(t->log, t->options->folder, "model.safetensors");
    int has = path && !access(path, F_OK);

    free(path);
    return has;
}

/* Rank 0 begins its files, or continues them. */
static enum halay_status begin_files(struct tft_trainer *t, int has_lost)
{
    enum halay_status status = HALAY_OK;

    if (t->rank != 0)
        return HALAY_OK;
    if (!t->run)
        status = take_files(t);
    else if (has_lost)
        status = begin_progress(t); /* lines since the commit are written again */
    if (!status)
        tft_progress_say(&t->progress, "going on after step %llu with %d rank%s", (unsigned long long)t->state.step,
                         t->ranks, t->ranks == 1 ? "" : "s");
    return status;
}

/* The best weights may be lost with the host of a former rank 0. Then the next evaluation is the first, and there is
 * one. */
static enum halay_status find_best(struct tft_trainer *t)
{
    int32_t has = t->rank == 0 && has_model(t);
    enum halay_status status = t->ranks > 1 ? halay_broadcast(t->ctx, "has model", &has, 1, HALAY_I32, 0) : HALAY_OK;

    if (status || has)
        return status;
    t->state.judged = t->state.in_vain = 0;
    t->stop = tft_trainer_is_over(t);
    t->state.pending |= t->stop;
    return HALAY_OK;
}

/* The state is that of a commit; the ranks may have changed. */
static enum halay_status go_on(struct tft_trainer *t, int has_lost)
{
    enum halay_status status = tft_trainer_send(t);

    if (status)
        return status;
    t->rank = halay_rank(t->ctx);
    t->ranks = halay_size(t->ctx);
    tft_trainer_set_adam(t);
    t->interrupted = 0;
    tft_trainer_reserve(t);
    t->stop = tft_trainer_is_over(t);
    t->is_changed = 1;
    t->said_us = halay_now_us();
    t->said_samples = t->state.samples;
    status = begin_files(t, has_lost);
    return status ? status : find_best(t);
}

enum halay_status tft_trainer_join(struct tft_trainer *t, enum halay_status begun)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };
    size_t reals = t->table->reals * (t->average ? 4 : 3);

    t->failed = begun;
    enum halay_status status = halay_elastic_add(t->ctx, t->blocks, reals * sizeof *t->blocks);
    if (!status)
        status = halay_elastic_add(t->ctx, &t->state, sizeof t->state);
    if (!status)
        status = halay_elastic_add(t->ctx, &t->failed, sizeof t->failed);
    if (!status)
        status = halay_elastic_begin(t->ctx, &change);
    if (status || begun)
        return begun ? begun : status;
    if (t->failed)
        return HALAY_ERR_PEER; /* rank 0 has logged why */
    return change.has_reformed ? tft_trainer_recover(t, go_on(t, 1)) : HALAY_OK;
}

enum halay_status tft_trainer_commit(struct tft_trainer *t)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };

    if (!t->options->elastic)
        return HALAY_OK;
    enum halay_status status = tft_trainer_bring(t);
    if (!status)
        status = halay_elastic_commit(t->ctx, &change);
    if (!status)
        halay_gauge_set(t->ctx, "commit_step", (double)t->state.step);
    return status || !change.has_reformed ? status : go_on(t, 0);
}

enum halay_status tft_trainer_recover(struct tft_trainer *t, enum halay_status failure)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };

    while (failure && t->options->elastic && halay_context_status(t->ctx, NULL, 0) == HALAY_ERR_PEER) {
        tft_exchange_forget(&t->exchange);
        failure = halay_elastic_restore(t->ctx, &change);
        if (!failure)
            failure = go_on(t, 1); /* another rank may be lost meanwhile */
    }
    return failure;
}
