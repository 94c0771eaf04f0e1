/* SPDX-License-Identifier: Apache-2.0
 *
 * The network as an ONNX graph: what tft/core/model/forward.c computes, layer by layer, without dropout. Rows are
 * samples first: (B, T, H). Which layers there are, and of which kind, is read off the table of parameters.
 */
#ifndef HALAY_TFT_ONNX_NETWORK_H
#define HALAY_TFT_ONNX_NETWORK_H

#include "tft/core/model/model.h"
#include "tft/tools/export/onnx_graph.h"

/* What the network reads; shapes are those of values. */
struct onnx_network_inputs {
    size_t variables[TFT_VARIABLES_MAX]; /* of the configuration's variables: a float or an int64 code for each step,
                                            (B) of a static one, (B, E), or (B, E + D) of one that is known */
    size_t batch;                        /* (1): B */
    size_t lengths;                      /* (B, 1): steps of history; ONNX_NONE: all have E */
};

struct onnx_network_outputs {
    size_t quantiles;               /* (B, D, O, Q), scaled */
    size_t selections[TFT_CHOICES]; /* weights: (B, variables), (B, E, variables), (B, D, variables); the first may
                                         be ONNX_NONE */
    size_t attention;               /* (B, heads, D, E + D) */
};

/* HALAY_ERR_UNSUPPORTED (logged): a layer that this file does not know. */
enum halay_status onnx_network(struct halay_log *log, struct onnx_graph *graph, const struct tft_model *model,
                               const float *params, const struct onnx_network_inputs *inputs,
                               struct onnx_network_outputs *outputs);

#endif
