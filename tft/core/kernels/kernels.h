/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all functions that touch the model's memory. The layers compose its members and never look at a number;
 * another device is another table. This header is all that an implementer needs; callers go through
 * tft/core/kernels/call.h, which asserts its rules.
 *
 * Memory. `alloc` returns memory of the device. Every pointer that a member takes points into such memory, unless it is
 * documented as the host's; the host computes addresses in it and dereferences none. Structs of arguments are the
 * host's and read before the member returns.
 *
 * Queues. Members run on a queue, in the order of the calls. A call may return before its work is done; `to_host` waits
 * for all before it. A queue belongs to one thread at a time; different queues run beside each other. Nothing is
 * allocated and nothing fails after a queue is open: members return void, and the queue keeps a device's own error
 * (`failure`); `to_host` then copies NaN. Members write no log: tft/core/kernels/queue.h does.
 *
 * Shapes. Arrays are row-major and dense, with the letters of tft/core/model/tft.h; (R, W) is R rows of W numbers. Rows
 * of a window are time-major, of B samples: row r belongs to sample r mod B. No count is 0, unless documented.
 *
 * Aliasing. An argument that is written overlaps no other one, except where a member is documented as "in place".
 *
 * Sums. The same call gives the same bits each time, on any queue. The order inside is the device's; where a test
 * compares devices, it allows for that. A sum over rows with `add` is added to what is there, and otherwise written; a
 * sum over several calls is that of their rows, in order.
 *
 * Numbers are `real` (tft/core/kernels/real.h); double only where documented. On a queue with `narrow`, activations and
 * their gradients are in bf16 (tft/core/kernels/narrow.h), and each is rounded when it is stored. Those of a call are
 * all narrow, or none is; `copy`, `swap`, products, the row of `rows_add` and `rows_fill`, and gate_norm_backward's d_v
 * and d_g are as they are; the table of `rows_take` is real. Never narrow are parameters and their gradients, inputs, a
 * selection's weights, norms' inverse, an LSTM's c, attention's a, and what the loss reads and writes.
 */
#ifndef HALAY_TFT_KERNELS_H
#define HALAY_TFT_KERNELS_H

#include "tft/core/kernels/dropout.h"
#include "tft/core/kernels/gemm.h"
#include "tft/core/kernels/loss.h"
#include "tft/core/kernels/narrow.h"
#include "tft/core/kernels/real.h"
#include "tft/core/kernels/sparse.h"
#include <stddef.h>
#include <stdint.h>

/* A device's own; begins with struct queue_head. */
struct queue;

struct queue_head {
    const struct kernels *kernels;
    int narrow;        /* activations are stored in bf16 */
    char warning[160]; /* that is not logged yet; empty: none */
};

static inline const struct kernels *kernels_of(const struct queue *queue)
{
    return ((const struct queue_head *)(const void *)queue)->kernels;
}

static inline int narrow_of(const struct queue *queue)
{
    return ((const struct queue_head *)(const void *)queue)->narrow;
}

/* Requirements of a queue. All zero: products of reals, nothing kept. */
struct queue_needs {
    int bf16;       /* products round their factors to bf16 (to nearest, ties to even) and add in f32; a queue may
                       have narrow activations then */
    int tf32;       /* they may round them to tf32, 10 bits of fraction: tensor cores do, a processor does not */
    size_t params;  /* reals of the block of parameters */
    size_t folded;  /* reals of what forecasts make of them, see `begin` */
    size_t factors; /* reals of all second factors among these, each counted once for every form that is used:
                       plain, transposed */
    size_t inputs;  /* reals of these, the first ones, that are embeddings: activations are not multiplied by them; a
                       multiple of TFT_ALIGNMENT */
    size_t others;  /* reals of the largest factors of a product other than these and activations */
};

/* (M, N) = or += op(A) op(B) [+ bias], tft/core/kernels/gemm.h. */
struct product {
    struct matrix a, b;
    size_t M, N, K;                 /* K may be 0 */
    struct target to;               /* overlaps neither factor */
    const real *bias;               /* (N), added to each row at the end; to's rows are then neighbours. NULL: none */
    int exact;                      /* factors are not rounded */
    size_t batch;                   /* products of one shape; 0 counts as 1. Steps of 0 share a factor */
    size_t step_a, step_b, step_to; /* reals from one product's first element to the next one's */
};

/* Rows of a site, for which a mask is drawn: tft/core/kernels/dropout.h. */
struct masked_rows {
    struct dropout dropout; /* threshold 0: no dropout, and keep is not used */
    struct site site;
    size_t row, R, B, W; /* the window's row of the first, how many, samples, width */
};

/* y = layer norm of each row: xhat = (y - mean) / sqrt(variance + epsilon), z = gamma xhat + beta. */
struct norm {
    size_t R, W;
    real epsilon;
    const real *gamma, *beta; /* (W) */
};

struct norm_backward {
    size_t R, W;
    int add;
    const real *xhat, *inverse; /* (R, W), (R) */
    const real *gamma;          /* (W) */
    real *d_gamma, *d_beta;     /* (W), sums over rows */
    real *d_z;                  /* (R, W): in place, becomes d_y */
};

/* The end of a GLU, from its two products without bias: y = skip + (v + bias_v) sigmoid(s + bias_g), y's layer norm,
 * and a selection's sum of it. */
struct gate_norm {
    struct norm norm;            /* of R rows, W wide, as all that follows */
    const real *bias_v, *bias_g; /* (W) */
    const real *skip;            /* (R, W) */
    real *v, *s;                 /* (R, W), in place: become what the same device's backward reads */
    real *xhat, *inverse;        /* (R, W), (R) */
    real *z;                     /* (R, W); NULL: not wanted */
    const real *weights;         /* as in struct weighted, with V; NULL: no sum */
    size_t V;
    int add;
    real *sum; /* (R, W) = or += weights z */
};

/* d_v = d_y s;  d_g = d_y v s (1 - s);  and the rows' sums of both. d_y is also the gradient of skip. */
struct gate_norm_backward {
    struct norm_backward norm;   /* d_z is written first where there is a sum */
    const real *bias_v, *bias_g; /* (W), as forward had them */
    const real *v, *s;           /* (R, W), as forward left them */
    real *d_v, *d_g;             /* (R, W) */
    real *sum_v, *sum_g;         /* (W) */
    const real *weights;         /* as forward had them, with V; NULL: no sum, and not what follows */
    size_t V;
    const real *beta;  /* (W) */
    const real *d_sum; /* (R, W) */
    real *d_weights;   /* d_weights[r V] = the sum of d_sum z */
};

/* A variable's rows z = gamma xhat + beta in a selection, and their column of the weights. */
struct weighted {
    size_t R, W, V;
    const real *weights;             /* (R, V), from the variable's column on: row r's is weights[r V] */
    const real *xhat, *gamma, *beta; /* (R, W), (W), (W) */
};

/* Steps of an LSTM, all of them or some. h and c have B rows more than steps: the first B are the initial state, so
 * that row t B + b is the state before step t. Gates stand in the order i, f, g, o. */
struct lstm_run {
    size_t S, B, H;
    size_t first;          /* steps before these, for padding */
    const size_t *padding; /* (B): how many of a sample's first steps do not exist; NULL: all exist. They leave the
                              state as it is, whatever is in their rows */
    const real *u;         /* (H, 4 H): the recurrent weights */
    real *gates;           /* (S B, 4 H) */
    real *h, *c;           /* ((S + 1) B, H) */
};

struct lstm_gradient {
    const real *d_out; /* (S B, H): of h after each step, from above; 0 for steps that do not exist */
    real *d_h, *d_c;   /* (B, H): in, of the last state from what follows; out, of the initial state */
    int goes_on;       /* the last call was that of the steps after these, and left scratch as it is */
    real *scratch;     /* lstm_scratch(S, B, H) reals */
};

/*
 * Causal attention of heads that share their values. Query n of N, which are the last of T steps, sees the steps
 * padding .. T - N + n - strict; its result is zeros if that range is empty.
 *
 *   a = softmax(q k^T / sqrt(d)), heads apart;   mean = mean over heads of dropout(a v)
 */
struct attention_run {
    size_t B, T, N, heads, d;
    int strict;            /* 1: a step does not see itself (N < T), else 0 */
    int mean_first;        /* without dropout the mean may be taken of a, before the one product with v */
    const size_t *padding; /* (B), or NULL: none */
    struct dropout dropout;
    struct site site;  /* rows (t) of heads d elements */
    const real *q, *k; /* (N B, heads d), (T B, heads d) */
    const real *v;     /* (T B, d) */
    real *a;           /* (B, heads, N, T) */
    uint8_t *keep;     /* (B, heads, N, d): the mask; not used without dropout */
    real *scratch;     /* attention_scratch(B, T, N, heads, d) reals */
};

struct attention_gradient {
    const real *d_mean;    /* (N B, d) */
    real *d_q, *d_k, *d_v; /* shaped like q, k, v */
};

/* The last layer's output, P numbers for each target, and its loss (tft/core/kernels/loss.h), times the target's
 * weight. That of quantiles (TFT equations 24 and 25) is q max(y - p, 0) + (1 - q) max(p - y, 0); at p = y the slope is
 * 0, between -q and 1 - q, and so is mae's. Where the weight is 0, y may be anything, also NaN. */
struct outputs_run {
    size_t D, B, P, O;
    enum tft_loss loss;
    const double *quantiles; /* (P), the host's; quantiles only */
    double power;            /* tweedie only */
    double scale;
    const real *p;               /* (D B, P O): column k O + o */
    const real *y, *w;           /* (B, D, O): samples first */
    const real *offsets, *units; /* (B, D, O) and (B, O); distributions only */
};

/* Returns a target's loss, of points and distributions, and sets its slopes along the P numbers o. (likelihood.c) */
TFT_ANYWHERE double tft_target_loss(const struct outputs_run *run, size_t target, size_t unit, const double *o,
                                    double *slopes);

/* Reals of p. */
static inline size_t outputs_reals(const struct outputs_run *run)
{
    return run->D * run->B * run->P * run->O;
}

/* Rows of data that lie on the device (tft/core/run/resident.h): all windows are cut from them. */
struct windows_data {
    size_t E, D, O;                           /* steps of a window, targets: the last O reals */
    size_t reals, cats, statics, static_cats; /* columns */
    const real *values;                       /* (rows, reals) */
    const int32_t *codes;                     /* (rows, cats) */
    const real *static_values;                /* (entities, statics) */
    const int32_t *static_codes;              /* (entities, static_cats) */
    const real *weights;                      /* (rows, O): 0 where the target was not measured */
};
struct window_place {
    uint64_t row; /* the window's first */
    uint32_t length, entity;
    uint32_t patch, patches; /* its first patch, and how many */
};
/* Values that replace the data's in a window's rows [from, to) of E + D. */
enum window_array { WINDOW_REALS, WINDOW_CODES, WINDOW_STATIC_CODES };
struct window_patch {
    uint32_t array, column, from, to;
    real value;
    int32_t code;
};
/*
 * Windows to cut, and how they are scaled (tft/core/run/batches.h). The device's memory, as all that follows.
 * scaled_by (reals): the column by whose mean and spread in the window a column is scaled; -1: it is not.
 * The reals, codes, static ones, targets, weights, offsets and units are those of struct tft_batch
 * (tft/core/model/model.h); steps before a shorter window stay as they are.
 */
struct windows_run {
    const struct windows_data *data; /* the host's struct */
    size_t B;
    const struct window_place *places;  /* (B) */
    const struct window_patch *patches; /* as many as the places say */
    int scales;                         /* 0: nothing is scaled, and the next two are not read */
    real spread_least;
    const int32_t *scaled_by;
    real *reals, *static_reals, *targets, *weights, *offsets, *units;
    int32_t *cats, *static_cats;
};

/* A column of a batch, samples first, to a variable's rows, time-major. */
struct column {
    size_t B, steps, columns, column;
    const size_t *padding; /* (B): the number of first steps that become 0; NULL: none */
};

/* A variable's rows: reals or codes (the other is NULL). */
struct shared_input {
    real *x;        /* (R) */
    int32_t *codes; /* (R) */
};

/* Rows to find equal ones among. */
struct shared_rows {
    size_t R, V;
    const struct shared_input *inputs; /* (V), the host's */
    int32_t *places;                   /* (R): codes for rows_take */
    size_t *slots;                     /* (shared_rows_slots(R)) */
};

/* An update by Adam (tft/core/train/adam.h). The gradient is multiplied by clip / norm where the norm, of the squares
 * added up in order, is above clip; a NaN norm clips nothing. squares NULL: no clipping. */
struct adam_run {
    double beta1, beta2, epsilon;
    double rate, decay; /* of this step; learning rate times weight decay */
    double clip;
    const double *squares; /* (count) */
    size_t count;
};

/* A part of a tensor, at the same place in the blocks of parameters, gradients and moments. */
struct chunk {
    size_t tensor, at, n;
    size_t chunks; /* of the tensor, consecutive, if this is its first one; else 0 */
    int decays;    /* whether adam_run.decay is for it */
};

/* All tensors of a block that this rank updates. */
struct chunks {
    const struct chunk *all; /* (count), the device's, as the next */
    double *partial;         /* (count) */
    size_t count, reals;     /* reals: of all of them */
};

/* The values that differ between training passes of the same key, which otherwise make the same calls. */
struct pass_values {
    uint32_t seed, step; /* of dropout, as in struct dropout, with the next */
    uint64_t position;
    double scale; /* of the loss */
};
struct pass_key {
    const real *params, *gradients;
    size_t B;
    int padded; /* some samples have less history than others */
    int calls;  /* the host is called between launches (pass_call) */
};

/* A list without its brackets. */
#define KERNEL_LIST(...) __VA_ARGS__

/* A device: what it is, its memory and queues, and its kernels. */
struct kernels {
    const char *name;    /* "cpu" */
    size_t block_rows;   /* rows that one layer after the other works on, so that what one wrote is near for the next;
                           SIZE_MAX: all at once */
    size_t granule_most; /* samples of a granule */
    int host_memory;     /* the host may read and write the device's memory: a batch is then not copied */

    int (*has_bf16)(void);   /* whether products can round their factors */
    void (*use)(int number); /* the calling thread works with this device from now on; each thread's first call */
    /* Bytes of its memory that are free, and all; of the processor's nothing is known: both 0. */
    void (*room)(size_t *free, size_t *all);

    /* ---- memory and queues; alloc and open may be called from any thread ------------------------------------- */

    void *(*alloc)(size_t bytes);  /* for `release`; aligned to a page; NULL: none left */
    void (*release)(void *memory); /* nothing under way uses it; NULL is allowed */
    enum halay_status (*open)(const struct queue_needs *needs, struct queue **queue); /* HALAY_ERR_NO_MEMORY */
    void (*close)(struct queue *queue);                /* waits for what is under way; NULL is allowed */
    const char *(*failure)(const struct queue *queue); /* text of the first error; NULL: none so far */
    void *(*stream)(struct queue *queue);              /* the device's own, for the engine (halay.h); NULL: no stream */
    /* Discards what the queue derived from the parameters, which have changed or moved. folded: where forecasts write
     * the products that they derive from parameters, before they multiply by them; NULL: nowhere. */
    void (*begin)(struct queue *queue, const real *params, const real *folded);
    /* Called around a training pass, on a device that can repeat one by itself; else NULL. pass_begin returns nonzero
     * if it has started the recorded calls of this key again, with these values: skip them, and end the pass. pass_end
     * returns nonzero if the calls must be made again, from pass_begin on; never twice in a row. */
    int (*pass_begin)(struct queue *queue, const struct pass_key *key, const struct pass_values *values);
    int (*pass_end)(struct queue *queue);
    /* Calls call(arg, what) on this thread after what the pass has submitted so far, again each time that the pass is
     * repeated; a recorded pass makes its calls in pass_end. NULL with pass_begin. */
    void (*pass_call)(struct queue *queue, void (*call)(void *arg, size_t what), void *arg, size_t what);
    void (*to_device)(struct queue *queue, const void *host, size_t bytes, void *memory); /* host is free at return */
    /* The host has it once the queue's next to_host has returned; few bytes. */
    void (*to_host_later)(struct queue *queue, const void *memory, size_t bytes, void *host);
    /* Waits; bytes may be 0, host then NULL. */
    void (*to_host)(struct queue *queue, const void *memory, size_t bytes, void *host);
    /* Reals of the scratch of rows_put and sparse_put, of lstm_gradient.scratch, of attention_run.scratch. */
    size_t (*rows_scratch)(size_t R, size_t W);
    size_t (*lstm_scratch)(size_t S, size_t B, size_t H);
    size_t (*attention_scratch)(size_t B, size_t T, size_t N, size_t heads, size_t d);

    /* ---- kernels.def ------------------------------------------------------------------------------------------ */

#define KERNEL(name, parameters, arguments, condition, traffic) \
    void (*name)(struct queue * queue, KERNEL_LIST parameters);
#include "tft/core/kernels/kernels.def"
};

/* Returns the number of slots for this number of rows. */
static inline size_t shared_rows_slots(size_t rows)
{
    size_t slots = 1;

    while (slots < 2 * rows)
        slots *= 2;
    return slots;
}

/* The processor's. */
const struct kernels *tft_kernels_cpu(void);
/* A CUDA device's, in its module (tft/core/kernels/device.h). */
const struct kernels *tft_kernels_cuda(void);

#endif
