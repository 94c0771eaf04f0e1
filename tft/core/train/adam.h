/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam as in tf.keras, with the published clipping: per tensor, of the published model's own tensors.
 *
 *   lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t);  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *   p   -= lr_t m / (sqrt(v) + epsilon) + lr decay p           decay: 0 but for kernels
 *
 * Clipping multiplies a gradient by clip / norm where norm > clip; norm is of that tensor (TFT_CLIP_TENSOR) or of all
 * living tensors together (TFT_CLIP_GLOBAL). Sums of squares are in double and in a fixed order: the same bits for any
 * number of threads. Dead parameters are left alone.
 *
 * A table with a sparse gradient is updated lazily: rows that no sample of the step touched keep value and moments; the
 * others are updated as above, with this step's t.
 */
#ifndef HALAY_TFT_ADAM_H
#define HALAY_TFT_ADAM_H

#include "base/memory.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/kernels/threads.h"
#include "tft/core/model/params.h"

enum tft_clip { TFT_CLIP_TENSOR, TFT_CLIP_GLOBAL };

struct tft_adam {
    struct halay_log *log; /* borrowed; NULL: none */
    double learning_rate, beta1, beta2, epsilon;
    double weight_decay; /* decoupled (AdamW), of tensors that decay; 0: Adam */
    double clip;
    enum tft_clip clip_mode;
    uint64_t step;                 /* updates done; part of the optimizer's state, with m and v */
    real *m, *v;                   /* blocks like the parameters'; borrowed, zero at the start */
    const struct kernels *kernels; /* of the device where all blocks lie; NULL: the processor */
    struct queue *queue;           /* borrowed: the device's, whose work an update follows; NULL: its own */
    /* Owned, empty until the first step: */
    struct halay_region lists; /* squares and queues */
    double *squares;           /* each tensor's sum of squares in the current step; 0 of dead ones */
    double *d_squares;         /* the same on the device */
    struct chunks chunks;      /* of a device that takes all tensors at once; else none */
    struct queue **queues;     /* (queue_count): one for each thread of the pool, the same in all steps */
    int queue_count;
};

/* All zero but beta .9 and .999, epsilon 1e-7, learning rate 1e-3, clip .01 per tensor. The caller sets m and v. */
void tft_adam_defaults(struct tft_adam *adam);
void tft_adam_fini(struct tft_adam *adam); /* frees what the steps made; m and v are the caller's */

/* An update's calls for other ranks; any member may be NULL. Errors end the update with that status, some parameters
 * updated and some not (the job is lost). */
struct tft_adam_peers {
    /* Called for each living parameter, from any thread, last layers first, before its gradient is read:
     * blocks until the sum over the ranks is there, for what the queue gets from then on. */
    enum halay_status (*wait)(void *arg, struct queue *queue, size_t param);
    /* A sparse gradient of every rank, one after the other, after `wait`; the first becomes their sum. Returns how many
     * there are; 1: only this rank's, which is in its block. */
    size_t (*slots)(void *arg, size_t param, real **slots);
    void *arg;
};

/*
 * One update of all living parameters on the pool's threads. peers: NULL for a single rank. *norm (may be NULL): the
 * norm of all living gradients before clipping. If it is not finite the parameters it touches become so: the caller
 * checks.
 */
enum halay_status tft_adam_step(struct tft_adam *adam, struct tft_pool *pool, const struct tft_param_table *table,
                                real *params, const real *gradients, const struct tft_adam_peers *peers, double *norm);

#endif
