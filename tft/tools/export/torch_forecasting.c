/* SPDX-License-Identifier: Apache-2.0
 *
 * pytorch-forecasting's TemporalFusionTransformer beside ours of that conformance: the map of its parameters, and its
 * constructor's arguments.
 *
 * Selections have the same order (tft_config_choice). A module that it uses more than once is in its state_dict() under
 * each of its names: the reals' embeddings (prescalers), and what follows the LSTMs.
 */
#include "tft/tools/export/torch_impl.h"
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

/* Names that a variable cannot have: torch.nn.ModuleDict refuses those of its own attributes. */
static const char *const taken[] = { "add_module",
                                     "apply",
                                     "bfloat16",
                                     "buffers",
                                     "call_super_init",
                                     "children",
                                     "clear",
                                     "compile",
                                     "cpu",
                                     "cuda",
                                     "double",
                                     "dump_patches",
                                     "eval",
                                     "extra_repr",
                                     "float",
                                     "forward",
                                     "get_buffer",
                                     "get_extra_state",
                                     "get_parameter",
                                     "get_submodule",
                                     "half",
                                     "ipu",
                                     "items",
                                     "keys",
                                     "load_state_dict",
                                     "modules",
                                     "mtia",
                                     "named_buffers",
                                     "named_children",
                                     "named_modules",
                                     "named_parameters",
                                     "parameters",
                                     "pop",
                                     "register_backward_hook",
                                     "register_buffer",
                                     "register_forward_hook",
                                     "register_forward_pre_hook",
                                     "register_full_backward_hook",
                                     "register_full_backward_pre_hook",
                                     "register_load_state_dict_post_hook",
                                     "register_load_state_dict_pre_hook",
                                     "register_module",
                                     "register_parameter",
                                     "register_state_dict_post_hook",
                                     "register_state_dict_pre_hook",
                                     "requires_grad_",
                                     "set_extra_state",
                                     "set_submodule",
                                     "share_memory",
                                     "state_dict",
                                     "to",
                                     "to_empty",
                                     "train",
                                     "training",
                                     "type",
                                     "update",
                                     "values",
                                     "xpu",
                                     "zero_grad" };

void tft_torch_variable_name(const char *name, char *theirs)
{
    snprintf(theirs, TFT_NAME_MAX + 2, "%s", name);
    for (char *dot = theirs; (dot = strchr(dot, '.'));)
        *dot = '_';
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!strcmp(theirs, taken[i])) {
            strcat(theirs, "_");
            return;
        }
}

enum halay_status torch_check_pytorch_forecasting(struct halay_log *log, const struct tft_model_config *config)
{
    char mine[TFT_NAME_MAX + 2], other[TFT_NAME_MAX + 2];

    if (config->conformance != TFT_PYTORCH_FORECASTING) {
        halay_error(
            log,
            "the model was trained with 'conformance: %s': pytorch-forecasting's graph has narrower embeddings, "
            "resampled skip connections, biases in attention and a step that does not see itself; train with "
            "'conformance: pytorch-forecasting'",
            config->conformance == TFT_NVIDIA ? "nvidia" : "published");
        return HALAY_ERR_ARGUMENT;
    }
    for (size_t i = 0; i < config->variable_count; i++)
        for (size_t j = 0; j < i; j++) {
            tft_torch_variable_name(config->variables[i].name, mine);
            tft_torch_variable_name(config->variables[j].name, other);
            if (strcmp(mine, other))
                continue;
            halay_error(
                log, "inputs '%s' and '%s' would both be named '%s' in pytorch-forecasting; rename one in the schema",
                config->variables[j].name, config->variables[i].name, mine);
            return HALAY_ERR_ARGUMENT;
        }
    return HALAY_OK;
}

/* ---- the map ---- */

static void map_linear(struct torch_builder *b, const char *theirs, const char *ours)
{
    torch_linear(b, theirs, ours, &torch_whole, &torch_whole);
}

static void map_resample(struct torch_builder *b, const char *theirs, const char *ours)
{
    torch_tensor(b, NAME("%s.mask", theirs), 0, torch_ours(b, NAME("%s.skip.mask", ours))->count, TFT_TORCH_PIECES);
    torch_vector(b, 0, NAME("%s.skip.mask", ours), &torch_whole);
    torch_norm(b, NAME("%s.norm", theirs), NAME("%s.skip.norm", ours), &torch_whole);
}

static void map_gate(struct torch_builder *b, const char *theirs, const char *ours)
{
    torch_glu(b, NAME("%s.glu.fc", theirs), ours, &torch_whole);
    torch_norm(b, NAME("%s.add_norm.norm", theirs), NAME("%s.norm", ours), &torch_whole);
}

/* A gated residual network; a category has a resampling instead. */
static void map_grn(struct torch_builder *b, const char *theirs, const char *ours)
{
    int resampled = torch_ours(b, NAME("%s.skip.mask", ours)) != NULL;

    if (!torch_ours(b, NAME("%s.dense1.kernel", ours))) {
        if (resampled)
            map_resample(b, theirs, ours);
        return;
    }
    if (resampled)
        map_resample(b, NAME("%s.resample_norm", theirs), ours);
    map_linear(b, NAME("%s.fc1", theirs), NAME("%s.dense1", ours));
    if (torch_ours(b, NAME("%s.context.kernel", ours)))
        map_linear(b, NAME("%s.context", theirs), NAME("%s.context", ours));
    map_linear(b, NAME("%s.fc2", theirs), NAME("%s.dense2", ours));
    map_gate(b, NAME("%s.gate_norm", theirs), ours);
}

/* The tensors from copy on repeat those from first on. */
static void mark_same(struct torch_builder *b, size_t first, size_t copy)
{
    for (size_t i = 0; !b->status && first + i < copy && copy + i < b->map->theirs.count; i++)
        b->map->tensors[copy + i].same_as = first + i;
}

/* A real's embedding: kernel (1, W) and bias; theirs is a layer of one input. Returns its first tensor's number. */
static size_t map_prescaler(struct torch_builder *b, const char *theirs, const char *ours)
{
    size_t first = b->map->theirs.count;

    map_linear(b, theirs, ours);
    return first;
}

static void map_selection(struct torch_builder *b, const char *theirs, const char *ours, enum tft_choice choice,
                          const size_t *prescalers)
{
    size_t variables[TFT_VARIABLES_MAX], count = tft_config_choice(b->config, choice, variables);
    char name[TFT_NAME_MAX + 2];

    map_grn(b, NAME("%s.flattened_grn", theirs), NAME("%s.joint", ours));
    for (size_t k = 0; k < count; k++) {
        const struct tft_variable *variable = &b->config->variables[variables[k]];

        tft_torch_variable_name(variable->name, name);
        map_grn(b, NAME("%s.single_variable_grns.%s", theirs, name), NAME("%s.variable.%s", ours, variable->name));
        if (variable->type == TFT_REAL)
            mark_same(b, prescalers[variables[k]],
                      map_prescaler(b, NAME("%s.prescalers.%s", theirs, name), NAME("input.%s", variable->name)));
    }
}

static void map_inputs(struct torch_builder *b, size_t *prescalers)
{
    char name[TFT_NAME_MAX + 2];

    for (size_t i = 0; i < b->config->variable_count; i++) {
        const struct tft_variable *variable = &b->config->variables[i];

        tft_torch_variable_name(variable->name, name);
        if (variable->type == TFT_CATEGORY)
            torch_embedding(b, NAME("input_embeddings.embeddings.%s", name), NAME("input.%s.table", variable->name));
        else
            prescalers[i] = map_prescaler(b, NAME("prescalers.%s", name), NAME("input.%s", variable->name));
    }
}

/* What follows the LSTMs is one module under two names. */
static void map_sequence_gate(struct torch_builder *b)
{
    size_t first = b->map->theirs.count, copy;

    torch_glu(b, "post_lstm_gate_encoder.fc", "sequence_gate", &torch_whole);
    torch_norm(b, "post_lstm_add_norm_encoder.norm", "sequence_gate.norm", &torch_whole);
    copy = b->map->theirs.count;
    torch_glu(b, "post_lstm_gate_decoder.fc", "sequence_gate", &torch_whole);
    torch_norm(b, "post_lstm_add_norm_decoder.norm", "sequence_gate.norm", &torch_whole);
    mark_same(b, first, copy);
}

static void map_attention(struct torch_builder *b)
{
    for (size_t h = 0; h < b->config->heads; h++) {
        map_linear(b, NAME("multihead_attn.q_layers.%zu", h), NAME("attention.query.%zu", h));
        map_linear(b, NAME("multihead_attn.k_layers.%zu", h), NAME("attention.key.%zu", h));
    }
    map_linear(b, "multihead_attn.v_layer", "attention.value");
    map_linear(b, "multihead_attn.w_h", "attention.output");
}

static size_t targets_of(const struct tft_model_config *config)
{
    size_t unused[TFT_VARIABLES_MAX];

    return torch_variables(config, TFT_TARGET, TFT_REAL, unused);
}

void torch_map_pytorch_forecasting(struct torch_builder *b)
{
    size_t prescalers[TFT_VARIABLES_MAX] = { 0 }, targets = targets_of(b->config);

    map_inputs(b, prescalers);
    map_selection(b, "static_variable_selection", "static", TFT_CHOICE_STATIC, prescalers);
    map_selection(b, "encoder_variable_selection", "history", TFT_CHOICE_HISTORY, prescalers);
    map_selection(b, "decoder_variable_selection", "future", TFT_CHOICE_FUTURE, prescalers);
    map_grn(b, "static_context_variable_selection", "context.selection");
    map_grn(b, "static_context_initial_hidden_lstm", "context.state_h");
    map_grn(b, "static_context_initial_cell_lstm", "context.state_c");
    map_grn(b, "static_context_enrichment", "context.enrichment");
    torch_lstm(b, "lstm_encoder", "encoder");
    torch_lstm(b, "lstm_decoder", "decoder");
    map_sequence_gate(b);
    map_grn(b, "static_enrichment", "enrichment");
    map_attention(b);
    map_gate(b, "post_attn_gate_norm", "attention_gate");
    map_grn(b, "pos_wise_ff", "feedforward");
    map_gate(b, "pre_output_gate_norm", "output_gate");
    if (targets == 1)
        torch_quantiles(b, "output_layer", 0, 1);
    for (size_t o = 0; targets > 1 && o < targets; o++)
        torch_quantiles(b, NAME("output_layer.%zu", o), o, targets);
}

/* ---- its constructor ---- */

struct kind {
    enum tft_role role;
    enum tft_type type;
};

/* Names of the variables of these kinds, one kind after the other. */
static json_t *names_of_kinds(const struct tft_model_config *config, size_t count, const struct kind *kinds)
{
    json_t *list = json_array();

    for (size_t k = 0; k < count; k++)
        list = torch_add_names(list, config, kinds[k].role, kinds[k].type, 1);
    return list;
}
#define NAMES_OF(config, ...) \
    names_of_kinds(config, sizeof((struct kind[]){ __VA_ARGS__ }) / sizeof(struct kind), (struct kind[]){ __VA_ARGS__ })

static int set_new(json_t *object, const char *key, json_t *value)
{
    return !value || json_object_set_new(object, key, value);
}

/* name -> [categories, width] */
static json_t *embedding_sizes(const struct tft_model_config *config)
{
    json_t *sizes = json_object();
    char name[TFT_NAME_MAX + 2];

    for (size_t i = 0; sizes && i < config->variable_count; i++) {
        const struct tft_variable *variable = &config->variables[i];

        tft_torch_variable_name(variable->name, name);
        if (variable->type == TFT_CATEGORY)
            json_object_set_new(
                sizes, name,
                json_pack("[II]", (json_int_t)variable->categories, (json_int_t)tft_config_width(config, variable)));
    }
    return sizes;
}

/* ours -> theirs, of those that differ */
static json_t *renamed(const struct tft_model_config *config)
{
    json_t *names = json_object();
    char name[TFT_NAME_MAX + 2];

    for (size_t i = 0; names && i < config->variable_count; i++) {
        tft_torch_variable_name(config->variables[i].name, name);
        if (strcmp(config->variables[i].name, name))
            json_object_set_new(names, config->variables[i].name, json_string(name));
    }
    return names;
}

/* One number, or one a target. */
static json_t *output_size(const struct tft_model_config *config)
{
    size_t targets = targets_of(config);
    json_t *list = targets > 1 ? json_array() : json_integer((json_int_t)config->quantile_count);

    for (size_t o = 0; targets > 1 && o < targets; o++)
        json_array_append_new(list, json_integer((json_int_t)config->quantile_count));
    return list;
}

json_t *torch_arguments_pytorch_forecasting(const struct tft_model_config *config, const struct tft_run_config *run)
{
    const struct kind static_category = { TFT_STATIC, TFT_CATEGORY }, static_real = { TFT_STATIC, TFT_REAL };
    const struct kind known_category = { TFT_KNOWN, TFT_CATEGORY }, known_real = { TFT_KNOWN, TFT_REAL };
    const struct kind observed_category = { TFT_OBSERVED, TFT_CATEGORY }, observed_real = { TFT_OBSERVED, TFT_REAL };
    const struct kind target = { TFT_TARGET, TFT_REAL };
    json_t *quantiles = tft_list_json(&run->quantiles);
    json_t *a =
        json_pack("{sI si sf sI sI sI so sb sb}", "hidden_size", (json_int_t)config->H, "lstm_layers", 1, "dropout",
                  run->dropout, "attention_head_size", (json_int_t)config->heads, "max_encoder_length",
                  (json_int_t)config->E, "hidden_continuous_size", (json_int_t)config->hidden_continuous, "output_size",
                  output_size(config), "share_single_variable_networks", 0, "causal_attention", 1);

    int failed = !a || set_new(a, "static_categoricals", NAMES_OF(config, static_category)) ||
                 set_new(a, "static_reals", NAMES_OF(config, static_real)) ||
                 set_new(a, "time_varying_categoricals_encoder", NAMES_OF(config, known_category, observed_category)) ||
                 set_new(a, "time_varying_categoricals_decoder", NAMES_OF(config, known_category)) ||
                 set_new(a, "time_varying_reals_encoder", NAMES_OF(config, known_real, observed_real, target)) ||
                 set_new(a, "time_varying_reals_decoder", NAMES_OF(config, known_real)) ||
                 set_new(a, "x_categoricals", NAMES_OF(config, static_category, known_category, observed_category)) ||
                 set_new(a, "x_reals", NAMES_OF(config, static_real, known_real, observed_real, target)) ||
                 set_new(a, "embedding_sizes", embedding_sizes(config));
    if (failed) {
        json_decref(a);
        json_decref(quantiles);
        return NULL;
    }
    return json_pack("{ss ss so so so so}", "format", "pytorch-forecasting", "class",
                     "pytorch_forecasting.TemporalFusionTransformer", "arguments", a, "quantiles", quantiles, "targets",
                     NAMES_OF(config, target), "names", renamed(config));
}
