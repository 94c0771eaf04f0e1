/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a training: the other members are put beside the best parameters, the weights of the blend are chosen, the
 * intervals are calibrated, and the refit follows. An interruption leaves what was chosen before.
 */
#include "tft/core/data/paths.h"
#include "tft/core/run/ranks.h"
#include "tft/core/score/calibration.h"
#include "tft/core/score/evaluation.h"
#include "tft/core/score/forecast_scores.h"
#include "tft/core/train/trainer.h"
#include <string.h>
#include <unistd.h>

/* ---- members ---- */

/* Rank 0. */
static enum halay_status read_member(struct tft_trainer *t, size_t member)
{
    const struct tft_path folder = tft_path_in(t->options->folder, tft_member_name(member, "").text);
    struct tft_run run = { 0 };
    enum halay_status status = tft_run_load_first(t->log, folder.text, &run);

    if (!status && tft_model_params(run.model)->reals != t->table->reals)
        status = halay_fail(t->log, HALAY_ERR_FORMAT, "'%s' holds a model of another size than the run's first member",
                            folder.text);
    if (!status)
        memcpy(t->made_of.members.params[member], run.params, t->table->reals * sizeof *run.params);
    tft_run_fini(&run);
    return status;
}

/* Reads the other members, whose trainings have ended, and leaves them in the run's folder, beside the best parameters,
 * of a step. */
static enum halay_status take_members(struct tft_trainer *t, const float *params, long long step)
{
    const size_t count = (size_t)t->config->members - 1;

    if (!count || t->made_of.members.count)
        return HALAY_OK;
    enum halay_status status = tft_members_init(t->log, t->model, count, &t->made_of.members);
    for (size_t m = 0; m < count && !status && t->rank == 0; m++)
        status = read_member(t, m);
    if (!status && t->rank == 0)
        status =
            tft_run_save_members(t->log, t->options->folder, t->files.run, step, t->table, params, &t->made_of.members);
    status = tft_agree(t->ctx, "members read", status);
    return status ? status : tft_share_members(t->ctx, t->table, &t->made_of.members);
}

/* ---- the blend and the calibration ---- */

/* Prints what the best forecasts are made of. */
static void print_blend(struct tft_trainer *t)
{
    const struct tft_schema *s = &t->data->schema;
    char text[500];

    for (size_t o = 0; o < s->target_count; o++)
        if (tft_blend_has(&t->made_of.blend, s, o)) {
            tft_blend_describe(&t->made_of.blend, s, o, text, sizeof text);
            tft_say(&t->report.listener, "%s", text);
        }
}

/* Rank 0 reads the best parameters into all ranks' memory; *step: theirs, on rank 0. */
static enum halay_status read_best(struct tft_trainer *t, float *params, int64_t *step)
{
    struct tft_run run = { 0 };
    enum halay_status status = t->rank == 0 ? tft_run_load_first(t->log, t->options->folder, &run) : HALAY_OK;

    if (!status && t->rank == 0) {
        memcpy(params, run.params, t->table->reals * sizeof *params);
        *step = run.step;
        tft_run_fini(&run);
    }
    status = tft_agree(t->ctx, "best read", status);
    if (status || t->ranks == 1)
        return status;
    return halay_broadcast(t->ctx, "best", params, t->table->reals, HALAY_F32, 0);
}

/* Chooses the weights of the blend that the best parameters are part of. */
static enum halay_status choose_blend(struct tft_trainer *t, const float *params)
{
    struct tft_forecast_scores scores = { 0 };
    struct tft_forecaster f = tft_trainer_forecaster(t, params);

    if (!t->made_of.blend.errors || !t->epoch.valid_samples)
        return HALAY_OK;
    enum halay_status status = tft_forecaster_init(&f);
    if (!status)
        status = tft_blend_choose(&f, t->epoch.valid_samples, &t->made_of.blend, &scores);
    if (!status)
        t->made_of.best_q_risk = tft_scores_mean_q_risk(scores.scores, scores.target_count, scores.scores->median);
    if (status == HALAY_ERR_CANCELED && t->rank == 0)
        halay_error(t->log, "interrupted before the blend's weights were chosen%s",
                    t->config->keep ? "; '--resume' chooses them"
                                    : ", with no checkpoint (keep 0): the model and a baseline have a half each");
    tft_forecast_scores_fini(&scores);
    tft_forecaster_fini(&f);
    return status;
}

/* Calibrates the best parameters' forecasts. Under a limit of time that takes a tenth of it at most. *whole: rank 0's
 * file, a new reference. */
static enum halay_status calibrate_best(struct tft_trainer *t, const float *params, int64_t step, json_t **whole)
{
    json_t *document = NULL;
    char text[200];
    struct tft_forecaster forecaster = tft_trainer_forecaster(t, params);
    size_t max = tft_trainer_windows_within(t, t->limits.seconds / TFT_CALIBRATION_PART);

    forecaster.blend = &t->made_of.blend;
    enum halay_status status = tft_calibrate(&forecaster, t->data, &t->config->quantiles, max, &document);

    if (!status && t->rank == 0) {
        *whole = tft_calibration_json(t->table, params, &t->made_of.members, &t->made_of.blend, step, document);
        tft_calibrate_describe(document, t->data, "validation windows", text, sizeof text);
        tft_say(&t->report.listener, "%s", text);
    }
    if (status == HALAY_ERR_CANCELED && t->rank == 0)
        halay_error(t->log, "interrupted before the intervals were calibrated%s",
                    t->config->keep ? "; '--resume' calibrates the run" : ", with no checkpoint (keep 0)");
    json_decref(document);
    return status;
}

/* Sets *calibrates to whether the configuration asks for a calibration: `auto` does where there are enough validation
 * windows, a horizon apart. */
static enum halay_status ask_calibrates(struct tft_trainer *t, int *calibrates)
{
    struct tft_windows windows = { 0 };
    enum halay_status status = HALAY_OK;

    *calibrates = t->config->calibrate != TFT_CALIBRATE_NONE;
    if (t->config->calibrate == TFT_CALIBRATE_AUTO) {
        status = tft_windows_init(t->log, t->data, TFT_VALID, t->data->schema.horizon, &windows);
        *calibrates = windows.count >= TFT_CONFORMAL_LEAST;
        tft_windows_fini(&windows);
    }
    return status;
}

/* Chooses and calibrates. A calibration that is there belongs to the weights that are there, so that both are replaced
 * together; until then an interruption leaves them. */
static enum halay_status choose_and_calibrate(struct tft_trainer *t, const float *params, int64_t step, int calibrates)
{
    const int has_blend = t->made_of.blend.errors != NULL;
    const int waits =
        calibrates && t->rank == 0 && !access(tft_path_in(t->options->folder, "calibration.json").text, F_OK);
    json_t *whole = NULL;
    enum halay_status status = choose_blend(t, params);

    if (status)
        return status;
    if (t->rank == 0)
        print_blend(t);
    if (has_blend && !waits && (status = tft_files_keep(t, params, (uint64_t)step, 1)))
        return status;
    if (!calibrates)
        return HALAY_OK;
    status = calibrate_best(t, params, step, &whole);
    if (!status && has_blend && waits)
        status = tft_files_keep(t, params, (uint64_t)step, 1);
    if (!status && t->rank == 0)
        status = tft_calibration_save(t->log, t->options->folder, whole);
    json_decref(whole);
    return status;
}

/* params: memory for the best parameters. */
static enum halay_status finish_with(struct tft_trainer *t, float *params, int calibrates)
{
    int64_t step = 0;
    enum halay_status status;

    if ((status = read_best(t, params, &step)) || (status = take_members(t, params, step)) ||
        (status = choose_and_calibrate(t, params, step, calibrates)) ||
        (t->config->refit && (status = tft_trainer_refit(t, params, step))))
        return status;
    /* No rank leaves before all is written: without rank 0 the others would have to finish it. */
    return tft_agree(t->ctx, "forecasts finished", HALAY_OK);
}

enum halay_status tft_trainer_finish(struct tft_trainer *t)
{
    const size_t weights = tft_blend_weights_count(&t->made_of.blend);
    double *const chosen = t->made_of.blend.weights;
    const int has_blend = t->made_of.blend.errors != NULL;
    struct halay_region region = { 0 };
    int calibrates;
    enum halay_status status = ask_calibrates(t, &calibrates);

    if (status || t->options->is_member || (!has_blend && !calibrates && !t->config->refit && t->config->members < 2))
        return status;
    float *params = halay_region_alloc(&region, t->table->reals, sizeof *params);
    double *prior = halay_region_alloc(&region, weights, sizeof *prior);
    if (region.failed) {
        status = halay_no_memory(t->log, "for the best parameters");
        goto release;
    }
    if (has_blend)
        memcpy(prior, chosen, weights * sizeof *prior);
    status = finish_with(t, params, calibrates);
    if (status && has_blend) /* ranks that are left, and those that join, choose from the same */
        memcpy(chosen, prior, weights * sizeof *prior);
release:
    halay_region_fini(&region);
    return status;
}

void tft_made_of_fini(struct tft_made_of *made_of)
{
    tft_blend_fini(&made_of->blend);
    tft_members_fini(&made_of->members);
}

enum halay_status tft_trainer_compare_naive(struct tft_trainer *t)
{
    const struct tft_gather gather = { .windows = &t->epoch.valid, .numbers = t->epoch.valid_order };
    const struct tft_list *q = &t->config->quantiles;
    const struct tft_schema *s = &t->data->schema;
    struct tft_naive_best best;
    enum halay_status status;
    char text[400];

    if (!(t->made_of.best_q_risk > 0))
        return HALAY_OK;
    if ((status = tft_naive_find_best(t->log, &gather, t->epoch.valid_samples, q, &best)))
        return status;
    if (tft_naive_warning(s, s->target_count, q->values[tft_median_of(q->values, q->count)], t->made_of.best_q_risk,
                          &best, text, sizeof text))
        tft_say(&t->report.listener, "%s", text);
    return HALAY_OK;
}
