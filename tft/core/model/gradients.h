/* SPDX-License-Identifier: Apache-2.0
 *
 * A training step and a forward pass over granules, on all threads; sums in the order of one tree.
 *
 * Order of sums. The global batch is cut into granules of config.granule samples by position; granules are added along
 * one binary tree over their numbers, cut at the largest power of two below n. A rank holds a subtree
 * (tft_granules_of_rank), and the all-reduce over ranks continues the same tree. Threads take granules one by one; for
 * each parameter, the thread that finishes the second of two neighbours adds them (the left one first), so that the
 * sums are the same whatever the number of threads and their pace. A rank without granules contributes negative zeros,
 * which change no sum's bits.
 *
 *        0..7                  6 granules: 0..5
 *      /      \                          /      \
 *    0..3    4..7                      0..3     4..5
 *    /  \    /  \                      /  \     /  \
 *   01  23  45  67                    01  23   4    5
 *
 * Gradient accumulation is one larger global batch: give all its samples to one step. Granules bound the memory.
 */
#ifndef HALAY_TFT_GRADIENTS_H
#define HALAY_TFT_GRADIENTS_H

#include "tft/core/kernels/threads.h"
#include "tft/core/model/model.h"

/* The granules of a rank: [*first, *first + *count) of n. exact nonzero (deterministic: ranks): the tree's subtree at
 * depth log2(ranks), which needs a power of two (HALAY_ERR_ARGUMENT otherwise); zero: shares as even as possible. count
 * may be 0. */
enum halay_status tft_granules_of_rank(size_t n, int rank, int ranks, int exact, size_t *first, size_t *count);

/* Fill one granule: batch->B samples from batch->position on. Called from any of the threads, several at once; thread
 * is 0 to threads - 1. An error ends the step with that status. */
typedef enum halay_status (*tft_fill)(void *arg, int thread, struct tft_batch *batch);

struct tft_workers; /* workspaces and gradient blocks of the threads */

/* pool is borrowed until destroy. granules: the most granules that one step of this rank will have. */
enum halay_status tft_workers_create(struct halay_log *log, const struct tft_model *model, struct tft_pool *pool,
                                     size_t granules, struct tft_workers **out);
void tft_workers_destroy(struct tft_workers *workers); /* NULL is allowed */

struct tft_step {
    const real *params; /* the device's, as gradients */
    real *gradients;    /* the block to write; reduced in place by the engine later; dead places are untouched */
    uint32_t seed, step;
    size_t samples;      /* in the global batch */
    size_t first, count; /* this rank's granules */
    double loss_scale;   /* 1 / unmasked targets in the global batch */
    tft_fill fill;
    void *fill_arg;
    /* Called exactly once for each living parameter, last layers first, from whichever thread finished its sum, as soon
     * as gradients holds it: submit it there. With no granules: for each, from the caller's thread. After an error not
     * called for unfinished ones. */
    void (*final)(void *arg, size_t param);
    void *final_arg;
};

/* Run a step; blocks until all local sums are done. *loss: this rank's part of the global batch's mean loss (the parts
 * of the ranks add up to it); NULL: a device is not waited for, and tft_step_loss returns it once a kernel_to_host of
 * the workers' queue has returned, as that of an update there. The calling thread is thread 0. */
enum halay_status tft_step_run(struct tft_workers *workers, const struct tft_step *step, double *loss);
double tft_step_loss(const struct tft_workers *workers);

struct tft_forward {
    const real *params; /* the host's; they are brought to the device */
    int is_unchanged;   /* nonzero: the last call with these params, if any, had the same numbers there */
    size_t samples;     /* [0, samples) are evaluated, in granules by position */
    tft_fill fill;      /* fill targets and weights too if loss is wanted */
    void *fill_arg;
    /* Takes what the model computed for one granule, predictions (B, D, O, P) (tft/core/model/outputs.h); from any
     * thread, in any order. loss: sum over its unmasked targets and quantiles (not a mean), 0 if !with_loss. */
    enum halay_status (*take)(void *arg, int thread, const struct tft_batch *batch, const real *predictions,
                              double loss);
    void *take_arg;
    int with_loss;
};
enum halay_status tft_forward_run(struct tft_workers *workers, const struct tft_forward *forward);
/* Returns the queue of the first thread; between steps it is the caller's. */
struct queue *tft_workers_queue(const struct tft_workers *workers);
/* A thread's workspace, which holds the granule that `take` was called for: for tft_workspace_weights. */
const struct tft_workspace *tft_workers_workspace(const struct tft_workers *workers, int thread);

/* Seconds of all threads in each part, since creation. (TFT_PART_COUNT) */
void tft_workers_seconds(const struct tft_workers *workers, double *seconds);

#endif
