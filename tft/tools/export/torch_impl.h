/* SPDX-License-Identifier: Apache-2.0
 *
 * How a map is built: tensor after tensor, each with its pieces. For torch*.c only.
 *
 * A builder keeps its first failure, which is looked at once, when the map is complete.
 */
#ifndef HALAY_TFT_TORCH_IMPL_H
#define HALAY_TFT_TORCH_IMPL_H

#include "tft/tools/export/torch.h"

struct torch_builder {
    struct halay_log *log; /* borrowed */
    const struct tft_model_config *config;
    const struct tft_param_table *ours;
    struct tft_torch_map *map;
    enum halay_status status; /* of the first failure */
};

/* A formatted name, for one call. */
struct torch_name {
    char text[2 * TFT_PARAM_NAME_MAX];
};
struct torch_name torch_name(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define NAME(...) (torch_name(__VA_ARGS__).text)

/* Blocks of a layer's inputs or outputs: their k-th is our ours[k]-th. */
struct torch_order {
    size_t count, ours[TFT_VARIABLES_MAX];
};
extern const struct torch_order torch_whole; /* one block: the same order */

/* One of the model's parameters, or NULL. */
const struct tft_param *torch_ours(const struct torch_builder *b, const char *name);

/* Begin a tensor; rows 0: a vector. */
void torch_tensor(struct torch_builder *b, const char *name, size_t rows, size_t columns, enum tft_torch_source source);
/* A piece of the tensor begun last, `at` numbers from its beginning. */
void torch_piece(struct torch_builder *b, size_t at, struct tft_torch_piece piece);
/* A whole parameter from there on: a kernel (in, out), as a matrix (out, in). */
void torch_kernel(struct torch_builder *b, size_t at, const char *ours, const struct torch_order *in,
                  const struct torch_order *out);
void torch_vector(struct torch_builder *b, size_t at, const char *ours, const struct torch_order *order);

/* Whole modules: .weight and .bias. */
void torch_linear(struct torch_builder *b, const char *theirs, const char *ours, const struct torch_order *in,
                  const struct torch_order *out);
/* Value and gate in one layer of twice the width, value first. ours: what .value and .gate are appended to. */
void torch_glu(struct torch_builder *b, const char *theirs, const char *ours, const struct torch_order *out);
void torch_norm(struct torch_builder *b, const char *theirs, const char *ours, const struct torch_order *order);
/* weight_ih_l0 and so on. If the model has no second bias, theirs is 0. */
void torch_lstm(struct torch_builder *b, const char *theirs, const char *ours);
void torch_embedding(struct torch_builder *b, const char *theirs, const char *ours);
/* The quantiles of one of several targets. */
void torch_quantiles(struct torch_builder *b, const char *theirs, size_t target, size_t targets);

void torch_map_nvidia(struct torch_builder *b);
void torch_map_pytorch_forecasting(struct torch_builder *b);
enum halay_status torch_check_nvidia(struct halay_log *log, const struct tft_model_config *config,
                                     const struct tft_schema *schema);
enum halay_status torch_check_pytorch_forecasting(struct halay_log *log, const struct tft_model_config *config);
json_t *torch_arguments_nvidia(const struct tft_model_config *config, const struct tft_run_config *run);
json_t *torch_arguments_pytorch_forecasting(const struct tft_model_config *config, const struct tft_run_config *run);

/* The numbers of the variables of a role and type; returns how many there are. */
size_t torch_variables(const struct tft_model_config *config, enum tft_role role, enum tft_type type,
                       size_t *variables);
/* Append their names to list (theirs: as tft_torch_variable_name has them) and return it; a NULL list stays NULL. */
json_t *torch_add_names(json_t *list, const struct tft_model_config *config, enum tft_role role, enum tft_type type,
                        int theirs);

#endif
