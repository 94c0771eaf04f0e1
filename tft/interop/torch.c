/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers' maps: how they are built of layers, and read. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/interop/torch_impl.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct peer_order peer_whole = { 1, { 0 } };

static const char *const names[] = {
    [TFT_PEER_NVIDIA] = "nvidia", [TFT_PEER_PYTORCH_FORECASTING] = "pytorch-forecasting"
};

enum halay_status tft_peer_named(struct halay_log *log, const char *name, enum tft_peer *peer)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) {
            *peer = (enum tft_peer)i;
            return HALAY_OK;
        }
    halay_error(log, "unknown format '%s': nvidia and pytorch-forecasting are known", name);
    return HALAY_ERR_ARGUMENT;
}

const char *tft_peer_name(enum tft_peer peer)
{
    return names[peer];
}

enum tft_conformance tft_peer_conformance(enum tft_peer peer)
{
    return peer == TFT_PEER_NVIDIA ? TFT_NVIDIA : TFT_PYTORCH_FORECASTING;
}

/* ---- build ---- */

struct peer_name peer_name(const char *format, ...)
{
    struct peer_name name;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(name.text, sizeof name.text, format, arguments);
    va_end(arguments);
    return name;
}

const struct tft_param *peer_ours(const struct peer_builder *b, const char *name)
{
    for (size_t i = 0; i < b->ours->count; i++)
        if (!strcmp(b->ours->params[i].name, name))
            return &b->ours->params[i];
    return NULL;
}

/* One that must be there. */
static const struct tft_param *need(struct peer_builder *b, const char *name)
{
    static const struct tft_param none = { .shape = { 0, 0 } };
    const struct tft_param *param = peer_ours(b, name);

    if (param)
        return param;
    if (!b->status)
        halay_error(b->log, "the model has no parameter '%s'", name);
    b->status = b->status ? b->status : HALAY_ERR_FORMAT;
    return &none;
}

/* Room for one more; what cannot be had is the builder's failure. */
static void *grow(struct peer_builder *b, void *list, size_t count, size_t *capacity, size_t size)
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

void peer_tensor(struct peer_builder *b, const char *name, size_t rows, size_t columns, enum tft_peer_source source)
{
    struct tft_peer_map *map = b->map;
    size_t number = map->theirs.count;

    if (!b->status)
        map->tensors = grow(b, map->tensors, number, &map->tensor_capacity, sizeof *map->tensors);
    if (!b->status)
        b->status = tft_params_add(&map->theirs, name, rows, columns, TFT_INIT_ZERO, NULL);
    if (!b->status)
        map->tensors[number] =
            (struct tft_peer_tensor){ .source = source, .first = map->piece_count, .same_as = number };
}

void peer_piece(struct peer_builder *b, size_t at, struct tft_peer_piece piece)
{
    struct tft_peer_map *map = b->map;

    if (!b->status)
        map->pieces = grow(b, map->pieces, map->piece_count, &map->piece_capacity, sizeof *map->pieces);
    if (b->status)
        return;
    piece.theirs = map->theirs.params[map->theirs.count - 1].offset + at;
    map->pieces[map->piece_count++] = piece;
    map->tensors[map->theirs.count - 1].count++;
}

void peer_kernel(struct peer_builder *b, size_t at, const char *ours, const struct peer_order *in,
                 const struct peer_order *out)
{
    const struct tft_param *kernel = need(b, ours);
    size_t inputs = kernel->shape[0], outputs = kernel->shape[1];
    size_t wide = inputs / in->count, high = outputs / out->count;

    for (size_t i = 0; i < out->count; i++)
        for (size_t j = 0; j < in->count; j++)
            peer_piece(
                b, at + i * high * inputs + j * wide,
                (struct tft_peer_piece){ .rows = high,
                                         .columns = wide,
                                         .their_row = inputs,
                                         .ours = kernel->offset + in->ours[j] * wide * outputs + out->ours[i] * high,
                                         .our_row = 1,
                                         .our_column = outputs });
}

void peer_vector(struct peer_builder *b, size_t at, const char *ours, const struct peer_order *order)
{
    const struct tft_param *vector = need(b, ours);
    size_t wide = vector->count / order->count;

    for (size_t i = 0; i < order->count; i++)
        peer_piece(b, at + i * wide,
                   (struct tft_peer_piece){ .rows = 1,
                                            .columns = wide,
                                            .their_row = wide,
                                            .ours = vector->offset + order->ours[i] * wide,
                                            .our_row = wide,
                                            .our_column = 1 });
}

void peer_linear(struct peer_builder *b, const char *theirs, const char *ours, const struct peer_order *in,
                 const struct peer_order *out)
{
    const struct tft_param *kernel = need(b, NAME("%s.kernel", ours));

    peer_tensor(b, NAME("%s.weight", theirs), kernel->shape[1], kernel->shape[0], TFT_PEER_PIECES);
    peer_kernel(b, 0, NAME("%s.kernel", ours), in, out);
    if (!peer_ours(b, NAME("%s.bias", ours)))
        return;
    peer_tensor(b, NAME("%s.bias", theirs), 0, kernel->shape[1], TFT_PEER_PIECES);
    peer_vector(b, 0, NAME("%s.bias", ours), out);
}

void peer_glu(struct peer_builder *b, const char *theirs, const char *ours, const struct peer_order *out)
{
    const struct tft_param *value = need(b, NAME("%s.value.kernel", ours));
    size_t inputs = value->shape[0], outputs = value->shape[1];

    peer_tensor(b, NAME("%s.weight", theirs), 2 * outputs, inputs, TFT_PEER_PIECES);
    peer_kernel(b, 0, NAME("%s.value.kernel", ours), &peer_whole, out);
    peer_kernel(b, outputs * inputs, NAME("%s.gate.kernel", ours), &peer_whole, out);
    peer_tensor(b, NAME("%s.bias", theirs), 0, 2 * outputs, TFT_PEER_PIECES);
    peer_vector(b, 0, NAME("%s.value.bias", ours), out);
    peer_vector(b, outputs, NAME("%s.gate.bias", ours), out);
}

void peer_norm(struct peer_builder *b, const char *theirs, const char *ours, const struct peer_order *order)
{
    size_t width = need(b, NAME("%s.gamma", ours))->count;

    peer_tensor(b, NAME("%s.weight", theirs), 0, width, TFT_PEER_PIECES);
    peer_vector(b, 0, NAME("%s.gamma", ours), order);
    peer_tensor(b, NAME("%s.bias", theirs), 0, width, TFT_PEER_PIECES);
    peer_vector(b, 0, NAME("%s.beta", ours), order);
}

void peer_lstm(struct peer_builder *b, const char *theirs, const char *ours)
{
    size_t H = b->config->H;
    int has_second = peer_ours(b, NAME("%s.recurrent.bias", ours)) != NULL;

    peer_tensor(b, NAME("%s.weight_ih_l0", theirs), 4 * H, H, TFT_PEER_PIECES);
    peer_kernel(b, 0, NAME("%s.kernel", ours), &peer_whole, &peer_whole);
    peer_tensor(b, NAME("%s.weight_hh_l0", theirs), 4 * H, H, TFT_PEER_PIECES);
    peer_kernel(b, 0, NAME("%s.recurrent", ours), &peer_whole, &peer_whole);
    peer_tensor(b, NAME("%s.bias_ih_l0", theirs), 0, 4 * H, TFT_PEER_PIECES);
    peer_vector(b, 0, NAME("%s.bias", ours), &peer_whole);
    peer_tensor(b, NAME("%s.bias_hh_l0", theirs), 0, 4 * H, has_second ? TFT_PEER_PIECES : TFT_PEER_UNUSED);
    if (has_second)
        peer_vector(b, 0, NAME("%s.recurrent.bias", ours), &peer_whole);
}

void peer_embedding(struct peer_builder *b, const char *theirs, const char *ours)
{
    const struct tft_param *table = need(b, ours);

    peer_tensor(b, NAME("%s.weight", theirs), table->shape[0], table->shape[1], TFT_PEER_PIECES);
    peer_vector(b, 0, ours, &peer_whole);
}

void peer_quantiles(struct peer_builder *b, const char *theirs, size_t target, size_t targets)
{
    const struct tft_param *kernel = need(b, "output.quantiles.kernel"), *bias = need(b, "output.quantiles.bias");
    size_t H = b->config->H, Q = b->config->quantile_count;

    peer_tensor(b, NAME("%s.weight", theirs), Q, H, TFT_PEER_PIECES);
    peer_piece(b, 0,
               (struct tft_peer_piece){ .rows = Q,
                                        .columns = H,
                                        .their_row = H,
                                        .ours = kernel->offset + target,
                                        .our_row = targets,
                                        .our_column = Q * targets });
    peer_tensor(b, NAME("%s.bias", theirs), 0, Q, TFT_PEER_PIECES);
    peer_piece(b, 0,
               (struct tft_peer_piece){
                   .rows = Q, .columns = 1, .their_row = 1, .ours = bias->offset + target, .our_row = targets });
}

enum halay_status tft_peer_map_init(struct halay_log *log, enum tft_peer peer, const struct tft_model_config *config,
                                    const struct tft_param_table *ours, struct tft_peer_map *map)
{
    struct tft_peer_map made = { 0 };
    struct peer_builder b = { .log = log, .config = config, .ours = ours, .map = &made };

    if (peer == TFT_PEER_NVIDIA)
        peer_map_nvidia(&b);
    else
        peer_map_pytorch_forecasting(&b);
    if (b.status == HALAY_ERR_NO_MEMORY)
        halay_error(log, "no memory for the map of %s's parameters", names[peer]);
    else if (b.status)
        halay_error(log, "the model's parameters have no place in %s's", names[peer]);
    if (b.status)
        tft_peer_map_fini(&made);
    else
        *map = made;
    return b.status;
}

void tft_peer_map_fini(struct tft_peer_map *map)
{
    tft_params_fini(&map->theirs);
    free(map->tensors);
    free(map->pieces);
    *map = (struct tft_peer_map){ 0 };
}

/* ---- read ---- */

/* What the mask holds at a place. */
static float mask_at(const struct tft_param *mask, size_t i)
{
    size_t T = mask->shape[1], row = i / T, column = i % T;

    return column > row ? -INFINITY : 0;
}

static void give_piece(const struct tft_peer_piece *p, const float *ours, float *theirs)
{
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->columns; c++)
            theirs[p->theirs + r * p->their_row + c] = ours[p->ours + r * p->our_row + c * p->our_column];
}

void tft_peer_map_give(const struct tft_peer_map *map, const float *ours, float *theirs)
{
    memset(theirs, 0, map->theirs.reals * sizeof *theirs);
    for (size_t t = 0; t < map->theirs.count; t++) {
        const struct tft_param *param = &map->theirs.params[t];

        for (size_t i = 0; map->tensors[t].source == TFT_PEER_MASK && i < param->count; i++)
            theirs[param->offset + i] = mask_at(param, i);
        for (size_t k = 0; k < map->tensors[t].count; k++)
            give_piece(&map->pieces[map->tensors[t].first + k], ours, theirs);
    }
}

static void take_piece(const struct tft_peer_piece *p, const float *theirs, float *ours)
{
    for (size_t r = 0; r < p->rows; r++)
        for (size_t c = 0; c < p->columns; c++)
            ours[p->ours + r * p->our_row + c * p->our_column] = theirs[p->theirs + r * p->their_row + c];
}

void tft_peer_map_take(const struct tft_peer_map *map, const float *theirs, float *ours)
{
    for (size_t t = 0; t < map->theirs.count; t++)
        for (size_t k = 0; map->tensors[t].same_as == t && k < map->tensors[t].count; k++)
            take_piece(&map->pieces[map->tensors[t].first + k], theirs, ours);
}

int tft_peer_map_is_mask(const struct tft_peer_map *map, size_t tensor, const float *theirs)
{
    const struct tft_param *param = &map->theirs.params[tensor];

    for (size_t i = 0; i < param->count; i++)
        if (theirs[param->offset + i] != mask_at(param, i))
            return 0;
    return 1;
}

/* ---- what a model is for a peer ---- */

enum halay_status tft_peer_check(struct halay_log *log, enum tft_peer peer, const struct tft_model_config *config,
                                 const struct tft_schema *schema)
{
    if (config->ascending) {
        halay_error(log,
                    "%s's quantiles may cross: a model trained with 'crossing: forbid' adds up steps where %s has the "
                    "quantiles themselves; train with 'crossing: allow'",
                    names[peer], names[peer]);
        return HALAY_ERR_ARGUMENT;
    }
    return peer == TFT_PEER_NVIDIA ? peer_check_nvidia(log, config, schema)
                                   : peer_check_pytorch_forecasting(log, config);
}

json_t *tft_peer_arguments(enum tft_peer peer, const struct tft_model_config *config, const struct tft_run_config *run)
{
    return peer == TFT_PEER_NVIDIA ? peer_arguments_nvidia(config, run)
                                   : peer_arguments_pytorch_forecasting(config, run);
}

size_t peer_variables(const struct tft_model_config *config, enum tft_role role, enum tft_type type, size_t *variables)
{
    size_t count = 0;

    for (size_t i = 0; i < config->variable_count; i++)
        if (config->variables[i].role == role && config->variables[i].type == type)
            variables[count++] = i;
    return count;
}

json_t *peer_add_names(json_t *list, const struct tft_model_config *config, enum tft_role role, enum tft_type type,
                       int theirs)
{
    size_t variables[TFT_VARIABLES_MAX], count = peer_variables(config, role, type, variables);

    for (size_t i = 0; list && i < count; i++) {
        const char *name = config->variables[variables[i]].name;
        char other[TFT_NAME_MAX + 2];

        tft_peer_variable_name(name, other);
        if (json_array_append_new(list, json_string(theirs ? other : name))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
