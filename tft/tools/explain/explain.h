/* SPDX-License-Identifier: Apache-2.0
 *
 * Explanation: the weights of inputs in a model's forecasts of a split's windows, the steps of the past that they
 * attended to, when that differed from usual, and whether the weights are meaningful.
 *
 * Windows are forecast twice: first the weights are added up, then each window's attention is compared with its
 * entity's mean. To check the weights, one input after the other is taken away (tft/core/run/occlusion.h) and all
 * windows are forecast again. Memory does not grow with the number of windows, but for the few entities whose series is
 * kept.
 */
#ifndef HALAY_TFT_EXPLAIN_H
#define HALAY_TFT_EXPLAIN_H

#include "base/output_file.h"
#include "tft/core/score/inference.h"
#include "tft/tools/explain/shares.h"
#include "tft/tools/explain/singles.h"

/* A window belongs to another regime if its attention is farther than this from its entity's mean: the published
 * threshold. */
#define TFT_REGIME_DISTANCE .3

enum { TFT_EXPLAIN_PERIODS = 48, TFT_EXPLAIN_SERIES = 4, TFT_EXPLAIN_QUANTILES = 3 }; /* .1, .5, .9 */
enum { TFT_FARTHEST = 10 };

struct tft_explain_request {
    struct tft_window_choice windows; /* the stride is set */
    double distance;                  /* from which a window belongs to another regime */
    int has_occlusion;
    const char *tables; /* folder for CSV files; NULL: none. Rank 0 writes */
    const char *single; /* "ENTITY,TIME": a forecast to explain beside the best and the worst; NULL: none */
};

/* Totals of the windows of an entity, or of a part of the time. */
struct tft_explained {
    size_t windows, regimes;
    double distance, most; /* sum and largest of the windows' distances */
    double *means;         /* (1 + TFT_EXPLAIN_QUANTILES, reader.all) sums of tft_weight_means, then their quantiles */
};

/* One entity's windows, in order. */
struct tft_explained_series {
    size_t entity, count, room;
    double *values;    /* owned: (count) mean of the first target over the horizon; NAN if none was measured */
    double *distances; /* owned: (count) */
    struct tft_single farthest;
};

/* A window among those whose attention is farthest from the mean. */
struct tft_far {
    struct tft_window window;
    double distance;
};

struct tft_explanation {
    struct tft_inference *inference;           /* borrowed */
    const struct tft_explain_request *request; /* borrowed */
    struct tft_windows windows;
    struct tft_weight_reader reader;
    struct tft_weight_sums sums;
    double *memory;                 /* owned: of the next two's means */
    int64_t *bins;                  /* owned: (1 + periods, reader.all, TFT_SHARE_BINS) of `binned`, of each period */
    size_t binned;                  /* the entity whose windows come */
    size_t before;                  /* windows before those that come */
    struct tft_explained *entities; /* owned: (entities) */
    struct tft_explained periods[TFT_EXPLAIN_PERIODS]; /* parts of the time between the first and the last origin */
    int64_t begin, end;                                /* moments of these */
    struct tft_explained_series series[TFT_EXPLAIN_SERIES];
    size_t series_count;
    int64_t distances[TFT_SHARE_BINS]; /* of all windows */
    struct tft_far farthest[TFT_FARTHEST];
    size_t farthest_count;
    struct tft_single_layout layout; /* of a window's numbers */
    struct tft_single worst, best, asked;
    size_t asked_number; /* the window that the request names; SIZE_MAX: it names none */
    double *q_risk;      /* owned: (1 + model's variables, quantiles) of the forecasts, and without each variable */
    struct halay_output table; /* windows.csv, while it is written */
};

/* All ranks together. Call fini in any case. HALAY_ERR_CANCELED as tft_forecast. */
enum halay_status tft_explanation_init(struct tft_inference *inference, const struct tft_explain_request *request,
                                       struct tft_explanation *explanation);
void tft_explanation_fini(struct tft_explanation *explanation);

/* Returns all numbers but the single windows' and the whole of attention, as a new reference; NULL if memory runs
 * out. */
json_t *tft_explanation_json(const struct tft_explanation *explanation);

/* Adds "pictures" to that: what charts need besides, "map", "series" and "forecasts". Errors are logged. */
enum halay_status tft_explanation_pictures(const struct tft_explanation *explanation, json_t *result);

/* Writes in words how far the weights can be trusted, from the "occlusion" member of that document; empty without a
 * correlation. */
void tft_explanation_verdict(const json_t *occlusion, char *text, size_t size);

/* Variables of past and future by their place in the model: the mean weight over a window's steps, where a variable
 * that a part does not have weighs nothing there; static ones: the mean weight. (model's variables) */
void tft_explanation_importance(const struct tft_explanation *explanation, double *importance);
/* A variable's mean weight in a part of the window, over its steps. */
double tft_explanation_mean(const struct tft_explanation *explanation, int choice, size_t j);
/* Returns the mean attention of a head to the step `lag` steps before the forecast step, over the steps of the horizon
 * whose window goes back that far. */
double tft_explanation_lag(const struct tft_explanation *explanation, size_t head, size_t lag);

/* ---- tables (explain_tables.c): CSV files in a folder, which is made ---- */

enum halay_status tft_explain_tables_open(struct tft_explanation *explanation);
void tft_explain_tables_window(struct tft_explanation *explanation, const struct tft_window *window, const float *means,
                               double distance);
enum halay_status tft_explain_tables_close(struct tft_explanation *explanation);

#endif
