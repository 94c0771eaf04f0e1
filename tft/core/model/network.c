/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of a model: each gets its parameters' places and its dropout site's name.
 *
 * The table has the order of forward: inputs, static selection, contexts, history and future selection, LSTMs, gate,
 * enrichment, attention, tail. Backward goes through it from the end. A builder keeps its first error, which is checked
 * once, at the end.
 */
#include "base/memory.h"
#include "tft/core/kernels/philox.h"
#include "tft/core/model/model_impl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    struct tft_model *model;
    size_t taken;             /* tensors that belong to a layer's span already */
    struct grn *networks;     /* of the next selection's variables */
    enum halay_status status; /* of the first failure */
};

static size_t add_tensor(struct builder *builder, const char *layer, const char *tensor, size_t rows, size_t columns,
                         enum tft_init init)
{
    char name[2 * TFT_PARAM_NAME_MAX];
    size_t offset = 0;

    snprintf(name, sizeof name, "%s.%s", layer, tensor);
    if (!builder->status)
        builder->status = tft_params_add(&builder->model->table, name, rows, columns, init, &offset);
    return offset;
}

/* A matrix of products. */
static size_t add_matrix(struct builder *builder, const char *layer, const char *tensor, size_t rows, size_t columns,
                         enum tft_init init)
{
    tft_params_align(&builder->model->table);
    return add_tensor(builder, layer, tensor, rows, columns, init);
}

/* A tensor's kind, for its initial values. */
enum tensor { DENSE, CONTEXT, GATE, ATTENTION, OUTPUT, REAL_INPUT, LSTM, TABLE };

/* Sets the initial values of the tensor added last, as the conformance has them. in and out: of its layer. */
static void set_initial(struct builder *builder, enum tensor tensor, size_t in, size_t out, int bias)
{
    enum tft_conformance whose = builder->model->config.conformance;
    struct tft_param *param;

    if (builder->status || whose == TFT_PUBLISHED)
        return;
    param = &builder->model->table.params[builder->model->table.count - 1];
    if (tensor == TABLE || (tensor == REAL_INPUT && whose == TFT_NVIDIA && !bias)) {
        param->init = TFT_INIT_NORMAL;
        param->spread = tensor == TABLE ? 1 : sqrt(2 / (double)(in + out));
    } else if (whose == TFT_NVIDIA ? tensor != REAL_INPUT : tensor >= OUTPUT) {
        param->init = TFT_INIT_UNIFORM;
        param->spread = 1 / sqrt((double)in);
    } else if (whose == TFT_PYTORCH_FORECASTING && tensor == DENSE && !bias) {
        param->init = TFT_INIT_NORMAL;
        param->spread = sqrt(2 / (double)in);
    } else if (whose == TFT_PYTORCH_FORECASTING && tensor == GATE && !bias) { /* one layer of twice the width */
        param->init = TFT_INIT_UNIFORM;
        param->spread = sqrt(6 / (double)(in + 2 * out));
    }
}

/* The tensors added since the last span: those of one layer. */
static struct span take_span(struct builder *builder)
{
    const struct span span = { builder->taken, builder->model->table.count - builder->taken };

    builder->taken += span.count;
    return span;
}

static struct linear add_linear(struct builder *builder, const char *layer, const char *part, enum tensor kind,
                                size_t in, size_t out, int bias)
{
    char tensor[64];
    struct linear linear = { .in = in, .out = out, .w = TFT_NONE, .b = TFT_NONE };

    snprintf(tensor, sizeof tensor, "%s.kernel", part);
    linear.w = add_matrix(builder, layer, tensor, in, out, TFT_INIT_GLOROT);
    set_initial(builder, kind, in, out, 0);
    snprintf(tensor, sizeof tensor, "%s.bias", part);
    if (!bias)
        return linear;
    linear.b = add_tensor(builder, layer, tensor, 0, out, TFT_INIT_ZERO);
    set_initial(builder, kind, in, out, 1);
    return linear;
}

static struct layernorm add_norm(struct builder *builder, const char *layer, const char *part, size_t width)
{
    enum tft_conformance whose = builder->model->config.conformance;
    struct layernorm norm = { .W = width, .epsilon = (real)(whose == TFT_PYTORCH_FORECASTING ? 1e-5 : 1e-3) };
    char tensor[64];

    if (width == 1 && whose == TFT_NVIDIA) /* of a selection of one variable, which is not computed */
        return norm;
    snprintf(tensor, sizeof tensor, "%s.gamma", part);
    norm.gamma = add_tensor(builder, layer, tensor, 0, width, TFT_INIT_ONE);
    snprintf(tensor, sizeof tensor, "%s.beta", part);
    norm.beta = add_tensor(builder, layer, tensor, 0, width, TFT_INIT_ZERO);
    return norm;
}

/* site NULL: no dropout. */
static struct glu add_glu(struct builder *builder, const char *layer, size_t in, size_t out, const struct site *site)
{
    struct glu glu = { .dropped = site != NULL };

    if (site)
        glu.site = *site;
    glu.value = add_linear(builder, layer, "value", GATE, in, out, 1);
    glu.gate = add_linear(builder, layer, "gate", GATE, in, out, 1);
    glu.norm = add_norm(builder, layer, "norm", out);
    return glu;
}

/* Weights of a skip connection that a granule derives from parameters. */
static struct linear derive_skip(struct builder *builder, size_t in, size_t out)
{
    const size_t place = TFT_DERIVED + builder->model->derived;

    builder->model->derived += aligned_reals(in * out);
    return (struct linear){ .in = in, .out = out, .w = place, .b = TFT_NONE };
}

/* A skip connection that is resampled. */
static void add_resample(struct builder *builder, const char *layer, struct grn *grn)
{
    grn->resample.mask = add_tensor(builder, layer, "skip.mask", 0, grn->out, TFT_INIT_ZERO);
    grn->skip_norm = add_norm(builder, layer, "skip.norm", grn->out);
    grn->skip = derive_skip(builder, grn->in, grn->out);
}

/* A network of `in` to `out` numbers with an inner width; a joint network's skip connection has weights. site NULL: no
 * dropout. */
static struct grn add_grn(struct builder *builder, const char *layer, size_t in, size_t inner, size_t out, int joint,
                          int context, const struct site *site)
{
    size_t H = builder->model->config.H;
    struct grn grn = {
        .in = in, .H = inner, .out = out, .skip.w = TFT_NONE, .resample.mask = TFT_NONE, .context.w = TFT_NONE
    };

    if (builder->model->config.conformance == TFT_PYTORCH_FORECASTING && in != out)
        add_resample(builder, layer, &grn);
    else if (builder->model->config.conformance == TFT_PYTORCH_FORECASTING && joint)
        grn.skip = derive_skip(builder, in, out); /* selection needs weights there, which become the identity */
    else if (joint)
        grn.skip = add_linear(builder, layer, "skip", DENSE, in, out, 1);
    grn.dense1 = add_linear(builder, layer, "dense1", DENSE, in, inner, 1);
    if (context)
        grn.context = add_linear(builder, layer, "context", CONTEXT, H, inner, 0);
    grn.dense2 = add_linear(builder, layer, "dense2", DENSE, inner, inner, 1);
    grn.glu = add_glu(builder, layer, inner, out, site);
    grn.folded = builder->model->folded;
    builder->model->folded += aligned_reals(grn_folded(&grn));
    grn.params = take_span(builder);
    return grn;
}

/* A site whose rows are all elements of a time step. */
static struct site site_of(const char *name, size_t W)
{
    return (struct site){ .name = fnv1a(name), .stride = W };
}

/* The reals of a variable's role: NVIDIA's vectors are initialised together. */
static size_t reals_like(const struct tft_model_config *config, enum tft_role role)
{
    size_t count = 0;

    for (size_t i = 0; i < config->variable_count; i++)
        count += config->variables[i].role == role && config->variables[i].type == TFT_REAL;
    return count;
}

/* The table was added last. */
static void set_sparse(struct builder *builder, const struct tft_variable *from, struct embedding *embedding)
{
    struct tft_param_table *table = &builder->model->table;
    const struct tft_model_config *config = &builder->model->config;
    size_t most;

    if (builder->status || !config->sparse_rows || from->categories < config->sparse_rows ||
        halay_mul_overflows(config->step_samples, steps_seen(builder->model, from->role), &most) || !most ||
        most > from->categories / 4 || sparse_reals(most, embedding->W) > from->categories * embedding->W)
        return;
    embedding->sparse = (struct sparse){ most, embedding->W };
    table->params[table->count - 1].sparse = embedding->sparse;
}

static void add_embedding(struct builder *builder, const struct tft_variable *from, struct embedding *embedding)
{
    const struct tft_model_config *config = &builder->model->config;
    size_t W = tft_config_width(config, from);
    size_t fan = config->conformance == TFT_NVIDIA ? reals_like(config, from->role) : 1;
    char layer[TFT_NAME_MAX + 8];

    snprintf(layer, sizeof layer, "input.%s", from->name);
    embedding->W = W;
    embedding->categories = from->categories;
    if (from->type == TFT_CATEGORY) {
        embedding->w = add_matrix(builder, layer, "table", from->categories, W, TFT_INIT_EMBEDDING);
        set_initial(builder, TABLE, from->categories, W, 0);
        set_sparse(builder, from, embedding);
        return;
    }
    /* Kernel and bias are neighbours: together the matrix (2, W) that rank 1 wants. */
    embedding->w = add_matrix(builder, layer, "kernel", 1, W, TFT_INIT_GLOROT);
    set_initial(builder, REAL_INPUT, fan, W, 0);
    add_tensor(builder, layer, "bias", 0, W, TFT_INIT_ZERO);
    set_initial(builder, REAL_INPUT, fan, W, 1);
}

/* The number of columns of the batch's array that has the variable. */
static size_t *columns_of(struct tft_columns *columns, const struct tft_variable *variable)
{
    if (variable->role == TFT_STATIC)
        return variable->type == TFT_CATEGORY ? &columns->static_cats : &columns->static_reals;
    return variable->type == TFT_CATEGORY ? &columns->cats : &columns->reals;
}

static void add_inputs(struct builder *builder)
{
    struct tft_model *model = builder->model;
    const struct tft_model_config *config = &model->config;

    for (size_t i = 0; i < config->variable_count; i++) {
        const struct tft_variable *from = &config->variables[i];
        struct variable *variable = &model->variables[i];

        variable->role = from->role;
        variable->rank1 = from->type != TFT_CATEGORY && !config->plain;
        variable->column = (*columns_of(&model->columns, from))++;
        add_embedding(builder, from, &variable->embedding);
        variable->params = take_span(builder);
        if (from->role == TFT_TARGET)
            model->columns.targets++;
    }
}

/* A category's network in pytorch-forecasting: resampling and norm. */
static struct grn add_bare(struct builder *builder, const char *layer, size_t W)
{
    struct grn grn = { .in = W, .out = builder->model->config.H, .bare = 1, .context.w = TFT_NONE };

    add_resample(builder, layer, &grn);
    grn.glu.norm = grn.skip_norm;
    grn.params = take_span(builder);
    return grn;
}

static struct grn add_joint(struct builder *builder, const char *layer, size_t V, size_t width, int context)
{
    size_t H = builder->model->config.H;
    int narrow = builder->model->config.conformance == TFT_PYTORCH_FORECASTING && V < H;
    size_t inner = narrow ? V : H;
    struct site site = site_of(layer, inner);

    struct grn grn = add_grn(builder, layer, width, inner, V, 1, context,
                             builder->model->config.conformance == TFT_NVIDIA ? NULL : &site);

    grn.glu.selects = 1;
    return grn;
}

/* Returns nonzero if what a selection's variables would keep of a granule is too much: for each thread of a processor,
 * or for the free memory of a device, where the other layers and a few more ranks have to fit, too. */
static int is_recomputed(const struct tft_model *model, size_t V)
{
    enum { ARRAYS = 5, THREAD_MAX = 64 << 20, DEVICE_PART = 8 };
    const struct tft_model_config *config = &model->config;
    size_t most = THREAD_MAX, steps = config->E, bytes = sizeof(real), room, all;

    model->kernels->use(config->device.number);
    model->kernels->room(&room, &all);
    if (all) {
        most = room / DEVICE_PART;
        steps = model->T;
        bytes = config->dtype == TFT_BF16 ? TFT_NARROW_BYTES : sizeof(real);
    }
    return V * ARRAYS * config->granule * steps > most / bytes / config->H;
}

/* Adds nothing where the model has no such variable. */
static void add_selection(struct builder *builder, enum tft_choice choice, int context, struct vsn *vsn)
{
    static const char *const names[TFT_CHOICES] = { "static", "history", "future" };
    struct tft_model *model = builder->model;
    enum tft_conformance whose = model->config.conformance;
    const char *name = names[choice];
    size_t *chosen = model->chosen[choice], V = tft_config_choice(&model->config, choice, chosen);
    size_t H = model->config.H, width = 0;
    struct grn *networks = builder->networks;
    char layer[TFT_NAME_MAX + 32];
    int alone = V == 1 && whose != TFT_PUBLISHED; /* published: its weight is 1 for the layer norm of one value */

    if (!V)
        return;
    builder->networks += V;
    *vsn = (struct vsn){ .V = V,
                         .H = H,
                         .chosen = chosen,
                         .variables = networks,
                         .single = alone || (V == 1 && !context && !model->config.plain) };
    for (size_t j = 0; j < V; j++)
        width += model->variables[chosen[j]].embedding.W;
    snprintf(layer, sizeof layer, "%s.joint", name);
    if (!alone || whose == TFT_NVIDIA)
        vsn->joint = add_joint(builder, layer, V, width, context);
    for (size_t i = 0; vsn->single && !builder->status && i < vsn->joint.params.count; i++)
        model->table.params[vsn->joint.params.first + i].dead = 1;
    snprintf(layer, sizeof layer, "%s.variables", name);
    width = 0;
    for (size_t j = 0; j < V; j++) {
        size_t index = chosen[j], W = model->variables[index].embedding.W;
        struct site site = { .name = fnv1a(layer), .stride = V * H, .first = j * H };
        char own[2 * TFT_NAME_MAX];

        snprintf(own, sizeof own, "%s.variable.%s", name, model->config.variables[index].name);
        if (whose == TFT_PYTORCH_FORECASTING && model->config.variables[index].type == TFT_CATEGORY)
            networks[j] = add_bare(builder, own, W);
        else
            networks[j] = add_grn(builder, own, W, W, H, 0, 0, &site);
        networks[j].first = width;
        width += W;
    }
    vsn->recompute = is_recomputed(model, V);
}

static struct lstm add_lstm(struct builder *builder, const char *layer, struct span *params)
{
    size_t H = builder->model->config.H;
    struct lstm lstm = { .H = H,
                         .input = { .in = H, .out = 4 * H },
                         .recurrent = { .in = H, .out = 4 * H, .b = TFT_NONE } };

    lstm.input.w = add_matrix(builder, layer, "kernel", H, 4 * H, TFT_INIT_GLOROT);
    set_initial(builder, LSTM, H, 4 * H, 0);
    lstm.recurrent.w = add_matrix(builder, layer, "recurrent", H, 4 * H, TFT_INIT_ORTHOGONAL);
    set_initial(builder, LSTM, H, 4 * H, 0);
    lstm.input.b = add_tensor(builder, layer, "bias", 0, 4 * H, TFT_INIT_LSTM_BIAS);
    set_initial(builder, LSTM, H, 4 * H, 1);
    if (builder->model->config.conformance != TFT_PUBLISHED) {
        lstm.recurrent.b = add_tensor(builder, layer, "recurrent.bias", 0, 4 * H, TFT_INIT_ZERO);
        set_initial(builder, LSTM, H, 4 * H, 1);
    }
    *params = take_span(builder);
    return lstm;
}

/* Adds a tensor for each head, without gaps; returns the place of the first. rows: of a kernel; 0: biases. */
static size_t add_heads(struct builder *builder, const char *projection, const char *what, size_t rows)
{
    const struct tft_model_config *config = &builder->model->config;
    size_t d = config->H / config->heads, first = 0;
    char tensor[64];

    if (rows)
        tft_params_align(&builder->model->table);
    for (size_t h = 0; h < config->heads; h++) {
        snprintf(tensor, sizeof tensor, "%s.%zu.%s", projection, h, what);
        size_t place = add_tensor(builder, "attention", tensor, rows, d, rows ? TFT_INIT_GLOROT : TFT_INIT_ZERO);
        first = h ? first : place;
        if (rows)
            set_initial(builder, ATTENTION, rows, d, 0);
    }
    return first;
}

static void add_attention(struct builder *builder)
{
    struct tft_model *model = builder->model;
    size_t H = model->config.H, heads = model->config.heads, d = H / heads;
    enum tft_conformance whose = model->config.conformance;
    struct attention *attention = &model->attention;

    *attention = (struct attention){ .H = H,
                                     .heads = heads,
                                     .d = d,
                                     .T = model->T,
                                     .N = model->queries,
                                     .average_first = !model->config.plain,
                                     .strict = whose == TFT_PYTORCH_FORECASTING,
                                     .head_dropped = whose != TFT_NVIDIA,
                                     .query_bias = TFT_NONE,
                                     .key_bias = TFT_NONE,
                                     .head_site = site_of("attention.heads", H),
                                     .output_site = site_of("attention.output", H) };
    attention->query = add_heads(builder, "query", "kernel", H);
    attention->key = add_heads(builder, "key", "kernel", H);
    if (whose == TFT_PYTORCH_FORECASTING) {
        attention->query_bias = add_heads(builder, "query", "bias", 0);
        attention->key_bias = add_heads(builder, "key", "bias", 0);
    }
    attention->value = add_linear(builder, "attention", "value", ATTENTION, H, d, whose == TFT_PYTORCH_FORECASTING);
    attention->output = add_linear(builder, "attention", "output", ATTENTION, d, H, 0);
    model->attention_params = take_span(builder);
}

static struct glu add_gate(struct builder *builder, const char *layer, int dropped, struct span *params)
{
    size_t H = builder->model->config.H;
    struct site site = site_of(layer, H);
    struct glu glu = add_glu(builder, layer, H, H, dropped ? &site : NULL);

    *params = take_span(builder);
    return glu;
}

static void add_layers(struct builder *builder)
{
    static const char *const contexts[CONTEXTS] = { "context.selection", "context.enrichment", "context.state_h",
                                                    "context.state_c" };
    /* Other names where numbers mean something else: a run may start from one with another loss. */
    static const char *const outputs[] = {
        [TFT_LOSS_QUANTILES] = "quantiles", [TFT_LOSS_MAE] = "point",
        [TFT_LOSS_MSE] = "point",           [TFT_LOSS_HUBER] = "point",
        [TFT_LOSS_POISSON] = "poisson",     [TFT_LOSS_NEGATIVE_BINOMIAL] = "negative_binomial",
        [TFT_LOSS_TWEEDIE] = "tweedie",     [TFT_LOSS_GAUSSIAN] = "gaussian",
        [TFT_LOSS_STUDENT_T] = "student_t"
    };
    struct tft_model *model = builder->model;
    size_t H = model->config.H;
    int gates_dropped = model->config.conformance != TFT_NVIDIA;
    struct site site;

    add_selection(builder, TFT_CHOICE_STATIC, 0, &model->static_selection);
    for (size_t k = 0; k < CONTEXTS; k++) {
        site = site_of(contexts[k], H);
        model->contexts[k] = add_grn(builder, contexts[k], H, H, H, 0, 0, &site);
    }
    add_selection(builder, TFT_CHOICE_HISTORY, 1, &model->history_selection);
    add_selection(builder, TFT_CHOICE_FUTURE, 1, &model->future_selection);
    model->encoder = add_lstm(builder, "encoder", &model->encoder_params);
    model->decoder = add_lstm(builder, "decoder", &model->decoder_params);
    model->sequence_gate = add_gate(builder, "sequence_gate", gates_dropped, &model->sequence_gate_params);
    site = site_of("enrichment", H);
    model->enrichment = add_grn(builder, "enrichment", H, H, H, 0, 1, &site);
    model->enrichment_params = model->enrichment.params;
    add_attention(builder);
    model->attention_gate = add_gate(builder, "attention_gate", gates_dropped, &model->attention_gate_params);
    site = site_of("feedforward", H);
    model->feedforward = add_grn(builder, "feedforward", H, H, H, 0, 0, &site);
    model->feedforward_params = model->feedforward.params;
    model->output_gate = add_gate(builder, "output_gate", 0, &model->output_gate_params);
    model->output = add_linear(builder, "output", outputs[model->config.loss], OUTPUT, H,
                               model->columns.targets * tft_config_outputs(&model->config), 1);
    model->output_params = take_span(builder);
}

enum halay_status network_build(struct tft_model *model)
{
    struct builder builder = { .model = model, .networks = model->networks };

    add_inputs(&builder);
    add_layers(&builder);
    tft_params_align(&model->table);
    return builder.status;
}
