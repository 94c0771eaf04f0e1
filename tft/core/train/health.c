/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/train/health.h"
#include "base/number_text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { EARLY_STEPS = 10, STALLED_BLOCKS = 2 * TFT_HEALTH_TREND, EVALUATIONS_ABOVE = 3 };

static const double exploding_norm = 10, exploding_loss = 2, vanishing_norm = 1e-3, vanishing_loss = .5;
static const double stalled = .98, overfitting = 1.1, share = 1. / 3;

const char *tft_health_word(enum tft_health_rule rule)
{
    static const char *const words[TFT_HEALTH_RULES] = { "exploding",  "vanishing",     "stalled", "overfitting",
                                                         "dead_input", "communication", "input" };

    return words[rule];
}

/* The rule's bit, if it has not spoken yet. */
static unsigned speak(struct tft_health *h, enum tft_health_rule rule)
{
    unsigned bit = 1u << rule, is_new = ~h->said & bit;

    h->said |= bit;
    return is_new;
}

static unsigned judge_gradients(struct tft_health *h, uint64_t step, double loss, double norm, char *text, size_t size)
{
    if (norm > exploding_norm * h->least_norm && loss > tft_loss_times(h->kind, h->least_loss, exploding_loss)) {
        halay_snprintf(text, size,
                       "gradients explode: their norm, about %.3g in the last %d steps before step %" PRIu64
                       ", was %.3g at its lowest, and the loss rose from %.4g to %.4g; a lower learning_rate or "
                       "'clip_mode: global' with a small clip helps",
                       norm, TFT_HEALTH_BLOCK, step, h->least_norm, h->least_loss, loss);
        return speak(h, TFT_HEALTH_EXPLODING);
    }
    if (norm < vanishing_norm * h->first_norm && loss > tft_loss_times(h->kind, h->first[0], vanishing_loss)) {
        halay_snprintf(
            text, size,
            "gradients vanish: their norm fell from about %.3g in the first %d steps to %.3g before step %" PRIu64
            ", but the loss only from %.4g to %.4g: units are saturated; a lower learning_rate, from the start, "
            "helps",
            h->first_norm, TFT_HEALTH_BLOCK, norm, step, h->first[0], loss);
        return speak(h, TFT_HEALTH_VANISHING);
    }
    return 0;
}

/* Are the latest blocks below the first ones by more than chance? */
static int has_trend(const struct tft_health *h)
{
    double change = 0;

    for (size_t i = 0; i < TFT_HEALTH_TREND; i++)
        change += (h->first[i] - h->latest[i]) / TFT_HEALTH_TREND;
    return change > 2 * h->noise * sqrt(2. / (TFT_HEALTH_TREND * TFT_HEALTH_BLOCK));
}

static unsigned judge_progress(struct tft_health *h, uint64_t step, char *text, size_t size)
{
    double early = h->early_loss / EARLY_STEPS;
    double fall = fmax(early - tft_loss_times(h->kind, early, stalled), 2 * h->noise / sqrt(EARLY_STEPS));

    if (h->blocks < STALLED_BLOCKS || h->least_loss < early - fall || has_trend(h))
        return 0;
    halay_snprintf(
        text, size,
        "the loss does not fall: %.4g in the first %d steps, %.4g in the best %d before step %" PRIu64
        "; '--find-learning-rate' suggests a rate, and 'halay-tft evaluate' says whether the inputs foretell more "
        "than the last season",
        early, EARLY_STEPS, h->least_loss, TFT_HEALTH_BLOCK, step);
    return speak(h, TFT_HEALTH_STALLED);
}

static unsigned judge_time(struct tft_health *h, double waiting, double gathering, char *text, size_t size)
{
    if (waiting > share) {
        halay_snprintf(
            text, size,
            "communication is the bottleneck: %.0f %% of the time goes into waiting for other ranks; a larger "
            "batch_size, fewer ranks, or a faster way between them helps ('halay-perf doctor')",
            100 * waiting);
        return speak(h, TFT_HEALTH_COMMUNICATION);
    }
    if (gathering > share) {
        halay_snprintf(
            text, size,
            "input is the bottleneck: %.0f %% of the time goes into putting batches together; is the prepared "
            "file on a slow disk, or larger than the memory?",
            100 * gathering);
        return speak(h, TFT_HEALTH_INPUT);
    }
    return 0;
}

/* The block's mean loss, for comparisons with later ones. */
static void keep_loss(struct tft_health *h, double loss, double noise)
{
    if (h->blocks < TFT_HEALTH_TREND)
        h->first[h->blocks] = loss;
    h->latest[h->blocks % TFT_HEALTH_TREND] = loss;
    if (!h->blocks || loss < h->least_loss) {
        h->least_loss = loss;
        h->noise = noise;
    }
}

static unsigned end_block(struct tft_health *h, uint64_t step, char *text, size_t size)
{
    double loss = h->loss / (double)h->steps, norm = exp(h->log_norm / (double)h->steps);
    double noise = sqrt(fmax(0, h->squares / (double)h->steps - loss * loss));
    double waiting = h->seconds > 0 ? h->waiting / h->seconds : 0;
    double gathering = h->seconds > 0 ? h->gathering / h->seconds : 0;
    unsigned said = 0;

    h->steps = 0;
    h->loss = h->squares = h->log_norm = h->seconds = h->waiting = h->gathering = 0;
    if (!h->blocks)
        h->first_norm = h->least_norm = norm;
    else
        said = judge_gradients(h, step, loss, norm, text, size);
    keep_loss(h, loss, noise);
    h->least_norm = fmin(h->least_norm, norm);
    h->blocks++;
    if (!said)
        said = judge_progress(h, step, text, size);
    return said ? said : judge_time(h, waiting, gathering, text, size);
}

unsigned tft_health_take_step(struct tft_health *h, const struct tft_health_step *s, char *text, size_t size)
{
    if (h->early < EARLY_STEPS) {
        h->early_loss += s->loss;
        h->early++;
    }
    h->steps++;
    h->loss += s->loss;
    h->squares += s->loss * s->loss;
    h->log_norm += log(fmax(s->norm, 1e-300));
    h->seconds += s->seconds;
    h->waiting += s->waiting;
    h->gathering += s->gathering;
    return h->steps == TFT_HEALTH_BLOCK ? end_block(h, s->step, text, size) : 0;
}

unsigned tft_health_take_evaluation(struct tft_health *h, const struct tft_health_evaluation *e, char *text,
                                    size_t size)
{
    if (!h->evaluated || e->valid_loss < h->lowest) {
        h->evaluated = 1;
        h->lowest = e->valid_loss;
        h->lowest_train = e->train_loss;
        h->lowest_step = e->step;
        h->above = 0;
        return 0;
    }
    h->above = e->valid_loss > tft_loss_times(h->kind, h->lowest, overfitting) && e->train_loss < h->lowest_train
                   ? h->above + 1
                   : 0;
    if (h->above < EVALUATIONS_ABOVE)
        return 0;
    halay_snprintf(
        text, size,
        "overfitting: since step %" PRIu64 " the validation loss rose from %.4g to %.4g while the training loss "
        "fell from %.4g to %.4g; the parameters of that step are kept; more dropout, a smaller hidden_size or a "
        "lower patience helps",
        h->lowest_step, h->lowest, e->valid_loss, h->lowest_train, e->train_loss);
    return speak(h, TFT_HEALTH_OVERFITTING);
}

unsigned tft_health_take_dead_input(struct tft_health *h, const char *input, char *text, size_t size)
{
    snprintf(text, size,
             "dead input: in %d steps no gradient has reached '%s': it has one value in the training span, or none; "
             "leave it out of the schema",
             TFT_HEALTH_BLOCK, input);
    return speak(h, TFT_HEALTH_DEAD_INPUT);
}
