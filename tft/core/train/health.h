/* SPDX-License-Identifier: Apache-2.0
 *
 * Health: what a training's own numbers say about it, in words. Rank 0 feeds each step and each evaluation; a rule
 * speaks at most once.
 *
 * Steps are judged in blocks of TFT_HEALTH_BLOCK: single ones are noise. A block has its mean loss, the geometric mean
 * of its gradients' norms (before clipping), and shares of its time. The rules, whose thresholds are far from what
 * healthy trainings show:
 *
 *   exploding      the norm is ten times the lowest block's, and the loss twice the lowest block's
 *   vanishing      the norm is a thousandth of the first block's, and the loss still half of the first block's
 *   stalled        after 6 blocks none has a mean loss below that of the first 10 steps by 2 %, or by twice its
 *                  standard error if that is more; nor are the latest 3 below the first 3 by twice theirs. Noise is
 *                  that of the block with the lowest loss: the first steps' own is mostly their fall
 *   overfitting    three evaluations in a row have a validation loss 10 % above the lowest, while the training loss is
 *                  below what it was there
 *   dead input     no gradient has reached an input's embedding since the start
 *   communication  a third of a block's time went into waiting for other ranks
 *   input          a third of a block's time went into putting batches together
 *
 * The first four say that training on is of no use; the others that something is wasted.
 */
#ifndef HALAY_TFT_HEALTH_H
#define HALAY_TFT_HEALTH_H

#include "tft/core/kernels/loss.h"
#include <stddef.h>
#include <stdint.h>

enum { TFT_HEALTH_BLOCK = 50, TFT_HEALTH_TREND = 3 };

enum tft_health_rule {
    TFT_HEALTH_EXPLODING,
    TFT_HEALTH_VANISHING,
    TFT_HEALTH_STALLED,
    TFT_HEALTH_OVERFITTING,
    TFT_HEALTH_DEAD_INPUT,
    TFT_HEALTH_COMMUNICATION,
    TFT_HEALTH_INPUT,
    TFT_HEALTH_RULES
};

struct tft_health_step {
    uint64_t step;
    double loss, norm;                  /* of all gradients this rank updates, before clipping */
    double seconds, waiting, gathering; /* of the step: wall clock; a thread's mean for other ranks, for batches */
};

struct tft_health_evaluation {
    uint64_t step;
    double train_loss, valid_loss;
};

/* Zero-initialise, and set the kind. */
struct tft_health {
    enum tft_loss kind; /* of the losses */
    unsigned said;      /* bits: rules that spoke */
    /* the block so far */
    size_t steps;
    double loss, squares, log_norm, seconds, waiting, gathering;
    /* since the start of the process */
    size_t blocks, early;
    double early_loss;                                        /* sum of the first steps */
    double first[TFT_HEALTH_TREND], latest[TFT_HEALTH_TREND]; /* blocks' mean losses; these in any order */
    double first_norm, least_norm, least_loss;
    double noise; /* standard deviation of the steps' losses in the block with the least */
    /* evaluations */
    int evaluated, above;
    double lowest, lowest_train;
    uint64_t lowest_step;
};

/* The word of a rule ("overfitting"). */
const char *tft_health_word(enum tft_health_rule rule);

/* Take a step. A rule that speaks: its bit, with what it saw and what helps in text; else 0. */
unsigned tft_health_take_step(struct tft_health *health, const struct tft_health_step *step, char *text, size_t size);
/* Take an evaluation with validation. */
unsigned tft_health_take_evaluation(struct tft_health *health, const struct tft_health_evaluation *evaluation,
                                    char *text, size_t size);
/* Was that step the last of a block? */
static inline int tft_health_ends_block(const struct tft_health *health)
{
    return health->steps == 0 && health->blocks > 0;
}
/* An input that no gradient has reached. */
unsigned tft_health_take_dead_input(struct tft_health *health, const char *input, char *text, size_t size);

#endif
