/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of an ONNX file, for onnx*.c: a graph under construction, and what adds to it: inputs, network, forecast.
 *
 * A graph has nodes, constants, inputs, outputs. A node's results are *values*, each a number; ONNX_NONE represents an
 * optional input that is absent. The first error is logged and kept, and checked once, when the file is written; until
 * then every call succeeds. Operators are those of ONNX's opset 17, and ai.onnx.ml's LabelEncoder.
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
 *
 * Letters of shapes: B batch, E encoder, D horizon, T both, H hidden size, O targets, Q quantiles.
 */
#ifndef HALAY_TFT_ONNX_IMPL_H
#define HALAY_TFT_ONNX_IMPL_H

#include "base/memory.h"
#include "base/protobuf.h"
#include "halay_tft.h"
#include <jansson.h>

#define ONNX_NONE ((size_t)0)

/* Numbers that ONNX defines. */
enum onnx_type { ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_TEXT = 8, ONNX_DOUBLE = 11 };

enum { ONNX_NAME_MAX = 160 };

/* A tensor of the model's weights. */
struct onnx_tensor {
    const char *name; /* borrowed, as the next two */
    const size_t *shape;
    const float *values;
    size_t dimensions;
    size_t constant; /* its value in the graph; ONNX_NONE: none so far */
};

/* An input of the schema, and its values. */
struct onnx_input {
    const json_t *is; /* borrowed: of halay_tft_model_encoding */
    const char *name; /* borrowed */
    size_t steps;     /* of a window; 0: it is static */
    int is_category;
    size_t raw;          /* as the table has it: doubles, or codes, -1 if missing */
    size_t scaled;       /* of reals: filled, and scaled by their entity */
    size_t mean, spread; /* (B, 1): of the window; ONNX_NONE: not scaled by it */
    size_t variable;     /* of the network: a float or an int64 code for each step, (B), (B, E) or (B, T) */
};

/* Zero-initialise; fini accepts any state. */
struct onnx_graph {
    struct halay_log *log;       /* borrowed */
    enum halay_status status;    /* of the first failure */
    struct halay_region memory;  /* owned: of the arrays below, and what is made for a while */
    json_t *model, *encoding;    /* owned: of halay_tft_model_describe and halay_tft_model_encoding */
    const json_t *config;        /* borrowed from the model */
    json_t *calibration;         /* owned: of halay_tft_model_calibration; NULL: forecasts have none */
    struct onnx_tensor *tensors; /* (tensor_count) */
    size_t tensor_count;
    size_t E, D, H, heads, O, Q;
    /* The file. */
    struct halay_protobuf nodes, constants, inputs, outputs; /* owned */
    struct halay_protobuf attributes;                        /* owned: of the next node */
    const char **names;                                      /* owned array: (count) of values, from 1 */
    size_t count, room;
    const char *part;                             /* borrowed: the prefix of new values' names */
    json_t *described_inputs, *described_outputs; /* owned: lists, in the graph's order */
    /* Its inputs. */
    struct onnx_input *columns; /* (column_count) */
    size_t column_count;
    size_t id, entity;     /* (B): the text, and its number among the entities; ONNX_NONE: not needed so far */
    size_t length, before; /* (B, 1): steps of history, and how many are missing; ONNX_NONE: never any */
    size_t batch;          /* (1): B */
};
void onnx_graph_fini(struct onnx_graph *graph);

/* Logs why the graph cannot be made, unless it has failed before. */
void onnx_graph_fail(struct onnx_graph *graph, enum halay_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- members of descriptions ---- */

int onnx_is(const json_t *object, const char *key, const char *word);
const char *onnx_text(const json_t *object, const char *key);
size_t onnx_size(const json_t *object, const char *key);
double onnx_real(const json_t *object, const char *key);

/* ---- values and nodes ---- */

/* Adds an input, which is described; its dimensions are the batch and, unless steps is 0, the steps. */
size_t onnx_input(struct onnx_graph *graph, const char *name, enum onnx_type type, size_t steps, const char *about);
/* Adds an output, whose first dimension is the batch; shape: the others. axis: names along the last one, or NULL. */
void onnx_output(struct onnx_graph *graph, size_t value, const char *name, const size_t *shape, size_t rank,
                 const char *about, json_t *axis);

/* Add constants; name may be NULL. The values are copied; NULL: memory has run out. */
size_t onnx_floats(struct onnx_graph *graph, const char *name, const float *values, const size_t *shape, size_t rank);
size_t onnx_doubles(struct onnx_graph *graph, const double *values, const size_t *shape, size_t rank);
size_t onnx_integers(struct onnx_graph *graph, const int64_t *values, const size_t *shape, size_t rank);
size_t onnx_float(struct onnx_graph *graph, float value);
size_t onnx_double(struct onnx_graph *graph, double value);
size_t onnx_integer(struct onnx_graph *graph, int64_t value);
/* Adds the integers 0 .. count - 1. */
size_t onnx_range(struct onnx_graph *graph, size_t count);

/* Set attributes of the next node. */
void onnx_set_integer(struct onnx_graph *graph, const char *name, int64_t value);
void onnx_set_integers(struct onnx_graph *graph, const char *name, const int64_t *values, size_t count);
void onnx_set_float(struct onnx_graph *graph, const char *name, float value);

/* Adds a node; ONNX_OP is for one result and a list of inputs. */
void onnx_node(struct onnx_graph *graph, const char *operator, const size_t * inputs, size_t count, size_t *results,
               size_t result_count);
size_t onnx_operate(struct onnx_graph *graph, const char *operator, const size_t * inputs, size_t count);
#define ONNX_OP(graph, operator, ...)                                  \
    onnx_operate((graph), (operator), (const size_t[]){ __VA_ARGS__ }, \
                 sizeof((const size_t[]){ __VA_ARGS__ }) / sizeof(size_t))

size_t onnx_cast(struct onnx_graph *graph, size_t x, enum onnx_type type);
size_t onnx_unsqueeze(struct onnx_graph *graph, size_t x, int64_t axis);
size_t onnx_squeeze(struct onnx_graph *graph, size_t x, int64_t axis);
size_t onnx_transpose(struct onnx_graph *graph, size_t x, const int64_t *order, size_t rank);
size_t onnx_reshape(struct onnx_graph *graph, size_t x, const int64_t *shape, size_t rank); /* 0: as it is; -1: rest */
size_t onnx_slice(struct onnx_graph *graph, size_t x, int64_t axis, size_t from, size_t to);
size_t onnx_concat(struct onnx_graph *graph, const size_t *values, size_t count, int64_t axis);
size_t onnx_gather(struct onnx_graph *graph, size_t x, size_t indices, int64_t axis);
/* Reduces the last axis to one element: "ReduceSum", "ReduceMean". */
size_t onnx_reduce(struct onnx_graph *graph, const char *operator, size_t x);
/* Maps each text to its code: codes is an object of them, or a list of texts, whose codes are their places. other: of a
 * text that it does not have. */
size_t onnx_codes(struct onnx_graph *graph, size_t texts, const json_t *codes, int64_t other);

/* Writes the whole model as the bytes of a file; metadata: texts by name. HALAY_ERR_NO_MEMORY, or
 * HALAY_ERR_UNSUPPORTED: more than the 2 GiB that the format allows. Logged. */
enum halay_status onnx_graph_model(struct onnx_graph *graph, const json_t *metadata, struct halay_protobuf *model);

/* ---- parts ---- */

/* Adds all inputs. */
void onnx_inputs(struct onnx_graph *graph);
/* Returns the input of this name. */
const struct onnx_input *onnx_inputs_find(const struct onnx_graph *graph, const char *name);
/* Returns the entity's text; adds the input on the first call. */
size_t onnx_inputs_id(struct onnx_graph *graph);
/* Adds a scaler's shift and scale of each sample: (B, 1), or one for all. */
void onnx_inputs_scaler(struct onnx_graph *graph, const struct onnx_input *input, size_t *shift, size_t *scale);

struct onnx_network {
    size_t quantiles;                /* (B, D, O, Q), scaled */
    size_t statics, history, future; /* weights: (B, variables), (B, E, variables), (B, D, variables); the first may be
                                        ONNX_NONE */
    size_t attention;                /* (B, heads, D, T) */
};

/* Adds what tft/core/model/forward.c computes, layer by layer, without dropout. Rows are samples first: (B, T, H). The
 * tensors define the layers and their kinds. HALAY_ERR_UNSUPPORTED: a layer that the file does not know. */
void onnx_network(struct onnx_graph *graph, struct onnx_network *network);

/* Turns the network's quantiles (B, D, O, Q) into a forecast in the targets' units: the window's scale undone,
 * quantiles in order, calibrated, the entity's scale undone; as tft/core/score/forecast.h does it. */
size_t onnx_forecast(struct onnx_graph *graph, size_t quantiles);

#endif
