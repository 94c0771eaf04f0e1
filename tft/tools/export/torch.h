/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch: two other implementations of the model, whose parameters have other names, shapes and layouts. Each is a
 * format of `halay-tft import` and `export`.
 *
 *   nvidia               NVIDIA's DeepLearningExamples, PyTorch/Forecasting/TFT
 *   pytorch-forecasting  its TemporalFusionTransformer
 *
 * A *map* lists the tensors of a state_dict(), and which pieces of our parameters make up each of them. It is read in
 * both directions, so that what was exported is imported with the same bits. Each format builds its map in a file of
 * its own (tft/tools/export/torch_nvidia.c, tft/tools/export/torch_forecasting.c).
 *
 * A model that a format's graph cannot express is refused, with what differs.
 */
#ifndef HALAY_TFT_TORCH_H
#define HALAY_TFT_TORCH_H

#include "tft/core/data/schema.h"
#include "tft/core/model/params.h"
#include "tft/core/run/run_config.h"

enum tft_torch_format { TFT_TORCH_NVIDIA, TFT_TORCH_FORECASTING };

/* HALAY_ERR_ARGUMENT (logged) if no format has that name. */
enum halay_status tft_torch_format_parse(struct halay_log *log, const char *name, enum tft_torch_format *format);
const char *tft_torch_format_name(enum tft_torch_format format);
/* The conformance of its models, which has the same name. */
enum tft_conformance tft_torch_conformance(enum tft_torch_format format);

/* What a tensor is made of. */
enum tft_torch_source {
    TFT_TORCH_PIECES, /* pieces of our parameters, which cover it */
    TFT_TORCH_UNUSED, /* the forecast does not depend on it: written as zeros, ignored when read */
    TFT_TORCH_MASK    /* attention's mask, (1, T, T), -inf above the diagonal; not a parameter */
};

struct tft_torch_tensor {
    enum tft_torch_source source;
    size_t first, count; /* pieces */
    size_t same_as;      /* the tensor that this one repeats; its own number if it is the first */
};

/* A matrix that lies in a tensor and in a parameter. Strides count numbers; in the tensor, columns are adjacent. */
struct tft_torch_piece {
    size_t rows, columns;
    size_t theirs, their_row;         /* offset in their block; from row to row */
    size_t ours, our_row, our_column; /* offset in the model's block; from row to row and from column to column */
};

struct tft_torch_map {
    struct tft_param_table theirs;    /* owned; the tensors in one block */
    struct tft_torch_tensor *tensors; /* owned: (theirs.count) */
    size_t tensor_capacity;
    struct tft_torch_piece *pieces; /* owned */
    size_t piece_count, piece_capacity;
};

/* Can the format's graph express the model? schema: of its windows, or NULL. */
enum halay_status tft_torch_check(struct halay_log *log, enum tft_torch_format format,
                                  const struct tft_model_config *config, const struct tft_schema *schema);
/* config has passed the check; ours is its model's table. On error nothing is held. */
enum halay_status tft_torch_map_init(struct halay_log *log, enum tft_torch_format format,
                                     const struct tft_model_config *config, const struct tft_param_table *ours,
                                     struct tft_torch_map *map);
void tft_torch_map_fini(struct tft_torch_map *map);

/* Writes all of theirs. */
void tft_torch_map_give(const struct tft_torch_map *map, const float *ours, float *theirs);
/* Writes all of ours; of tensors that repeat each other it reads the first. */
void tft_torch_map_take(const struct tft_torch_map *map, const float *theirs, float *ours);
/* Is this tensor the mask that the map would write? (Another one changes the forecast.) */
int tft_torch_map_is_mask(const struct tft_torch_map *map, size_t tensor, const float *theirs);

/* The arguments of the class's constructor for the model, and the order of its inputs; NULL if there is no memory. */
json_t *tft_torch_arguments(enum tft_torch_format format, const struct tft_model_config *config,
                            const struct tft_run_config *run);
/* The variable's name as a module of pytorch-forecasting; size: TFT_NAME_MAX + 2. */
void tft_torch_variable_name(const char *name, char *theirs);

#endif
