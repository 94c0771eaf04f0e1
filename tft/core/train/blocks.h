/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks: the parameters, both moments and the moving average of a training, one after the other in one allocation.
 *
 * Steps work on the device's set, everything else (files, other ranks, evaluations, reports) on the host's,
 * which are brought up to date before they are read. On the processor both are the same memory, and nothing is copied.
 */
#ifndef HALAY_TFT_BLOCKS_H
#define HALAY_TFT_BLOCKS_H

#include "base/log.h"
#include "tft/core/kernels/kernels.h"

/* Blocks of one memory. */
struct tft_block_set {
    float *memory, *params, *moments[2];
    float *average; /* of the parameters; NULL: none is kept */
};

/* Zero-initialise. */
struct tft_blocks {
    struct halay_log *log;             /* borrowed */
    struct queue *queue;               /* borrowed: the steps', for copies */
    size_t reals;                      /* of all blocks */
    struct tft_block_set host, device; /* each memory owned once */
    int is_ahead;                      /* the device's blocks are newer than the host's */
};

/* Makes the blocks, all zero, of `reals` numbers each. queue: of the device; borrowed until fini. */
enum halay_status tft_blocks_init(struct halay_log *log, struct queue *queue, size_t reals, int has_average,
                                  struct tft_blocks *blocks);
void tft_blocks_fini(struct tft_blocks *blocks);
/* Returns nonzero if the device's blocks are copies. */
static inline int tft_blocks_are_apart(const struct tft_blocks *blocks)
{
    return blocks->device.memory != blocks->host.memory;
}
/* Brings what the steps made to the host. Cheap if it is there already. */
enum halay_status tft_blocks_download(struct tft_blocks *blocks);
/* Makes the host's blocks what the next step begins with. */
enum halay_status tft_blocks_upload(struct tft_blocks *blocks);
/* Returns the parameters that are evaluated and kept: their average, or the parameters themselves. */
static inline const float *tft_blocks_best(const struct tft_blocks *blocks)
{
    return blocks->host.average ? blocks->host.average : blocks->host.params;
}

#endif
