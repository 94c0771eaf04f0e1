/* SPDX-License-Identifier: Apache-2.0
 *
 * The network's layers as nodes. A layer's kind follows from the parameters that it has: a skip connection with
 * weights, resampled, or the input itself; biases or none.
 */
#include "tft/tools/export/onnx_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- tensors ---- */

/* Returns the tensor LAYER.PART.LAST, or LAYER.LAST if part is NULL; NULL: the model has none. */
static struct onnx_tensor *find_tensor(const struct onnx_graph *g, const char *layer, const char *part,
                                       const char *last)
{
    char name[2 * ONNX_NAME_MAX];

    snprintf(name, sizeof name, "%s%s%s.%s", layer, part ? "." : "", part ? part : "", last);
    for (size_t i = 0; i < g->tensor_count; i++)
        if (!strcmp(g->tensors[i].name, name))
            return &g->tensors[i];
    return NULL;
}

/* Returns a tensor that the graph needs; NULL: it has failed. */
static struct onnx_tensor *need_tensor(struct onnx_graph *g, const char *layer, const char *part, const char *last)
{
    struct onnx_tensor *tensor = find_tensor(g, layer, part, last);

    if (!tensor)
        onnx_graph_fail(g, HALAY_ERR_UNSUPPORTED, "the model has no parameter '%s%s%s.%s', which its ONNX graph needs",
                        layer, part ? "." : "", part ? part : "", last);
    return tensor;
}

/* Adds a tensor, once. */
static size_t add_tensor(struct onnx_graph *g, const char *layer, const char *part, const char *last)
{
    struct onnx_tensor *t = need_tensor(g, layer, part, last);

    if (t && !t->constant)
        t->constant = onnx_floats(g, t->name, t->values, t->shape, t->dimensions);
    return t ? t->constant : ONNX_NONE;
}

/* Returns room for a matrix of zeros, to be filled and added as a constant; NULL without memory. */
static float *make_matrix(struct onnx_graph *g, size_t rows, size_t columns)
{
    return halay_region_alloc(&g->memory, rows, columns * sizeof(float));
}

/* ---- layers ---- */

/* Adds x W [+ b]; part: of the layer. */
static size_t add_linear(struct onnx_graph *g, const char *layer, const char *part, size_t x)
{
    size_t y = ONNX_OP(g, "MatMul", x, add_tensor(g, layer, part, "kernel"));

    return find_tensor(g, layer, part, "bias") ? ONNX_OP(g, "Add", y, add_tensor(g, layer, part, "bias")) : y;
}

static size_t add_norm(struct onnx_graph *g, const char *layer, const char *part, size_t x)
{
    size_t scale = add_tensor(g, layer, part, "gamma"), shift = add_tensor(g, layer, part, "beta");

    onnx_set_integer(g, "axis", -1);
    onnx_set_float(g, "epsilon", onnx_is(g->config, "conformance", "pytorch-forecasting") ? 1e-5F : 1e-3F);
    return ONNX_OP(g, "LayerNormalization", x, scale, shift);
}

static size_t add_gate(struct onnx_graph *g, const char *layer, size_t x, size_t skip)
{
    size_t gate = ONNX_OP(g, "Sigmoid", add_linear(g, layer, "gate", x));
    size_t product = ONNX_OP(g, "Mul", add_linear(g, layer, "value", x), gate);

    return add_norm(g, layer, "norm", ONNX_OP(g, "Add", product, skip));
}

/* Adds the matrix by which a skip connection is resampled from `in` numbers: it interpolates between two neighbours
 * and scales. */
static size_t add_resampling(struct onnx_graph *g, const char *layer, size_t in)
{
    const struct onnx_tensor *mask = find_tensor(g, layer, "skip", "mask");
    const json_t *scales = json_object_get(json_object_get(g->encoding, "formulas"), "skip_scales");
    const json_t *of_mask = json_object_get(scales, mask->name);
    const size_t out = mask->shape[0];
    float *matrix = make_matrix(g, in, out);

    for (size_t o = 0; matrix && o < out; o++) {
        const float scale = (float)json_number_value(json_array_get(of_mask, o));
        const float position = out > 1 ? (float)o * (float)(in - 1) / (float)(out - 1) : 0;
        const size_t left = (size_t)position < in - 1 ? (size_t)position : in - 1;
        const size_t right = left + 1 < in ? left + 1 : left;
        const float share = position - (float)left;
        matrix[left * out + o] += scale * (1 - share);
        matrix[right * out + o] += scale * share;
    }
    return onnx_floats(g, NULL, matrix, (const size_t[]){ in, out }, 2);
}

/* Adds a gated residual network of `in` numbers; context: ONNX_NONE, or a value that can be added to its rows. */
static size_t add_grn(struct onnx_graph *g, const char *layer, size_t in, size_t x, size_t context)
{
    size_t skip = x;

    if (find_tensor(g, layer, "skip", "kernel"))
        skip = add_linear(g, layer, "skip", x);
    else if (find_tensor(g, layer, "skip", "mask"))
        skip = add_norm(g, layer, "skip.norm", ONNX_OP(g, "MatMul", x, add_resampling(g, layer, in)));
    if (!find_tensor(g, layer, "dense1", "kernel")) /* only a skip connection */
        return skip;
    size_t hidden = add_linear(g, layer, "dense1", x);
    if (context)
        hidden = ONNX_OP(g, "Add", hidden, add_linear(g, layer, "context", context));
    hidden = add_linear(g, layer, "dense2", ONNX_OP(g, "Elu", hidden));
    return add_gate(g, layer, hidden, skip);
}

/* ---- inputs and selections ---- */

/* Returns how many numbers an input's embedding has. */
static size_t width_of(const struct onnx_graph *g, const struct onnx_input *in)
{
    const struct onnx_tensor *t = find_tensor(g, "input", in->name, in->is_category ? "table" : "kernel");

    return t ? t->shape[t->dimensions - 1] : 0;
}

/* Adds an input's embedding, of `steps` steps from `from` on (0: a static one). */
static size_t embed_input(struct onnx_graph *g, const struct onnx_input *in, size_t from, size_t steps)
{
    size_t x = in->variable;

    if (in->steps > g->E)
        x = onnx_slice(g, x, 1, from, from + steps);
    if (in->is_category)
        return onnx_gather(g, add_tensor(g, "input", in->name, "table"), x, 0);
    x = onnx_unsqueeze(g, x, -1);
    x = ONNX_OP(g, "Mul", x, add_tensor(g, "input", in->name, "kernel"));
    return ONNX_OP(g, "Add", x, add_tensor(g, "input", in->name, "bias"));
}

struct selection {
    const char *name, *of; /* of the layers, and of "selected" in the model's description */
    size_t from, steps, context;
    size_t weights; /* out: (..., variables) */
};

static const json_t *selected_names(const struct onnx_graph *g, const char *of)
{
    return json_object_get(json_object_get(g->model, "selected"), of);
}

/* Adds a one for each row. */
static size_t ones_like(struct onnx_graph *g, size_t rows)
{
    size_t first = onnx_slice(g, rows, -1, 0, 1), zero = onnx_float(g, 0);

    return ONNX_OP(g, "Add", ONNX_OP(g, "Mul", first, zero), onnx_float(g, 1));
}

static size_t select_variables(struct onnx_graph *g, struct selection *s)
{
    const json_t *names = selected_names(g, s->of);
    const size_t count = json_array_size(names);
    size_t *xi = halay_region_alloc(&g->memory, count, sizeof *xi), width = 0;
    const struct onnx_input **inputs = halay_region_alloc(&g->memory, count, sizeof *inputs);
    char layer[ONNX_NAME_MAX];

    if (!xi || !inputs)
        return ONNX_NONE;
    g->part = s->name;
    for (size_t j = 0; j < count; j++) {
        inputs[j] = onnx_inputs_find(g, json_string_value(json_array_get(names, j)));
        xi[j] = embed_input(g, inputs[j], s->from, s->steps);
        width += width_of(g, inputs[j]);
    }
    snprintf(layer, sizeof layer, "%s.joint", s->name);
    if (count > 1)
        s->weights = ONNX_OP(g, "Softmax", add_grn(g, layer, width, onnx_concat(g, xi, count, -1), s->context));
    for (size_t j = 0; j < count; j++) {
        snprintf(layer, sizeof layer, "%s.variable.%s", s->name, inputs[j]->name);
        xi[j] = add_grn(g, layer, width_of(g, inputs[j]), xi[j], ONNX_NONE);
        if (count > 1)
            xi[j] = ONNX_OP(g, "Mul", xi[j], onnx_slice(g, s->weights, -1, j, j + 1));
    }
    if (count > 1)
        return onnx_operate(g, "Sum", xi, count);
    s->weights = ones_like(g, xi[0]);
    return xi[0];
}

/* ---- LSTMs ---- */

/* Returns where row `row` of ONNX's gates i, o, f, g is among ours: i, f, g, o. */
static size_t gate_row(const struct onnx_graph *g, size_t row)
{
    static const size_t ours[] = { 0, 3, 1, 2 };

    return ours[row / g->H] * g->H + row % g->H;
}

/* Converts a kernel (H, 4 H) to ONNX's layout: (1, 4 H, H). */
static size_t gates_kernel(struct onnx_graph *g, const char *layer, const char *part)
{
    const size_t H = g->H, shape[] = { 1, 4 * H, H };
    const struct onnx_tensor *from = need_tensor(g, layer, NULL, part);
    float *to = make_matrix(g, 4 * H, H);

    for (size_t row = 0; to && from && row < 4 * H; row++)
        for (size_t k = 0; k < H; k++)
            to[row * H + k] = from->values[k * 4 * H + gate_row(g, row)];
    return onnx_floats(g, NULL, to, shape, 3);
}

/* Adds both biases, (1, 8 H); the second one is 0 where the model has none. */
static size_t gates_bias(struct onnx_graph *g, const char *layer)
{
    const struct onnx_tensor *biases[] = { need_tensor(g, layer, NULL, "bias"),
                                           find_tensor(g, layer, "recurrent", "bias") };
    const size_t H = g->H, shape[] = { 1, 8 * H };
    float *to = make_matrix(g, 8, H);

    for (size_t i = 0; to && i < 8 * H; i++)
        if (biases[i / (4 * H)])
            to[i] = biases[i / (4 * H)]->values[gate_row(g, i % (4 * H))];
    return onnx_floats(g, NULL, to, shape, 2);
}

/* The states of an LSTM. */
struct state {
    size_t h, c; /* (1, B, H) */
};

/* Adds an LSTM. x and the result are (B, S, H); lengths (B): int32, ONNX_NONE: all steps. */
static size_t add_lstm(struct onnx_graph *g, const char *layer, size_t x, size_t lengths, struct state *state)
{
    size_t results[3], y;

    g->part = layer;
    const size_t inputs[] = { onnx_transpose(g, x, (const int64_t[]){ 1, 0, 2 }, 3),
                              gates_kernel(g, layer, "kernel"),
                              gates_kernel(g, layer, "recurrent"),
                              gates_bias(g, layer),
                              lengths,
                              state->h,
                              state->c };
    onnx_set_integer(g, "hidden_size", (int64_t)g->H);
    onnx_node(g, "LSTM", inputs, sizeof inputs / sizeof *inputs, results, 3);
    *state = (struct state){ results[1], results[2] };
    y = onnx_squeeze(g, results[0], 1); /* the directions */
    return onnx_transpose(g, y, (const int64_t[]){ 1, 0, 2 }, 3);
}

/* Takes rows (B, E, H) by numbers (B, E). */
static size_t take_rows(struct onnx_graph *g, size_t rows, size_t numbers)
{
    size_t places = onnx_unsqueeze(g, numbers, -1);

    onnx_set_integer(g, "batch_dims", 1);
    return ONNX_OP(g, "GatherND", rows, places);
}

/* Adds the encoder. ONNX's LSTM expects a shorter history at the beginning; the model's ends where the horizon
 * begins. */
static size_t add_encoder(struct onnx_graph *g, size_t x, struct state *state)
{
    if (!g->length)
        return add_lstm(g, "encoder", x, ONNX_NONE, state);
    size_t last = onnx_integer(g, (int64_t)g->E - 1), zero = onnx_integer(g, 0);
    size_t steps = onnx_range(g, g->E), lengths = onnx_cast(g, onnx_squeeze(g, g->length, 1), ONNX_INT32);
    size_t missing = ONNX_OP(g, "Sub", onnx_integer(g, (int64_t)g->E), g->length);
    size_t forth = ONNX_OP(g, "Min", ONNX_OP(g, "Add", steps, missing), last);
    size_t back = ONNX_OP(g, "Max", ONNX_OP(g, "Sub", steps, missing), zero);
    return take_rows(g, add_lstm(g, "encoder", take_rows(g, x, forth), lengths, state), back);
}

/* ---- attention ---- */

/* Joins the heads' kernels or biases side by side: (H, H) or (H). */
static size_t heads_of(struct onnx_graph *g, const char *part, const char *tensor, size_t rows)
{
    const size_t H = g->H, d = H / g->heads, shape[] = { rows, H };
    float *to = make_matrix(g, rows, H);
    char name[64];

    for (size_t h = 0; to && h < g->heads; h++) {
        snprintf(name, sizeof name, "%s.%zu", part, h);
        const struct onnx_tensor *from = need_tensor(g, "attention", name, tensor);
        for (size_t i = 0; from && i < rows * d; i++)
            to[i / d * H + h * d + i % d] = from->values[i];
    }
    return rows > 1 ? onnx_floats(g, NULL, to, shape, 2) : onnx_floats(g, NULL, to, &H, 1);
}

/* Projects x (B, rows, H) to (B, heads, rows, d), or with the last two swapped. */
static size_t project_heads(struct onnx_graph *g, const char *part, size_t x, size_t rows, int swapped)
{
    const int64_t heads = (int64_t)g->heads, d = (int64_t)(g->H / g->heads);
    char first[64];

    snprintf(first, sizeof first, "%s.0", part);
    size_t y = ONNX_OP(g, "MatMul", x, heads_of(g, part, "kernel", g->H));
    if (find_tensor(g, "attention", first, "bias"))
        y = ONNX_OP(g, "Add", y, heads_of(g, part, "bias", 1));
    y = onnx_reshape(g, y, (const int64_t[]){ 0, (int64_t)rows, heads, d }, 4);
    return onnx_transpose(g, y, swapped ? (const int64_t[]){ 0, 2, 3, 1 } : (const int64_t[]){ 0, 2, 1, 3 }, 4);
}

/* Adds the mask of scores (D, T): 0, or -infinity where a step of the horizon must not see a step of the window. */
static size_t causal_mask(struct onnx_graph *g)
{
    size_t D = g->D, E = g->E, T = E + D;
    size_t itself = !onnx_is(g->config, "conformance", "pytorch-forecasting");
    float *mask = make_matrix(g, D, T);

    for (size_t i = 0; mask && i < D * T; i++)
        mask[i] = i % T < E + i / T + itself ? 0 : -INFINITY;
    return onnx_floats(g, NULL, mask, (const size_t[]){ D, T }, 2);
}

/* Adds the mask of the scores of steps before a shorter history: (B, 1, 1, T). */
static size_t history_mask(struct onnx_graph *g)
{
    size_t E = g->E, D = g->D;
    size_t missing = ONNX_OP(g, "Sub", onnx_integer(g, (int64_t)E), g->length);
    size_t is_before = ONNX_OP(g, "Less", onnx_range(g, g->E), missing);
    size_t mask = ONNX_OP(g, "Where", is_before, onnx_float(g, -INFINITY), onnx_float(g, 0));
    const int64_t pads[] = { 0, 0, 0, (int64_t)D }, shape[] = { 0, 1, 1, (int64_t)(E + D) };

    mask = ONNX_OP(g, "Pad", mask, onnx_integers(g, pads, (const size_t[]){ 4 }, 1));
    return onnx_reshape(g, mask, shape, 4);
}

/* Adds attention from x (B, T, H) to (B, D, H); *weights (B, heads, D, T). */
static size_t add_attention(struct onnx_graph *g, size_t x, size_t *weights)
{
    size_t E = g->E, D = g->D, T = E + D, d = g->H / g->heads;
    const int64_t heads = 1, drop = 0;

    g->part = "attention";
    size_t q = project_heads(g, "query", onnx_slice(g, x, 1, E, T), D, 0), k = project_heads(g, "key", x, T, 1);
    size_t scores = ONNX_OP(g, "Mul", ONNX_OP(g, "MatMul", q, k), onnx_float(g, (float)(1 / sqrt((double)d))));
    scores = ONNX_OP(g, "Add", scores, causal_mask(g));
    if (g->length)
        scores = ONNX_OP(g, "Add", scores, history_mask(g));
    *weights = ONNX_OP(g, "Softmax", scores);
    onnx_set_integers(g, "axes", &heads, 1);
    onnx_set_integer(g, "keepdims", drop);
    size_t mean = ONNX_OP(g, "ReduceMean", *weights);
    return add_linear(g, "attention", "output", ONNX_OP(g, "MatMul", mean, add_linear(g, "attention", "value", x)));
}

/* ---- the whole network ---- */

/* Adds the last layer's numbers, (B, D, O, P), P of each target; name: what they are. */
static size_t last_layer(struct onnx_graph *g, const char *name, size_t rows)
{
    const struct onnx_tensor *t = need_tensor(g, "output", name, "bias");
    const int64_t shape[] = { 0, (int64_t)g->D, t ? (int64_t)(t->shape[0] / g->O) : 0, (int64_t)g->O };
    size_t p = onnx_reshape(g, add_linear(g, "output", name, rows), shape, 4);

    return onnx_transpose(g, p, (const int64_t[]){ 0, 1, 3, 2 }, 4);
}

/* Adds quantiles that cannot cross, from the first one and the distances. */
static size_t ascending_quantiles(struct onnx_graph *g, size_t p)
{
    if (g->Q == 1)
        return p;
    size_t first = onnx_slice(g, p, -1, 0, 1), others = ONNX_OP(g, "Softplus", onnx_slice(g, p, -1, 1, g->Q));
    return ONNX_OP(g, "CumSum", onnx_concat(g, (const size_t[]){ first, others }, 2, -1), onnx_integer(g, 3));
}

/* Adds the quantiles of a normal distribution, which are linear in its mean and deviation. */
static size_t normal_quantiles(struct onnx_graph *g, size_t p)
{
    const json_t *formulas = json_object_get(g->encoding, "formulas");
    const json_t *list = json_object_get(formulas, "normal_quantiles");
    float *at = halay_region_alloc(&g->memory, g->Q, sizeof *at);

    for (size_t q = 0; at && q < g->Q; q++)
        at[q] = (float)json_number_value(json_array_get(list, q));
    size_t spread = ONNX_OP(g, "Softplus", onnx_slice(g, p, -1, 1, 2));
    spread = ONNX_OP(g, "Add", spread, onnx_float(g, (float)onnx_real(formulas, "deviation_least")));
    spread = ONNX_OP(g, "Mul", spread, onnx_floats(g, NULL, at, &g->Q, 1));
    return ONNX_OP(g, "Add", onnx_slice(g, p, -1, 0, 1), spread);
}

/* Adds the head: from the last rows (B, D, H) to quantiles (B, D, O, Q), scaled as the window is, as
 * tft/core/model/distribution.c makes them. */
static size_t add_head(struct onnx_graph *g, size_t rows)
{
    const char *loss = onnx_text(g->config, "loss");

    g->part = "output";
    if (!loss || !strcmp(loss, "quantiles")) {
        size_t p = last_layer(g, "quantiles", rows);
        return onnx_is(g->config, "crossing", "forbid") ? ascending_quantiles(g, p) : p;
    }
    if (!strcmp(loss, "mae") || !strcmp(loss, "mse") || !strcmp(loss, "huber"))
        return last_layer(g, "point", rows);
    if (!strcmp(loss, "gaussian"))
        return normal_quantiles(g, last_layer(g, "gaussian", rows));
    onnx_graph_fail(g, HALAY_ERR_UNSUPPORTED,
                    "'loss: %s': quantiles of this distribution are found by search, which no ONNX graph can do; it "
                    "can have quantiles, mae, mse, huber and gaussian",
                    loss);
    return ONNX_NONE;
}

/* Adds one of the static vector's uses, (B or 1, H). */
static size_t add_context(struct onnx_graph *g, const char *name, size_t vector)
{
    g->part = name;
    return add_grn(g, name, g->H, vector, ONNX_NONE);
}

/* Adds a context as an initial state (1, B, H): without static inputs all samples share one. */
static size_t initial_state(struct onnx_graph *g, const char *name, size_t vector)
{
    size_t one = onnx_integers(g, (const int64_t[]){ 1 }, (const size_t[]){ 1 }, 1);
    const size_t shape[] = { one, g->batch, one };

    return ONNX_OP(g, "Expand", onnx_unsqueeze(g, add_context(g, name, vector), 0), onnx_concat(g, shape, 3, 0));
}

static size_t static_vector(struct onnx_graph *g, struct onnx_network *network)
{
    struct selection statics = { .name = "static", .of = "static" };

    if (!json_array_size(selected_names(g, "static")))
        return onnx_floats(g, NULL, make_matrix(g, 1, g->H), (const size_t[]){ 1, g->H }, 2);
    size_t vector = select_variables(g, &statics);
    network->statics = statics.weights;
    return vector;
}

/* Adds the sequence up to attention, phi (B, T, H). */
static size_t add_sequence(struct onnx_graph *g, size_t vector, struct onnx_network *network)
{
    size_t own = onnx_unsqueeze(g, add_context(g, "context.selection", vector), 1);
    struct selection history = { "history", "past", 0, g->E, own, 0 };
    struct selection future = { "future", "future", g->E, g->D, own, 0 };
    const size_t x[] = { select_variables(g, &history), select_variables(g, &future) };
    struct state state = { initial_state(g, "context.state_h", vector), initial_state(g, "context.state_c", vector) };
    size_t y[2];

    y[0] = add_encoder(g, x[0], &state);
    y[1] = add_lstm(g, "decoder", x[1], ONNX_NONE, &state);
    network->history = history.weights;
    network->future = future.weights;
    g->part = "sequence_gate";
    size_t rows = onnx_concat(g, y, 2, 1), skip = onnx_concat(g, x, 2, 1);
    return add_gate(g, "sequence_gate", rows, skip);
}

void onnx_network(struct onnx_graph *g, struct onnx_network *network)
{
    const size_t T = g->E + g->D;

    *network = (struct onnx_network){ 0 };
    size_t vector = static_vector(g, network), phi = add_sequence(g, vector, network);
    size_t about = onnx_unsqueeze(g, add_context(g, "context.enrichment", vector), 1);
    g->part = "enrichment";
    size_t enriched = add_grn(g, "enrichment", g->H, phi, about);
    size_t attended = add_attention(g, enriched, &network->attention);
    g->part = "tail";
    size_t rows = add_gate(g, "attention_gate", attended, onnx_slice(g, enriched, 1, g->E, T));
    rows = add_grn(g, "feedforward", g->H, rows, ONNX_NONE);
    rows = add_gate(g, "output_gate", rows, onnx_slice(g, phi, 1, g->E, T));
    network->quantiles = add_head(g, rows);
    g->part = NULL;
}
