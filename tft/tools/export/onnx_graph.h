/* SPDX-License-Identifier: Apache-2.0
 *
 * An ONNX graph under construction: nodes, constants, inputs, outputs. A node's results are *values*, each a number;
 * ONNX_NONE represents an optional input that is absent.
 *
 * An error (out of memory) is kept and checked once, when the file is written; until then every call succeeds.
 * Operators are those of ONNX's opset 17, and ai.onnx.ml's LabelEncoder.
 */
#ifndef HALAY_TFT_ONNX_GRAPH_H
#define HALAY_TFT_ONNX_GRAPH_H

#include "base/log.h"
#include "base/protobuf.h"
#include <jansson.h>

#define ONNX_NONE ((size_t)0)

/* Numbers that ONNX defines. */
enum onnx_type { ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_TEXT = 8, ONNX_BOOL = 9, ONNX_DOUBLE = 11 };
const char *onnx_type_name(enum onnx_type type); /* "float32" */

enum { ONNX_RANK_MAX = 4 };

/* Zero-initialise; fini accepts any state. */
struct onnx_graph {
    struct halay_protobuf nodes, constants, inputs, outputs; /* owned */
    struct halay_protobuf attributes;                        /* owned: of the next node */
    char **names;                                            /* owned: (count) of values, from 1 */
    size_t count, room;
    const char *part; /* borrowed: the prefix of new values' names */
    int failed;
};
void onnx_graph_fini(struct onnx_graph *graph);

/* Adds an input whose first dimension is the batch; shape: the other dimensions. about: for people. */
size_t onnx_input(struct onnx_graph *graph, const char *name, enum onnx_type type, const size_t *shape, size_t rank,
                  const char *about);
void onnx_output(struct onnx_graph *graph, size_t value, const char *name, const size_t *shape, size_t rank,
                 const char *about);

/* Add constants; name may be NULL. The values are copied. */
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

/* ---- common nodes ---- */

size_t onnx_cast(struct onnx_graph *graph, size_t x, enum onnx_type type);
size_t onnx_unsqueeze(struct onnx_graph *graph, size_t x, int64_t axis);
size_t onnx_squeeze(struct onnx_graph *graph, size_t x, int64_t axis);
size_t onnx_transpose(struct onnx_graph *graph, size_t x, const int64_t *order, size_t rank);
size_t onnx_reshape(struct onnx_graph *graph, size_t x, const int64_t *shape, size_t rank); /* 0: as it is; -1: rest */
size_t onnx_slice(struct onnx_graph *graph, size_t x, int64_t axis, size_t from, size_t to);
size_t onnx_concat(struct onnx_graph *graph, const size_t *values, size_t count, int64_t axis);
/* Takes element k along an axis, which is removed. */
size_t onnx_element(struct onnx_graph *graph, size_t x, int64_t axis, size_t k);
size_t onnx_gather(struct onnx_graph *graph, size_t x, size_t indices, int64_t axis);
/* Reduces the last axis to one element by sum, mean or maximum: "ReduceSum", "ReduceMean", "ReduceMax". */
size_t onnx_reduce(struct onnx_graph *graph, const char *operator, size_t x);
/* Shifts x (batch, steps) by `by` steps to later (earlier if negative), with `empty` in the steps without a source. */
size_t onnx_shift(struct onnx_graph *graph, size_t x, int64_t by, size_t empty);
/* Maps each text to its code; codes NULL: its number among the keys; other: of a text that is not a key. */
size_t onnx_codes(struct onnx_graph *graph, size_t texts, const char *const *keys, const int64_t *codes, size_t count,
                  int64_t other);

/* Writes the whole model as the bytes of a file; metadata: texts by name. HALAY_ERR_NO_MEMORY, or
 * HALAY_ERR_UNSUPPORTED: more than the 2 GiB that the format allows. Logged. */
enum halay_status onnx_graph_model(struct halay_log *log, const struct onnx_graph *graph, const char *name,
                                   const json_t *metadata, struct halay_protobuf *model);

#endif
