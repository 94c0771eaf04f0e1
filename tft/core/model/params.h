/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of parameters: the published model's tensors (224 in Electricity), each with a name, a shape and a place.
 *
 * All parameters are in one block of reals, in the order of the table; so are gradients and the optimizer's moments, at
 * the same places. There may be a gap after a tensor, so that the next one is aligned: it belongs to no parameter or
 * file, and no pass reads it. The block belongs to the caller (halay_alloc memory or ordinary).
 *
 * A *dead* parameter has a zero gradient by construction (the static selection's weights when there is one static
 * variable). It counts, is saved and is initialised, but is neither registered, clipped, updated nor decayed; its place
 * in a gradient block is never written.
 */
#ifndef HALAY_TFT_PARAMS_H
#define HALAY_TFT_PARAMS_H

#include "tft/core/kernels/sparse.h"
#include "tft/core/model/tft.h"

enum { TFT_PARAM_NAME_MAX = 191, TFT_PARAM_DIMENSIONS = 3 };

enum tft_init {
    TFT_INIT_ZERO,
    TFT_INIT_ONE,
    TFT_INIT_GLOROT,
    TFT_INIT_EMBEDDING,
    TFT_INIT_ORTHOGONAL,
    TFT_INIT_LSTM_BIAS,
    TFT_INIT_UNIFORM, /* in (-spread, spread) */
    TFT_INIT_NORMAL   /* with deviation spread */
};

struct tft_param {
    char name[TFT_PARAM_NAME_MAX + 1];  /* "history.joint.dense1.kernel": stable, unique; a key of the file */
    int dimensions;                     /* 1 or 2; a file may hold 3 */
    size_t shape[TFT_PARAM_DIMENSIONS]; /* a kernel is (inputs, outputs) */
    size_t offset, count;               /* in reals from the block's beginning */
    int dead;
    int decays;           /* under AdamW: kernels do; vectors (biases, norms' gains) and embeddings do not */
    struct sparse sparse; /* most 0: its gradient is a whole table; else what its place in a gradient block begins with,
                             and the rest of the place is not touched */
    enum tft_init init;
    double spread; /* of UNIFORM and NORMAL; set when the tensor is added */
};

/* Grows while a model is laid out; the array is owned. */
struct tft_param_table {
    struct tft_param *params;
    size_t count, capacity;
    size_t reals; /* of the block, with its gaps */
};

/* Append a tensor; *offset (may be NULL) is its place. Errors: HALAY_ERR_NO_MEMORY; HALAY_ERR_ARGUMENT if a name does
 * not fit. rows = 0 makes a vector of `columns`. */
enum halay_status tft_params_add(struct tft_param_table *table, const char *name, size_t rows, size_t columns,
                                 enum tft_init init, size_t *offset);
/* Leaves a gap at the end, up to a multiple of TFT_ALIGNMENT: the next tensor, or another block, begins there. */
void tft_params_align(struct tft_param_table *table);
/* Values in all tensors, dead ones included. */
size_t tft_params_count(const struct tft_param_table *table);
/* Reals from the beginning of tensor i to that of the next one, or to the block's end: its values and the gap. */
size_t tft_params_room(const struct tft_param_table *table, size_t i);
void tft_params_fini(struct tft_param_table *table);

/*
 * Initialise a block as the published code does: kernels uniform by Glorot, biases zero, embeddings uniform in
 * (-0.05, 0.05), recurrent kernels orthogonal, the LSTM's forget bias one, layer norm gamma one and beta zero; another
 * conformance uses uniform and normal draws with a spread of its own. From
 * Philox keyed by (seed, hash of the parameter's name): the same on every rank and machine, whatever else the table
 * holds.
 */
enum halay_status tft_params_init(const struct tft_param_table *table, uint32_t seed, real *block);

#endif
