/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift: whether the recent rows of data are still what a model was trained on, and its forecasts as good as they were.
 */
#ifndef HALAY_TFT_DRIFT_H
#define HALAY_TFT_DRIFT_H

#include "tft/core/score/inference.h"

struct tft_drift_request {
    int64_t since, until; /* the recent span, behind the training span; it ends with the rows at the latest */
    double rate;          /* probability of a false alarm */
    size_t stride;        /* steps from one forecast to the next */
};

/*
 * All ranks together. *result: a new reference, on every rank. HALAY_ERR_ARGUMENT (logged): no row is that recent, or
 * `since` lies in the training span; HALAY_ERR_CANCELED; HALAY_ERR_NO_MEMORY; errors of forecasts.
 *
 *     {"drifted": true, "run": ..., "since": "2018-07-01 00:00:00", "until": ..., "rows": 5040,
 *      "inputs": {"rate": 0.025, "blocks": 432, "seasonal": true, "severity": 1.3, "short": 0, "rows": [...]},
 *      "errors": {..., "windows": 140}}
 *
 * "blocks": how many stretches of the past the thresholds are based on, as if they did not overlap; "rate": null if
 * they are fewer than four; "extrapolated": they are too few for the rate (distance.h); "severity": the largest
 * statistic as a part of its threshold; "short": series with too few values; "rows": findings.h, inputs.h, errors.h;
 * "course": a list of moments and of the largest statistic of the stretch that ends there, as a part of its threshold,
 * the recent span's last.
 */
enum halay_status tft_drift(struct tft_inference *inference, const struct tft_drift_request *request, json_t **result);

#endif
