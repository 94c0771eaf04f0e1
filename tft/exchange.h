/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange: the trainer's side of the engine: gradients registered once, submitted when final, waited for when needed.
 *
 *     backward (any thread) --final(param)--> tft_exchange_submit --engine--> tft_exchange_wait --> optimizer (any
 *     thread)
 */
#ifndef HALAY_TFT_EXCHANGE_H
#define HALAY_TFT_EXCHANGE_H

#include "base/log.h"
#include "halay.h"
#include "tft/params.h"
#include <stdatomic.h>

/* Compute threads of this rank where none are asked for: its share of its host's cores, 1 or more. */
int tft_exchange_threads(struct halay_log *log, const struct halay_context *ctx);

struct tft_exchange {
    struct halay_log *log; /* borrowed, as the next two */
    struct halay_context *ctx;
    const struct tft_param_table *table;
    float *gradients;                /* owned: halay_alloc memory, (table->reals) */
    struct halay_tensor **tensors;   /* owned: (table->count), NULL for dead parameters */
    struct halay_request **requests; /* owned: (table->count); each is written by the thread that submits, read by the
                                        one that waits; the pool's calls are between */
    atomic_int failed;               /* the first status of a submission that failed; stored by any thread of the step
                                        (relaxed), loaded after the pool's call has ended */
    atomic_llong waited_us;          /* time that threads spent waiting; relaxed, a sum for reports */
};

/* Register the living parameters, last first: the order in which backward makes them final. Local. On error nothing is
 * held. */
enum halay_status tft_exchange_init(struct halay_log *log, struct halay_context *ctx,
                                    const struct tft_param_table *table, struct tft_exchange *exchange);
void tft_exchange_fini(struct tft_exchange *exchange);

/* A struct tft_step's final callback and tft_adam_step's wait callback; arg is the exchange. */
void tft_exchange_submit(void *arg, size_t param);
enum halay_status tft_exchange_wait(void *arg, size_t param);

/* After a step: did all submissions go out? */
enum halay_status tft_exchange_status(const struct tft_exchange *exchange);

#endif
