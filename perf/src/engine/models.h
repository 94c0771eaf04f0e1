/* SPDX-License-Identifier: Apache-2.0
 *
 * Models: the sizes of their gradients, for replays without the models. Pure.
 */
#ifndef HALAY_PERF_MODELS_H
#define HALAY_PERF_MODELS_H

#include <stddef.h>

struct perf_model {
    const char *name; /* of the option */
    const char *what; /* one line for readers */
    /* Elements of each tensor, in order of forward: numbers; 3*N is N three times; 3*(A B) is A B A B A B. */
    const char *pattern;
    long steps; /* measured by default: a few seconds */
};

extern const struct perf_model perf_models[];
extern const char *const perf_model_names[]; /* "none", then the names, NULL; models[i] is words[i + 1] */

/* Writes the first `most` sizes of the pattern into counts (which may be NULL if most is 0). Returns the number of
 * sizes. */
size_t perf_model_expand(const char *pattern, size_t *counts, size_t most);

#endif
