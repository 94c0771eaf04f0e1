/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the messages of onnx.proto field by field: each list of the graph (its nodes, for example) is one buffer of
 * complete fields, and a model is a header and these lists.
 */
#include "base/number_text.h"
#include "tft/tools/export/onnx_impl.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IR_VERSION = 8, OPSET = 17, ML_OPSET = 3 };
static const char ml_domain[] = "ai.onnx.ml";

/* Numbers of fields. ModelProto; OperatorSetIdProto and StringStringEntryProto have 1 and 2. */
enum { M_IR_VERSION = 1, M_PRODUCER = 2, M_PRODUCER_VERSION = 3, M_GRAPH = 7, M_OPSET = 8, M_METADATA = 14 };
enum { G_NODE = 1, G_NAME = 2, G_CONSTANT = 5, G_INPUT = 11, G_OUTPUT = 12 };
enum { N_INPUT = 1, N_OUTPUT = 2, N_NAME = 3, N_OPERATOR = 4, N_ATTRIBUTE = 5, N_DOMAIN = 7 };
enum { A_NAME = 1, A_FLOAT = 2, A_INTEGER = 3, A_INTEGERS = 8, A_TEXTS = 9, A_TYPE = 20 };
enum { A_IS_FLOAT = 1, A_IS_INTEGER = 2, A_IS_INTEGERS = 7, A_IS_TEXTS = 8 };
enum { T_DIMENSION = 1, T_TYPE = 2, T_NAME = 8, T_RAW = 9 };
/* ValueInfoProto, with TypeProto, its Tensor, and TensorShapeProto. */
enum { V_NAME = 1, V_TYPE = 2, V_ABOUT = 3, V_TENSOR = 1, V_ELEMENT = 1, V_SHAPE = 2, V_DIMENSION = 1 };
enum { D_NUMBER = 1, D_WORD = 2 };

void onnx_graph_fini(struct onnx_graph *g)
{
    struct halay_protobuf *const buffers[] = { &g->nodes, &g->constants, &g->inputs, &g->outputs, &g->attributes };
    json_t *const documents[] = { g->model, g->encoding, g->calibration, g->described_inputs, g->described_outputs };

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        halay_protobuf_fini(buffers[i]);
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        json_decref(documents[i]);
    halay_region_fini(&g->memory);
    free(g->names);
    *g = (struct onnx_graph){ 0 };
}

void onnx_graph_fail(struct onnx_graph *g, enum halay_status status, const char *format, ...)
{
    char text[400];
    va_list arguments;

    if (g->status)
        return;
    va_start(arguments, format);
    halay_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    g->status = halay_fail(g->log, status, "%s", text);
}

/* ---- members of descriptions ---- */

const char *onnx_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int onnx_is(const json_t *object, const char *key, const char *word)
{
    const char *text = onnx_text(object, key);

    return text && !strcmp(text, word);
}

size_t onnx_size(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

double onnx_real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* ---- values ---- */

/* Returns a new value; name may be NULL. Without memory ONNX_NONE. */
static size_t add_value(struct onnx_graph *g, const char *name)
{
    char made[ONNX_NAME_MAX];

    snprintf(made, sizeof made, "%s/%zu", g->part ? g->part : "graph", g->count + 1);
    name = name ? name : made;
    char *own = halay_region_alloc(&g->memory, strlen(name) + 1, 1);
    if (!own || halay_list_grow(&g->names, g->count, &g->room, sizeof *g->names)) {
        g->memory.failed = 1;
        return ONNX_NONE;
    }
    g->names[g->count++] = strcpy(own, name);
    return g->count;
}

static const char *name_of(const struct onnx_graph *g, size_t value)
{
    return value ? g->names[value - 1] : "";
}

static void put_dimension(struct halay_protobuf *to, size_t size)
{
    size_t from = to->size;

    if (size)
        halay_protobuf_whole(to, D_NUMBER, size);
    else
        halay_protobuf_text(to, D_WORD, "batch");
    halay_protobuf_wrap(to, from, V_DIMENSION);
}

static void put_value_info(struct halay_protobuf *to, unsigned field, const char *name, enum onnx_type type,
                           const size_t *shape, size_t rank, const char *about)
{
    size_t from = to->size;

    halay_protobuf_text(to, V_NAME, name);
    size_t tensor = to->size;
    halay_protobuf_whole(to, V_ELEMENT, type);
    size_t dimensions = to->size;
    put_dimension(to, 0);
    for (size_t i = 0; i < rank; i++)
        put_dimension(to, shape[i]);
    halay_protobuf_wrap(to, dimensions, V_SHAPE);
    halay_protobuf_wrap(to, tensor, V_TENSOR);
    halay_protobuf_wrap(to, tensor, V_TYPE);
    halay_protobuf_text(to, V_ABOUT, about);
    halay_protobuf_wrap(to, from, field);
}

/* Describes an input or output: a member of the list. */
static void describe_value(struct onnx_graph *g, json_t *list, const char *name, const char *type, const size_t *shape,
                           size_t rank, const char *about, json_t *axis)
{
    json_t *sizes = json_pack("[s]", "batch");

    for (size_t i = 0; i < rank; i++)
        json_array_append_new(sizes, json_integer((json_int_t)shape[i]));
    json_t *described =
        json_pack("{ss ss* so ss so*}", "name", name, "type", type, "shape", sizes, "about", about, "last", axis);
    if (json_array_append_new(list, described))
        g->memory.failed = 1;
}

size_t onnx_input(struct onnx_graph *g, const char *name, enum onnx_type type, size_t steps, const char *about)
{
    static const char *const types[] = { [ONNX_FLOAT] = "float32", [ONNX_INT64] = "int64", [ONNX_TEXT] = "string" };

    describe_value(g, g->described_inputs, name, types[type], &steps, steps ? 1 : 0, about, NULL);
    put_value_info(&g->inputs, G_INPUT, name, type, &steps, steps ? 1 : 0, about);
    return add_value(g, name);
}

void onnx_output(struct onnx_graph *g, size_t value, const char *name, const size_t *shape, size_t rank,
                 const char *about, json_t *axis)
{
    size_t named = add_value(g, name), from = g->nodes.size;

    describe_value(g, g->described_outputs, name, NULL, shape, rank, about, axis);
    halay_protobuf_text(&g->nodes, N_INPUT, name_of(g, value));
    halay_protobuf_text(&g->nodes, N_OUTPUT, name_of(g, named));
    halay_protobuf_text(&g->nodes, N_NAME, name_of(g, named));
    halay_protobuf_text(&g->nodes, N_OPERATOR, "Identity");
    halay_protobuf_wrap(&g->nodes, from, G_NODE);
    put_value_info(&g->outputs, G_OUTPUT, name, ONNX_FLOAT, shape, rank, about);
}

/* ---- constants ---- */

static size_t add_constant(struct onnx_graph *g, const char *name, enum onnx_type type, const void *values,
                           size_t width, const size_t *shape, size_t rank)
{
    size_t value = values ? add_value(g, name) : ONNX_NONE, from = g->constants.size, count = 1;

    if (!value)
        return ONNX_NONE;
    for (size_t i = 0; i < rank; i++) {
        halay_protobuf_whole(&g->constants, T_DIMENSION, shape[i]);
        count *= shape[i];
    }
    halay_protobuf_whole(&g->constants, T_TYPE, type);
    halay_protobuf_text(&g->constants, T_NAME, name_of(g, value));
    halay_protobuf_bytes(&g->constants, T_RAW, values, count * width);
    halay_protobuf_wrap(&g->constants, from, G_CONSTANT);
    return value;
}

size_t onnx_floats(struct onnx_graph *g, const char *name, const float *values, const size_t *shape, size_t rank)
{
    return add_constant(g, name, ONNX_FLOAT, values, sizeof *values, shape, rank);
}

size_t onnx_doubles(struct onnx_graph *g, const double *values, const size_t *shape, size_t rank)
{
    return add_constant(g, NULL, ONNX_DOUBLE, values, sizeof *values, shape, rank);
}

size_t onnx_integers(struct onnx_graph *g, const int64_t *values, const size_t *shape, size_t rank)
{
    return add_constant(g, NULL, ONNX_INT64, values, sizeof *values, shape, rank);
}

size_t onnx_float(struct onnx_graph *g, float value)
{
    return onnx_floats(g, NULL, &value, NULL, 0);
}

size_t onnx_double(struct onnx_graph *g, double value)
{
    return onnx_doubles(g, &value, NULL, 0);
}

size_t onnx_integer(struct onnx_graph *g, int64_t value)
{
    return onnx_integers(g, &value, NULL, 0);
}

size_t onnx_range(struct onnx_graph *g, size_t count)
{
    int64_t *numbers = halay_region_alloc(&g->memory, count, sizeof *numbers);

    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = (int64_t)i;
    return onnx_integers(g, numbers, &count, 1);
}

/* ---- attributes ---- */

static void end_attribute(struct onnx_graph *g, size_t from, const char *name, unsigned type)
{
    halay_protobuf_text(&g->attributes, A_NAME, name);
    halay_protobuf_whole(&g->attributes, A_TYPE, type);
    halay_protobuf_wrap(&g->attributes, from, N_ATTRIBUTE);
}

void onnx_set_integer(struct onnx_graph *g, const char *name, int64_t value)
{
    size_t from = g->attributes.size;

    halay_protobuf_whole(&g->attributes, A_INTEGER, (uint64_t)value);
    end_attribute(g, from, name, A_IS_INTEGER);
}

void onnx_set_integers(struct onnx_graph *g, const char *name, const int64_t *values, size_t count)
{
    size_t from = g->attributes.size;

    for (size_t i = 0; i < count; i++)
        halay_protobuf_whole(&g->attributes, A_INTEGERS, (uint64_t)values[i]);
    end_attribute(g, from, name, A_IS_INTEGERS);
}

void onnx_set_float(struct onnx_graph *g, const char *name, float value)
{
    size_t from = g->attributes.size;

    halay_protobuf_float(&g->attributes, A_FLOAT, value);
    end_attribute(g, from, name, A_IS_FLOAT);
}

/* ---- nodes ---- */

void onnx_node(struct onnx_graph *g, const char *operator, const size_t * inputs, size_t count, size_t *results,
               size_t result_count)
{
    size_t from = g->nodes.size;

    for (size_t i = 0; i < count; i++)
        halay_protobuf_text(&g->nodes, N_INPUT, name_of(g, inputs[i]));
    for (size_t i = 0; i < result_count; i++) {
        results[i] = add_value(g, NULL);
        halay_protobuf_text(&g->nodes, N_OUTPUT, name_of(g, results[i]));
    }
    halay_protobuf_text(&g->nodes, N_NAME, name_of(g, results[0]));
    halay_protobuf_text(&g->nodes, N_OPERATOR, operator);
    if (!strcmp(operator, "LabelEncoder"))
        halay_protobuf_text(&g->nodes, N_DOMAIN, ml_domain);
    halay_protobuf_append(&g->nodes, &g->attributes);
    g->attributes.size = 0;
    halay_protobuf_wrap(&g->nodes, from, G_NODE);
}

size_t onnx_operate(struct onnx_graph *g, const char *operator, const size_t * inputs, size_t count)
{
    size_t result;

    onnx_node(g, operator, inputs, count, &result, 1);
    return result;
}

/* ---- common nodes ---- */

size_t onnx_cast(struct onnx_graph *g, size_t x, enum onnx_type type)
{
    onnx_set_integer(g, "to", type);
    return ONNX_OP(g, "Cast", x);
}

/* Adds a list of one axis. */
static size_t axis_of(struct onnx_graph *g, int64_t axis)
{
    return onnx_integers(g, &axis, (const size_t[]){ 1 }, 1);
}

size_t onnx_unsqueeze(struct onnx_graph *g, size_t x, int64_t axis)
{
    return ONNX_OP(g, "Unsqueeze", x, axis_of(g, axis));
}

size_t onnx_squeeze(struct onnx_graph *g, size_t x, int64_t axis)
{
    return ONNX_OP(g, "Squeeze", x, axis_of(g, axis));
}

size_t onnx_transpose(struct onnx_graph *g, size_t x, const int64_t *order, size_t rank)
{
    onnx_set_integers(g, "perm", order, rank);
    return ONNX_OP(g, "Transpose", x);
}

size_t onnx_reshape(struct onnx_graph *g, size_t x, const int64_t *shape, size_t rank)
{
    return ONNX_OP(g, "Reshape", x, onnx_integers(g, shape, &rank, 1));
}

size_t onnx_slice(struct onnx_graph *g, size_t x, int64_t axis, size_t from, size_t to)
{
    return ONNX_OP(g, "Slice", x, axis_of(g, (int64_t)from), axis_of(g, (int64_t)to), axis_of(g, axis));
}

size_t onnx_concat(struct onnx_graph *g, const size_t *values, size_t count, int64_t axis)
{
    onnx_set_integer(g, "axis", axis);
    return onnx_operate(g, "Concat", values, count);
}

size_t onnx_gather(struct onnx_graph *g, size_t x, size_t indices, int64_t axis)
{
    onnx_set_integer(g, "axis", axis);
    return ONNX_OP(g, "Gather", x, indices);
}

size_t onnx_reduce(struct onnx_graph *g, const char *operator, size_t x)
{
    const int64_t last = -1;

    if (!strcmp(operator, "ReduceSum")) /* the others get it as an attribute until opset 18 */
        return ONNX_OP(g, operator, x, axis_of(g, last));
    onnx_set_integers(g, "axes", &last, 1);
    return ONNX_OP(g, operator, x);
}

size_t onnx_codes(struct onnx_graph *g, size_t texts, const json_t *codes, int64_t other)
{
    const size_t count = json_is_array(codes) ? json_array_size(codes) : json_object_size(codes);
    int64_t *numbers = halay_region_alloc(&g->memory, count, sizeof *numbers);
    size_t from = g->attributes.size, i;
    const char *text;
    json_t *code;

    if (!numbers)
        return ONNX_NONE;
    json_array_foreach(codes, i, code) {
        halay_protobuf_text(&g->attributes, A_TEXTS, json_string_value(code));
        numbers[i] = (int64_t)i;
    }
    json_object_foreach((json_t *)codes, text, code) {
        halay_protobuf_text(&g->attributes, A_TEXTS, text);
        numbers[i++] = json_integer_value(code);
    }
    end_attribute(g, from, "keys_strings", A_IS_TEXTS);
    onnx_set_integers(g, "values_int64s", numbers, count);
    onnx_set_integer(g, "default_int64", other);
    return ONNX_OP(g, "LabelEncoder", texts);
}

/* ---- the model ---- */

static void put_opset(struct halay_protobuf *to, const char *domain, uint64_t version)
{
    size_t from = to->size;

    halay_protobuf_text(to, 1, domain);
    halay_protobuf_whole(to, 2, version);
    halay_protobuf_wrap(to, from, M_OPSET);
}

static void put_metadata(struct halay_protobuf *to, const json_t *metadata)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)metadata, key, value) {
        size_t from = to->size;
        halay_protobuf_text(to, 1, key);
        halay_protobuf_text(to, 2, json_string_value(value));
        halay_protobuf_wrap(to, from, M_METADATA);
    }
}

enum halay_status onnx_graph_model(struct onnx_graph *g, const json_t *metadata, struct halay_protobuf *model)
{
    const struct halay_protobuf *const lists[] = { &g->nodes, &g->constants, &g->inputs, &g->outputs };
    struct halay_protobuf m = { 0 };

    halay_protobuf_whole(&m, M_IR_VERSION, IR_VERSION);
    halay_protobuf_text(&m, M_PRODUCER, "halay");
    halay_protobuf_text(&m, M_PRODUCER_VERSION, halay_version());
    size_t from = m.size;
    halay_protobuf_text(&m, G_NAME, onnx_text(g->encoding, "schema"));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        halay_protobuf_append(&m, lists[i]);
    halay_protobuf_wrap(&m, from, M_GRAPH);
    put_opset(&m, "", OPSET);
    put_opset(&m, ml_domain, ML_OPSET);
    put_metadata(&m, metadata);
    if (m.failed || g->memory.failed)
        onnx_graph_fail(g, HALAY_ERR_NO_MEMORY, "no memory for an ONNX model");
    else if (m.size > INT_MAX)
        onnx_graph_fail(g, HALAY_ERR_UNSUPPORTED, "the model has %zu bytes, and ONNX allows no file of more than 2 GiB",
                        m.size);
    if (g->status)
        halay_protobuf_fini(&m);
    else
        *model = m;
    return g->status;
}
