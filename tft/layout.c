/* SPDX-License-Identifier: Apache-2.0
 *
 * Creation of a model: every layer of the published graph gets its parameters' places and its dropout site's name.
 *
 * The order of the table is that of forward: inputs, static selection, contexts, history and future selection, LSTMs,
 * gate, enrichment, attention, tail. Backward goes through it from the end. Errors inside a layout are kept in the
 * builder and looked at once.
 */
#include "tft/layout.h"
#include "base/memory.h"
#include "tft/philox.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    struct tft_model *model;
    enum halay_status status; /* of the first failure */
};

static size_t add(struct builder *builder, const char *layer, const char *tensor, size_t rows, size_t columns,
                  enum tft_init init)
{
    char name[2 * TFT_PARAM_NAME_MAX];
    size_t offset = 0;

    snprintf(name, sizeof name, "%s.%s", layer, tensor);
    if (!builder->status)
        builder->status = tft_params_add(&builder->model->table, name, rows, columns, init, &offset);
    return offset;
}

/* The tensors added since `first`. */
static struct span span_from(const struct builder *builder, size_t first)
{
    return (struct span){ first, builder->model->table.count - first };
}

static struct linear add_linear(struct builder *builder, const char *layer, const char *part, size_t in, size_t out,
                                int bias)
{
    char tensor[64];
    struct linear linear = { .in = in, .out = out, .w = TFT_NONE, .b = TFT_NONE };

    snprintf(tensor, sizeof tensor, "%s.kernel", part);
    linear.w = add(builder, layer, tensor, in, out, TFT_INIT_GLOROT);
    snprintf(tensor, sizeof tensor, "%s.bias", part);
    if (bias)
        linear.b = add(builder, layer, tensor, 0, out, TFT_INIT_ZERO);
    return linear;
}

/* site NULL: no dropout. */
static struct glu add_glu(struct builder *builder, const char *layer, size_t in, size_t out, const struct site *site)
{
    struct glu glu = { .dropped = site != NULL };

    if (site)
        glu.site = *site;
    glu.value = add_linear(builder, layer, "value", in, out, 1);
    glu.gate = add_linear(builder, layer, "gate", in, out, 1);
    glu.norm.W = out;
    glu.norm.gamma = add(builder, layer, "norm.gamma", 0, out, TFT_INIT_ONE);
    glu.norm.beta = add(builder, layer, "norm.beta", 0, out, TFT_INIT_ZERO);
    return glu;
}

static struct grn add_grn(struct builder *builder, const char *layer, size_t in, size_t out, int skip, int context,
                          struct site site)
{
    size_t H = builder->model->config.H, first = builder->model->table.count;
    struct grn grn = { .in = in, .H = H, .out = out, .skip.w = TFT_NONE, .context.w = TFT_NONE };

    if (skip)
        grn.skip = add_linear(builder, layer, "skip", in, out, 1);
    grn.dense1 = add_linear(builder, layer, "dense1", in, H, 1);
    if (context)
        grn.context = add_linear(builder, layer, "context", H, H, 0);
    grn.dense2 = add_linear(builder, layer, "dense2", H, H, 1);
    grn.glu = add_glu(builder, layer, H, out, &site);
    grn.params = span_from(builder, first);
    return grn;
}

/* A site whose rows are all there is at a time. */
static struct site site_of(const char *name, size_t W)
{
    return (struct site){ .name = fnv1a(name), .stride = W };
}

static void add_inputs(struct builder *builder)
{
    struct tft_model *model = builder->model;
    const struct tft_model_config *config = &model->config;

    for (size_t i = 0; i < config->variable_count; i++) {
        const struct tft_variable *from = &config->variables[i];
        struct variable *variable = &model->variables[i];
        int is_static = from->role == TFT_STATIC, category = from->type == TFT_CATEGORY;
        size_t *columns = is_static  ? category ? &model->columns.static_cats : &model->columns.static_reals
                          : category ? &model->columns.cats
                                     : &model->columns.reals;
        size_t first = model->table.count;
        char layer[TFT_NAME_MAX + 8];

        snprintf(layer, sizeof layer, "input.%s", from->name);
        variable->role = from->role;
        variable->rank1 = !category && !config->plain;
        variable->column = (*columns)++;
        variable->embedding.H = config->H;
        variable->embedding.categories = from->categories;
        if (category) {
            variable->embedding.w = add(builder, layer, "table", from->categories, config->H, TFT_INIT_EMBEDDING);
        } else { /* kernel and bias are neighbours: together the matrix (2, H) that rank 1 wants */
            variable->embedding.w = add(builder, layer, "kernel", 1, config->H, TFT_INIT_GLOROT);
            add(builder, layer, "bias", 0, config->H, TFT_INIT_ZERO);
        }
        variable->params = span_from(builder, first);
        if (is_static)
            model->statics++;
        if (from->role == TFT_KNOWN)
            model->future[model->future_count++] = i;
        if (from->role == TFT_TARGET)
            model->columns.targets++;
    }
    model->history_count = config->variable_count - model->statics;
}

/* The k-th of a selection is variables[indices[k]], or [first + k] without indices. */
static void add_selection(struct builder *builder, const char *name, size_t V, const size_t *indices, size_t first,
                          int context, struct grn *networks, struct vsn *vsn)
{
    struct tft_model *model = builder->model;
    size_t H = model->config.H;
    char layer[TFT_NAME_MAX + 32];
    struct span joint;

    *vsn = (struct vsn){ .V = V, .H = H, .variables = networks, .single = V == 1 && !context && !model->config.plain };
    snprintf(layer, sizeof layer, "%s.joint", name);
    vsn->joint = add_grn(builder, layer, V * H, V, 1, context, site_of(layer, H));
    joint = vsn->joint.params;
    for (size_t i = 0; vsn->single && !builder->status && i < joint.count; i++)
        model->table.params[joint.first + i].dead = 1;
    snprintf(layer, sizeof layer, "%s.variables", name);
    for (size_t j = 0; j < V; j++) {
        size_t index = indices ? indices[j] : first + j;
        struct site site = { .name = fnv1a(layer), .stride = V * H, .first = j * H };
        char own[2 * TFT_NAME_MAX];

        snprintf(own, sizeof own, "%s.variable.%s", name, model->config.variables[index].name);
        networks[j] = add_grn(builder, own, H, H, 0, 0, site);
    }
}

static struct lstm add_lstm(struct builder *builder, const char *layer, struct span *params)
{
    size_t H = builder->model->config.H, first = builder->model->table.count;
    struct lstm lstm = { .H = H,
                         .input = { .in = H, .out = 4 * H },
                         .recurrent = { .in = H, .out = 4 * H, .b = TFT_NONE } };

    lstm.input.w = add(builder, layer, "kernel", H, 4 * H, TFT_INIT_GLOROT);
    lstm.recurrent.w = add(builder, layer, "recurrent", H, 4 * H, TFT_INIT_ORTHOGONAL);
    lstm.input.b = add(builder, layer, "bias", 0, 4 * H, TFT_INIT_LSTM_BIAS);
    *params = span_from(builder, first);
    return lstm;
}

static void add_attention(struct builder *builder)
{
    struct tft_model *model = builder->model;
    size_t H = model->config.H, heads = model->config.heads, d = H / heads, first = model->table.count;
    struct attention *attention = &model->attention;
    char tensor[64];

    *attention = (struct attention){ .H = H,
                                     .heads = heads,
                                     .d = d,
                                     .T = model->T,
                                     .N = model->queries,
                                     .average_first = !model->config.plain,
                                     .head_site = site_of("attention.heads", H),
                                     .output_site = site_of("attention.output", H) };
    for (size_t kind = 0; kind < 2; kind++)
        for (size_t h = 0; h < heads; h++) {
            size_t place;

            snprintf(tensor, sizeof tensor, "%s.%zu.kernel", kind ? "key" : "query", h);
            place = add(builder, "attention", tensor, H, d, TFT_INIT_GLOROT);
            if (h == 0)
                *(kind ? &attention->key : &attention->query) = place;
        }
    attention->value = add_linear(builder, "attention", "value", H, d, 0);
    attention->output = add_linear(builder, "attention", "output", d, H, 0);
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
    struct tft_model *model = builder->model;
    size_t H = model->config.H, first;
    struct grn *networks = model->networks;

    if (model->statics)
        add_selection(builder, "static", model->statics, NULL, 0, 0, networks, &model->static_selection);
    networks += model->statics;
    for (size_t k = 0; k < CONTEXTS; k++)
        model->contexts[k] = add_grn(builder, contexts[k], H, H, 0, 0, site_of(contexts[k], H));
    add_selection(builder, "history", model->history_count, NULL, model->statics, 1, networks,
                  &model->history_selection);
    networks += model->history_count;
    add_selection(builder, "future", model->future_count, model->future, 0, 1, networks, &model->future_selection);
    model->encoder = add_lstm(builder, "encoder", &model->encoder_params);
    model->decoder = add_lstm(builder, "decoder", &model->decoder_params);
    model->sequence_gate = add_gate(builder, "sequence_gate", 1, &model->sequence_gate_params);
    model->enrichment = add_grn(builder, "enrichment", H, H, 0, 1, site_of("enrichment", H));
    add_attention(builder);
    model->attention_gate = add_gate(builder, "attention_gate", 1, &model->attention_gate_params);
    model->feedforward = add_grn(builder, "feedforward", H, H, 0, 0, site_of("feedforward", H));
    model->output_gate = add_gate(builder, "output_gate", 0, &model->output_gate_params);
    first = model->table.count;
    model->output =
        add_linear(builder, "output", "quantiles", H, model->columns.targets * model->config.quantile_count, 1);
    model->output_params = span_from(builder, first);
}

enum halay_status tft_model_create(struct halay_log *log, const struct tft_model_config *config,
                                   struct tft_model **model)
{
    enum halay_status status = config_check(log, config);
    struct tft_model *made;
    struct builder builder;

    if (status)
        return status;
    made = calloc(1, sizeof *made);
    if (!made)
        goto no_memory;
    made->log = log;
    made->config = *config;
    made->T = config->E + config->D;
    made->queries = config->plain ? made->T : config->D;
    made->networks = calloc(2 * config->variable_count, sizeof *made->networks);
    if (!made->networks)
        goto no_memory;
    builder = (struct builder){ .model = made };
    add_inputs(&builder);
    add_layers(&builder);
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
    return model->table.reals;
}
