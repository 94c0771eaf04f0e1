/* SPDX-License-Identifier: Apache-2.0
 *
 * Missing values of a window, filled in the graph as tft/core/data/table_impl.h fills a table's: nothing is carried
 * backwards, and a line is drawn between two values that the window has both.
 */
#ifndef HALAY_TFT_ONNX_FILL_H
#define HALAY_TFT_ONNX_FILL_H

#include "tft/tools/export/onnx_graph.h"

/* x (B, steps): doubles, NaN if missing. What cannot be filled stays NaN. */
size_t onnx_fill_forward(struct onnx_graph *graph, size_t x, size_t steps);
size_t onnx_fill_line(struct onnx_graph *graph, size_t x, size_t steps);
/* x (B, steps): codes, -1 if missing. */
size_t onnx_fill_codes(struct onnx_graph *graph, size_t x, size_t steps);

#endif
