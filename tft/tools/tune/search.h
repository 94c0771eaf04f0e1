/* SPDX-License-Identifier: Apache-2.0
 *
 * Search: chooses the point of the next trial. The same trials and the same seed give the same point.
 *
 * `random` draws each point. `grid` takes every point in order; its space has no range of reals. `tpe`, the
 * tree-structured Parzen estimator (Bergstra et al., 2011), begins with points that fill the space evenly; then it
 * divides the trials into two groups, the best and the others, draws points from the density of the first, and takes
 * the one with the highest ratio to that of the second. A trial that still runs is one of the others, so that
 * concurrent trials try different points.
 */
#ifndef HALAY_TFT_TUNE_SEARCH_H
#define HALAY_TFT_TUNE_SEARCH_H

#include "tft/tools/tune/trials.h"
#include <stdint.h>

enum { TFT_GRID_MAX = 10000 }; /* points of a grid */
enum tft_search_kind { TFT_SEARCH_TPE, TFT_SEARCH_RANDOM, TFT_SEARCH_GRID };
extern const char *const tft_search_words[];

struct tft_search {
    const struct tft_space *space; /* borrowed */
    enum tft_search_kind kind;
    uint64_t seed;
    /* Returns nonzero if the point is a valid configuration. */
    int (*is_good)(void *arg, const double *point);
    void *arg; /* borrowed */
};

/* The point of the next trial. Returns 0 if no point is left that is valid and new. */
int tft_search_next(const struct tft_search *search, const struct tft_trials *trials, double *point);

/*
 * Computes each key's share in what separates the best trials, (keys), with the sum 1: from the densities of the best
 * quarter and of all trials along each key (Watanabe et al., PED-ANOVA, 2023). Returns 0 if the trials are too few.
 */
int tft_search_importance(const struct tft_space *space, const struct tft_trials *trials, double *importance);

#endif
