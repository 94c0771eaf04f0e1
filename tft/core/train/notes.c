/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes: what rank 0 writes and says of the steps and evaluations.
 */
#include "base/clock.h"
#include "tft/core/train/trainer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Below this share of all gradients' squares one counts as none: what rounding leaves of a constant input. */
static const double none = 1e-20;

/* Between two rows of the tracks. */
enum { STEPS_OF_ROW = 10 };

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static enum halay_status create_tracks(struct tft_trainer *t)
{
    const struct tft_progress_start *start = &t->progress.start;
    const uint64_t last[TFT_ROW_TABLES] = { start->step, tft_progress_last_evaluation(start) };
    json_t *keys = tft_run_config_json(t->config);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (keys)
        status = tft_tracks_create(t->log, t->options->metrics ? t->options->metrics : t->options->folder,
                                   (unsigned)t->config->log, last, keys, &t->notes.tracks);
    json_decref(keys);
    return status;
}

enum halay_status tft_trainer_begin_notes(struct tft_trainer *t)
{
    struct tft_notes *n = &t->notes;

    enum halay_status status = tft_trainer_end_notes(t, HALAY_OK);
    if (status)
        return status;
    *n = (struct tft_notes){ .step_us = halay_now_us(), .row_us = halay_now_us(), .row_samples = t->state.samples };
    n->health.kind = (enum tft_loss)t->config->loss;
    n->reached = calloc(t->table->count, 1);
    if (!n->reached) {
        halay_error(t->log, "no memory for notes of %zu parameters", t->table->count);
        return HALAY_ERR_NO_MEMORY;
    }
    return t->config->log ? create_tracks(t) : HALAY_OK;
}

/* ---- health ---- */

static void say(struct tft_trainer *t, unsigned spoken, const char *text)
{
    if (!spoken)
        return;
    tft_progress_say(&t->progress, "health: %s", text);
    t->notes.spoken |= spoken;
}

/* The embedding of an input: the tensor that multiplies it. */
static int is_embedding(const struct tft_trainer *t, size_t i)
{
    const struct tft_param *p = &t->table->params[i];
    size_t length = strlen(p->name);

    return !p->dead && !strncmp(p->name, "input.", 6) && length > 13 && !strcmp(p->name + length - 7, ".kernel");
}

static void watch_inputs(struct tft_trainer *t)
{
    struct tft_notes *n = &t->notes;
    char text[512], name[TFT_PARAM_NAME_MAX + 1];
    int judges = tft_health_ends_block(&n->health);

    for (size_t i = 0; i < t->table->count; i++) {
        if (!is_embedding(t, i))
            continue;
        n->reached[i] |= t->adam.squares[i] > none * t->norm * t->norm;
        if (judges && !n->reached[i]) {
            const char *whole = t->table->params[i].name + 6;
            snprintf(name, sizeof name, "%.*s", (int)(strlen(whole) - 7), whole);
            say(t, tft_health_take_dead_input(&n->health, name, text, sizeof text), text);
        }
    }
}

static void judge_step(struct tft_trainer *t, const struct tft_health_step *step)
{
    char text[512];

    if (t->config->health == TFT_HEALTH_OFF)
        return;
    say(t, tft_health_take_step(&t->notes.health, step, text, sizeof text), text);
    watch_inputs(t);
}

/* ---- steps ---- */

static enum halay_status write_row(struct tft_trainer *t, double loss)
{
    struct tft_notes *n = &t->notes;
    int64_t now = halay_now_us();
    const double seconds = (double)(now - n->row_us + 1) / 1e6;
    const struct tft_number numbers[] = {
        { "loss", loss },
        { "learning_rate", t->adam.learning_rate },
        { "gradient_norm", t->norm },
        { "samples_per_second", (double)(t->state.samples - n->row_samples) / seconds },
        { "waiting_share", n->seconds > 0 ? n->waiting / n->seconds : 0 },
        { "gathering_share", n->seconds > 0 ? n->gathering / n->seconds : 0 },
    };
    const struct tft_row row = {
        TFT_ROW_STEP, t->state.step, seconds_now(), numbers, sizeof numbers / sizeof *numbers,
    };

    n->seconds = n->waiting = n->gathering = 0;
    n->row_us = now;
    n->row_samples = t->state.samples;
    return tft_tracks_add(n->tracks, &row);
}

enum halay_status tft_trainer_note_step(struct tft_trainer *t)
{
    struct tft_notes *n = &t->notes;
    const double loss = t->numbers[TFT_STEP_LOSS], threads = tft_pool_threads(t->pool) * 1e6;
    double waited = tft_trainer_waited(t);
    long long gathered = atomic_load_explicit(&t->gathered_us, memory_order_relaxed);
    int64_t now = halay_now_us();
    const struct tft_health_step step = { .step = t->state.step,
                                          .loss = loss,
                                          .norm = t->norm,
                                          .seconds = (double)(now - n->step_us) / 1e6,
                                          .waiting = t->ranks > 1 ? waited - n->step_waited : 0,
                                          .gathering = (double)(gathered - n->step_gathered_us) / threads };

    n->step_us = now;
    n->step_waited = waited;
    n->step_gathered_us = gathered;
    n->seconds += step.seconds;
    n->waiting += step.waiting;
    n->gathering += step.gathering;
    tft_progress_step(&t->progress, &(struct tft_progress_step){ t->state.step, t->state.epoch + 1, t->state.samples,
                                                                 loss, t->limits.seconds, tft_trainer_steps(t) });
    judge_step(t, &step);
    return t->state.step % STEPS_OF_ROW || !n->tracks ? HALAY_OK : write_row(t, loss);
}

/* ---- evaluations ---- */

enum halay_status tft_trainer_note_values(struct tft_trainer *t)
{
    struct tft_notes *n = &t->notes;
    double now = seconds_now();
    enum halay_status status = HALAY_OK;

    if (!tft_tracks_take_values(n->tracks))
        return HALAY_OK;
    status = tft_trainer_bring_gradients(t);
    for (size_t i = 0; i < t->table->count && !status; i++) {
        const struct tft_param *p = &t->table->params[i];
        struct tft_values values = { "weights", p->name, t->params + p->offset, p->count };

        status = tft_tracks_add_values(n->tracks, t->state.step, now, &values);
        values.group = "gradients";
        values.values = t->exchange.gradients + p->offset;
        if (!status && !p->dead && t->adam.squares && !p->sparse.most)
            status = tft_tracks_add_values(n->tracks, t->state.step, now, &values);
    }
    return status;
}

static enum halay_status write_evaluation(struct tft_trainer *t, const struct tft_progress_evaluation *e)
{
    enum { MOST = 6 + TFT_RUN_QUANTILES_MAX };
    char names[TFT_RUN_QUANTILES_MAX][40];
    struct tft_number numbers[MOST] = { { "epoch", (double)e->at.epoch },
                                        { "train_loss", e->train_loss },
                                        { "evaluation_samples_per_second", e->samples_per_second },
                                        { "comm_seconds", e->comm_seconds } };
    size_t count = 4;

    if (e->scores) {
        numbers[count++] = (struct tft_number){ "valid_loss", e->valid_loss };
        for (size_t q = 0; q < e->scores->quantile_count && count < MOST; q++) {
            char name[32];
            tft_quantile_name(e->scores->quantiles[q], name, sizeof name);
            snprintf(names[q], sizeof names[q], "valid_%s", name);
            numbers[count++] = (struct tft_number){ names[q], tft_scores_mean_q_risk(e->scores, e->target_count, q) };
        }
    }
    const struct tft_row row = { TFT_ROW_EVALUATION, e->at.step, seconds_now(), numbers, count };
    return tft_tracks_add(t->notes.tracks, &row);
}

enum halay_status tft_trainer_note_evaluation(struct tft_trainer *t, const struct tft_progress_evaluation *evaluation)
{
    struct tft_progress_evaluation e = *evaluation;
    const struct tft_health_evaluation judged = { e.at.step, e.train_loss, e.valid_loss };
    char text[512];

    if (e.scores && t->config->health != TFT_HEALTH_OFF)
        say(t, tft_health_take_evaluation(&t->notes.health, &judged, text, sizeof text), text);
    e.health = t->notes.spoken;
    t->notes.spoken = 0;
    t->notes.step_us = halay_now_us(); /* an evaluation is no part of the next step */
    enum halay_status status = tft_progress_evaluation(&t->progress, &e);
    if (!status && t->notes.tracks)
        status = write_evaluation(t, &e);
    return status;
}

enum halay_status tft_trainer_end_notes(struct tft_trainer *t, enum halay_status status)
{
    enum tft_track_end end = status ? TFT_TRACK_FAILED : t->interrupted ? TFT_TRACK_INTERRUPTED : TFT_TRACK_FINISHED;
    enum halay_status ended = tft_tracks_destroy(t->notes.tracks, end);

    t->notes.tracks = NULL;
    free(t->notes.reached);
    t->notes.reached = NULL;
    return ended;
}
