/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's TFT: the map of its parameters, and its configuration.
 *
 * Within a role its embedding puts categories before reals, ours reals before categories. That order matters only in
 * the joint network of a selection, whose blocks the map moves. A model of the published conformance can be exported
 * too: with the LSTMs' second bias 0 it gives the same forecasts (training would differ: ours drops out less). A layer
 * norm over one value yields a weight of 1 whatever it holds, so it is left out.
 *
 * Two tensors of a state_dict() do not affect the forecast: the context kernel of the static selection, which has no
 * context, and attention's mask.
 */
#include "tft/tools/export/torch_impl.h"
#include <string.h>

/* ---- what is possible ---- */

enum halay_status torch_check_nvidia(struct halay_log *log, const struct tft_model_config *config,
                                     const struct tft_schema *schema)
{
    size_t targets = 0, statics = 0;

    for (size_t i = 0; i < config->variable_count; i++) {
        targets += config->variables[i].role == TFT_TARGET;
        statics += config->variables[i].role == TFT_STATIC;
    }
    if (config->conformance == TFT_PYTORCH_FORECASTING)
        halay_error(
            log,
            "the model has pytorch-forecasting's graph: narrower embeddings, resampled skip connections, biases in "
            "attention, which nvidia's has not; train with 'conformance: nvidia' (or published)");
    else if (targets > 1)
        halay_error(log, "nvidia's model forecasts one target, this one has %zu; train one model a target", targets);
    else if (!statics)
        halay_error(log, "nvidia's model needs a static input, this one has none; add one (the id) and train again");
    else if (schema && schema->min_encoder < schema->encoder)
        halay_error(log,
                    "nvidia's model has no windows with a shorter history, this one was trained on them "
                    "('min_encoder: %zu' in the schema); train without",
                    schema->min_encoder);
    else
        return HALAY_OK;
    return HALAY_ERR_ARGUMENT;
}

/* ---- the map ---- */

/* A selection's variables in its order: roles as ours, categories before reals. */
static void selection_order(const struct torch_builder *b, enum tft_choice choice, struct torch_order *order)
{
    size_t ours[TFT_VARIABLES_MAX], count = tft_config_choice(b->config, choice, ours);

    order->count = 0;
    for (int role = 0; role < TFT_ROLES; role++)
        for (int type = TFT_CATEGORY; type >= TFT_REAL; type--)
            for (size_t k = 0; k < count; k++)
                if ((int)b->config->variables[ours[k]].role == role && (int)b->config->variables[ours[k]].type == type)
                    order->ours[order->count++] = k;
}

/* in, out: of a joint network, otherwise whole. */
static void map_grn(struct torch_builder *b, const char *theirs, const char *ours, const struct torch_order *in,
                    const struct torch_order *out)
{
    if (torch_ours(b, NAME("%s.norm.gamma", ours)) && !(in != &torch_whole && out->count == 1))
        torch_norm(b, NAME("%s.layer_norm.ln", theirs), NAME("%s.norm", ours), out);
    torch_linear(b, NAME("%s.lin_a", theirs), NAME("%s.dense1", ours), in, &torch_whole);
    if (torch_ours(b, NAME("%s.context.kernel", ours)))
        torch_linear(b, NAME("%s.lin_c", theirs), NAME("%s.context", ours), &torch_whole, &torch_whole);
    torch_linear(b, NAME("%s.lin_i", theirs), NAME("%s.dense2", ours), &torch_whole, &torch_whole);
    torch_glu(b, NAME("%s.glu.lin", theirs), ours, out);
    if (torch_ours(b, NAME("%s.skip.kernel", ours)))
        torch_linear(b, NAME("%s.out_proj", theirs), NAME("%s.skip", ours), in, out);
}

static void map_selection(struct torch_builder *b, const char *theirs, const char *ours, enum tft_choice choice)
{
    size_t variables[TFT_VARIABLES_MAX], H = b->config->H;
    struct torch_order order;

    tft_config_choice(b->config, choice, variables);
    selection_order(b, choice, &order);
    map_grn(b, NAME("%s.joint_grn", theirs), NAME("%s.joint", ours), &order, &order);
    if (choice == TFT_CHOICE_STATIC)
        torch_tensor(b, NAME("%s.joint_grn.lin_c.weight", theirs), H, H, TFT_TORCH_UNUSED);
    for (size_t k = 0; k < order.count; k++)
        map_grn(b, NAME("%s.var_grns.%zu", theirs, k),
                NAME("%s.variable.%s", ours, b->config->variables[variables[order.ours[k]]].name), &torch_whole,
                &torch_whole);
}

/* Kernels, or biases, of all reals of a role, one a row. */
static void map_rows(struct torch_builder *b, const char *theirs, const char *part, enum tft_role role)
{
    size_t variables[TFT_VARIABLES_MAX], count = torch_variables(b->config, role, TFT_REAL, variables),
                                         H = b->config->H;

    if (!count)
        return;
    torch_tensor(b, theirs, count, H, TFT_TORCH_PIECES);
    for (size_t k = 0; k < count; k++)
        torch_vector(b, k * H, NAME("input.%s.%s", b->config->variables[variables[k]].name, part), &torch_whole);
}

static void map_inputs(struct torch_builder *b)
{
    static const struct {
        enum tft_role role;
        const char *name;
    } inputs[] = { { TFT_STATIC, "s_cat" }, { TFT_KNOWN, "t_cat_k" }, { TFT_OBSERVED, "t_cat_o" } };
    static const struct {
        enum tft_role role;
        const char *name;
    } reals[] = {
        { TFT_STATIC, "s_cont" }, { TFT_KNOWN, "t_cont_k" }, { TFT_OBSERVED, "t_cont_o" }, { TFT_TARGET, "t_tgt" }
    };

    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        size_t variables[TFT_VARIABLES_MAX],
            count = torch_variables(b->config, inputs[i].role, TFT_CATEGORY, variables);

        for (size_t k = 0; k < count; k++)
            torch_embedding(b, NAME("embedding.%s_embed.%zu", inputs[i].name, k),
                            NAME("input.%s.table", b->config->variables[variables[k]].name));
    }
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        map_rows(b, NAME("embedding.%s_embedding_vectors", reals[i].name), "kernel", reals[i].role);
        map_rows(b, NAME("embedding.%s_embedding_bias", reals[i].name), "bias", reals[i].role);
    }
}

/* Queries of all heads, keys of all heads and values, stacked. */
static void map_attention(struct torch_builder *b)
{
    size_t H = b->config->H, heads = b->config->heads, d = H / heads, T = b->config->E + b->config->D;
    const char *theirs = "TFTpart2.attention";

    torch_tensor(b, NAME("%s._mask", theirs), T, T, TFT_TORCH_MASK);
    if (!b->status) {
        struct tft_param *mask = &b->map->theirs.params[b->map->theirs.count - 1];

        mask->dimensions = 3;
        memcpy(mask->shape, (size_t[3]){ 1, T, T }, sizeof mask->shape);
    }
    torch_tensor(b, NAME("%s.qkv_linears.weight", theirs), (2 * heads + 1) * d, H, TFT_TORCH_PIECES);
    for (size_t h = 0; h < heads; h++) {
        torch_kernel(b, h * d * H, NAME("attention.query.%zu.kernel", h), &torch_whole, &torch_whole);
        torch_kernel(b, (heads + h) * d * H, NAME("attention.key.%zu.kernel", h), &torch_whole, &torch_whole);
    }
    torch_kernel(b, 2 * heads * d * H, "attention.value.kernel", &torch_whole, &torch_whole);
    torch_linear(b, NAME("%s.out_proj", theirs), "attention.output", &torch_whole, &torch_whole);
}

static void map_gate(struct torch_builder *b, const char *gate, const char *norm, const char *ours)
{
    torch_glu(b, NAME("TFTpart2.%s.lin", gate), ours, &torch_whole);
    torch_norm(b, NAME("TFTpart2.%s", norm), NAME("%s.norm", ours), &torch_whole);
}

void torch_map_nvidia(struct torch_builder *b)
{
    static const char *const contexts[] = { "selection", "enrichment", "state_h", "state_c" };

    map_inputs(b);
    map_selection(b, "static_encoder.vsn", "static", TFT_CHOICE_STATIC);
    for (size_t k = 0; k < sizeof contexts / sizeof *contexts; k++)
        map_grn(b, NAME("static_encoder.context_grns.%zu", k), NAME("context.%s", contexts[k]), &torch_whole,
                &torch_whole);
    map_selection(b, "TFTpart2.history_vsn", "history", TFT_CHOICE_HISTORY);
    torch_lstm(b, "TFTpart2.history_encoder", "encoder");
    map_selection(b, "TFTpart2.future_vsn", "future", TFT_CHOICE_FUTURE);
    torch_lstm(b, "TFTpart2.future_encoder", "decoder");
    map_gate(b, "input_gate", "input_gate_ln", "sequence_gate");
    map_grn(b, "TFTpart2.enrichment_grn", "enrichment", &torch_whole, &torch_whole);
    map_attention(b);
    map_gate(b, "attention_gate", "attention_ln", "attention_gate");
    map_grn(b, "TFTpart2.positionwise_grn", "feedforward", &torch_whole, &torch_whole);
    map_gate(b, "decoder_gate", "decoder_ln", "output_gate");
    torch_quantiles(b, "TFTpart2.quantile_proj", 0, 1);
}

/* ---- its configuration ---- */

/* Numbers of categories. */
static json_t *lengths_of(const struct tft_model_config *config, enum tft_role role)
{
    size_t variables[TFT_VARIABLES_MAX], count = torch_variables(config, role, TFT_CATEGORY, variables);
    json_t *list = json_array();

    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_integer((json_int_t)config->variables[variables[i]].categories))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *input_names(const struct tft_model_config *config, enum tft_role role, enum tft_type type)
{
    return torch_add_names(json_array(), config, role, type, 0);
}

json_t *torch_arguments_nvidia(const struct tft_model_config *config, const struct tft_run_config *run)
{
    size_t unused[TFT_VARIABLES_MAX], counts[TFT_ROLES][2];
    json_t *quantiles = tft_list_json(&run->quantiles);

    for (int role = 0; role < TFT_ROLES; role++)
        for (int type = TFT_REAL; type <= TFT_CATEGORY; type++)
            counts[role][type] = torch_variables(config, (enum tft_role)role, (enum tft_type)type, unused);
    size_t future = counts[TFT_KNOWN][TFT_REAL] + counts[TFT_KNOWN][TFT_CATEGORY];
    size_t observed = counts[TFT_OBSERVED][TFT_REAL] + counts[TFT_OBSERVED][TFT_CATEGORY];
    json_t *arguments = json_pack(
        "{so so so sI sI sI sI sI sI sI so sI sI sI sI sf sf}", "static_categorical_inp_lens",
        lengths_of(config, TFT_STATIC), "temporal_known_categorical_inp_lens", lengths_of(config, TFT_KNOWN),
        "temporal_observed_categorical_inp_lens", lengths_of(config, TFT_OBSERVED), "static_continuous_inp_size",
        (json_int_t)counts[TFT_STATIC][TFT_REAL], "temporal_known_continuous_inp_size",
        (json_int_t)counts[TFT_KNOWN][TFT_REAL], "temporal_observed_continuous_inp_size",
        (json_int_t)counts[TFT_OBSERVED][TFT_REAL], "temporal_target_size", (json_int_t)counts[TFT_TARGET][TFT_REAL],
        "num_static_vars", (json_int_t)(counts[TFT_STATIC][TFT_REAL] + counts[TFT_STATIC][TFT_CATEGORY]),
        "num_future_vars", (json_int_t)future, "num_historic_vars",
        (json_int_t)(future + observed + counts[TFT_TARGET][TFT_REAL]), "quantiles", quantiles, "example_length",
        (json_int_t)(config->E + config->D), "encoder_length", (json_int_t)config->E, "n_head",
        (json_int_t)config->heads, "hidden_size", (json_int_t)config->H, "dropout", run->dropout, "attn_dropout", 0.0);
    json_t *inputs = json_pack(
        "{so so so so so so so}", "s_cat", input_names(config, TFT_STATIC, TFT_CATEGORY), "s_cont",
        input_names(config, TFT_STATIC, TFT_REAL), "k_cat", input_names(config, TFT_KNOWN, TFT_CATEGORY), "k_cont",
        input_names(config, TFT_KNOWN, TFT_REAL), "o_cat", input_names(config, TFT_OBSERVED, TFT_CATEGORY), "o_cont",
        input_names(config, TFT_OBSERVED, TFT_REAL), "target", input_names(config, TFT_TARGET, TFT_REAL));

    return json_pack("{ss ss so so}", "format", "nvidia", "class", "modeling.TemporalFusionTransformer", "arguments",
                     arguments, "inputs", inputs);
}
