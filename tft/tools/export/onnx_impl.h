/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of an ONNX file, for onnx*.c: inputs, network, forecast, and the descriptions of inputs.
 *
 * The inputs are a table's values in its own units and names, as they are in a window, and the nodes that turn them
 * into the network's inputs: missing values filled, categories numbered, reals scaled by their entity and by the
 * window.
 *
 *   entity         (batch) string: the id, if something depends on it
 *   length         (batch) int64: steps of history, where the schema has a min_encoder; they end the window's past, and
 *                  what is before them is not read
 *   ROLE.NAME      one for each input of the schema but indicators of missing values, which follow from what is
 *                  missing: target and observed (batch, encoder), known (batch, encoder + horizon), static (batch)
 *
 * Reals are float32, NaN for a missing value; categories are strings, "" or another of the schema's texts for a missing
 * value; numbers of the calendar that are categories are int64.
 */
#ifndef HALAY_TFT_ONNX_IMPL_H
#define HALAY_TFT_ONNX_IMPL_H

#include "tft/core/run/run_folder.h"
#include "tft/core/score/calibration.h"
#include "tft/tools/export/onnx_graph.h"

/* ---- descriptions ---- */

enum { ONNX_ABOUT_MAX = 512 };

/* Describe the values of an input. */
void onnx_about_entity(const struct tft_run *run, char text[ONNX_ABOUT_MAX]);
void onnx_about_length(const struct tft_run *run, char text[ONNX_ABOUT_MAX]);
void onnx_about_input(const struct tft_run *run, size_t input, char text[ONNX_ABOUT_MAX]);

/* ---- network ---- */

/* The network is what tft/core/model/forward.c computes, layer by layer, without dropout. Rows are samples first: (B,
 * T, H). The table of parameters defines the layers and their kinds. Shapes are those of values. */
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

/* Adds the network. HALAY_ERR_UNSUPPORTED (logged): a layer that the file does not know. */
enum halay_status onnx_network(struct halay_log *log, struct onnx_graph *graph, const struct tft_model *model,
                               const float *params, const struct onnx_network_inputs *inputs,
                               struct onnx_network_outputs *outputs);

/* ---- inputs ---- */

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

/* Adds all inputs. HALAY_ERR_NO_MEMORY (logged). fini accepts any state. */
enum halay_status onnx_inputs_init(struct onnx_graph *graph, const struct tft_run *run, struct onnx_inputs *inputs);
void onnx_inputs_fini(struct onnx_inputs *inputs);
/* Sets the network's inputs. */
void onnx_inputs_of_network(const struct onnx_inputs *inputs, struct onnx_network_inputs *network);

/* Returns the entity's text, and its number; adds the input on the first call. */
size_t onnx_inputs_id(struct onnx_inputs *inputs);
size_t onnx_inputs_entity(struct onnx_inputs *inputs);
/* Adds a scaler's shift and scale of each sample: (B, 1), or one for all. */
void onnx_inputs_scaler(struct onnx_inputs *inputs, size_t input, size_t *shift, size_t *scale);

/* ---- forecast ---- */

/* The factors of the entities that have their own. */
struct onnx_calibration {
    struct tft_calibration factors; /* owned; its entities are `ids` */
    const char **ids;               /* owned array, its texts in the document */
    size_t count;
};

/* Reads the document of a folder's calibration, which must outlive it; errors are those of tft_calibration_take. */
enum halay_status onnx_calibration_init(struct halay_log *log, const char *folder, const struct tft_run *run,
                                        const json_t *document, struct onnx_calibration *calibration);
void onnx_calibration_fini(struct onnx_calibration *calibration);

/* Turns the network's result into a forecast in the targets' units: the window's scale undone, quantiles in order,
 * calibrated, the entity's scale undone; as tft/core/score/forecast.h does it. quantiles: (B, D, O, Q) of the network;
 * calibration: may be NULL. */
size_t onnx_forecast(struct onnx_inputs *inputs, const struct onnx_calibration *calibration, size_t quantiles);

#endif
