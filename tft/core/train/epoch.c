/* SPDX-License-Identifier: Apache-2.0
 *
 * An epoch: the windows of training and validation, and which of them is at which position. A permutation of all
 * windows is drawn by (seed, epoch) from Philox and its first `count` are taken: every window once if count is all of
 * them. Every rank draws the same order and computes its share of each batch, so an epoch is the same set in the same
 * order on any number of ranks.
 *
 * The sampler is a Fisher-Yates shuffle that stops after `count`, with unbiased draws.
 *
 * Draw i is uniform in [0, total - i): the high half of a 64 by 64 bit product, drawn again in the rare case that the
 * low half falls into the part that would favour some numbers (Lemire 2019). Key (seed, hash of the name), counter (i,
 * epoch, attempt).
 */
#include "tft/core/kernels/philox.h"
#include "tft/core/train/trainer.h"
#include <stdlib.h>

/* A number that no training epoch has, for the windows of a validation that takes only some. */
#define VALIDATION UINT32_MAX

/* Returns a number that is uniform in [0, range), range >= 1. */
static uint64_t draw_below(const uint32_t key[2], uint32_t epoch, uint64_t i, uint64_t range)
{
    uint64_t reject = (0 - range) % range; /* 2^64 mod range */

    for (uint32_t attempt = 0;; attempt++) {
        const uint32_t counter[4] = { (uint32_t)i, (uint32_t)(i >> 32), epoch, attempt };
        uint32_t word[4];
        philox(counter, key, word);
        unsigned __int128 product = (unsigned __int128)((uint64_t)word[1] << 32 | word[0]) * range;
        if ((uint64_t)product >= reject)
            return (uint64_t)(product >> 64);
    }
}

void tft_sampler_draw(uint32_t seed, uint32_t epoch, uint64_t total, uint64_t count, uint64_t *order)
{
    const uint32_t key[2] = { seed, fnv1a("sampler") };

    for (uint64_t i = 0; i < total; i++)
        order[i] = i;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t j = i + draw_below(key, epoch, i, total - i), window = order[i];
        order[i] = order[j];
        order[j] = window;
    }
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Windows that are taken of `count`; max 0: without a limit. */
static size_t taken(size_t count, size_t max)
{
    return max && max < count ? max : count;
}

enum halay_status tft_epoch_list(struct halay_log *log, const struct tft_data *data, const struct tft_run_config *c,
                                 struct tft_epoch *e)
{
    enum halay_status status;

    tft_epoch_fini(e);
    if ((status = tft_windows_init(log, data, TFT_TRAIN, data->schema.stride, &e->train)) ||
        (status = tft_windows_init(log, data, TFT_VALID, data->schema.stride, &e->valid)))
        return status;
    e->samples = taken(e->train.count, (size_t)c->train_samples);
    e->valid_samples = taken(taken(e->valid.count, (size_t)c->valid_samples), e->valid_max);
    e->order = halay_region_alloc(&e->orders, e->train.count, sizeof *e->order);
    e->valid_order = halay_region_alloc(&e->orders, e->valid.count, sizeof *e->valid_order);
    if (e->orders.failed)
        return halay_no_memory(log, "for the order of %zu windows", e->train.count);
    tft_sampler_draw((uint32_t)c->seed, VALIDATION, e->valid.count, e->valid_samples, e->valid_order);
    qsort(e->valid_order, e->valid_samples, sizeof *e->valid_order, by_number); /* neighbouring windows share rows */
    return HALAY_OK;
}

void tft_epoch_draw(struct tft_epoch *e, uint32_t seed, uint32_t number)
{
    tft_sampler_draw(seed, number, e->train.count, e->samples, e->order);
}

void tft_epoch_fini(struct tft_epoch *e)
{
    tft_windows_fini(&e->train);
    tft_windows_fini(&e->valid);
    halay_region_fini(&e->orders);
    e->order = e->valid_order = NULL;
}
