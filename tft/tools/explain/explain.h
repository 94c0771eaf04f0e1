/* SPDX-License-Identifier: Apache-2.0
 *
 * Explanation: the weights of inputs in a model's forecasts of a split's windows, the steps of the past that they
 * attended to, when that differed from usual, and whether the weights are meaningful.
 *
 * Windows are forecast twice: first the weights are added up, then each window's attention is compared with its
 * entity's mean. To check the weights, one input after the other is taken away, and all windows are forecast again.
 * Memory does not grow with the number of windows, but for the few entities whose series is kept.
 */
#ifndef HALAY_TFT_EXPLAIN_H
#define HALAY_TFT_EXPLAIN_H

#include "base/memory.h"
#include "base/output_file.h"
#include "halay_tft.h"
#include <jansson.h>
#include <pthread.h>

/* ---- shares (shares.c): numbers from 0 to 1 ---------------------------------------------------------------------- */

/* A histogram: 64 bins to each halving from 1 down to 2^-16, below which all is one bin, and a last one for 1 itself.
 * So a percentile is right to 1/64 of itself, or to 2^-16. Counts can be added in any order. */
enum { TFT_SHARE_BINS = 1025 };

size_t tft_share_bin(float share);
/* Returns a quantile of what the bins (TFT_SHARE_BINS) counted, linear inside a bin; NAN of nothing. */
double tft_share_quantile(const int64_t *bins, double quantile);

/* Returns a share as a whole number, so that sums do not depend on their order; exact to 2^-33. */
static inline int64_t tft_share_fixed(float share)
{
    return (int64_t)((double)share * 0x1p32 + .5);
}

static inline double tft_share_mean(int64_t sum, int64_t count)
{
    return (double)sum / 0x1p32 / (double)count;
}

/* Returns Spearman's rank correlation, where equal values share their mean rank; NAN for fewer than two, or where all
 * of one list are equal. */
double tft_rank_correlation(const double *a, const double *b, size_t n);

/* ---- what a model weighs ----------------------------------------------------------------------------------------- */

enum tft_weighed_part { TFT_WEIGHED_STATIC, TFT_WEIGHED_PAST, TFT_WEIGHED_FUTURE, TFT_WEIGHED_PARTS };

/* Sizes are those of struct halay_tft_weights. */
struct tft_weighed {
    json_t *about;                             /* owned: what halay_tft_model_describe returns */
    const json_t *selected[TFT_WEIGHED_PARTS]; /* in it: names of inputs */
    size_t V[TFT_WEIGHED_PARTS], all;          /* inputs of each part, and of the three together */
    size_t steps[TFT_WEIGHED_PARTS];           /* 1, E, D */
    size_t E, D, T, heads;                     /* encoder, horizon, and both together */
};

/* "static", "past", "future" */
extern const char *const tft_weighed_parts[TFT_WEIGHED_PARTS];
/* Returns the name of a part's input j. */
static inline const char *tft_weighed_name(const struct tft_weighed *of, int part, size_t j)
{
    return json_string_value(json_array_get(of->selected[part], j));
}

/* ---- sums (weight_sums.c) ---------------------------------------------------------------------------------------- */

enum { TFT_HORIZONS_SHOWN = 8 };

/*
 * Sums of the weights of many windows, in bounded memory. All sums are whole numbers, so neither the
 * threads' order nor the ranks' shares of the windows change a bit. The attention of single entities is kept for some
 * of them at a time: a *batch of entities*, whose windows come one after the other.
 */
struct tft_weight_sums {
    const struct tft_weighed *of; /* borrowed */
    pthread_mutex_t lock;         /* guards all sums while windows are added */
    int64_t *totals;              /* of the region, as all arrays: the next ones, for one all-reduce */
    size_t total_count;
    int64_t *steps[TFT_WEIGHED_PARTS]; /* (1, E or D; V) */
    int64_t *bins[TFT_WEIGHED_PARTS];  /* (V, TFT_SHARE_BINS) of all steps */
    int64_t *future_bins;              /* (D, V, TFT_SHARE_BINS) of the future's selection, of each step */
    int64_t *attention;                /* (heads, D, T) */
    size_t shown;                      /* steps of the horizon whose attention has percentiles */
    int64_t *shown_bins;               /* (shown, T, TFT_SHARE_BINS) of these, mean over the heads */
    int64_t *seen;                     /* (T) windows that have a step */
    int64_t *windows;                  /* (1) */

    int64_t *of_entities; /* (most, D T + 1) attention, mean over the heads, and windows */
    size_t first, count, most;
    double *roots; /* (most, D, T) square roots of the entities' mean attention */
};

/* Allocates in a region, which may fail. fini has to be called. */
void tft_weight_sums_init(const struct tft_weighed *of, size_t entities, struct halay_region *memory,
                          struct tft_weight_sums *sums);
void tft_weight_sums_fini(struct tft_weight_sums *sums);

/* Begins a batch of entities, at most `most` of them. */
void tft_weight_sums_begin(struct tft_weight_sums *sums, size_t first, size_t count);
/* Adds one of their windows, from any thread. */
void tft_weight_sums_add(struct tft_weight_sums *sums, const struct halay_tft_weights *weights);
/* Joins the ranks' shares, once all windows of the batch have been added; and those of all batches. */
enum halay_status tft_weight_sums_end(struct tft_weight_sums *sums, struct halay_context *ctx);
enum halay_status tft_weight_sums_join(struct tft_weight_sums *sums, struct halay_context *ctx);

/* Return the number of windows that have a step of a part (of the static one, step 0), and the mean weight of its input
 * j there; NaN if none has. */
int64_t tft_weight_sums_windows(const struct tft_weight_sums *sums, int part, size_t t);
double tft_weight_sums_mean(const struct tft_weight_sums *sums, int part, size_t t, size_t j);
/* Returns an input's mean weight in a part of the window, over its steps. */
double tft_weight_sums_mean_of_steps(const struct tft_weight_sums *sums, int part, size_t j);

/* Returns the horizon's step (from 0) that is number k of those shown: the first, the last, and some between. */
size_t tft_weight_sums_shown(const struct tft_weight_sums *sums, size_t k);
/* Returns the mean attention from step h of the horizon to step t of the window, over the windows that have it; of a
 * head, or (heads) of all together. */
double tft_weight_sums_attention(const struct tft_weight_sums *sums, size_t head, size_t h, size_t t);
/* Returns the mean attention of a head to the step `lag` steps before the forecast step, over the steps of the horizon
 * whose window goes back that far. */
double tft_weight_sums_lag(const struct tft_weight_sums *sums, size_t head, size_t lag);

/* Returns the attention of step h of the horizon to step t of a window, mean over the heads. */
double tft_weighed_attention(const struct tft_weighed *of, const struct halay_tft_weights *weights, size_t h, size_t t);
/*
 * Returns how far a window's attention, mean over the heads, is from its entity's mean, both distributions over the
 * window's steps: the mean over the horizon of sqrt(1 - sum of sqrt(p q)), from 0 (the same) to 1 (nothing in common).
 * Of a mean that goes back farther than the window, what that can see. The entity's batch has ended.
 */
double tft_weight_sums_distance(const struct tft_weight_sums *sums, const struct halay_tft_weights *weights);
/* Computes an entity's mean attention by lag, (T), as halay_tft_forecast has a window's. Its batch has ended. */
void tft_weight_sums_usual(const struct tft_weight_sums *sums, size_t entity, double *lags);

/* ---- the explanation (explain.c) --------------------------------------------------------------------------------- */

enum { TFT_EXPLAIN_PERIODS = 48, TFT_EXPLAIN_SERIES = 4, TFT_EXPLAIN_QUANTILES = 3 }; /* .1, .5, .9 */
enum { TFT_FARTHEST = 10, TFT_TIME_MAX = 40 };

/* Totals of the windows of an entity, or of a part of the time. */
struct tft_explained {
    size_t windows, regimes;
    double distance, most; /* sum and largest of the windows' distances */
    double *means;         /* (1 + TFT_EXPLAIN_QUANTILES, all) sums of the inputs' mean weights, then their quantiles */
};

/* A window among those whose attention is farthest from the mean. */
struct tft_far {
    size_t entity;
    int64_t origin;
    double distance;
};

/* The window with the largest value of something, so far. */
struct tft_single {
    int has_window;
    double value, distance, mae; /* mae: of the first target, in its unit; NaN without a measured value */
    size_t entity, past, row;
    int64_t origin, begin; /* moments: the last that it knows, the first that it forecasts */
    double *weights;       /* (all) */
    double *lags, *usual;  /* (T) its attention by lag, and its entity's mean */
    float *places;         /* (T) its attention to each step of the window, mean over the heads and the horizon */
    double *values;        /* (D, targets, quantiles) */
};

/* One entity's windows, in order. */
struct tft_explained_series {
    size_t entity, count, room;
    int64_t from, until; /* origins of the first and the last */
    double *values;      /* (count) mean of the first target over the horizon; NAN if none was measured */
    double *distances;   /* (count) */
    struct tft_single farthest;
    size_t farthest_at;
};

struct tft_explanation {
    struct halay_log *log; /* borrowed, as all pointers without another word */
    struct halay_tft_model *model;
    struct halay_tft_data *data;
    struct halay_context *ctx;
    int is_first;                   /* rank 0 */
    struct halay_tft_windows given; /* with a split, a stride and a regime's distance */
    struct halay_region memory;     /* owned: of all arrays */
    struct tft_weighed of;
    struct tft_weight_sums sums;
    size_t entity_count, windows, taken; /* taken: windows of the second pass so far */
    int64_t begin, end;                  /* moments of the first and the last window's first forecast */
    int64_t *bins;                       /* (1 + periods, all, TFT_SHARE_BINS) of `binned`, of each period */
    size_t binned;                       /* the entity whose windows come */
    struct tft_explained *entities;      /* (entities) */
    struct tft_explained periods[TFT_EXPLAIN_PERIODS]; /* parts of the time between the first and the last origin */
    struct tft_explained_series series[TFT_EXPLAIN_SERIES];
    size_t series_count;
    int64_t distances[TFT_SHARE_BINS]; /* of all windows */
    struct tft_far farthest[TFT_FARTHEST];
    size_t farthest_count;
    struct tft_single worst, best, asked;
    size_t asked_number; /* the window that is asked for; SIZE_MAX: none */
    size_t target_count, quantile_count, median;
    double *quantiles; /* (quantiles) */
    double *q_risk;    /* (1 + model's inputs, quantiles) of the forecasts, and without each input */
    double *weights, *changes, *compared[2]; /* (model's inputs) of q-risk without each, and room to compare them */
    struct halay_output table;               /* windows.csv, while it is written */
};

/* Returns the model's inputs, in its order: a list of objects with "name" and "role". */
const json_t *tft_explanation_inputs(const struct tft_explanation *explanation);

/* Returns all numbers but the single windows' and the whole of attention, as a new reference; NULL if memory runs
 * out. */
json_t *tft_explanation_json(const struct tft_explanation *explanation);
/* Adds "pictures" to that: what charts need besides, "map", "series" and "forecasts". Errors are logged. */
enum halay_status tft_explanation_pictures(const struct tft_explanation *explanation, json_t *result);

/* ---- tables (explain_tables.c): CSV files in a folder, which is made; rank 0 writes ------------------------------ */

enum halay_status tft_explain_tables_open(struct tft_explanation *explanation);
void tft_explain_tables_window(const struct tft_explanation *explanation, const struct halay_tft_forecast *window,
                               double distance);
enum halay_status tft_explain_tables_close(struct tft_explanation *explanation);

#endif
