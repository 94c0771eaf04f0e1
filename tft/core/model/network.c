/* SPDX-License-Identifier: Apache-2.0
 *
 * Creation of a model: every layer of the published graph gets its parameters' places and its dropout site's name.
 *
 * The order of the table is that of forward: inputs, static selection, contexts, history and future selection, LSTMs,
 * gate, enrichment, attention, tail. Backward goes through it from the end. A builder keeps its first error, which is
 * looked at once, at the end.
 */
#include "tft/core/model/network.h"
#include "base/memory.h"
#include "tft/core/kernels/philox.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    struct tft_model *model;
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

/* The initial values of the tensor added last, as the conformance has them. in and out: of its layer. */
static void start(struct builder *builder, enum tensor tensor, size_t in, size_t out, int bias)
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

/* The tensors added since `first`. */
static struct span span_from(const struct builder *builder, size_t first)
{
    return (struct span){ first, builder->model->table.count - first };
}

static struct linear add_linear(struct builder *builder, const char *layer, const char *part, enum tensor kind,
                                size_t in, size_t out, int bias)
{
    char tensor[64];
    struct linear linear = { .in = in, .out = out, .w = TFT_NONE, .b = TFT_NONE };

    snprintf(tensor, sizeof tensor, "%s.kernel", part);
    linear.w = add_matrix(builder, layer, tensor, in, out, TFT_INIT_GLOROT);
    start(builder, kind, in, out, 0);
    snprintf(tensor, sizeof tensor, "%s.bias", part);
    if (!bias)
        return linear;
    linear.b = add_tensor(builder, layer, tensor, 0, out, TFT_INIT_ZERO);
    start(builder, kind, in, out, 1);
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

/* A skip connection that is resampled. */
static void add_resample(struct builder *builder, const char *layer, struct grn *grn)
{
    struct tft_model *model = builder->model;

    grn->resample.mask = add_tensor(builder, layer, "skip.mask", 0, grn->out, TFT_INIT_ZERO);
    grn->skip_norm = add_norm(builder, layer, "skip.norm", grn->out);
    grn->skip = (struct linear){ .in = grn->in, .out = grn->out, .w = TFT_DERIVED + model->derived, .b = TFT_NONE };
    model->derived += aligned_reals(grn->in * grn->out);
}

/* A joint network whose skip connection is its input. Selection needs weights there, so they become the identity. */
static void add_identity(struct builder *builder, struct grn *grn)
{
    grn->skip =
        (struct linear){ .in = grn->in, .out = grn->out, .w = TFT_DERIVED + builder->model->derived, .b = TFT_NONE };
    builder->model->derived += aligned_reals(grn->in * grn->out);
}

/* A network of `in` to `out` numbers with an inner width; a joint network's skip connection has weights. site NULL: no
 * dropout. */
static struct grn add_grn(struct builder *builder, const char *layer, size_t in, size_t inner, size_t out, int joint,
                          int context, const struct site *site)
{
    size_t H = builder->model->config.H, first = builder->model->table.count;
    struct grn grn = {
        .in = in, .H = inner, .out = out, .skip.w = TFT_NONE, .resample.mask = TFT_NONE, .context.w = TFT_NONE
    };

    if (builder->model->config.conformance == TFT_PYTORCH_FORECASTING && in != out)
        add_resample(builder, layer, &grn);
    else if (builder->model->config.conformance == TFT_PYTORCH_FORECASTING && joint)
        add_identity(builder, &grn);
    else if (joint)
        grn.skip = add_linear(builder, layer, "skip", DENSE, in, out, 1);
    grn.dense1 = add_linear(builder, layer, "dense1", DENSE, in, inner, 1);
    if (context)
        grn.context = add_linear(builder, layer, "context", CONTEXT, H, inner, 0);
    grn.dense2 = add_linear(builder, layer, "dense2", DENSE, inner, inner, 1);
    grn.glu = add_glu(builder, layer, inner, out, site);
    grn.folded = builder->model->folded;
    builder->model->folded += aligned_reals(grn_folded(&grn));
    grn.params = span_from(builder, first);
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
        start(builder, TABLE, from->categories, W, 0);
        set_sparse(builder, from, embedding);
        return;
    }
    /* Kernel and bias are neighbours: together the matrix (2, W) that rank 1 wants. */
    embedding->w = add_matrix(builder, layer, "kernel", 1, W, TFT_INIT_GLOROT);
    start(builder, REAL_INPUT, fan, W, 0);
    add_tensor(builder, layer, "bias", 0, W, TFT_INIT_ZERO);
    start(builder, REAL_INPUT, fan, W, 1);
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
        size_t first = model->table.count;

        variable->role = from->role;
        variable->rank1 = from->type != TFT_CATEGORY && !config->plain;
        variable->column = (*columns_of(&model->columns, from))++;
        add_embedding(builder, from, &variable->embedding);
        variable->params = span_from(builder, first);
        if (from->role == TFT_TARGET)
            model->columns.targets++;
    }
    model->statics = tft_config_choice(config, TFT_CHOICE_STATIC, model->chosen[TFT_CHOICE_STATIC]);
    model->history_count = tft_config_choice(config, TFT_CHOICE_HISTORY, model->chosen[TFT_CHOICE_HISTORY]);
    model->future_count = tft_config_choice(config, TFT_CHOICE_FUTURE, model->chosen[TFT_CHOICE_FUTURE]);
}

/* A category's network in pytorch-forecasting: resampling and norm. */
static struct grn add_bare(struct builder *builder, const char *layer, size_t W)
{
    size_t first = builder->model->table.count;
    struct grn grn = { .in = W, .out = builder->model->config.H, .bare = 1, .context.w = TFT_NONE };

    add_resample(builder, layer, &grn);
    grn.glu.norm = grn.skip_norm;
    grn.params = span_from(builder, first);
    return grn;
}

static struct grn add_joint(struct builder *builder, const char *layer, size_t V, size_t width, int context)
{
    size_t H = builder->model->config.H;
    int narrow = builder->model->config.conformance == TFT_PYTORCH_FORECASTING && V < H;
    size_t inner = narrow ? V : H;
    struct site site = site_of(layer, inner);

    return add_grn(builder, layer, width, inner, V, 1, context,
                   builder->model->config.conformance == TFT_NVIDIA ? NULL : &site);
}

/* Returns nonzero if what a selection's variables would keep of a granule is too much: for each thread of a processor,
 * or for the free memory of a device, where the other layers and a few more ranks have to fit, too. */
static int is_recomputed(const struct tft_model *model, size_t V)
{
    enum { ARRAYS = 5, THREAD_MAX = 64 << 20, DEVICE_PART = 8 };
    const struct tft_model_config *config = &model->config;
    size_t most = THREAD_MAX, steps = config->E, room, all;

    model->kernels->use(config->device.number);
    model->kernels->room(&room, &all);
    if (all) {
        most = room / DEVICE_PART;
        steps = model->T;
    }
    return V * ARRAYS * config->granule * steps > most / sizeof(real) / config->H;
}

static void add_selection(struct builder *builder, const char *name, size_t V, const size_t *chosen, int context,
                          struct grn *networks, struct vsn *vsn)
{
    struct tft_model *model = builder->model;
    enum tft_conformance whose = model->config.conformance;
    size_t H = model->config.H, width = 0;
    char layer[TFT_NAME_MAX + 32];
    int alone = V == 1 && whose != TFT_PUBLISHED; /* published: its weight is 1 for the layer norm of one value */

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
    size_t H = builder->model->config.H, first = builder->model->table.count;
    struct lstm lstm = { .H = H,
                         .input = { .in = H, .out = 4 * H },
                         .recurrent = { .in = H, .out = 4 * H, .b = TFT_NONE } };

    lstm.input.w = add_matrix(builder, layer, "kernel", H, 4 * H, TFT_INIT_GLOROT);
    start(builder, LSTM, H, 4 * H, 0);
    lstm.recurrent.w = add_matrix(builder, layer, "recurrent", H, 4 * H, TFT_INIT_ORTHOGONAL);
    start(builder, LSTM, H, 4 * H, 0);
    lstm.input.b = add_tensor(builder, layer, "bias", 0, 4 * H, TFT_INIT_LSTM_BIAS);
    start(builder, LSTM, H, 4 * H, 1);
    if (builder->model->config.conformance != TFT_PUBLISHED) {
        lstm.recurrent.b = add_tensor(builder, layer, "recurrent.bias", 0, 4 * H, TFT_INIT_ZERO);
        start(builder, LSTM, H, 4 * H, 1);
    }
    *params = span_from(builder, first);
    return lstm;
}

static void add_attention(struct builder *builder)
{
    struct tft_model *model = builder->model;
    size_t H = model->config.H, heads = model->config.heads, d = H / heads, first = model->table.count;
    enum tft_conformance whose = model->config.conformance;
    struct attention *attention = &model->attention;
    char tensor[64];

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
    for (size_t kind = 0; kind < 2; kind++) {
        tft_params_align(&model->table); /* then the heads' kernels follow each other without a gap */
        for (size_t h = 0; h < heads; h++) {
            size_t place;

            snprintf(tensor, sizeof tensor, "%s.%zu.kernel", kind ? "key" : "query", h);
            place = add_tensor(builder, "attention", tensor, H, d, TFT_INIT_GLOROT);
            start(builder, ATTENTION, H, d, 0);
            if (h == 0)
                *(kind ? &attention->key : &attention->query) = place;
        }
    }
    for (size_t kind = 0; kind < 2 && whose == TFT_PYTORCH_FORECASTING; kind++)
        for (size_t h = 0; h < heads; h++) {
            size_t place;

            snprintf(tensor, sizeof tensor, "%s.%zu.bias", kind ? "key" : "query", h);
            place = add_tensor(builder, "attention", tensor, 0, d, TFT_INIT_ZERO);
            if (h == 0)
                *(kind ? &attention->key_bias : &attention->query_bias) = place;
        }
    attention->value = add_linear(builder, "attention", "value", ATTENTION, H, d, whose == TFT_PYTORCH_FORECASTING);
    attention->output = add_linear(builder, "attention", "output", ATTENTION, d, H, 0);
    model->attention_params = span_from(builder, first);
}

static struct glu add_gate(struct builder *builder, const char *layer, int dropped, struct span *params)
{
    size_t H = builder->model->config.H, first = builder->model->table.count;
    struct site site = site_of(layer, H);
    struct glu glu = add_glu(builder, layer, H, H, dropped ? &site : NULL);

    *params = span_from(builder, first);
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
    size_t H = model->config.H, first;
    int gates_dropped = model->config.conformance != TFT_NVIDIA;
    struct grn *networks = model->networks;
    struct site site;

    if (model->statics)
        add_selection(builder, "static", model->statics, model->chosen[TFT_CHOICE_STATIC], 0, networks,
                      &model->static_selection);
    networks += model->statics;
    for (size_t k = 0; k < CONTEXTS; k++) {
        site = site_of(contexts[k], H);
        model->contexts[k] = add_grn(builder, contexts[k], H, H, H, 0, 0, &site);
    }
    add_selection(builder, "history", model->history_count, model->chosen[TFT_CHOICE_HISTORY], 1, networks,
                  &model->history_selection);
    networks += model->history_count;
    add_selection(builder, "future", model->future_count, model->chosen[TFT_CHOICE_FUTURE], 1, networks,
                  &model->future_selection);
    model->encoder = add_lstm(builder, "encoder", &model->encoder_params);
    model->decoder = add_lstm(builder, "decoder", &model->decoder_params);
    model->sequence_gate = add_gate(builder, "sequence_gate", gates_dropped, &model->sequence_gate_params);
    site = site_of("enrichment", H);
    model->enrichment = add_grn(builder, "enrichment", H, H, H, 0, 1, &site);
    add_attention(builder);
    model->attention_gate = add_gate(builder, "attention_gate", gates_dropped, &model->attention_gate_params);
    site = site_of("feedforward", H);
    model->feedforward = add_grn(builder, "feedforward", H, H, H, 0, 0, &site);
    model->output_gate = add_gate(builder, "output_gate", 0, &model->output_gate_params);
    first = model->table.count;
    model->output = add_linear(builder, "output", outputs[model->config.loss], OUTPUT, H,
                               model->columns.targets * tft_config_outputs(&model->config), 1);
    model->output_params = span_from(builder, first);
}

enum halay_status tft_model_create(struct halay_log *log, const struct tft_model_config *config,
                                   struct tft_model **model)
{
    const struct kernels *kernels = config->device.kernels ? config->device.kernels : tft_kernels_cpu();
    enum halay_status status = config_check(log, kernels, config);
    struct tft_model *made;
    struct builder builder;

    if (status)
        return status;
    if (config->dtype == TFT_BF16 && !kernels->has_bf16()) {
        halay_error(log, "no matrix products in bf16 here: they need a processor with AVX-512 BF16, or a GPU");
        return HALAY_ERR_UNSUPPORTED;
    }
    made = calloc(1, sizeof *made);
    if (!made)
        goto no_memory;
    made->log = log;
    made->kernels = kernels;
    made->config = *config;
    made->T = config->E + config->D;
    /* The first step would see nothing if it does not see itself: only the decoder has queries. */
    made->queries = config->plain && config->conformance != TFT_PYTORCH_FORECASTING ? made->T : config->D;
    made->loss_factor = config->conformance == TFT_PYTORCH_FORECASTING ? 2 / (double)config->quantile_count : 1;
    made->networks = calloc(2 * config->variable_count, sizeof *made->networks);
    if (!made->networks)
        goto no_memory;
    builder = (struct builder){ .model = made };
    add_inputs(&builder);
    add_layers(&builder);
    tft_params_align(&made->table);
    if (builder.status == HALAY_ERR_NO_MEMORY)
        goto no_memory;
    if (builder.status) {
        halay_error(log, "the model is too large");
        tft_model_destroy(made);
        return builder.status;
    }
    *model = made;
    return HALAY_OK;

no_memory:
    halay_error(log, "no memory for the model's description");
    tft_model_destroy(made);
    return HALAY_ERR_NO_MEMORY;
}

void tft_model_destroy(struct tft_model *model)
{
    if (!model)
        return;
    tft_params_fini(&model->table);
    free(model->networks);
    free(model);
}

const struct tft_model_config *tft_model_config(const struct tft_model *model)
{
    return &model->config;
}

const struct tft_columns *tft_model_columns(const struct tft_model *model)
{
    return &model->columns;
}

const struct tft_param_table *tft_model_params(const struct tft_model *model)
{
    return &model->table;
}

size_t tft_model_param_count(const struct tft_model *model)
{
    return tft_params_count(&model->table);
}

double tft_model_loss_factor(const struct tft_model *model)
{
    return model->loss_factor;
}

const struct kernels *tft_model_kernels(const struct tft_model *model)
{
    return model->kernels;
}
