/* SPDX-License-Identifier: Apache-2.0
 *
 * A trained model as an ONNX file that forecasts from a table's own values: scaling, categories and calibration are
 * in the graph, which needs no operator of its own. It forecasts as the model alone does: baselines that a run
 * blends with (tft/core/run/baselines.h) need more of the past than a window. tft/tools/export/onnx_inputs.h says what
 * it reads. Outputs:
 *
 *   quantiles      (batch, horizon, targets, quantiles) float32, in the targets' units
 *   static_weights (batch, variables), past_weights (batch, encoder, variables), future_weights (batch, horizon,
 *                  variables), attention (batch, heads, horizon, encoder + horizon): if they are asked for
 *
 * The file's metadata and what tft_onnx_write describes are the same; the metadata also have the schema.
 */
#ifndef HALAY_TFT_ONNX_H
#define HALAY_TFT_ONNX_H

#include "tft/core/run/run_folder.h"

struct tft_onnx_options {
    int calibrate;             /* of tft_calibrate_words; -1: as the run was trained */
    const json_t *calibration; /* what the run's calibration.json holds; NULL: it has none */
    const char *folder;        /* the run's, for messages; NULL: it is in memory */
    int explains;              /* with weights and attention */
};

/*
 * Write the file, which replaces its name at the end or not at all. *described: a new reference, {"inputs": ...,
 * "outputs": ..., ...}. HALAY_ERR_ARGUMENT (logged): forecasts that no graph can make, or there is no calibration;
 * HALAY_ERR_UNSUPPORTED: a layer or a size that no graph can have; HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY.
 */
enum halay_status tft_onnx_write(struct halay_log *log, const char *path, const struct tft_run *run,
                                 const struct tft_onnx_options *options, json_t **described);

#endif
