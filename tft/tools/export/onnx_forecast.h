/* SPDX-License-Identifier: Apache-2.0
 *
 * From what the network computes to a forecast in the targets' units: the window's scale undone, quantiles in
 * order, calibrated, the entity's scale undone; as tft/core/score/forecast.h does it.
 */
#ifndef HALAY_TFT_ONNX_FORECAST_H
#define HALAY_TFT_ONNX_FORECAST_H

#include "tft/core/score/calibration.h"
#include "tft/tools/export/onnx_inputs.h"

/* The factors of those entities that have their own. */
struct onnx_calibration {
    struct tft_calibration factors; /* owned; its entities are `ids` */
    const char **ids;               /* owned array, its texts in the document */
    size_t count;
};

/* Take the document of a folder's calibration, which stays the caller's until fini; errors are those of
 * tft_calibration_take. */
enum halay_status onnx_calibration_init(struct halay_log *log, const char *folder, const struct tft_run *run,
                                        const json_t *document, struct onnx_calibration *calibration);
void onnx_calibration_fini(struct onnx_calibration *calibration);

/* quantiles (B, D, O, Q) of the network; calibration: NULL if there is none. */
size_t onnx_forecast(struct onnx_inputs *inputs, const struct onnx_calibration *calibration, size_t quantiles);

#endif
