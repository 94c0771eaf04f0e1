/* SPDX-License-Identifier: Apache-2.0
 *
 * What the forecasts of many windows weighed, added up in bounded memory.
 *
 * All sums are whole numbers (tft/tools/explain/shares.h), so neither the threads' order nor the ranks' shares of the
 * windows change a bit. Threads add under a lock. The attention of single entities is kept for some of them at a time:
 * a *batch of entities*, whose windows stand together.
 */
#ifndef HALAY_TFT_WEIGHT_SUMS_H
#define HALAY_TFT_WEIGHT_SUMS_H

#include "tft/core/score/weight_reader.h"
#include <pthread.h>

enum { TFT_HORIZONS_SHOWN = 8 };

struct tft_weight_sums {
    const struct tft_weight_reader *reader; /* borrowed */
    pthread_mutex_t lock;                   /* guards all sums */
    int64_t *totals;                        /* owned: the next ones, for one all-reduce */
    size_t total_count;
    int64_t *steps[TFT_CHOICES]; /* (1, E or D; V) */
    int64_t *bins[TFT_CHOICES];  /* (V, TFT_SHARE_BINS) of all steps */
    int64_t *future_bins;        /* (D, V, TFT_SHARE_BINS) of the future's selection, of each step */
    int64_t *attention;          /* (heads, D, T) */
    size_t shown;                /* steps of the horizon whose attention has percentiles */
    int64_t *shown_bins;         /* (shown, T, TFT_SHARE_BINS) of these, mean over the heads */
    int64_t *seen;               /* (T) windows that have a step */
    int64_t *windows;            /* (1) */

    int64_t *of_entities; /* owned: (most, D T + 1) attention, mean over the heads, and windows */
    size_t first, count, most;
    double *roots; /* owned: (most, D, T) square roots of the entities' mean attention */
};

/* Errors are logged; fini has to be called. */
enum halay_status tft_weight_sums_init(struct halay_log *log, const struct tft_weight_reader *reader, size_t entities,
                                       struct tft_weight_sums *sums);
void tft_weight_sums_fini(struct tft_weight_sums *sums);

/* Begin a batch of entities, at most `most` of them. */
void tft_weight_sums_begin(struct tft_weight_sums *sums, size_t first, size_t count);
/* Add a granule of their windows, from any thread. */
void tft_weight_sums_add(struct tft_weight_sums *sums, const struct tft_forecast_granule *granule);
/* All windows of the batch have been added: join the ranks' shares. ctx NULL: this process alone. */
enum halay_status tft_weight_sums_end(struct tft_weight_sums *sums, struct halay_context *ctx);
/* All windows have been added. */
enum halay_status tft_weight_sums_join(struct tft_weight_sums *sums, struct halay_context *ctx);

/* Return the number of windows that have a step of a selection (of the static one, step 0), and variable j's mean
 * weight there; NaN if none has. */
int64_t tft_weight_sums_windows(const struct tft_weight_sums *sums, int choice, size_t t);
double tft_weight_sums_mean(const struct tft_weight_sums *sums, int choice, size_t t, size_t j);

/* The horizon's step (from 0) that is number k of those shown: the first, the last, and some between. */
size_t tft_weight_sums_shown(const struct tft_weight_sums *sums, size_t k);
/* Mean attention from step h of the horizon to step t of the window, over the windows that have it; of a head, or
 * (heads) of all together. */
double tft_weight_sums_attention(const struct tft_weight_sums *sums, size_t head, size_t h, size_t t);

/*
 * How far the attention of sample b, mean over the heads, is from its entity's mean, both distributions over the
 * window's steps: the mean over the horizon of sqrt(1 - sum of sqrt(p q)), from 0 (the same) to 1 (nothing in common).
 * length: the window's past; of a mean that goes back farther, what it can see. The entity's batch has ended.
 */
double tft_weight_sums_distance(const struct tft_weight_sums *sums, size_t entity, const struct tft_weights *weights,
                                size_t b, size_t length);
/* An entity's mean attention by lag, (T), as tft_weight_lags has a window's. Its batch has ended. */
void tft_weight_sums_usual(const struct tft_weight_sums *sums, size_t entity, float *lags);

#endif
