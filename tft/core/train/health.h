/* SPDX-License-Identifier: Apache-2.0
 *
 * Health: warnings that follow from a training's own numbers. Rank 0 feeds each step and each evaluation; a rule speaks
 * at most once.
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
 * After the first four more training is of no use; the others mean that something is wasted.
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

/* The steps of a block so far: sums. */
struct tft_health_block {
    size_t steps;
    double loss, squares, log_norm, seconds, waiting, gathering;
};

/* Zero-initialise, and set the kind. */
struct tft_health {
    enum tft_loss kind; /* of the losses */
    unsigned spoken;    /* bits: rules that spoke */
    char text[512];     /* of the last that spoke: what it saw and what helps */
    struct tft_health_block block;
    /* since the start of the process */
    size_t blocks, early;
    double early_loss;                                        /* sum of the first steps */
    double first[TFT_HEALTH_TREND], latest[TFT_HEALTH_TREND]; /* blocks' mean losses; these in any order */
    double first_norm, norm_min, loss_min;
    double noise; /* standard deviation of the steps' losses in the block with the lowest */
    /* evaluations */
    int evaluated, above;
    double lowest, lowest_train;
    uint64_t lowest_step;
};

/* Returns the name of a rule ("overfitting"). */
const char *tft_health_name(enum tft_health_rule rule);

/* Each takes numbers, and returns the bit of a rule that speaks, whose text is then in the struct; else 0. */
unsigned tft_health_take_step(struct tft_health *health, const struct tft_health_step *step);
/* Takes an evaluation with validation. */
unsigned tft_health_take_evaluation(struct tft_health *health, uint64_t step, double train_loss, double valid_loss);
/* Takes an input that no gradient has reached. */
unsigned tft_health_take_dead_input(struct tft_health *health, const char *input);
/* Returns nonzero if the last step ended a block. */
static inline int tft_health_ends_block(const struct tft_health *health)
{
    return health->block.steps == 0 && health->blocks > 0;
}

#endif
