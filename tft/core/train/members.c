/* SPDX-License-Identifier: Apache-2.0
 *
 * Members: trainings from one seed each, one after the other. Those after the first are runs of their own, in folders
 * of the run's folder, so that each resumes by itself; they share the time, and choose and calibrate nothing. The first
 * is last: once it has ended, the others' best weights are put beside its own, and what is chosen and calibrated
 * then is so for the mean of all.
 */
#include "tft/core/data/paths.h"
#include "tft/core/run/ranks.h"
#include "tft/core/run/run_folder.h"
#include "tft/core/train/train.h"
#include "tft/core/train/trainer.h"
#include <string.h>

/* Refuses, before the first training, what would be refused once the others are trained. Rank 0 looks. */
static enum halay_status check_folder(struct halay_log *log, struct halay_context *ctx,
                                      const struct tft_train_options *o)
{
    enum halay_status status = HALAY_OK;

    if (o->elastic)
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "an elastic job trains one model: give 'members: 1', or train without --elastic");
    if (halay_rank(ctx) == 0 && !o->resume && tft_run_has_model(o->folder))
        status = halay_fail(log, HALAY_ERR_ARGUMENT,
                            "'%s' holds a run already, with its model; remove it, or choose another folder", o->folder);
    else if (halay_rank(ctx) == 0 && !(status = tft_make_folder(log, o->folder)))
        status = tft_make_folder(log, o->checkpoints);
    return tft_agree(ctx, "members begin", status);
}

static void print_member(struct halay_context *ctx, const struct tft_train_options *o, size_t member, long long members)
{
    if (halay_rank(ctx) == 0)
        tft_say(&o->listener, "member %zu of %lld:", member, members);
}

static enum halay_status train_member(struct halay_log *log, struct halay_context *ctx,
                                      const struct tft_run_config *config, struct tft_data *data,
                                      const struct tft_train_options *options, size_t member)
{
    struct tft_run_config own = *config;
    struct tft_train_options how = *options;
    const struct tft_path folder = tft_path_in(options->folder, tft_member_name(member, "").text);
    const struct tft_path checkpoints = tft_path_in(options->checkpoints, tft_member_name(member, "").text);

    own.members = 1;
    own.seed = (int64_t)(uint32_t)(config->seed + (int64_t)member + 1);
    own.max_time /= (double)config->members;
    own.log = 0;
    how.folder = folder.text;
    how.checkpoints = checkpoints.text;
    how.metrics = NULL;
    how.is_member = 1;
    how.listener.evaluation = NULL;
    print_member(ctx, options, member + 2, config->members);
    return tft_train_first(log, ctx, &own, data, &how);
}

/* Chooses how many, where the configuration leaves it open: more than one only where time alone ends them. */
static enum halay_status choose_count(struct halay_log *log, struct halay_context *ctx, const struct tft_data *data,
                                      const struct tft_train_options *o, struct tft_run_config *c)
{
    const int is_timed = c->max_time > 0 && !c->max_steps && !c->epochs;
    struct tft_windows windows = { 0 };
    enum halay_status status = HALAY_OK;

    if (c->members)
        return HALAY_OK;
    c->members = 1;
    if (!is_timed || c->refit || c->conformance || c->init_from[0] || o->elastic || o->finds_rate)
        return HALAY_OK;
    status = tft_windows_init(log, data, TFT_TRAIN, data->schema.stride, &windows);
    if (!status)
        c->members = (int64_t)tft_run_length_members(c->max_time, windows.count, (size_t)c->batch_size);
    tft_windows_fini(&windows);
    return tft_agree(ctx, "members chosen", status);
}

enum halay_status tft_train(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                            struct tft_data *data, const struct tft_train_options *options)
{
    struct tft_run_config c = *config;
    enum halay_status status = choose_count(log, ctx, data, options, &c);
    int reason = 0;

    if (status || c.members < 2 || options->finds_rate)
        return status ? status : tft_train_first(log, ctx, &c, data, options);
    status = check_folder(log, ctx, options);
    for (size_t m = 0; m + 1 < (size_t)c.members && !status && !reason; m++) {
        status = train_member(log, ctx, &c, data, options, m);
        if (!status)
            status = tft_stop_share(ctx, options->stop, &reason);
    }
    if (status || reason)
        return status;
    print_member(ctx, options, 1, c.members);
    return tft_train_first(log, ctx, &c, data, options);
}
