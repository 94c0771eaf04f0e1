/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps of PyTorch's models: names and shapes are those of state_dict() (tests/reference/torch_models.txt, written by
 * torch_models.py, which also compares forecasts); each of their numbers is one of ours and comes back with the same
 * bits; a file that does not fit is refused with every difference; so is a model that a graph cannot express.
 */
#include "tests/tft/files.h"
#include "tft/core/model/model.h"
#include "tft/core/run/safetensors.h"
#include "tft/tools/export/torch_file.h"
#include <math.h>

/* ---- models ---- */

/* What a letter of a case's inputs adds: the same as in torch_models.py. */
static void add_input(struct tft_model_config *config, const char *name, enum tft_role role, size_t categories)
{
    struct tft_variable *variable = &config->variables[config->variable_count++];

    snprintf(variable->name, sizeof variable->name, "%s", name);
    variable->role = role;
    variable->type = categories ? TFT_CATEGORY : TFT_REAL;
    variable->categories = categories;
}

static void base_config(struct tft_model_config *config, enum tft_conformance whose)
{
    tft_config_defaults(config);
    config->variable_count = 0;
    config->H = 8;
    config->heads = 2;
    config->E = 12;
    config->D = 4;
    config->hidden_continuous = 6;
    config->conformance = whose;
}

static void rich(struct tft_model_config *config, enum tft_conformance whose)
{
    base_config(config, whose);
    add_input(config, "area", TFT_STATIC, 5);
    add_input(config, "kind", TFT_STATIC, 2);
    add_input(config, "height", TFT_STATIC, 0);
    add_input(config, "width", TFT_STATIC, 0);
    add_input(config, "holiday", TFT_KNOWN, 3);
    add_input(config, "price", TFT_KNOWN, 0);
    add_input(config, "values", TFT_KNOWN, 0);
    add_input(config, "state", TFT_OBSERVED, 4);
    add_input(config, "wind", TFT_OBSERVED, 0);
    add_input(config, "rain", TFT_OBSERVED, 0);
    add_input(config, "P.M", TFT_TARGET, 0);
    tft_config_sort(config, NULL);
}

static void small(struct tft_model_config *config, enum tft_conformance whose)
{
    base_config(config, whose);
    add_input(config, "area", TFT_STATIC, 5);
    add_input(config, "price", TFT_KNOWN, 0);
    add_input(config, "load", TFT_TARGET, 0);
}

struct fixture {
    enum tft_torch_format format;
    struct tft_model *model;
    const struct tft_param_table *ours;
    struct tft_torch_map map;
    float *params, *back, *theirs; /* ours are 1, 2, 3, ... */
};

static void setup(struct fixture *f, enum tft_torch_format format, const struct tft_model_config *config)
{
    f->format = format;
    REQUIRE(!tft_torch_check(&test_log, format, config, NULL));
    REQUIRE(!tft_model_create(&test_log, config, &f->model));
    f->ours = tft_model_params(f->model);
    REQUIRE(!tft_torch_map_init(&test_log, format, config, f->ours, &f->map));
    f->params = calloc(f->ours->reals, sizeof *f->params);
    f->back = calloc(f->ours->reals, sizeof *f->back);
    f->theirs = malloc(f->map.theirs.reals * sizeof *f->theirs);
    REQUIRE(f->params && f->back && f->theirs);
    for (size_t t = 0; t < f->ours->count; t++)
        for (size_t i = 0; i < f->ours->params[t].count; i++)
            f->params[f->ours->params[t].offset + i] = (float)(f->ours->params[t].offset + i + 1);
    tft_torch_map_give(&f->map, f->params, f->theirs);
}

static void teardown(struct fixture *f)
{
    free(f->params);
    free(f->back);
    free(f->theirs);
    tft_torch_map_fini(&f->map);
    tft_model_destroy(f->model);
}

static const struct tft_param *named(const struct tft_param_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->params[i].name, name))
            return &table->params[i];
    printf("there is no '%s'\n", name);
    REQUIRE(0);
    return NULL;
}

/* ---- maps ---- */

/* Every number of theirs is written once by a piece, every one of ours comes back; but for what the source says. */
static void whole(enum tft_torch_format format, const struct tft_model_config *config, size_t without_place)
{
    struct fixture f;
    size_t lost = 0, doubled = 0, absent = 0;

    setup(&f, format, config);
    int *written = calloc(f.map.theirs.reals, sizeof *written);
    REQUIRE(written);
    for (size_t k = 0; k < f.map.piece_count; k++) {
        const struct tft_torch_piece *p = &f.map.pieces[k];
        for (size_t i = 0; i < p->rows * p->columns; i++)
            written[p->theirs + i / p->columns * p->their_row + i % p->columns]++;
    }
    for (size_t t = 0; t < f.map.theirs.count; t++) {
        const struct tft_param *param = &f.map.theirs.params[t];
        int wanted = f.map.tensors[t].source == TFT_TORCH_PIECES;
        for (size_t i = 0; i < param->count; i++)
            doubled += written[param->offset + i] != wanted;
        for (size_t s = 0; s < t; s++)
            doubled += !strcmp(param->name, f.map.theirs.params[s].name);
        const struct tft_param *same = &f.map.theirs.params[f.map.tensors[t].same_as];
        CHECK(!memcmp(f.theirs + param->offset, f.theirs + same->offset, param->count * sizeof *f.theirs),
              "'%s' is not '%s'", param->name, same->name);
    }
    CHECK(!doubled, "%zu numbers of theirs are not written once", doubled);
    tft_torch_map_take(&f.map, f.theirs, f.back);
    for (size_t i = 0; i < f.ours->reals; i++) {
        absent += f.back[i] == 0 && f.params[i] != 0;
        lost += f.back[i] != 0 && f.back[i] != f.params[i];
    }
    CHECK(!lost && absent == without_place, "%zu numbers came back otherwise, %zu not at all", lost, absent);
    free(written);
    teardown(&f);
}

/* All names and shapes of one format's state_dict(). */
static void listed(FILE *list, enum tft_torch_format format)
{
    struct tft_model_config config;
    struct fixture f;
    char of[32], name[256];
    size_t lines = 0, dimensions, shape[3];

    rich(&config, tft_torch_conformance(format));
    setup(&f, format, &config);
    rewind(list);
    while (fscanf(list, "%31s %255s %zu", of, name, &dimensions) == 3) {
        REQUIRE(dimensions >= 1 && dimensions <= 3);
        for (size_t k = 0; k < dimensions; k++)
            REQUIRE(fscanf(list, "%zu", &shape[k]) == 1);
        if (strcmp(of, tft_torch_format_name(format)))
            continue;
        const struct tft_param *param = named(&f.map.theirs, name);
        int same = (size_t)param->dimensions == dimensions;
        for (size_t k = 0; same && k < dimensions; k++)
            same = param->shape[k] == shape[k];
        CHECK(same, "'%s' has another shape", name);
        lines++;
    }
    CHECK(lines == f.map.theirs.count, "%zu tensors in the list, %zu in the map", lines, f.map.theirs.count);
    teardown(&f);
}

/* The number of a matrix of theirs, and of ours. */
static float at(const struct fixture *f, const char *name, size_t row, size_t column)
{
    const struct tft_param *p = named(&f->map.theirs, name);

    return f->theirs[p->offset + row * (p->dimensions > 1 ? p->shape[1] : 1) + column];
}

static float our(const struct fixture *f, const char *name, size_t row, size_t column)
{
    const struct tft_param *p = named(f->ours, name);

    return f->params[p->offset + row * p->shape[1] + column];
}

/* A few places by hand. The model's history: wind, rain, state, price, values, holiday, P.M; NVIDIA's: state, wind,
 * rain, holiday, price, values, P.M. */
static void places(void)
{
    struct tft_model_config config;
    struct fixture f;

    rich(&config, TFT_NVIDIA);
    setup(&f, TFT_TORCH_NVIDIA, &config);
    CHECK(at(&f, "TFTpart2.history_encoder.weight_ih_l0", 11, 3) == our(&f, "encoder.kernel", 3, 11));
    CHECK(at(&f, "TFTpart2.history_encoder.weight_hh_l0", 31, 0) == our(&f, "encoder.recurrent", 0, 31));
    CHECK(at(&f, "TFTpart2.history_vsn.joint_grn.lin_a.weight", 5, 2) ==
          our(&f, "history.joint.dense1.kernel", 2 * 8 + 2, 5));
    CHECK(at(&f, "TFTpart2.history_vsn.joint_grn.out_proj.weight", 3, 8 + 1) ==
          our(&f, "history.joint.skip.kernel", 1, 5));
    CHECK(at(&f, "TFTpart2.history_vsn.joint_grn.glu.lin.weight", 7 + 1, 4) ==
          our(&f, "history.joint.gate.kernel", 4, 0));
    CHECK(at(&f, "TFTpart2.history_vsn.var_grns.0.lin_i.weight", 1, 2) ==
          our(&f, "history.variable.state.dense2.kernel", 2, 1));
    CHECK(at(&f, "TFTpart2.attention.qkv_linears.weight", 8 + 4 + 1, 6) == our(&f, "attention.key.1.kernel", 6, 1));
    CHECK(at(&f, "TFTpart2.attention.qkv_linears.weight", 16 + 3, 6) == our(&f, "attention.value.kernel", 6, 3));
    CHECK(at(&f, "TFTpart2.attention._mask", 0, 3) < 0 && isinf(at(&f, "TFTpart2.attention._mask", 0, 3)) &&
          !f.theirs[named(&f.map.theirs, "TFTpart2.attention._mask")->offset + 16]);
    CHECK(at(&f, "embedding.t_cont_o_embedding_vectors", 1, 5) == our(&f, "input.rain.kernel", 0, 5));
    CHECK(at(&f, "embedding.s_cat_embed.1.weight", 1, 5) == our(&f, "input.kind.table", 1, 5));
    CHECK(at(&f, "static_encoder.context_grns.3.glu.lin.bias", 8 + 2, 0) == our(&f, "context.state_c.gate.bias", 2, 0));
    teardown(&f);
    rich(&config, TFT_PYTORCH_FORECASTING);
    setup(&f, TFT_TORCH_FORECASTING, &config);
    CHECK(at(&f, "decoder_variable_selection.prescalers.values_.weight", 4, 0) == our(&f, "input.values.kernel", 0, 4));
    CHECK(at(&f, "encoder_variable_selection.single_variable_grns.P_M.fc1.weight", 1, 3) ==
          our(&f, "history.variable.P.M.dense1.kernel", 3, 1));
    CHECK(at(&f, "static_context_initial_cell_lstm.fc1.bias", 6, 0) == our(&f, "context.state_c.dense1.bias", 6, 0));
    CHECK(at(&f, "multihead_attn.q_layers.1.bias", 2, 0) == our(&f, "attention.query.1.bias", 2, 0));
    teardown(&f);
    add_input(&config, "gas", TFT_TARGET, 0);
    setup(&f, TFT_TORCH_FORECASTING, &config);
    CHECK(at(&f, "output_layer.1.weight", 2, 7) == our(&f, "output.quantiles.kernel", 7, 5));
    CHECK(at(&f, "output_layer.0.bias", 1, 0) == our(&f, "output.quantiles.bias", 2, 0));
    teardown(&f);
}

/* ---- files ---- */

static char said[65536];

static void collect(void *arg, enum halay_log_level level, const char *line)
{
    size_t length = strlen(said);

    (void)arg;
    (void)level;
    snprintf(said + length, sizeof said - length, "%s\n", line);
}

static enum halay_status read_again(struct fixture *f, const char *path)
{
    said[0] = '\0';
    memset(f->back, 0, f->ours->reals * sizeof *f->back);
    return tft_torch_file_read(&test_log, path, &f->map, f->back);
}

/* A file with this table's tensors; where the table's are more than the map's, zeros. */
static const char *written(const struct fixture *f, const struct tft_param_table *table, const float *values)
{
    const char *path = in_scratch("f.safetensors");

    (void)f;
    REQUIRE(!tft_safetensors_write(&test_log, path, table, values, NULL));
    return path;
}

static int says(const char *text)
{
    if (strstr(said, text))
        return 1;
    printf("not said: %s\nbut:\n%s", text, said);
    return 0;
}

/* The table without a tensor: those after it move forward. */
static void leave_out(struct tft_param_table *table, float *values, const char *name)
{
    struct tft_param *gone = (struct tft_param *)named(table, name);
    size_t count = gone->count, at = gone->offset, number = (size_t)(gone - table->params);

    memmove(values + at, values + at + count, (table->reals - at - count) * sizeof *values);
    memmove(gone, gone + 1, (table->count - number - 1) * sizeof *gone);
    table->count--;
    table->reals -= count;
    for (size_t i = number; i < table->count; i++)
        table->params[i].offset -= count;
}

static struct tft_param_table copy_of(const struct fixture *f, float **values)
{
    struct tft_param_table table = f->map.theirs;

    table.params = malloc((table.count + 1) * sizeof *table.params);
    *values = malloc((table.reals + 64) * sizeof **values);
    REQUIRE(table.params && *values);
    memcpy(table.params, f->map.theirs.params, table.count * sizeof *table.params);
    memcpy(*values, f->theirs, table.reals * sizeof **values);
    return table;
}

/* Each tensor's difference is logged, with both shapes. */
static void differences(struct fixture *f)
{
    float *values;
    struct tft_param_table table = copy_of(f, &values);
    struct tft_param *quantiles = (struct tft_param *)named(&table, "output_layer.weight");

    leave_out(&table, values, "lstm_decoder.bias_hh_l0");
    leave_out(&table, values, "multihead_attn.w_h.weight");
    quantiles = (struct tft_param *)named(&table, "output_layer.weight");
    quantiles->shape[0] = quantiles->count;
    quantiles->shape[1] = 1;
    strcpy(((struct tft_param *)named(&table, "pos_wise_ff.fc1.bias"))->name, "pos_wise_ff.fc9.bias");
    CHECK(read_again(f, written(f, &table, values)) == HALAY_ERR_FORMAT);
    CHECK(says("'lstm_decoder.bias_hh_l0' [32] is missing") && says("'multihead_attn.w_h.weight' [8, 4] is missing"));
    CHECK(says("tensor 'output_layer.weight' is [24, 1], the model's is [3, 8]"));
    CHECK(says("'pos_wise_ff.fc1.bias' [8] is missing") && says("'pos_wise_ff.fc9.bias' [8] is none of the model's"));
    free(table.params);
    free(values);
}

/* Of what is there under several names, one is enough; two that differ are refused. */
static void sameness(struct fixture *f)
{
    float *values;
    struct tft_param_table table = copy_of(f, &values);

    leave_out(&table, values, "prescalers.price.weight");
    leave_out(&table, values, "decoder_variable_selection.prescalers.price.weight");
    leave_out(&table, values, "post_lstm_gate_decoder.fc.bias");
    CHECK(!read_again(f, written(f, &table, values)) && !memcmp(f->back, f->params, f->ours->reals * sizeof *f->back));
    leave_out(&table, values, "encoder_variable_selection.prescalers.price.weight");
    CHECK(read_again(f, written(f, &table, values)) == HALAY_ERR_FORMAT);
    CHECK(says("'prescalers.price.weight' [6, 1] is missing") &&
          says("'encoder_variable_selection.prescalers.price.weight' [6, 1] is missing"));
    free(table.params);
    free(values);
    table = copy_of(f, &values);
    values[named(&table, "post_lstm_add_norm_decoder.norm.bias")->offset] += 1;
    CHECK(
        read_again(f, written(f, &table, values)) == HALAY_ERR_FORMAT &&
        says("'post_lstm_add_norm_encoder.norm.bias' and 'post_lstm_add_norm_decoder.norm.bias' are one and the same"));
    free(table.params);
    free(values);
}

/* Whatever the bytes: an error, and no crash. */
static void hostile(struct fixture *f)
{
    static const char *const headers[] = {
        "{}",
        "{\"a\":1}",
        "[]",
        "{\"__metadata__\":{\"format\":\"pt\"}}",
        "{\"output_layer.bias\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[0,6]}}",
        "{\"output_layer.bias\":{\"dtype\":\"F32\",\"shape\":[-3,9223372036854775807],\"data_offsets\":[0,12]}}",
        "{\"output_layer.bias\":[[[]]]}",
        "{\"output_layer.bias\":{\"dtype\":7,\"shape\":{},\"data_offsets\":\"x\"}}"
    };
    const char *path = in_scratch("whole.safetensors");
    char bytes[512] = { 0 };
    size_t length, opened = 0;

    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        uint64_t size = strlen(headers[i]);
        memcpy(bytes, &size, sizeof size);
        strcpy(bytes + sizeof size, headers[i]);
        opened += !read_again(f, write_bytes("h.safetensors", bytes, sizeof size + size + 12));
        CHECK(i != 4 || says("tensor 'output_layer.bias' is of type F16, F32 is taken"));
        CHECK(i != 5 || says("is [-3, 9223372036854775807], the model's is [3]"));
        CHECK(i != 1 || says("has none of the model's tensors ('prescalers.height.weight', ...); it holds 1 other"));
    }
    REQUIRE(!tft_torch_file_write(&test_log, path, &f->map, f->params));
    CHECK(!read_again(f, path) && !memcmp(f->back, f->params, f->ours->reals * sizeof *f->back));
    char *good = read_bytes(path, &length);
    for (size_t cut = 0; cut < length; cut += length / 97)
        opened += !read_again(f, write_bytes("h.safetensors", good, cut));
    free(good);
    CHECK(!opened, "%zu broken files were read", opened);
}

static void files(void)
{
    struct tft_model_config config;
    struct fixture f;

    test_log.write = collect;
    rich(&config, TFT_PYTORCH_FORECASTING);
    tft_config_sort(&config, NULL);
    setup(&f, TFT_TORCH_FORECASTING, &config);
    differences(&f);
    sameness(&f);
    hostile(&f);
    teardown(&f);
    rich(&config, TFT_NVIDIA);
    setup(&f, TFT_TORCH_NVIDIA, &config);
    CHECK(!read_again(&f, written(&f, &f.map.theirs, f.theirs)) &&
          !memcmp(f.back, f.params, f.ours->reals * sizeof *f.back));
    f.theirs[named(&f.map.theirs, "TFTpart2.attention._mask")->offset + 2] = 0;
    CHECK(read_again(&f, written(&f, &f.map.theirs, f.theirs)) == HALAY_ERR_FORMAT &&
          says("'TFTpart2.attention._mask' is not the mask"));
    teardown(&f);
    test_log.write = ignore_line;
}

/* ---- what is refused ---- */

static int refused(enum tft_torch_format format, const struct tft_model_config *config, const struct tft_schema *schema,
                   const char *text)
{
    return tft_torch_check(&test_log, format, config, schema) == HALAY_ERR_ARGUMENT && error_says(text);
}

static void refusals(void)
{
    static struct tft_schema schema;
    struct tft_model_config config;
    enum tft_torch_format format;

    schema.encoder = 12;
    schema.min_encoder = 5;
    small(&config, TFT_NVIDIA);
    CHECK(refused(TFT_TORCH_FORECASTING, &config, &schema, "train with 'conformance: pytorch-forecasting'"));
    CHECK(refused(TFT_TORCH_NVIDIA, &config, &schema, "'min_encoder: 5'"));
    config.ascending = 1;
    CHECK(refused(TFT_TORCH_NVIDIA, &config, NULL, "train with 'crossing: allow'"));
    small(&config, TFT_PYTORCH_FORECASTING);
    CHECK(!tft_torch_check(&test_log, TFT_TORCH_FORECASTING, &config, &schema));
    CHECK(refused(TFT_TORCH_NVIDIA, &config, NULL, "train with 'conformance: nvidia'"));
    config.ascending = 1;
    CHECK(refused(TFT_TORCH_FORECASTING, &config, NULL, "quantiles may cross"));
    small(&config, TFT_PUBLISHED);
    CHECK(refused(TFT_TORCH_FORECASTING, &config, NULL, "was trained with 'conformance: published'"));
    CHECK(!tft_torch_check(&test_log, TFT_TORCH_NVIDIA, &config, NULL));
    add_input(&config, "gas", TFT_TARGET, 0);
    CHECK(refused(TFT_TORCH_NVIDIA, &config, NULL, "forecasts one target, this one has 2"));
    base_config(&config, TFT_NVIDIA);
    add_input(&config, "price", TFT_KNOWN, 0);
    add_input(&config, "load", TFT_TARGET, 0);
    CHECK(refused(TFT_TORCH_NVIDIA, &config, NULL, "needs a static input"));
    config.conformance = TFT_PYTORCH_FORECASTING;
    add_input(&config, "a.b", TFT_TARGET, 0);
    add_input(&config, "a_b", TFT_TARGET, 0);
    CHECK(refused(TFT_TORCH_FORECASTING, &config, NULL, "'a.b' and 'a_b' would both be named 'a_b'"));
    CHECK(tft_torch_format_parse(&test_log, "keras", &format) == HALAY_ERR_ARGUMENT &&
          error_says("unknown format 'keras'"));
}

int main(void)
{
    const char *top = getenv("top_srcdir");
    char path[1024];
    struct tft_model_config config;

    begin_scratch();
    snprintf(path, sizeof path, "%s/tests/reference/torch_models.txt", top ? top : ".");
    FILE *list = fopen(path, "r");
    REQUIRE(list);
    listed(list, TFT_TORCH_NVIDIA);
    listed(list, TFT_TORCH_FORECASTING);
    fclose(list);
    for (int whose = TFT_PUBLISHED; whose <= TFT_PYTORCH_FORECASTING; whose++) {
        enum tft_torch_format format = whose == TFT_PYTORCH_FORECASTING ? TFT_TORCH_FORECASTING : TFT_TORCH_NVIDIA;
        rich(&config, (enum tft_conformance)whose);
        whole(format, &config, 0);
        small(&config, (enum tft_conformance)whose);
        whole(format, &config, whose == TFT_PUBLISHED ? 4 : 0); /* gamma and beta of two layer norms of one value */
    }
    places();
    files();
    refusals();
    end_scratch();
    return test_end();
}
