/* SPDX-License-Identifier: Apache-2.0
 *
 * The Temporal Fusion Transformer as published (arXiv 1912.09363 and its code), or as another implementation has it
 * (tft.h: conformance), forward and backward, on the CPU.
 *
 * Concepts. A *model* is immutable once created: dimensions, the table of parameters, the places of its layers; threads
 * share it. A *workspace* is one thread's arena for one granule of samples; nothing is allocated after it is created. A
 * granule's gradient is computed alone, on one thread. tft/core/model/gradients.h adds granules, and is what a trainer
 * calls; this header is one level below.
 *
 * Errors. enum halay_status, one line in the log from the function that finds the cause. Threads: a workspace belongs
 * to one thread at a time; the rest is read only.
 */
#ifndef HALAY_TFT_MODEL_H
#define HALAY_TFT_MODEL_H

#include "base/log.h"
#include "tft/core/model/params.h"
#include "tft/core/model/tft.h"

struct kernels;
struct queue;
struct tft_model;
struct tft_workspace;

/* The samples of one granule. The arrays belong to the workspace, have room for config.granule samples and are filled
 * by the trainer's callback; a kind of input that the model lacks has zero columns. */
struct tft_batch {
    size_t B;             /* samples, 1 to config.granule; set by the caller of the callback, may not be changed */
    uint64_t position;    /* of the first one in the global batch */
    real *reals;          /* (B, T, reals) scaled; a target's columns in the decoder part are never read */
    int32_t *cats;        /* (B, T, cats) codes; observed categories in the decoder part are never read */
    real *static_reals;   /* (B, static reals) */
    int32_t *static_cats; /* (B, static categories) */
    real *targets;        /* (B, D, O) for the loss: of quantiles and points (y - offset) / unit, of distributions y */
    real *weights;        /* (B, D, O) 1, or 0 for a masked target; training only; set to 1 before the callback */
    real *offsets;        /* (B, D, O) and (B, O): what makes forecasts of the model's numbers, offset + unit * number
                             or by tft/core/kernels/loss.h; set to 0 and 1 before the callback */
    real *units;
    size_t *lengths; /* (B) steps of history, 1 to E; set to E before the callback. A shorter one fills the encoder
                             part's end; the steps before it are never read. */
    /* On a device with memory of its own: what it computes with, and whether the callback has filled that by calls
     * on queue, all but lengths. Otherwise NULL. */
    struct queue *queue;
    const struct tft_batch *there;
    int is_there; /* set to 0 before the callback */
};

/* The columns of the arrays of a batch. */
struct tft_columns {
    size_t reals, cats, static_reals, static_cats, targets;
};

/* Check the configuration and lay out the model. config is copied. Errors: HALAY_ERR_ARGUMENT (logged: what would be
 * right), HALAY_ERR_UNSUPPORTED (no bf16 products here), HALAY_ERR_NO_MEMORY. */
enum halay_status tft_model_create(struct halay_log *log, const struct tft_model_config *config,
                                   struct tft_model **model);
void tft_model_destroy(struct tft_model *model); /* NULL is allowed */

const struct tft_model_config *tft_model_config(const struct tft_model *model);
const struct tft_columns *tft_model_columns(const struct tft_model *model);
/* The table: params[0 .. count), in the order of forward; reals of a block. Borrowed from the model. */
const struct tft_param_table *tft_model_params(const struct tft_model *model);
/* Values in all parameters, dead ones included (the number that papers give). A block may be larger. */
size_t tft_model_param_count(const struct tft_model *model);
/* The device that computes: parameters, gradients and all that a workspace has are in its memory. */
const struct kernels *tft_model_kernels(const struct tft_model *model);
/* The factor of the loss: pytorch-forecasting's is a multiple of the published one. */
double tft_model_loss_factor(const struct tft_model *model);

/* ---- one granule on one thread ---------------------------------------------------------------------------------- */

/* Layers whose time is kept; names for reports by tft_part_name. */
enum tft_part {
    TFT_PART_INPUT,
    TFT_PART_STATIC,
    TFT_PART_HISTORY,
    TFT_PART_FUTURE,
    TFT_PART_LSTM,
    TFT_PART_GATE,
    TFT_PART_ENRICHMENT,
    TFT_PART_ATTENTION,
    TFT_PART_TAIL,
    TFT_PART_LOSS,
    TFT_PART_SUM,
    TFT_PART_COUNT
};
const char *tft_part_name(enum tft_part part);

/* The inputs of a forward or backward pass besides the samples. */
struct tft_pass {
    const real *params;  /* the block */
    uint64_t version;    /* while it is the same, so are the values of params, and what a workspace made of them in an
                            earlier pass is used again; 0: they may be others each time */
    uint32_t seed, step; /* of dropout: the run's seed, the optimizer's step */
    double loss_scale; /* the loss is the sum over unmasked targets (and quantiles) times this: 1 / (number of unmasked
                            targets in the global batch) */
    /* Called once for each living parameter, last layers first, when this granule's gradient of it is complete; NULL:
     * not wanted. */
    void (*final)(void *arg, size_t param);
    void *arg;
    int repeats; /* a device may record the pass and repeat it: `final` is then called while it is recorded only, and
                    what it does in every pass it gives to kernel_pass_call */
};

enum halay_status tft_workspace_create(struct halay_log *log, const struct tft_model *model,
                                       struct tft_workspace **out);
void tft_workspace_destroy(struct tft_workspace *workspace);        /* NULL is allowed */
struct queue *tft_workspace_queue(struct tft_workspace *workspace); /* what it computes on */
/* The batch to fill: its arrays are the workspace's. Sets B, position, and weights to 1. */
struct tft_batch *tft_workspace_batch(struct tft_workspace *workspace, size_t B, uint64_t position);
/* Seconds spent in each part since the workspace was created. */
const double *tft_workspace_seconds(const struct tft_workspace *workspace);
/* Checks the filled batch: HALAY_ERR_ARGUMENT (logged) for a code outside its embedding or a length outside 1 to E. */
enum halay_status tft_workspace_check(struct tft_workspace *workspace);

/* Forward and backward of the filled batch with dropout; *loss is the granule's part of the scaled loss, once the next
 * kernel_to_host of the workspace's queue has returned (on the processor at once). Every living
 * parameter's gradient is *written* to its place in `gradients`. */
void tft_model_gradient(struct tft_workspace *workspace, const struct tft_pass *pass, real *gradients, double *loss);

/* Forward without dropout. *predictions: (B, D, O, P), of which tft_outputs_forecast makes forecasts, in the workspace
 * until its next use; *loss (may be NULL): sum over unmasked targets (and quantiles), times pass->loss_scale (needs
 * targets). */
void tft_model_predict(struct tft_workspace *workspace, const struct tft_pass *pass, const real **predictions,
                       double *loss);

/* Arrays for what a forecast weighed; NULL: not wanted. The variables of a selection are in its order
 * (tft_config_choice); a variable that is alone weighs 1. What the padding before a shorter history weighs means
 * nothing, and no attention goes there. */
struct tft_weights {
    real *statics;   /* (B, static variables) sums to 1 */
    real *history;   /* (B, E, variables of the past) each step sums to 1 */
    real *future;    /* (B, D, known variables) each step sums to 1 */
    real *attention; /* (B, heads, D, E + D) of each step of the horizon to each step of the window; sums to 1 */
};
/* After tft_model_predict, until the workspace's next use. */
void tft_workspace_weights(const struct tft_workspace *workspace, const struct tft_weights *weights);

#endif
