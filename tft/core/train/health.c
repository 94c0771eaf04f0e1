/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/train/health.h"
#include "base/number_text.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

enum { EARLY_STEPS = 10, STALLED_BLOCKS = 2 * TFT_HEALTH_TREND, EVALUATIONS_ABOVE = 3 };

static const double exploding_norm = 10, exploding_loss = 2, vanishing_norm = 1e-3, vanishing_loss = .5;
static const double stalled = .98, overfitting = 1.1, share = 1. / 3;

const char *tft_health_name(enum tft_health_rule rule)
{
    static const char *const names[TFT_HEALTH_RULES] = { "exploding",  "vanishing",     "stalled", "overfitting",
                                                         "dead_input", "communication", "input" };

    return names[rule];
}

/* Returns the rule's bit, with its text, if it has not spoken yet. */
__attribute__((format(printf, 3, 4))) static unsigned speak(struct tft_health *h, enum tft_health_rule rule,
                                                            const char *format, ...)
{
    const unsigned bit = 1u << rule, is_new = ~h->spoken & bit;
    va_list args;

    va_start(args, format);
    if (is_new)
        halay_vsnprintf(h->text, sizeof h->text, format, args);
    va_end(args);
    h->spoken |= bit;
    return is_new;
}

static unsigned judge_gradients(struct tft_health *h, uint64_t step, double loss, double norm)
{
    if (norm > exploding_norm * h->norm_min && loss > tft_loss_times(h->kind, h->loss_min, exploding_loss))
        return speak(h, TFT_HEALTH_EXPLODING,
                     "gradients explode: their norm, about %.3g in the last %d steps before step %" PRIu64
                     ", was %.3g at its lowest, and the loss rose from %.4g to %.4g; a lower learning_rate or "
                     "'clip_mode: global' with a small clip helps",
                     norm, TFT_HEALTH_BLOCK, step, h->norm_min, h->loss_min, loss);
    if (norm < vanishing_norm * h->first_norm && loss > tft_loss_times(h->kind, h->first[0], vanishing_loss))
        return speak(h, TFT_HEALTH_VANISHING,
                     "gradients vanish: their norm fell from about %.3g in the first %d steps to %.3g before step "
                     "%" PRIu64 ", but the loss only from %.4g to %.4g: units are saturated; a lower learning_rate, "
                     "from the start, helps",
                     h->first_norm, TFT_HEALTH_BLOCK, norm, step, h->first[0], loss);
    return 0;
}

/* Returns nonzero if the latest blocks are below the first ones by more than chance. */
static int has_trend(const struct tft_health *h)
{
    double change = 0;

    for (size_t i = 0; i < TFT_HEALTH_TREND; i++)
        change += (h->first[i] - h->latest[i]) / TFT_HEALTH_TREND;
    return change > 2 * h->noise * sqrt(2. / (TFT_HEALTH_TREND * TFT_HEALTH_BLOCK));
}

static unsigned judge_progress(struct tft_health *h, uint64_t step)
{
    double early = h->early_loss / EARLY_STEPS;
    double fall = fmax(early - tft_loss_times(h->kind, early, stalled), 2 * h->noise / sqrt(EARLY_STEPS));

    if (h->blocks < STALLED_BLOCKS || h->loss_min < early - fall || has_trend(h))
        return 0;
    return speak(h, TFT_HEALTH_STALLED,
                 "the loss does not fall: %.4g in the first %d steps, %.4g in the best %d before step %" PRIu64
                 "; '--find-learning-rate' suggests a rate, and 'halay-tft evaluate' shows whether the inputs foretell "
                 "more than the last season",
                 early, EARLY_STEPS, h->loss_min, TFT_HEALTH_BLOCK, step);
}

static unsigned judge_time(struct tft_health *h, double waiting, double gathering)
{
    if (waiting > share)
        return speak(h, TFT_HEALTH_COMMUNICATION,
                     "communication is the bottleneck: %.0f %% of the time goes into waiting for other ranks; a larger "
                     "batch_size, fewer ranks, or a faster way between them helps ('halay-perf doctor')",
                     100 * waiting);
    if (gathering > share)
        return speak(h, TFT_HEALTH_INPUT,
                     "input is the bottleneck: %.0f %% of the time goes into putting batches together; is the prepared "
                     "file on a slow disk, or larger than the memory?",
                     100 * gathering);
    return 0;
}

/* Keeps the block's mean loss, for comparisons with later ones. */
static void keep_loss(struct tft_health *h, double loss, double noise)
{
    if (h->blocks < TFT_HEALTH_TREND)
        h->first[h->blocks] = loss;
    h->latest[h->blocks % TFT_HEALTH_TREND] = loss;
    if (!h->blocks || loss < h->loss_min) {
        h->loss_min = loss;
        h->noise = noise;
    }
}

static unsigned end_block(struct tft_health *h, uint64_t step)
{
    const struct tft_health_block b = h->block;
    double loss = b.loss / (double)b.steps, norm = exp(b.log_norm / (double)b.steps);
    double noise = sqrt(fmax(0, b.squares / (double)b.steps - loss * loss));
    unsigned bit = 0;

    h->block = (struct tft_health_block){ 0 };
    if (!h->blocks)
        h->first_norm = h->norm_min = norm;
    else
        bit = judge_gradients(h, step, loss, norm);
    keep_loss(h, loss, noise);
    h->norm_min = fmin(h->norm_min, norm);
    h->blocks++;
    if (!bit)
        bit = judge_progress(h, step);
    if (bit || !(b.seconds > 0))
        return bit;
    return judge_time(h, b.waiting / b.seconds, b.gathering / b.seconds);
}

unsigned tft_health_take_step(struct tft_health *h, const struct tft_health_step *s)
{
    struct tft_health_block *b = &h->block;

    if (h->early < EARLY_STEPS) {
        h->early_loss += s->loss;
        h->early++;
    }
    b->steps++;
    b->loss += s->loss;
    b->squares += s->loss * s->loss;
    b->log_norm += log(fmax(s->norm, 1e-300));
    b->seconds += s->seconds;
    b->waiting += s->waiting;
    b->gathering += s->gathering;
    return b->steps == TFT_HEALTH_BLOCK ? end_block(h, s->step) : 0;
}

unsigned tft_health_take_evaluation(struct tft_health *h, uint64_t step, double train_loss, double valid_loss)
{
    if (!h->evaluated || valid_loss < h->lowest) {
        h->evaluated = 1;
        h->lowest = valid_loss;
        h->lowest_train = train_loss;
        h->lowest_step = step;
        h->above = 0;
        return 0;
    }
    int is_above = valid_loss > tft_loss_times(h->kind, h->lowest, overfitting) && train_loss < h->lowest_train;
    h->above = is_above ? h->above + 1 : 0;
    if (h->above < EVALUATIONS_ABOVE)
        return 0;
    return speak(h, TFT_HEALTH_OVERFITTING,
                 "overfitting: since step %" PRIu64 " the validation loss rose from %.4g to %.4g while the training "
                 "loss fell from %.4g to %.4g; the parameters of that step are kept; more dropout, a smaller "
                 "hidden_size or a lower patience helps",
                 h->lowest_step, h->lowest, valid_loss, h->lowest_train, train_loss);
}

unsigned tft_health_take_dead_input(struct tft_health *h, const char *input)
{
    return speak(h, TFT_HEALTH_DEAD_INPUT,
                 "dead input: in %d steps no gradient has reached '%s': it has one value in the training span, or "
                 "none; leave it out of the schema",
                 TFT_HEALTH_BLOCK, input);
}
