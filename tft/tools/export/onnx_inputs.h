/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of an ONNX graph: a table's values in its own units and words, as they stand in a window, and the nodes
 * that make of them what the network reads: missing values filled, categories numbered, reals scaled by their entity
 * and by the window.
 *
 *   entity         (batch) string: the id, where something depends on it
 *   length         (batch) int64: steps of history, where the schema has a min_encoder; they end the window's past, and
 *                  what stands before them is not read
 *   ROLE.NAME      one for each input of the schema but indicators of missing values, which follow from what is
 *                  missing: target and observed (batch, encoder), known (batch, encoder + horizon), static (batch)
 *
 * Reals are float32, NaN where there is no value; categories are strings, "" or another word for missing values of the
 * schema where there is none; numbers of the calendar that are categories are int64.
 */
#ifndef HALAY_TFT_ONNX_INPUTS_H
#define HALAY_TFT_ONNX_INPUTS_H

#include "tft/core/run/run_folder.h"
#include "tft/tools/export/onnx_graph.h"
#include "tft/tools/export/onnx_network.h"

struct onnx_inputs {
    struct onnx_graph *g;          /* borrowed */
    const struct tft_run *run;     /* borrowed */
    json_t *described;             /* owned: a list, in the graph's order */
    size_t id, entity;             /* (B): the text, and its number in the encoding; ONNX_NONE: not needed so far */
    size_t length, before;         /* (B, 1): steps of history, and how many are missing; ONNX_NONE: never any */
    size_t raw[TFT_INPUTS_MAX];    /* of the schema's inputs: as the table has it: doubles, or codes, -1 if missing */
    size_t scaled[TFT_INPUTS_MAX]; /* of reals: filled, and scaled by their entity */
    size_t mean[TFT_INPUTS_MAX], spread[TFT_INPUTS_MAX]; /* (B, 1): of the window; ONNX_NONE: not scaled by it */
};

/* Add all inputs. HALAY_ERR_NO_MEMORY (logged). fini accepts any state. */
enum halay_status onnx_inputs_init(struct onnx_graph *graph, const struct tft_run *run, struct onnx_inputs *inputs);
void onnx_inputs_fini(struct onnx_inputs *inputs);
/* What the network reads. */
void onnx_inputs_of_network(const struct onnx_inputs *inputs, struct onnx_network_inputs *network);

/* The entity's text, and its number; the input is added if there is none yet. */
size_t onnx_inputs_id(struct onnx_inputs *inputs);
size_t onnx_inputs_entity(struct onnx_inputs *inputs);
/* A scaler's shift and scale of each sample: (B, 1), or one for all. */
void onnx_inputs_scaler(struct onnx_inputs *inputs, size_t input, size_t *shift, size_t *scale);

#endif
