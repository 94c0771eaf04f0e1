/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials.
 */
#include "tft/tools/tune/trials.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 16 };

const char *const tft_trial_states[] = { "running", "done", "stopped", "cut", "failed", NULL };

struct tft_trial *tft_trials_add(struct tft_trials *t, const double *point)
{
    if (t->count == t->size) {
        size_t size = t->size ? 2 * t->size : FIRST_SIZE;
        struct tft_trial *list = realloc(t->list, size * sizeof *list);
        if (!list)
            return NULL;
        t->list = list;
        t->size = size;
    }
    struct tft_trial *trial = &t->list[t->count++];
    *trial = (struct tft_trial){ .value = INFINITY };
    memcpy(trial->point, point, sizeof trial->point);
    return trial;
}

void tft_trials_fini(struct tft_trials *t)
{
    free(t->list);
    *t = (struct tft_trials){ 0 };
}

int tft_trials_have(const struct tft_trials *t, const double *point, size_t settings)
{
    for (size_t i = 0; i < t->count; i++)
        if (!memcmp(t->list[i].point, point, settings * sizeof *point))
            return 1;
    return 0;
}

size_t tft_trials_best(const struct tft_trials *t)
{
    size_t best = t->count;

    for (size_t i = 0; i < t->count; i++)
        if (isfinite(t->list[i].value) && (best == t->count || t->list[i].value < t->list[best].value))
            best = i;
    return best;
}

static int is_at_end(const struct tft_trial *t)
{
    return t->state == TFT_TRIAL_DONE;
}

static int is_better(const struct tft_trial *a, const struct tft_trial *b)
{
    if (isfinite(a->value) != isfinite(b->value))
        return isfinite(a->value);
    if (is_at_end(a) != is_at_end(b))
        return is_at_end(a);
    if (a->rungs != b->rungs)
        return a->rungs > b->rungs;
    return a->value < b->value;
}

size_t tft_trials_rank(const struct tft_trials *t, size_t *order)
{
    size_t n = 0;

    for (size_t i = 0; i < t->count; i++) {
        size_t at = n;
        if (t->list[i].state == TFT_TRIAL_RUNNING)
            continue;
        for (; at && is_better(&t->list[i], &t->list[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    return n;
}

double tft_rung_share(size_t rung, size_t rungs, int eta)
{
    return pow(eta, (double)rung - (double)rungs);
}

int tft_halving_keeps(const struct tft_trials *t, size_t trial, size_t rung, int eta)
{
    size_t seen = 0, better = 0;

    for (size_t i = 0; i < t->count; i++) {
        if (t->list[i].rungs <= rung)
            continue;
        seen++;
        better += t->list[i].at_rung[rung] < t->list[trial].at_rung[rung];
    }
    return better < (seen + (size_t)eta - 1) / (size_t)eta;
}
