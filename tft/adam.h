/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam as tf.keras has it, with the published clipping: per tensor, of the published model's own tensors.
 *
 *   lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t);  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *   p   -= lr_t m / (sqrt(v) + epsilon) + lr decay p
 *
 * Clipping multiplies a gradient by clip / norm where norm > clip; norm is of that tensor (TFT_CLIP_TENSOR) or of all
 * living tensors together (TFT_CLIP_GLOBAL). Sums of squares are in double and in a fixed order: the same bits for any
 * number of threads. Dead parameters are left alone.
 */
#ifndef TFT_ADAM_H
#define TFT_ADAM_H

#include "tft/params.h"
#include "tft/threads.h"

enum tft_clip { TFT_CLIP_NONE, TFT_CLIP_TENSOR, TFT_CLIP_GLOBAL };

struct tft_adam {
    double learning_rate, beta1, beta2, epsilon;
    double weight_decay; /* decoupled (AdamW); 0: Adam */
    double clip;
    enum tft_clip clip_mode;
    uint64_t step;   /* updates done; part of the optimizer's state, with m and v */
    real *m, *v;     /* blocks like the parameters'; borrowed, zero at the start */
    double *squares; /* owned: each tensor's sum of squares in the current step; NULL until the first */
};

/* All zero but beta .9 and .999, epsilon 1e-7, learning rate 1e-3, clip .01 per tensor. The caller sets m and v. */
void tft_adam_defaults(struct tft_adam *adam);
void tft_adam_fini(struct tft_adam *adam); /* frees what the steps made; m and v are the caller's */

/*
 * One update of all living parameters on the pool's threads. wait (may be NULL) is called for each living parameter,
 * from any thread, last layers first, before its gradient is read: it blocks until the all-reduced gradient is there;
 * an error ends the update with that status, some parameters updated and some not (the job is lost). *norm (may be
 * NULL): the norm of all living gradients before clipping. If it is not finite the parameters it touches become so: the
 * caller checks.
 */
enum halay_status tft_adam_step(struct tft_adam *adam, struct tft_pool *pool, const struct tft_param_table *table,
                                real *params, const real *gradients, enum halay_status (*wait)(void *arg, size_t param),
                                void *wait_arg, double *norm);

#endif
