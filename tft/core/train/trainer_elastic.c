/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer in an elastic job (halay_elastic.h): its state is the block of parameters, moments and average, and the
 * position of the training. It is the same on every rank, and a step's sums are over all present ranks, so that any
 * number of them can continue.
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
#include "halay_tools.h"
#include "tft/core/train/trainer.h"

enum halay_status tft_trainer_check_elastic(const struct tft_trainer *t)
{
    if (!t->options->elastic)
        return HALAY_OK;
    if (!halay_elastic_is_on(t->ctx))
        return halay_fail(t->log, HALAY_ERR_UNSUPPORTED,
                          "--elastic: this job is not elastic. 'halayrun --min-np N' starts one; an MPI's launcher "
                          "cannot: MPI ends the whole job when a rank is lost");
    return HALAY_OK;
}

/* Rank 0 begins its files, or continues them. */
static enum halay_status begin_files(struct tft_trainer *t, int has_lost)
{
    enum halay_status status = HALAY_OK;

    if (t->rank != 0)
        return HALAY_OK;
    if (!t->files.run)
        status = tft_files_take_over(t);
    else if (has_lost)
        status = tft_report_begin(t); /* lines since the commit are written again */
    if (!status)
        tft_say(&t->report.listener, "continuing after step %llu with %d rank%s", (unsigned long long)t->state.step,
                t->ranks, t->ranks == 1 ? "" : "s");
    return status;
}

/* The best weights may be lost with the host of a former rank 0. Then the next evaluation is the first, and there is
 * one. */
static enum halay_status find_best(struct tft_trainer *t)
{
    int32_t has = t->rank == 0 && tft_run_has_model(t->options->folder);
    enum halay_status status = t->ranks > 1 ? halay_broadcast(t->ctx, "has model", &has, 1, HALAY_I32, 0) : HALAY_OK;

    if (status || has)
        return status;
    t->state.judged = t->state.in_vain = 0;
    t->stop = tft_trainer_is_over(t);
    t->state.pending |= t->stop;
    return HALAY_OK;
}

/* Continues from the state, which is that of a commit; the ranks may have changed. */
static enum halay_status resume_training(struct tft_trainer *t, int has_lost)
{
    enum halay_status status = tft_blocks_upload(&t->blocks);

    if (status)
        return status;
    t->rank = halay_rank(t->ctx);
    t->ranks = halay_size(t->ctx);
    tft_trainer_set_adam(t);
    t->interrupted = 0;
    tft_trainer_reserve(t);
    t->stop = tft_trainer_is_over(t);
    t->elastic.is_changed = 1;
    t->since_us = halay_now_us();
    t->since_samples = t->state.samples;
    status = begin_files(t, has_lost);
    return status ? status : find_best(t);
}

enum halay_status tft_trainer_join(struct tft_trainer *t, enum halay_status begun)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };
    uint64_t data = 0;
    enum halay_status status = begun ? begun : tft_htd_digest(t->log, t->data, &data);

    t->elastic.failed = begun = status;
    t->state.data = data;
    if ((status = halay_elastic_add(t->ctx, t->blocks.host.memory, t->blocks.reals * sizeof(float))) ||
        (status = halay_elastic_add(t->ctx, &t->state, sizeof t->state)) ||
        (status = halay_elastic_add(t->ctx, &t->elastic.failed, sizeof t->elastic.failed)) ||
        (status = halay_elastic_begin(t->ctx, &change)) || begun)
        return begun ? begun : status;
    if (t->elastic.failed)
        return HALAY_ERR_PEER; /* rank 0 has logged why */
    if (t->state.data != data)
        return halay_fail(t->log, HALAY_ERR_FORMAT,
                          "the data of this rank differ from those of rank 0: give all hosts copies of one file");
    return change.has_reformed ? tft_trainer_recover(t, resume_training(t, 1)) : HALAY_OK;
}

enum halay_status tft_trainer_commit(struct tft_trainer *t)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };

    if (!t->options->elastic)
        return HALAY_OK;
    enum halay_status status;
    if ((status = tft_blocks_download(&t->blocks)) || (status = halay_elastic_commit(t->ctx, &change)))
        return status;
    halay_gauge_set(t->ctx, "commit_step", (double)t->state.step);
    return change.has_reformed ? resume_training(t, 0) : HALAY_OK;
}

enum halay_status tft_trainer_recover(struct tft_trainer *t, enum halay_status failure)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };

    while (failure && t->options->elastic && halay_context_status(t->ctx, NULL, 0) == HALAY_ERR_PEER) {
        tft_exchange_forget(&t->exchange);
        failure = halay_elastic_restore(t->ctx, &change);
        if (!failure)
            failure = resume_training(t, 1); /* another rank may be lost meanwhile */
    }
    return failure;
}
