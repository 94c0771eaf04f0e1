/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that computes nothing and writes down what a CUDA device would launch: which kernel, how often, how many
 * bytes of device memory and floating-point operations each time. Its memory is addresses without pages.
 *
 * Bytes are what tft/core/kernels/cuda/ reads and writes, each array once a launch; what a kernel reads again is
 * supposed to come from a cache. Operations are those of products only.
 */
#ifndef TFT_COUNTED_H
#define TFT_COUNTED_H

#include "tft/core/kernels/kernels.h"
#include "tft/core/model/tft.h"

struct counted_launch {
    const char *kernel;   /* the member of the table */
    size_t times;         /* launches like this one, in succession */
    double bytes, flops;  /* of one launch */
    double instructions;  /* of all its threads; 0: they count for less than its bytes */
    enum tft_dtype dtype; /* of its product's factors */
    size_t steps;         /* of a recurrence: each waits for the one before */
};

const struct kernels *tft_kernels_counted(void);

/* What was launched on a queue since it was opened or this was called; forgets it. The array is the queue's until its
 * next call. NULL: memory ran out. */
const struct counted_launch *tft_counted_take(struct queue *queue, size_t *count);

#endif
