/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift: whether the recent rows of data are still what a model was trained on, and its forecasts as good as they were.
 * What halay_tft_drift (halay_tft.h) writes:
 *
 *     {"kind": "drift", "drifted": true, "since": "2018-07-01 00:00:00", "until": ..., "year": 31556952,
 *      "inputs": {"rate": 0.025, "blocks": 432, "seasonal": true, "severity": 1.3, "short": 0, "rows": [...]},
 *      "errors": {..., "windows": 140}}
 *
 * "blocks": the number of stretches of the past that the thresholds are based on, as if they did not overlap; "rate":
 * null if they are fewer than four; "extrapolated": they are too few for the rate (findings.h); "severity": the largest
 * statistic as a part of its threshold; "short": series with too few values; "rows": an object for each statistic;
 * "course": a list of moments and of the largest statistic of the stretch that ends there, as a part of its threshold,
 * the recent span's last.
 */
#ifndef HALAY_TFT_DRIFT_H
#define HALAY_TFT_DRIFT_H

#include "halay_tft.h"
#include "tft/tools/drift/findings.h"
#include "tft/tools/drift/spans.h"

/* A comparison while it is made; all is borrowed. */
struct tft_drift {
    struct halay_log *log;
    struct halay_tft_model *model;
    struct halay_tft_data *data;
    struct halay_tft_extent extent;
    const char *calibrate;
};

/*
 * Compares, for each entity and each input that a column gives (targets among them), the distribution of its values in
 * the recent span with that in the past; and for targets, the share that is missing. Adds a row for each statistic,
 * with "entity", "input", and of distributions "reference" and "recent" (shares of ten groups of values, or of
 * categories) and "groups" (where each group ends, in the input's own unit; names). Adds to *short_series the number of
 * series with too few values to compare. Only this rank works.
 */
enum halay_status tft_drift_of_inputs(const struct tft_drift *drift, const struct tft_spans *spans,
                                      struct tft_findings *findings, size_t *short_series);

/*
 * Compares the forecasts of the recent span with those of the validation span: for each entity and for all together,
 * the mean quantile loss and the share of values inside the outermost quantiles. All ranks forecast together, stride
 * steps apart. spans: past and recent span of these forecasts, by the moment of their first target. Adds on each rank a
 * row for each statistic, with "entity" (null: all), "reference" and "recent": for "loss" the means, whose ratio is the
 * value; for "coverage" the shares, whose distance it is. *windows: of the recent span; 0, with nothing added, if that
 * or the past has no windows.
 */
enum halay_status tft_drift_of_errors(const struct tft_drift *drift, const struct tft_spans *spans, size_t stride,
                                      struct tft_findings *findings, size_t *windows);

#endif
