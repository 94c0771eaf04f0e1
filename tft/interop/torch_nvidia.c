/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's TFT beside ours: the map of its parameters, and its configuration.
 *
 * Its embedding puts categories before reals within a role, ours the other way round; the order within a selection
 * makes no difference to the function but for the places in the joint network's layers, whose blocks the map moves. The
 * graph of the published conformance gives the same forecasts with the LSTMs' second bias 0 (training would differ: it
 * drops out less), so that is expressed too; a layer norm over one value, which makes a weight of 1 whatever it holds,
 * has no place and needs none.
 *
 * Two things in a state_dict() are no parameters of the forecast: the context kernel of the static selection, which has
 * no context, and attention's mask.
 */
#include "tft/interop/torch_impl.h"
#include <string.h>

/* ---- what is possible ---- */

enum halay_status peer_check_nvidia(struct halay_log *log, const struct tft_model_config *config,
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

/* The variables of a selection in its order: roles as ours, categories before reals. */
static void selection_order(const struct peer_builder *b, enum tft_choice choice, struct peer_order *order)
{
    size_t ours[TFT_VARIABLES_MAX], count = tft_config_choice(b->config, choice, ours);

    order->count = 0;
    for (int role = TFT_STATIC; role <= TFT_TARGET; role++)
        for (int type = TFT_CATEGORY; type >= TFT_REAL; type--)
            for (size_t k = 0; k < count; k++)
                if ((int)b->config->variables[ours[k]].role == role && (int)b->config->variables[ours[k]].type == type)
                    order->ours[order->count++] = k;
}

/* in, out: of a joint network, otherwise whole. */
static void add_grn(struct peer_builder *b, const char *theirs, const char *ours, const struct peer_order *in,
                    const struct peer_order *out)
{
    if (peer_ours(b, NAME("%s.norm.gamma", ours)) && !(in != &peer_whole && out->count == 1))
        peer_norm(b, NAME("%s.layer_norm.ln", theirs), NAME("%s.norm", ours), out);
    peer_linear(b, NAME("%s.lin_a", theirs), NAME("%s.dense1", ours), in, &peer_whole);
    if (peer_ours(b, NAME("%s.context.kernel", ours)))
        peer_linear(b, NAME("%s.lin_c", theirs), NAME("%s.context", ours), &peer_whole, &peer_whole);
    peer_linear(b, NAME("%s.lin_i", theirs), NAME("%s.dense2", ours), &peer_whole, &peer_whole);
    peer_glu(b, NAME("%s.glu.lin", theirs), ours, out);
    if (peer_ours(b, NAME("%s.skip.kernel", ours)))
        peer_linear(b, NAME("%s.out_proj", theirs), NAME("%s.skip", ours), in, out);
}

static void add_selection(struct peer_builder *b, const char *theirs, const char *ours, enum tft_choice choice)
{
    size_t variables[TFT_VARIABLES_MAX], H = b->config->H;
    struct peer_order order;

    tft_config_choice(b->config, choice, variables);
    selection_order(b, choice, &order);
    add_grn(b, NAME("%s.joint_grn", theirs), NAME("%s.joint", ours), &order, &order);
    if (choice == TFT_CHOICE_STATIC)
        peer_tensor(b, NAME("%s.joint_grn.lin_c.weight", theirs), H, H, TFT_PEER_UNUSED);
    for (size_t k = 0; k < order.count; k++)
        add_grn(b, NAME("%s.var_grns.%zu", theirs, k),
                NAME("%s.variable.%s", ours, b->config->variables[variables[order.ours[k]]].name), &peer_whole,
                &peer_whole);
}

/* Kernels, or biases, of all reals of a role, one a row. */
static void add_rows(struct peer_builder *b, const char *theirs, const char *part, enum tft_role role)
{
    size_t variables[TFT_VARIABLES_MAX], count = peer_variables(b->config, role, TFT_REAL, variables), H = b->config->H;

    if (!count)
        return;
    peer_tensor(b, theirs, count, H, TFT_PEER_PIECES);
    for (size_t k = 0; k < count; k++)
        peer_vector(b, k * H, NAME("input.%s.%s", b->config->variables[variables[k]].name, part), &peer_whole);
}

static void add_inputs(struct peer_builder *b)
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
        size_t variables[TFT_VARIABLES_MAX], count = peer_variables(b->config, inputs[i].role, TFT_CATEGORY, variables);

        for (size_t k = 0; k < count; k++)
            peer_embedding(b, NAME("embedding.%s_embed.%zu", inputs[i].name, k),
                           NAME("input.%s.table", b->config->variables[variables[k]].name));
    }
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        add_rows(b, NAME("embedding.%s_embedding_vectors", reals[i].name), "kernel", reals[i].role);
        add_rows(b, NAME("embedding.%s_embedding_bias", reals[i].name), "bias", reals[i].role);
    }
}

/* Queries of all heads, keys of all heads, values: below each other. */
static void add_attention(struct peer_builder *b)
{
    size_t H = b->config->H, heads = b->config->heads, d = H / heads, T = b->config->E + b->config->D;
    const char *theirs = "TFTpart2.attention";

    peer_tensor(b, NAME("%s._mask", theirs), T, T, TFT_PEER_MASK);
    if (!b->status) {
        struct tft_param *mask = &b->map->theirs.params[b->map->theirs.count - 1];

        mask->dimensions = 3;
        memcpy(mask->shape, (size_t[3]){ 1, T, T }, sizeof mask->shape);
    }
    peer_tensor(b, NAME("%s.qkv_linears.weight", theirs), (2 * heads + 1) * d, H, TFT_PEER_PIECES);
    for (size_t h = 0; h < heads; h++) {
        peer_kernel(b, h * d * H, NAME("attention.query.%zu.kernel", h), &peer_whole, &peer_whole);
        peer_kernel(b, (heads + h) * d * H, NAME("attention.key.%zu.kernel", h), &peer_whole, &peer_whole);
    }
    peer_kernel(b, 2 * heads * d * H, "attention.value.kernel", &peer_whole, &peer_whole);
    peer_linear(b, NAME("%s.out_proj", theirs), "attention.output", &peer_whole, &peer_whole);
}

static void add_gate(struct peer_builder *b, const char *gate, const char *norm, const char *ours)
{
    peer_glu(b, NAME("TFTpart2.%s.lin", gate), ours, &peer_whole);
    peer_norm(b, NAME("TFTpart2.%s", norm), NAME("%s.norm", ours), &peer_whole);
}

void peer_map_nvidia(struct peer_builder *b)
{
    static const char *const contexts[] = { "selection", "enrichment", "state_h", "state_c" };

    add_inputs(b);
    add_selection(b, "static_encoder.vsn", "static", TFT_CHOICE_STATIC);
    for (size_t k = 0; k < sizeof contexts / sizeof *contexts; k++)
        add_grn(b, NAME("static_encoder.context_grns.%zu", k), NAME("context.%s", contexts[k]), &peer_whole,
                &peer_whole);
    add_selection(b, "TFTpart2.history_vsn", "history", TFT_CHOICE_HISTORY);
    peer_lstm(b, "TFTpart2.history_encoder", "encoder");
    add_selection(b, "TFTpart2.future_vsn", "future", TFT_CHOICE_FUTURE);
    peer_lstm(b, "TFTpart2.future_encoder", "decoder");
    add_gate(b, "input_gate", "input_gate_ln", "sequence_gate");
    add_grn(b, "TFTpart2.enrichment_grn", "enrichment", &peer_whole, &peer_whole);
    add_attention(b);
    add_gate(b, "attention_gate", "attention_ln", "attention_gate");
    add_grn(b, "TFTpart2.positionwise_grn", "feedforward", &peer_whole, &peer_whole);
    add_gate(b, "decoder_gate", "decoder_ln", "output_gate");
    peer_quantiles(b, "TFTpart2.quantile_proj", 0, 1);
}

/* ---- its configuration ---- */

/* Numbers of categories. */
static json_t *lengths_of(const struct tft_model_config *config, enum tft_role role)
{
    size_t variables[TFT_VARIABLES_MAX], count = peer_variables(config, role, TFT_CATEGORY, variables);
    json_t *list = json_array();

    for (size_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_integer((json_int_t)config->variables[variables[i]].categories))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *names_of(const struct tft_model_config *config, enum tft_role role, enum tft_type type)
{
    return peer_add_names(json_array(), config, role, type, 0);
}

json_t *peer_arguments_nvidia(const struct tft_model_config *config, const struct tft_run_config *run)
{
    size_t unused[TFT_VARIABLES_MAX], counts[4][2];
    json_t *quantiles = json_array();

    for (int role = TFT_STATIC; role <= TFT_TARGET; role++)
        for (int type = TFT_REAL; type <= TFT_CATEGORY; type++)
            counts[role][type] = peer_variables(config, (enum tft_role)role, (enum tft_type)type, unused);
    for (size_t q = 0; q < run->quantiles.count; q++)
        json_array_append_new(quantiles, json_real(run->quantiles.values[q]));
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
    json_t *inputs =
        json_pack("{so so so so so so so}", "s_cat", names_of(config, TFT_STATIC, TFT_CATEGORY), "s_cont",
                  names_of(config, TFT_STATIC, TFT_REAL), "k_cat", names_of(config, TFT_KNOWN, TFT_CATEGORY), "k_cont",
                  names_of(config, TFT_KNOWN, TFT_REAL), "o_cat", names_of(config, TFT_OBSERVED, TFT_CATEGORY),
                  "o_cont", names_of(config, TFT_OBSERVED, TFT_REAL), "target", names_of(config, TFT_TARGET, TFT_REAL));

    return json_pack("{ss ss so so}", "format", "nvidia", "class", "modeling.TemporalFusionTransformer", "arguments",
                     arguments, "inputs", inputs);
}
