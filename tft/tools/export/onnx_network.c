/* SPDX-License-Identifier: Apache-2.0
 *
 * The network's layers as nodes. A layer's kind follows from the parameters that it has: a skip connection with
 * weights, resampled, or the input itself; biases or none.
 */
#include "base/memory.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/model/distribution.h"
#include "tft/core/run/run_config.h"
#include "tft/tools/export/onnx_impl.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct network {
    struct halay_log *log; /* borrowed, as all of it */
    struct onnx_graph *g;
    const struct tft_model *model;
    const struct tft_model_config *config;
    const struct tft_param_table *table;
    const struct kernels *kernels;
    const float *params;
    const struct onnx_network_inputs *in;
    size_t *constants;        /* owned: (parameters) of each; ONNX_NONE: none so far */
    enum halay_status status; /* of the first failure */
};

/* ---- parameters ---- */

static const struct tft_param *find_param(const struct network *n, const char *layer, const char *tensor)
{
    char name[2 * TFT_PARAM_NAME_MAX];

    snprintf(name, sizeof name, "%s.%s", layer, tensor);
    for (size_t i = 0; i < n->table->count; i++)
        if (!strcmp(n->table->params[i].name, name))
            return &n->table->params[i];
    return NULL;
}

static const struct tft_param *need_param(struct network *n, const char *layer, const char *tensor)
{
    static const struct tft_param none = { .dimensions = 1, .shape = { 1 } };
    const struct tft_param *param = find_param(n, layer, tensor);

    if (param)
        return param;
    if (!n->status)
        halay_error(n->log, "the model has no parameter '%s.%s', which its ONNX graph needs", layer, tensor);
    n->status = n->status ? n->status : HALAY_ERR_UNSUPPORTED;
    return &none;
}

static size_t add_param(struct network *n, const char *layer, const char *tensor)
{
    const struct tft_param *param = need_param(n, layer, tensor);

    if (n->status)
        return ONNX_NONE;
    size_t *value = &n->constants[param - n->table->params];
    if (!*value)
        *value = onnx_floats(n->g, param->name, n->params + param->offset, param->shape, (size_t)param->dimensions);
    return *value;
}

/* Allocates a matrix for the file; the caller fills it and passes it to add_matrix. */
static float *make_matrix(struct network *n, size_t rows, size_t columns)
{
    size_t count;
    float *values = halay_mul_overflows(rows, columns, &count) ? NULL : calloc(count + 1, sizeof *values);

    if (!values)
        n->g->failed = 1;
    return values;
}

static size_t add_matrix(struct network *n, float *values, const size_t *shape, size_t rank)
{
    size_t value = values ? onnx_floats(n->g, NULL, values, shape, rank) : ONNX_NONE;

    free(values);
    return value;
}

/* ---- layers ---- */

/* Adds x W [+ b]; part: of the layer. */
static size_t add_linear(struct network *n, const char *layer, const char *part, size_t x)
{
    char kernel[64], bias[64];

    snprintf(kernel, sizeof kernel, "%s.kernel", part);
    snprintf(bias, sizeof bias, "%s.bias", part);
    size_t y = ONNX_OP(n->g, "MatMul", x, add_param(n, layer, kernel));
    return find_param(n, layer, bias) ? ONNX_OP(n->g, "Add", y, add_param(n, layer, bias)) : y;
}

static size_t add_norm(struct network *n, const char *layer, const char *part, size_t x)
{
    char gamma[64], beta[64];

    snprintf(gamma, sizeof gamma, "%s.gamma", part);
    snprintf(beta, sizeof beta, "%s.beta", part);
    size_t scale = add_param(n, layer, gamma), shift = add_param(n, layer, beta);
    onnx_set_integer(n->g, "axis", -1);
    onnx_set_float(n->g, "epsilon", n->config->conformance == TFT_PYTORCH_FORECASTING ? 1e-5F : 1e-3F);
    return ONNX_OP(n->g, "LayerNormalization", x, scale, shift);
}

static size_t add_gate(struct network *n, const char *layer, size_t x, size_t skip)
{
    size_t gate = ONNX_OP(n->g, "Sigmoid", add_linear(n, layer, "gate", x));
    size_t product = ONNX_OP(n->g, "Mul", add_linear(n, layer, "value", x), gate);

    return add_norm(n, layer, "norm", ONNX_OP(n->g, "Add", product, skip));
}

/* Adds the matrix by which a skip connection is resampled from `in` numbers. */
static size_t add_resampling(struct network *n, const char *layer, size_t in)
{
    const struct tft_param *mask = need_param(n, layer, "skip.mask");
    float *matrix = make_matrix(n, in, mask->count);

    if (matrix)
        n->kernels->resample(NULL, n->params + mask->offset, in, mask->count, matrix);
    return add_matrix(n, matrix, (const size_t[]){ in, mask->count }, 2);
}

/* Adds a gated residual network of `in` numbers; context: ONNX_NONE, or a value that can be added to its rows. */
static size_t add_grn(struct network *n, const char *layer, size_t in, size_t x, size_t context)
{
    size_t skip = x;

    if (find_param(n, layer, "skip.kernel"))
        skip = add_linear(n, layer, "skip", x);
    else if (find_param(n, layer, "skip.mask"))
        skip = add_norm(n, layer, "skip.norm", ONNX_OP(n->g, "MatMul", x, add_resampling(n, layer, in)));
    if (!find_param(n, layer, "dense1.kernel")) /* only a skip connection */
        return skip;
    size_t hidden = add_linear(n, layer, "dense1", x);
    if (context)
        hidden = ONNX_OP(n->g, "Add", hidden, add_linear(n, layer, "context", context));
    hidden = add_linear(n, layer, "dense2", ONNX_OP(n->g, "Elu", hidden));
    return add_gate(n, layer, hidden, skip);
}

/* ---- inputs and selections ---- */

/* Adds a variable's embedding, of `steps` steps from `from` on (0: a static one). */
static size_t embed_variable(struct network *n, size_t variable, size_t from, size_t steps)
{
    const struct tft_variable *v = &n->config->variables[variable];
    size_t x = n->in->variables[variable];
    char layer[TFT_NAME_MAX + 8];

    snprintf(layer, sizeof layer, "input.%s", v->name);
    if (steps && v->role == TFT_KNOWN)
        x = onnx_slice(n->g, x, 1, from, from + steps);
    if (v->type == TFT_CATEGORY)
        return onnx_gather(n->g, add_param(n, layer, "table"), x, 0);
    x = onnx_unsqueeze(n->g, x, -1);
    return ONNX_OP(n->g, "Add", ONNX_OP(n->g, "Mul", x, add_param(n, layer, "kernel")), add_param(n, layer, "bias"));
}

struct selection {
    const char *name;
    enum tft_choice choice;
    size_t from, steps, context;
    size_t weights; /* out: (..., variables) */
};

/* Adds a one for each row. */
static size_t ones_like(struct network *n, size_t rows)
{
    size_t first = onnx_slice(n->g, rows, -1, 0, 1), zero = onnx_float(n->g, 0);

    return ONNX_OP(n->g, "Add", ONNX_OP(n->g, "Mul", first, zero), onnx_float(n->g, 1));
}

static size_t select_variables(struct network *n, struct selection *s)
{
    size_t chosen[TFT_VARIABLES_MAX], xi[TFT_VARIABLES_MAX], weighed[TFT_VARIABLES_MAX], width = 0;
    size_t count = tft_config_choice(n->config, s->choice, chosen);
    char layer[2 * TFT_NAME_MAX];

    n->g->part = s->name;
    for (size_t j = 0; j < count; j++) {
        xi[j] = embed_variable(n, chosen[j], s->from, s->steps);
        width += tft_config_width(n->config, &n->config->variables[chosen[j]]);
    }
    snprintf(layer, sizeof layer, "%s.joint", s->name);
    if (count > 1)
        s->weights = ONNX_OP(n->g, "Softmax", add_grn(n, layer, width, onnx_concat(n->g, xi, count, -1), s->context));
    for (size_t j = 0; j < count; j++) {
        const struct tft_variable *v = &n->config->variables[chosen[j]];
        snprintf(layer, sizeof layer, "%s.variable.%s", s->name, v->name);
        weighed[j] = add_grn(n, layer, tft_config_width(n->config, v), xi[j], ONNX_NONE);
        if (count > 1)
            weighed[j] = ONNX_OP(n->g, "Mul", weighed[j], onnx_slice(n->g, s->weights, -1, j, j + 1));
    }
    if (count > 1)
        return onnx_operate(n->g, "Sum", weighed, count);
    s->weights = ones_like(n, weighed[0]);
    return weighed[0];
}

/* ---- LSTMs ---- */

/* Converts a kernel (H, 4 H) of gates i, f, g, o to ONNX's layout: (1, 4 H, H), of gates i, o, f, g. */
static size_t gates_kernel(struct network *n, const char *layer, const char *tensor)
{
    static const size_t ours[] = { 0, 3, 1, 2 };
    size_t H = n->config->H;
    const float *from = n->params + need_param(n, layer, tensor)->offset;
    float *to = make_matrix(n, 4 * H, H);

    for (size_t row = 0; to && !n->status && row < 4 * H; row++)
        for (size_t k = 0; k < H; k++)
            to[row * H + k] = from[k * 4 * H + ours[row / H] * H + row % H];
    return add_matrix(n, to, (const size_t[]){ 1, 4 * H, H }, 3);
}

/* Adds both biases, (1, 8 H); the second one is 0 where the model has none. */
static size_t gates_bias(struct network *n, const char *layer)
{
    static const size_t ours[] = { 0, 3, 1, 2 };
    const struct tft_param *biases[] = { need_param(n, layer, "bias"), find_param(n, layer, "recurrent.bias") };
    size_t H = n->config->H;
    float *to = make_matrix(n, 8, H);

    for (size_t i = 0; to && !n->status && i < 8 * H; i++) {
        const struct tft_param *bias = biases[i / (4 * H)];
        size_t row = i % (4 * H);
        if (bias)
            to[i] = n->params[bias->offset + ours[row / H] * H + row % H];
    }
    return add_matrix(n, to, (const size_t[]){ 1, 8 * H }, 2);
}

/* The states of an LSTM. */
struct state {
    size_t h, c; /* (1, B, H) */
};

/* Adds an LSTM. x and the result are (B, S, H); lengths (B): int32, ONNX_NONE: all steps. */
static size_t add_lstm(struct network *n, const char *layer, size_t x, size_t lengths, struct state *state)
{
    size_t results[3], y;

    n->g->part = layer;
    const size_t inputs[] = { onnx_transpose(n->g, x, (const int64_t[]){ 1, 0, 2 }, 3),
                              gates_kernel(n, layer, "kernel"),
                              gates_kernel(n, layer, "recurrent"),
                              gates_bias(n, layer),
                              lengths,
                              state->h,
                              state->c };
    onnx_set_integer(n->g, "hidden_size", (int64_t)n->config->H);
    onnx_node(n->g, "LSTM", inputs, sizeof inputs / sizeof *inputs, results, 3);
    *state = (struct state){ results[1], results[2] };
    y = onnx_squeeze(n->g, results[0], 1); /* the directions */
    return onnx_transpose(n->g, y, (const int64_t[]){ 1, 0, 2 }, 3);
}

/* Takes rows (B, E, H) by numbers (B, E). */
static size_t take_rows(struct network *n, size_t rows, size_t numbers)
{
    size_t places = onnx_unsqueeze(n->g, numbers, -1);

    onnx_set_integer(n->g, "batch_dims", 1);
    return ONNX_OP(n->g, "GatherND", rows, places);
}

/* Adds the encoder. ONNX's LSTM expects a shorter history at the beginning; the model's ends where the horizon
 * begins. */
static size_t add_encoder(struct network *n, size_t x, struct state *state)
{
    if (!n->in->lengths)
        return add_lstm(n, "encoder", x, ONNX_NONE, state);
    size_t last = onnx_integer(n->g, (int64_t)n->config->E - 1), zero = onnx_integer(n->g, 0);
    size_t steps = onnx_range(n->g, n->config->E),
           lengths = onnx_cast(n->g, onnx_squeeze(n->g, n->in->lengths, 1), ONNX_INT32);
    size_t missing = ONNX_OP(n->g, "Sub", onnx_integer(n->g, (int64_t)n->config->E), n->in->lengths);
    size_t forth = ONNX_OP(n->g, "Min", ONNX_OP(n->g, "Add", steps, missing), last);
    size_t back = ONNX_OP(n->g, "Max", ONNX_OP(n->g, "Sub", steps, missing), zero);
    return take_rows(n, add_lstm(n, "encoder", take_rows(n, x, forth), lengths, state), back);
}

/* ---- attention ---- */

/* Joins the heads' kernels or biases side by side: (H, H) or (H). */
static size_t heads_of(struct network *n, const char *part, const char *tensor, size_t rows)
{
    size_t H = n->config->H, heads = n->config->heads, d = H / heads;
    float *to = make_matrix(n, rows, H);
    char name[64];

    for (size_t h = 0; to && h < heads; h++) {
        snprintf(name, sizeof name, "%s.%zu.%s", part, h, tensor);
        const struct tft_param *param = need_param(n, "attention", name);
        for (size_t i = 0; !n->status && i < rows * d; i++)
            to[i / d * H + h * d + i % d] = n->params[param->offset + i];
    }
    return rows > 1 ? add_matrix(n, to, (const size_t[]){ rows, H }, 2) : add_matrix(n, to, &H, 1);
}

/* Projects x (B, rows, H) to (B, heads, rows, d), or with the last two swapped. */
static size_t project_heads(struct network *n, const char *part, size_t x, size_t rows, int swapped)
{
    size_t H = n->config->H, heads = n->config->heads;
    char bias[64];

    snprintf(bias, sizeof bias, "%s.0.bias", part);
    size_t y = ONNX_OP(n->g, "MatMul", x, heads_of(n, part, "kernel", H));
    if (find_param(n, "attention", bias))
        y = ONNX_OP(n->g, "Add", y, heads_of(n, part, "bias", 1));
    y = onnx_reshape(n->g, y, (const int64_t[]){ 0, (int64_t)rows, (int64_t)heads, (int64_t)(H / heads) }, 4);
    return onnx_transpose(n->g, y, swapped ? (const int64_t[]){ 0, 2, 3, 1 } : (const int64_t[]){ 0, 2, 1, 3 }, 4);
}

/* Adds the mask of scores (D, T): 0, or -infinity where a step of the horizon must not see a step of the window. */
static size_t causal_mask(struct network *n)
{
    size_t D = n->config->D, E = n->config->E, T = E + D;
    size_t itself = n->config->conformance != TFT_PYTORCH_FORECASTING;
    float *mask = make_matrix(n, D, T);

    for (size_t i = 0; mask && i < D * T; i++)
        mask[i] = i % T < E + i / T + itself ? 0 : -INFINITY;
    return add_matrix(n, mask, (const size_t[]){ D, T }, 2);
}

/* Adds the mask of the scores of steps before a shorter history: (B, 1, 1, T). */
static size_t history_mask(struct network *n)
{
    size_t E = n->config->E, D = n->config->D;
    size_t missing = ONNX_OP(n->g, "Sub", onnx_integer(n->g, (int64_t)E), n->in->lengths);
    size_t is_before = ONNX_OP(n->g, "Less", onnx_range(n->g, n->config->E), missing);
    size_t mask = ONNX_OP(n->g, "Where", is_before, onnx_float(n->g, -INFINITY), onnx_float(n->g, 0));
    const int64_t pads[] = { 0, 0, 0, (int64_t)D }, shape[] = { 0, 1, 1, (int64_t)(E + D) };

    mask = ONNX_OP(n->g, "Pad", mask, onnx_integers(n->g, pads, (const size_t[]){ 4 }, 1));
    return onnx_reshape(n->g, mask, shape, 4);
}

/* Adds attention from x (B, T, H) to (B, D, H); *weights (B, heads, D, T). */
static size_t add_attention(struct network *n, size_t x, size_t *weights)
{
    size_t E = n->config->E, D = n->config->D, T = E + D, d = n->config->H / n->config->heads;
    const int64_t heads = 1, drop = 0;

    n->g->part = "attention";
    size_t q = project_heads(n, "query", onnx_slice(n->g, x, 1, E, T), D, 0), k = project_heads(n, "key", x, T, 1);
    size_t scores = ONNX_OP(n->g, "Mul", ONNX_OP(n->g, "MatMul", q, k), onnx_float(n->g, (float)(1 / sqrt((double)d))));
    scores = ONNX_OP(n->g, "Add", scores, causal_mask(n));
    if (n->in->lengths)
        scores = ONNX_OP(n->g, "Add", scores, history_mask(n));
    *weights = ONNX_OP(n->g, "Softmax", scores);
    onnx_set_integers(n->g, "axes", &heads, 1);
    onnx_set_integer(n->g, "keepdims", drop);
    size_t mean = ONNX_OP(n->g, "ReduceMean", *weights);
    return add_linear(n, "attention", "output", ONNX_OP(n->g, "MatMul", mean, add_linear(n, "attention", "value", x)));
}

/* ---- the whole network ---- */

/* Adds the last layer's numbers, (B, D, O, P); name: what they are. */
static size_t last_layer(struct network *n, const char *name, size_t rows)
{
    size_t P = tft_config_outputs(n->config), targets = tft_model_columns(n->model)->targets;
    const int64_t shape[] = { 0, (int64_t)n->config->D, (int64_t)P, (int64_t)targets };
    size_t p = onnx_reshape(n->g, add_linear(n, "output", name, rows), shape, 4);

    return onnx_transpose(n->g, p, (const int64_t[]){ 0, 1, 3, 2 }, 4);
}

/* Adds quantiles that cannot cross, from the first one and the distances. */
static size_t ascending_quantiles(struct network *n, size_t p)
{
    size_t Q = n->config->quantile_count;

    if (Q == 1)
        return p;
    const size_t steps[] = { onnx_slice(n->g, p, -1, 0, 1), ONNX_OP(n->g, "Softplus", onnx_slice(n->g, p, -1, 1, Q)) };
    return ONNX_OP(n->g, "CumSum", onnx_concat(n->g, steps, 2, -1), onnx_integer(n->g, 3));
}

/* Adds the quantiles of a normal distribution, which are linear in its mean and deviation. */
static size_t normal_quantiles(struct network *n, size_t p)
{
    const struct tft_distribution normal = { .family = TFT_LOSS_GAUSSIAN, .at = { 0, 1 } };
    const size_t Q = n->config->quantile_count;
    float at[TFT_QUANTILES_MAX];

    for (size_t q = 0; q < Q; q++)
        at[q] = (float)tft_distribution_quantile(&normal, n->config->quantiles[q]);
    size_t spread = ONNX_OP(n->g, "Softplus", onnx_slice(n->g, p, -1, 1, 2));
    spread = ONNX_OP(n->g, "Add", spread, onnx_float(n->g, (float)TFT_LEAST_SPREAD));
    spread = ONNX_OP(n->g, "Mul", spread, onnx_floats(n->g, NULL, at, &Q, 1));
    return ONNX_OP(n->g, "Add", onnx_slice(n->g, p, -1, 0, 1), spread);
}

/* Adds the head: from the last rows (B, D, H) to quantiles (B, D, O, Q), scaled as the window is, as
 * tft/core/model/distribution.c makes them. */
static size_t add_head(struct network *n, size_t rows)
{
    const struct tft_model_config *config = n->config;

    n->g->part = "output";
    if (config->loss == TFT_LOSS_QUANTILES) {
        size_t p = last_layer(n, "quantiles", rows);
        return config->ascending ? ascending_quantiles(n, p) : p;
    }
    if (tft_loss_is_point(config->loss))
        return last_layer(n, "point", rows);
    if (config->loss == TFT_LOSS_GAUSSIAN)
        return normal_quantiles(n, last_layer(n, "gaussian", rows));
    if (!n->status)
        halay_error(
            n->log,
            "'loss: %s': quantiles of this distribution are found by search, which no ONNX graph can do; it can "
            "have quantiles, mae, mse, huber and gaussian",
            tft_loss_words[config->loss]);
    n->status = n->status ? n->status : HALAY_ERR_UNSUPPORTED;
    return ONNX_NONE;
}

/* Adds one of the static vector's uses, (B or 1, H). */
static size_t add_context(struct network *n, const char *name, size_t vector)
{
    n->g->part = name;
    return add_grn(n, name, n->config->H, vector, ONNX_NONE);
}

/* Adds a context as an initial state (1, B, H): without static inputs all samples share one. */
static size_t initial_state(struct network *n, const char *name, size_t vector)
{
    size_t one = onnx_integers(n->g, (const int64_t[]){ 1 }, (const size_t[]){ 1 }, 1);
    const size_t shape[] = { one, n->in->batch, one };

    return ONNX_OP(n->g, "Expand", onnx_unsqueeze(n->g, add_context(n, name, vector), 0),
                   onnx_concat(n->g, shape, 3, 0));
}

static size_t static_vector(struct network *n, struct onnx_network_outputs *out)
{
    struct selection statics = { .name = "static", .choice = TFT_CHOICE_STATIC };
    size_t chosen[TFT_VARIABLES_MAX], vector;

    if (!tft_config_choice(n->config, TFT_CHOICE_STATIC, chosen))
        return add_matrix(n, make_matrix(n, 1, n->config->H), (const size_t[]){ 1, n->config->H }, 2);
    vector = select_variables(n, &statics);
    out->selections[TFT_CHOICE_STATIC] = statics.weights;
    return vector;
}

/* Adds the sequence up to attention, phi (B, T, H). */
static size_t add_sequence(struct network *n, size_t vector, struct onnx_network_outputs *out)
{
    size_t E = n->config->E, D = n->config->D;
    size_t own = onnx_unsqueeze(n->g, add_context(n, "context.selection", vector), 1);
    struct selection history = { "history", TFT_CHOICE_HISTORY, 0, E, own, 0 };
    struct selection future = { "future", TFT_CHOICE_FUTURE, E, D, own, 0 };
    const size_t x[] = { select_variables(n, &history), select_variables(n, &future) };
    struct state state = { initial_state(n, "context.state_h", vector), initial_state(n, "context.state_c", vector) };
    size_t y[2];

    y[0] = add_encoder(n, x[0], &state);
    y[1] = add_lstm(n, "decoder", x[1], ONNX_NONE, &state);
    out->selections[TFT_CHOICE_HISTORY] = history.weights;
    out->selections[TFT_CHOICE_FUTURE] = future.weights;
    n->g->part = "sequence_gate";
    size_t rows = onnx_concat(n->g, y, 2, 1), skip = onnx_concat(n->g, x, 2, 1);
    return add_gate(n, "sequence_gate", rows, skip);
}

enum halay_status onnx_network(struct halay_log *log, struct onnx_graph *graph, const struct tft_model *model,
                               const float *params, const struct onnx_network_inputs *inputs,
                               struct onnx_network_outputs *outputs)
{
    struct network n = { .log = log,
                         .g = graph,
                         .model = model,
                         .config = tft_model_config(model),
                         .table = tft_model_params(model),
                         .kernels = tft_model_kernels(model),
                         .params = params,
                         .in = inputs,
                         .constants = calloc(tft_model_params(model)->count, sizeof *n.constants) };
    size_t E = n.config->E, T = E + n.config->D, H = n.config->H;

    *outputs = (struct onnx_network_outputs){ 0 };
    if (!n.constants) {
        halay_error(log, "no memory for an ONNX model");
        return HALAY_ERR_NO_MEMORY;
    }
    size_t vector = static_vector(&n, outputs), phi = add_sequence(&n, vector, outputs);
    size_t about = onnx_unsqueeze(graph, add_context(&n, "context.enrichment", vector), 1);
    graph->part = "enrichment";
    size_t enriched = add_grn(&n, "enrichment", H, phi, about),
           attended = add_attention(&n, enriched, &outputs->attention);
    graph->part = "tail";
    size_t rows = add_gate(&n, "attention_gate", attended, onnx_slice(graph, enriched, 1, E, T));
    rows = add_grn(&n, "feedforward", H, rows, ONNX_NONE);
    rows = add_gate(&n, "output_gate", rows, onnx_slice(graph, phi, 1, E, T));
    outputs->quantiles = add_head(&n, rows);
    graph->part = NULL;
    free(n.constants);
    return n.status;
}
