/* SPDX-License-Identifier: Apache-2.0
 *
 * Export: a model as a file that other programs read, in one of the formats.
 */
#ifndef HALAY_TFT_EXPORT_H
#define HALAY_TFT_EXPORT_H

#include "tft/tools/export/onnx.h"
#include "tft/tools/export/torch.h"

/* Those of tft/tools/export/torch.h, and one more. */
enum { TFT_EXPORT_ONNX = TFT_TORCH_FORECASTING + 1, TFT_EXPORT_FORMATS };
extern const char *const tft_export_formats[]; /* their names, ended by NULL */

struct tft_export {
    int format;
    const char *path;             /* "-": standard output */
    struct tft_onnx_options onnx; /* of that format */
};

/* Write the file, which replaces its name at the end or not at all. *described: a new reference: the arguments of a
 * constructor for the model, or what to feed to a graph. */
enum halay_status tft_export_run(struct halay_log *log, const struct tft_run *run, const struct tft_export *export,
                                 json_t **described);

#endif
