/* SPDX-License-Identifier: Apache-2.0
 *
 * How a peer's map is built: its tensors one after the other, each with its pieces. For torch*.c only.
 *
 * A builder keeps the first failure; who has built a map looks at it once.
 */
#ifndef HALAY_TFT_PEER_IMPL_H
#define HALAY_TFT_PEER_IMPL_H

#include "tft/interop/torch.h"

struct peer_builder {
    struct halay_log *log; /* borrowed */
    const struct tft_model_config *config;
    const struct tft_param_table *ours;
    struct tft_peer_map *map;
    enum halay_status status; /* of the first failure */
};

/* A name put together, for one call. */
struct peer_name {
    char text[2 * TFT_PARAM_NAME_MAX];
};
struct peer_name peer_name(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define NAME(...) (peer_name(__VA_ARGS__).text)

/* Blocks of a layer's inputs or outputs, in the peer's order: ours[k] is the place among the model's of its k-th. */
struct peer_order {
    size_t count, ours[TFT_VARIABLES_MAX];
};
extern const struct peer_order peer_whole; /* one block: the same order */

/* One of the model's parameters, or NULL. */
const struct tft_param *peer_ours(const struct peer_builder *b, const char *name);

/* Begin a tensor (rows 0: a vector). */
void peer_tensor(struct peer_builder *b, const char *name, size_t rows, size_t columns, enum tft_peer_source source);
/* A piece of the tensor that was begun last, `at` numbers behind its beginning. */
void peer_piece(struct peer_builder *b, size_t at, struct tft_peer_piece piece);
/* All of the parameter, a kernel (in, out), as a matrix (out, in), from there on. */
void peer_kernel(struct peer_builder *b, size_t at, const char *ours, const struct peer_order *in,
                 const struct peer_order *out);
void peer_vector(struct peer_builder *b, size_t at, const char *ours, const struct peer_order *order);

/* Whole modules: .weight and .bias. */
void peer_linear(struct peer_builder *b, const char *theirs, const char *ours, const struct peer_order *in,
                 const struct peer_order *out);
/* Value and gate in one layer of twice the width, value first. ours: of .value and .gate. */
void peer_glu(struct peer_builder *b, const char *theirs, const char *ours, const struct peer_order *out);
void peer_norm(struct peer_builder *b, const char *theirs, const char *ours, const struct peer_order *order);
/* weight_ih_l0 and so on; without a second bias in the model, theirs is 0. */
void peer_lstm(struct peer_builder *b, const char *theirs, const char *ours);
void peer_embedding(struct peer_builder *b, const char *theirs, const char *ours);
/* The quantiles of one target of several. */
void peer_quantiles(struct peer_builder *b, const char *theirs, size_t target, size_t targets);

void peer_map_nvidia(struct peer_builder *b);
void peer_map_pytorch_forecasting(struct peer_builder *b);
enum halay_status peer_check_nvidia(struct halay_log *log, const struct tft_model_config *config,
                                    const struct tft_schema *schema);
enum halay_status peer_check_pytorch_forecasting(struct halay_log *log, const struct tft_model_config *config);
json_t *peer_arguments_nvidia(const struct tft_model_config *config, const struct tft_run_config *run);
json_t *peer_arguments_pytorch_forecasting(const struct tft_model_config *config, const struct tft_run_config *run);

/* Numbers of the variables with a role and type; returns how many. And their names, as an array (theirs: as
 * tft_peer_variable_name has them), behind those of list, which is returned; a list of NULL stays NULL. */
size_t peer_variables(const struct tft_model_config *config, enum tft_role role, enum tft_type type, size_t *variables);
json_t *peer_add_names(json_t *list, const struct tft_model_config *config, enum tft_role role, enum tft_type type,
                       int theirs);

#endif
