/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange: the trainer's side of the engine. Gradients are registered once, submitted when final, waited for when
 * needed.
 *
 *     backward (any thread) --final(param)--> tft_exchange_submit --engine--> peers.wait --> optimizer (any thread)
 *
 * peers is what tft_exchange_peers gives the optimizer.
 */
#ifndef HALAY_TFT_EXCHANGE_H
#define HALAY_TFT_EXCHANGE_H

#include "base/memory.h"
#include "halay.h"
#include "tft/core/train/adam.h"
#include <stdatomic.h>

/* A sparse gradient of all ranks: one slot each, gathered by name, since the ranks of an elastic job change. */
struct tft_exchange_rows {
    float *slots; /* owned: (ranks) of them, where the gradients are; NULL: none yet */
    int ranks;    /* that there is room for; the last step's */
};

/* Parameters that are reduced together: one, or on a device neighbours in the table. */
struct tft_exchange_bucket {
    size_t first, count, living; /* parameters, and those of them that get a gradient */
    atomic_size_t final;         /* living ones whose gradient this step has completed */
    struct halay_tensor *tensor; /* NULL of a sparse gradient */
    /* Written by the thread that submits, read by the one that waits; the pool's calls are between. */
    struct halay_request *request;
};

struct tft_exchange {
    struct halay_log *log; /* borrowed, as the next two */
    struct halay_context *ctx;
    const struct tft_param_table *table;
    float *gradients;    /* owned: halay_alloc memory, (table->reals) */
    float *d_gradients;  /* where steps make them and the optimizer finds their sums: `gradients`, or owned memory of a
                            device, of which `gradients` is a copy for the host */
    struct queue *queue; /* borrowed: what makes them */
    struct halay_region lists;              /* owned: the three that follow */
    struct tft_exchange_bucket *buckets;    /* (bucket_count), last layers first */
    struct tft_exchange_bucket **bucket_of; /* (table->count): of a parameter; NULL: dead */
    struct tft_exchange_rows *rows;         /* (table->count): of sparse gradients */
    size_t bucket_count;
    /* The first status of a submission that failed; stored by any thread of the step (relaxed), loaded after the pool's
     * call has ended. */
    atomic_int failed;
    atomic_llong waited_us; /* time that threads spent waiting; relaxed, a sum for reports */
};

/* Registers what a step needs, last layers first: the order in which backward makes gradients final. queue, on which
 * the steps compute (NULL: the processor), is borrowed until fini. Local. On error nothing is held. */
enum halay_status tft_exchange_init(struct halay_log *log, struct halay_context *ctx,
                                    const struct tft_param_table *table, struct queue *queue,
                                    struct tft_exchange *exchange);
void tft_exchange_fini(struct tft_exchange *exchange);

/* Copies the gradients of the last step to `gradients`, for the host. */
enum halay_status tft_exchange_download(struct tft_exchange *exchange);

/* Returns nonzero if gradients stay where they are, as those of one rank on a device: nothing is submitted then. */
int tft_exchange_is_alone(const struct tft_exchange *exchange);

/* A struct tft_step's final callback; arg is the exchange. */
void tft_exchange_submit(void *arg, size_t param);

/* Forgets a step that failed with the context, whose requests have all ended: the next one begins as if it had not
 * been. */
void tft_exchange_forget(struct tft_exchange *exchange);

/* Returns the first error of the submissions since the last step. */
enum halay_status tft_exchange_status(const struct tft_exchange *exchange);

/* Returns the callbacks for tft_adam_step; arg is the exchange. */
struct tft_adam_peers tft_exchange_peers(struct tft_exchange *exchange);

/* Blocks, after the update, until this rank may write its gradients again. threads: how many are idle meanwhile, for
 * waited_us. */
enum halay_status tft_exchange_finish(struct tft_exchange *exchange, int threads);

#endif
