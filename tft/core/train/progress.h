/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress: what a training says while it runs, to a listener: where it stands after each step, a line of key=value
 * words for each evaluation, and the same as JSON, which goes to the run's metrics.jsonl too.
 */
#ifndef HALAY_TFT_PROGRESS_H
#define HALAY_TFT_PROGRESS_H

#include "base/log.h"
#include "tft/core/score/scores.h"
#include "tft/core/train/health.h"
#include "tft/core/train/train_options.h"
#include <stdint.h>
#include <stdio.h>

/* Where a training begins: all zero, or where it resumes. */
struct tft_progress_start {
    uint64_t step, samples;
    double seconds;
    int pending; /* that step's evaluation is still due */
};

struct tft_progress {
    struct halay_log *log; /* borrowed */
    struct tft_listener listener;
    FILE *metrics; /* owned; NULL: none */
    char *end;     /* owned: the path of end.json, beside it */
    int64_t began_us;
    uint64_t total_steps;
    struct tft_progress_start start;
    double cpu_before; /* processor seconds at the last evaluation */
    int64_t before_us;
};

/* What is said of a step. */
struct tft_progress_step {
    uint64_t step, epoch, samples; /* all since the beginning; step and epoch from 1 */
    double loss;
    double limit;   /* seconds of training at which it ends; 0: none */
    uint64_t steps; /* of the run, as far as they are known */
};

/* The results of an evaluation. */
struct tft_progress_evaluation {
    struct tft_progress_step at;
    double train_loss, valid_loss, learning_rate, samples_per_second, comm_seconds;
    const struct tft_scores *scores; /* (targets); NULL: no validation */
    size_t target_count;
    int best;
    unsigned health; /* rules that spoke since the evaluation before: bits of enum tft_health_rule */
};

/* The last step whose evaluation stays in files. */
static inline uint64_t tft_progress_last_evaluation(const struct tft_progress_start *start)
{
    return start->step - (start->pending && start->step);
}

/* Open folder/metrics.jsonl, drop the lines after the start, and begin. Until fini the file has a lock (flock(2)), by
 * which others can know that a training is at work (the folder's own lock would do, but for the moment in which a look
 * takes it from a training that begins). The listener is copied. A file end.json of an earlier training there is
 * removed. */
enum halay_status tft_progress_init(struct halay_log *log, const char *folder, const struct tft_listener *listener,
                                    uint64_t total_steps, const struct tft_progress_start *start,
                                    struct tft_progress *progress);
void tft_progress_fini(struct tft_progress *progress);
/* Write end.json: how the training ended ("done", "stopped", "failed"). One that is killed leaves none. */
enum halay_status tft_progress_end(struct tft_progress *progress, const char *how, uint64_t step);
/* Seconds of training, including those before the start. */
double tft_progress_seconds(const struct tft_progress *progress);

/* The number of steps is now known: those that fit in a time, as messages say it. */
void tft_progress_set_total(struct tft_progress *progress, uint64_t total_steps, const char *time);

void tft_progress_step(struct tft_progress *progress, const struct tft_progress_step *step);
enum halay_status tft_progress_evaluation(struct tft_progress *progress,
                                          const struct tft_progress_evaluation *evaluation);
/* Say a line of its own. */
void tft_progress_say(struct tft_progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
