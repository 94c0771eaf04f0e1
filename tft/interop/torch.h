/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers: other implementations of the same model, whose parameters have other names, shapes and layouts.
 *
 *   nvidia               NVIDIA's DeepLearningExamples, PyTorch/Forecasting/TFT
 *   pytorch-forecasting  its TemporalFusionTransformer
 *
 * A *map* lists the tensors that a peer's state_dict() has for a model, and of which pieces of the model's parameters
 * each consists; it is read in both directions, so that what was exported is imported with the same bits. Who builds
 * one for a peer is in a file of its own (tft/interop/torch_nvidia.c, tft/interop/torch_forecasting.c).
 *
 * Errors: as everywhere in tft/; a model that a peer's graph cannot express is refused with what differs.
 */
#ifndef HALAY_TFT_PEER_H
#define HALAY_TFT_PEER_H

#include "tft/data/schema.h"
#include "tft/model/params.h"
#include "tft/run/run_config.h"

enum tft_peer { TFT_PEER_NVIDIA, TFT_PEER_PYTORCH_FORECASTING };

/* By name; HALAY_ERR_ARGUMENT (logged) if there is none of it. */
enum halay_status tft_peer_named(struct halay_log *log, const char *name, enum tft_peer *peer);
const char *tft_peer_name(enum tft_peer peer);
/* The conformance of its models; also the name of both. */
enum tft_conformance tft_peer_conformance(enum tft_peer peer);

/* Of what a tensor consists. */
enum tft_peer_source {
    TFT_PEER_PIECES, /* of the model's parameters, which cover it */
    TFT_PEER_UNUSED, /* of nothing that the forecast depends on: zeros are written, what is read does not count */
    TFT_PEER_MASK    /* (1, T, T), -inf above the diagonal: who may see whom; no parameter */
};

struct tft_peer_tensor {
    enum tft_peer_source source;
    size_t first, count; /* pieces */
    size_t same_as;      /* number of the tensor that this one is once more; its own if it is the first */
};

/* A matrix that lies in a tensor and in a parameter. Strides in numbers; in the peer's, columns are neighbours. */
struct tft_peer_piece {
    size_t rows, columns;
    size_t theirs, their_row;         /* place in the peer's block; from row to row */
    size_t ours, our_row, our_column; /* place in the model's block; from row to row and from column to column */
};

struct tft_peer_map {
    struct tft_param_table theirs;   /* owned; the tensors in one block */
    struct tft_peer_tensor *tensors; /* owned: (theirs.count) */
    size_t tensor_capacity;
    struct tft_peer_piece *pieces; /* owned */
    size_t piece_count, piece_capacity;
};

/* Can the peer's graph express the model? schema: NULL, or what its windows are like. */
enum halay_status tft_peer_check(struct halay_log *log, enum tft_peer peer, const struct tft_model_config *config,
                                 const struct tft_schema *schema);
/* config has passed the check, ours is its model's table. On error nothing is held. */
enum halay_status tft_peer_map_init(struct halay_log *log, enum tft_peer peer, const struct tft_model_config *config,
                                    const struct tft_param_table *ours, struct tft_peer_map *map);
void tft_peer_map_fini(struct tft_peer_map *map);

/* All of theirs is written. */
void tft_peer_map_give(const struct tft_peer_map *map, const float *ours, float *theirs);
/* All of ours is written, from the first of tensors that are the same. */
void tft_peer_map_take(const struct tft_peer_map *map, const float *theirs, float *ours);
/* Is a tensor of that source what the map would write? (A mask that is another changes the forecast.) */
int tft_peer_map_is_mask(const struct tft_peer_map *map, size_t tensor, const float *theirs);

/* What the peer's constructor wants for the model, and the order of its inputs: a document, NULL if there is no
 * memory. */
json_t *tft_peer_arguments(enum tft_peer peer, const struct tft_model_config *config, const struct tft_run_config *run);
/* The name of a variable in pytorch-forecasting, where it is a module's; size: TFT_NAME_MAX + 2. */
void tft_peer_variable_name(const char *name, char *theirs);

#endif
