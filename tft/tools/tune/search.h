/* SPDX-License-Identifier: Apache-2.0
 *
 * Search: which point is tried next. The same trials so far and the same seed give the same point.
 *
 * `random` draws all of them. `tpe`, the tree-structured Parzen estimator (Bergstra et al., 2011), begins with points
 * that fill the space evenly; then it takes the trials so far as two groups, the best and the others, draws points from
 * the density of the first, and takes the one that has the highest ratio to that of the second. A trial that still
 * runs is one of the others, so that two at once don't try the same.
 */
#ifndef HALAY_TFT_TUNE_SEARCH_H
#define HALAY_TFT_TUNE_SEARCH_H

#include "tft/tools/tune/trials.h"
#include <stdint.h>

enum tft_search_kind { TFT_SEARCH_TPE, TFT_SEARCH_RANDOM };
extern const char *const tft_search_words[];

struct tft_search {
    const struct tft_space *space; /* borrowed */
    enum tft_search_kind kind;
    uint64_t seed;
    /* Is a point a configuration? */
    int (*is_good)(void *arg, const double *point);
    void *arg; /* borrowed */
};

/* The point of the trial behind those that there are; 0: there is none that is good and new. */
int tft_search_next(const struct tft_search *search, const struct tft_trials *trials, double *point);

/*
 * How much of what makes the best trials different each key is: parts of 1, (keys). From the densities of the best
 * quarter and of all along each key (Watanabe et al., PED-ANOVA, 2023). 0: there are too few trials to say.
 */
int tft_search_importance(const struct tft_space *space, const struct tft_trials *trials, double *importance);

#endif
