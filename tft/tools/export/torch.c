/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's parameters: how a map is built of layers, and read. Cleanup: zeroed first, fini accepts half-built.
 */
#include "base/number_text.h"
#include "tft/tools/export/torch_impl.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct torch_order torch_whole = { 1, { 0 } };

static const char *const names[] = { [TFT_TORCH_NVIDIA] = "nvidia", [TFT_TORCH_FORECASTING] = "pytorch-forecasting" };

enum halay_status tft_torch_format_parse(struct halay_log *log, const char *name, enum tft_torch_format *format)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) {
            *format = (enum tft_torch_format)i;
            return HALAY_OK;
        }
    halay_error(log, "unknown format '%s': nvidia and pytorch-forecasting are known", name);
    return HALAY_ERR_ARGUMENT;
}

const char *tft_torch_format_name(enum tft_torch_format format)
{
    return names[format];
}

enum tft_conformance tft_torch_conformance(enum tft_torch_format format)
{
    return format == TFT_TORCH_NVIDIA ? TFT_NVIDIA : TFT_PYTORCH_FORECASTING;
}

/* ---- build ---- */

struct torch_name torch_name(const char *format, ...)
{
    struct torch_name name;
    va_list arguments;

    va_start(arguments, format);
    halay_vsnprintf(name.text, sizeof name.text, format, arguments);
    va_end(arguments);
    return name;
}

const struct tft_param *torch_ours(const struct torch_builder *b, const char *name)
{
    for (size_t i = 0; i < b->ours->count; i++)
        if (!strcmp(b->ours->params[i].name, name))
            return &b->ours->params[i];
    return NULL;
}

/* One that must be there. */
static const struct tft_param *need(struct torch_builder *b, const char *name)
{
    static const struct tft_param none = { .shape = { 0, 0 } };
    const struct tft_param *param = torch_ours(b, name);

    if (param)
        return param;
    if (!b->status)
        halay_error(b->log, "the model has no parameter '%s'", name);
    b->status = b->status ? b->status : HALAY_ERR_FORMAT;
    return &none;
}

/* Room for one more; what cannot be had is the builder's failure. */
static void *grow_list(struct torch_builder *b, void *list, size_t count, size_t *capacity, size_t size)
{
    size_t wanted = *capacity ? 2 * *capacity : 256;
    void *grown;

    if (count < *capacity)
        return list;
    grown = realloc(list, wanted * size);
    if (!grown) {
        b->status = HALAY_ERR_NO_MEMORY;
        return list;
    }
    *capacity = wanted;
    return grown;
}

void torch_tensor(struct torch_builder *b, const char *name, size_t rows, size_t columns, enum tft_torch_source source)
{
    struct tft_torch_map *map = b->map;
    size_t number = map->theirs.count;

    if (!b->status)
        map->tensors = grow_list(b, map->tensors, number, &map->tensor_capacity, sizeof *map->tensors);
    if (!b->status)
        b->status = tft_params_add(&map->theirs, name, rows, columns, TFT_INIT_ZERO, NULL);
    if (!b->status)
        map->tensors[number] =
            (struct tft_torch_tensor){ .source = source, .first = map->piece_count, .same_as = number };
}

void torch_piece(struct torch_builder *b, size_t at, struct tft_torch_piece piece)
{
    struct tft_torch_map *map = b->map;

    if (!b->status)
        map->pieces = grow_list(b, map->pieces, map->piece_count, &map->piece_capacity, sizeof *map->pieces);
    if (b->status)
        return;
    piece.theirs = map->theirs.params[map->theirs.count - 1].offset + at;
    map->pieces[map->piece_count++] = piece;
    map->tensors[map->theirs.count - 1].count++;
}

void torch_kernel(struct torch_builder *b, size_t at, const char *ours, const struct torch_order *in,
                  const struct torch_order *out)
{
    const struct tft_param *kernel = need(b, ours);
    size_t inputs = kernel->shape[0], outputs = kernel->shape[1];
    size_t wide = inputs / in->count, high = outputs / out->count;

    for (size_t i = 0; i < out->count; i++)
        for (size_t j = 0; j < in->count; j++)
            torch_piece(
                b, at + i * high * inputs + j * wide,
                (struct tft_torch_piece){ .rows = high,
                                          .columns = wide,
                                          .their_row = inputs,
                                          .ours = kernel->offset + in->ours[j] * wide * outputs + out->ours[i] * high,
                                          .our_row = 1,
                                          .our_column = outputs });
}

void torch_vector(struct torch_builder *b, size_t at, const char *ours, const struct torch_order *order)
{
    const struct tft_param *vector = need(b, ours);
    size_t wide = vector->count / order->count;

    for (size_t i = 0; i < order->count; i++)
        torch_piece(b, at + i * wide,
                    (struct tft_torch_piece){ .rows = 1,
                                              .columns = wide,
                                              .their_row = wide,
                                              .ours = vector->offset + order->ours[i] * wide,
                                              .our_row = wide,
                                              .our_column = 1 });
}

void torch_linear(struct torch_builder *b, const char *theirs, const char *ours, const struct torch_order *in,
                  const struct torch_order *out)
{
    const struct tft_param *kernel = need(b, NAME("%s.kernel", ours));

    torch_tensor(b, NAME("%s.weight", theirs), kernel->shape[1], kernel->shape[0], TFT_TORCH_PIECES);
    torch_kernel(b, 0, NAME("%s.kernel", ours), in, out);
    if (!torch_ours(b, NAME("%s.bias", ours)))
        return;
    torch_tensor(b, NAME("%s.bias", theirs), 0, kernel->shape[1], TFT_TORCH_PIECES);
    torch_vector(b, 0, NAME("%s.bias", ours), out);
}

void torch_glu(struct torch_builder *b, const char *theirs, const char *ours, const struct torch_order *out)
{
    const struct tft_param *value = need(b, NAME("%s.value.kernel", ours));
    size_t inputs = value->shape[0], outputs = value->shape[1];

    torch_tensor(b, NAME("%s.weight", theirs), 2 * outputs, inputs, TFT_TORCH_PIECES);
    torch_kernel(b, 0, NAME("%s.value.kernel", ours), &torch_whole, out);
    torch_kernel(b, outputs * inputs, NAME("%s.gate.kernel", ours), &torch_whole, out);
    torch_tensor(b, NAME("%s.bias", theirs), 0, 2 * outputs, TFT_TORCH_PIECES);
    torch_vector(b, 0, NAME("%s.value.bias", ours), out);
    torch_vector(b, outputs, NAME("%s.gate.bias", ours), out);
}

void torch_norm(struct torch_builder *b, const char *theirs, const char *ours, const struct torch_order *order)
{
    size_t width = need(b, NAME("%s.gamma", ours))->count;

    torch_tensor(b, NAME("%s.weight", theirs), 0, width, TFT_TORCH_PIECES);
    torch_vector(b, 0, NAME("%s.gamma", ours), order);
    torch_tensor(b, NAME("%s.bias", theirs), 0, width, TFT_TORCH_PIECES);
    torch_vector(b, 0, NAME("%s.beta", ours), order);
}

void torch_lstm(struct torch_builder *b, const char *theirs, const char *ours)
{
    size_t H = b->config->H;
    int has_second = torch_ours(b, NAME("%s.recurrent.bias", ours)) != NULL;

    torch_tensor(b, NAME("%s.weight_ih_l0", theirs), 4 * H, H, TFT_TORCH_PIECES);
    torch_kernel(b, 0, NAME("%s.kernel", ours), &torch_whole, &torch_whole);
    torch_tensor(b, NAME("%s.weight_hh_l0", theirs), 4 * H, H, TFT_TORCH_PIECES);
    torch_kernel(b, 0, NAME("%s.recurrent", ours), &torch_whole, &torch_whole);
    torch_tensor(b, NAME("%s.bias_ih_l0", theirs), 0, 4 * H, TFT_TORCH_PIECES);
    torch_vector(b, 0, NAME("%s.bias", ours), &torch_whole);
    torch_tensor(b, NAME("%s.bias_hh_l0", theirs), 0, 4 * H, has_second ? TFT_TORCH_PIECES : TFT_TORCH_UNUSED);
    if (has_second)
        torch_vector(b, 0, NAME("%s.recurrent.bias", ours), &torch_whole);
}

void torch_embedding(struct torch_builder *b, const char *theirs, const char *ours)
{
    const struct tft_param *table = need(b, ours);

    torch_tensor(b, NAME("%s.weight", theirs), table->shape[0], table->shape[1], TFT_TORCH_PIECES);
    torch_vector(b, 0, ours, &torch_whole);
}

void torch_quantiles(struct torch_builder *b, const char *theirs, size_t target, size_t targets)
{
    const struct tft_param *kernel = need(b, "output.quantiles.kernel"), *bias = need(b, "output.quantiles.bias");
    size_t H = b->config->H, Q = b->config->quantile_count;

    torch_tensor(b, NAME("%s.weight", theirs), Q, H, TFT_TORCH_PIECES);
    torch_piece(b, 0,
                (struct tft_torch_piece){ .rows = Q,
                                          .columns = H,
                                          .their_row = H,
                                          .ours = kernel->offset + target,
                                          .our_row = targets,
                                          .our_column = Q * targets });
    torch_tensor(b, NAME("%s.bias", theirs), 0, Q, TFT_TORCH_PIECES);
    torch_piece(b, 0,
                (struct tft_torch_piece){
                    .rows = Q, .columns = 1, .their_row = 1, .ours = bias->offset + target, .our_row = targets });
}

enum halay_status tft_torch_map_init(struct halay_log *log, enum tft_torch_format format,
                                     const struct tft_model_config *config, const struct tft_param_table *ours,
                                     struct tft_torch_map *map)
{
    struct tft_torch_map made = { 0 };
    struct torch_builder b = { .log = log, .config = config, .ours = ours, .map = &made };

    if (format == TFT_TORCH_NVIDIA)
        torch_map_nvidia(&b);
    else
        torch_map_pytorch_forecasting(&b);
    if (b.status == HALAY_ERR_NO_MEMORY)
        halay_error(log, "no memory for the map of %s's parameters", names[format]);
    else if (b.status)
        halay_error(log, "the model's parameters have no place in %s's", names[format]);
    if (b.status)
        tft_torch_map_fini(&made);
    else
        *map = made;
    return b.status;
}

void tft_torch_map_fini(struct tft_torch_map *map)
{
    tft_params_fini(&map->theirs);
    free(map->tensors);
    free(map->pieces);
    *map = (struct tft_torch_map){ 0 };
}

/* ---- read ---- */

/* What the mask holds at a place. */
static float mask_at(const struct tft_param *mask, size_t i)
{
    size_t T = mask->shape[1], row = i / T, column = i % T;

    return column > row ? -INFINITY : 0;
}

static void give_piece(const struct tft_torch_piece *p, const float *ours, float *theirs)
{
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->columns; c++)
            theirs[p->theirs + r * p->their_row + c] = ours[p->ours + r * p->our_row + c * p->our_column];
}

void tft_torch_map_give(const struct tft_torch_map *map, const float *ours, float *theirs)
{
    memset(theirs, 0, map->theirs.reals * sizeof *theirs);
    for (size_t t = 0; t < map->theirs.count; t++) {
        const struct tft_param *param = &map->theirs.params[t];

        for (size_t i = 0; map->tensors[t].source == TFT_TORCH_MASK && i < param->count; i++)
            theirs[param->offset + i] = mask_at(param, i);
        for (size_t k = 0; k < map->tensors[t].count; k++)
            give_piece(&map->pieces[map->tensors[t].first + k], ours, theirs);
    }
}

static void take_piece(const struct tft_torch_piece *p, const float *theirs, float *ours)
{
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->columns; c++)
            ours[p->ours + r * p->our_row + c * p->our_column] = theirs[p->theirs + r * p->their_row + c];
}

void tft_torch_map_take(const struct tft_torch_map *map, const float *theirs, float *ours)
{
    for (size_t t = 0; t < map->theirs.count; t++)
        for (size_t k = 0; map->tensors[t].same_as == t && k < map->tensors[t].count; k++)
            take_piece(&map->pieces[map->tensors[t].first + k], theirs, ours);
}

int tft_torch_map_is_mask(const struct tft_torch_map *map, size_t tensor, const float *theirs)
{
    const struct tft_param *param = &map->theirs.params[tensor];

    for (size_t i = 0; i < param->count; i++)
        if (theirs[param->offset + i] != mask_at(param, i))
            return 0;
    return 1;
}

/* ---- can the format express the model ---- */

enum halay_status tft_torch_check(struct halay_log *log, enum tft_torch_format format,
                                  const struct tft_model_config *config, const struct tft_schema *schema)
{
    if (config->ascending) {
        halay_error(log,
                    "%s's quantiles may cross: a model trained with 'crossing: forbid' adds up steps where %s has the "
                    "quantiles themselves; train with 'crossing: allow'",
                    names[format], names[format]);
        return HALAY_ERR_ARGUMENT;
    }
    if (config->loss != TFT_LOSS_QUANTILES) {
        halay_error(log, "%s's model forecasts quantiles, this one has 'loss: %s'; train with 'loss: quantiles'",
                    names[format], tft_loss_words[config->loss]);
        return HALAY_ERR_ARGUMENT;
    }
    return format == TFT_TORCH_NVIDIA ? torch_check_nvidia(log, config, schema)
                                      : torch_check_pytorch_forecasting(log, config);
}

json_t *tft_torch_arguments(enum tft_torch_format format, const struct tft_model_config *config,
                            const struct tft_run_config *run)
{
    return format == TFT_TORCH_NVIDIA ? torch_arguments_nvidia(config, run)
                                      : torch_arguments_pytorch_forecasting(config, run);
}

size_t torch_variables(const struct tft_model_config *config, enum tft_role role, enum tft_type type, size_t *variables)
{
    size_t count = 0;

    for (size_t i = 0; i < config->variable_count; i++)
        if (config->variables[i].role == role && config->variables[i].type == type)
            variables[count++] = i;
    return count;
}

json_t *torch_add_names(json_t *list, const struct tft_model_config *config, enum tft_role role, enum tft_type type,
                        int theirs)
{
    size_t variables[TFT_VARIABLES_MAX], count = torch_variables(config, role, type, variables);

    for (size_t i = 0; list && i < count; i++) {
        const char *name = config->variables[variables[i]].name;
        char other[TFT_NAME_MAX + 2];

        tft_torch_variable_name(name, other);
        if (json_array_append_new(list, json_string(theirs ? other : name))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
