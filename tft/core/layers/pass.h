/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments that every layer's forward and backward share: the places of parameters and their gradients, the number of
 * samples, dropout; and the arena that holds a workspace's arrays.
 *
 * Layers are immutable descriptions (sizes, places of their parameters); the results of a pass are in a struct *_state
 * of the workspace. A layer's gradient of a parameter is *written* by the first block of rows and added to by the
 * others, unless its header documents that it always adds.
 */
#ifndef HALAY_TFT_PASS_H
#define HALAY_TFT_PASS_H

#include "base/memory.h"
#include "tft/core/kernels/call.h"
#include <stddef.h>
#include <stdint.h>

/* Places from TFT_DERIVED on are not in the block of parameters but among the *derived* weights: matrices that a
 * granule makes of parameters (tft/core/layers/linear.h), which layers then use like parameters. */
#define TFT_DERIVED (SIZE_MAX / 2 + 1)

struct pass {
    struct queue *queue;       /* what computes (tft/core/kernels/kernels.h) */
    const real *p;             /* parameters */
    real *g;                   /* their gradients; NULL in a forward without backward */
    real *derived, *d_derived; /* derived weights and their gradients; the workspace's */
    const real *folded;        /* forecasts alone: what grn_fold made; otherwise NULL */
    size_t B;
    struct dropout dropout;
    /* Called once for each parameter whose gradient in g is complete; may be NULL. */
    void (*final)(void *arg, size_t param);
    void *final_arg;
};

/* Returns the parameter at a place; the next function its gradient. */
static inline const real *pass_p(const struct pass *pass, size_t place)
{
    return place >= TFT_DERIVED ? pass->derived + (place - TFT_DERIVED) : pass->p + place;
}

static inline real *pass_g(const struct pass *pass, size_t place)
{
    return place >= TFT_DERIVED ? pass->d_derived + (place - TFT_DERIVED) : pass->g + place;
}

/* Neighbours in the table of parameters: those of one layer. */
struct span {
    size_t first, count;
};

/* The layer's gradients are complete, the last ones first. */
static inline void pass_final(const struct pass *pass, struct span span)
{
    for (size_t i = span.count; pass->final && i-- > 0;)
        pass->final(pass->final_arg, span.first + i);
}

/* A block of a layer's rows: whole time steps. */
struct rows {
    size_t at;   /* its first row among the layer's; 0: gradients of parameters are written */
    size_t kept; /* the place of that row in a state's arrays; 0 where every block is in the same place */
    size_t row;  /* the same row's number in the window (t B + b), for dropout; backward reads the mask instead */
    size_t R;    /* how many */
};

/* Rows are taken through a chain of layers in blocks of about as many as the device likes; with backward of twice as
 * many, since each block's product for a gradient of weights reads and writes all of that gradient. Blocks hold whole
 * time steps, so that row r of a block belongs to sample r mod B. */
static inline size_t block_least(const struct kernels *kernels, int backward)
{
    return backward && kernels->block_rows < SIZE_MAX / 2 ? 2 * kernels->block_rows : kernels->block_rows;
}

/* The rows of a block of R: */
static inline size_t block_rows(const struct pass *pass, size_t R)
{
    size_t rows = block_least(kernels_of(pass->queue), pass->g != NULL), B = pass->B;

    rows = B >= rows ? B : rows / B * B;
    return rows < R ? rows : R;
}

/* The most rows that a block of R rows has whatever B is, up to `most` samples. */
static inline size_t block_rows_most(const struct kernels *kernels, size_t R, size_t most)
{
    size_t rows = block_least(kernels, 1);

    rows = most >= rows ? most : rows;
    return rows < R ? rows : R;
}

/* Returns the block that begins at `at` of R rows, the first of which is the window's `row`. Without backward, a
 * block's state is not read later, so all blocks use the memory of the first, which stays in the cache. */
static inline struct rows block_at(const struct pass *pass, size_t at, size_t row, size_t R)
{
    size_t most = block_rows(pass, R);

    return (struct rows){ at, pass->g ? at : 0, row + at, R - at < most ? R - at : most };
}

/*
 * One block of memory, handed out in slices. The same code lays out twice: with base NULL it only counts (slices are
 * then NULL), with memory it hands out. Slices begin on cache lines. A size that overflows sets `used` to SIZE_MAX,
 * which it keeps.
 */
struct arena {
    char *base;
    size_t used;
    int narrow; /* activations are (tft/core/kernels/narrow.h) */
};

static inline void *arena_bytes(struct arena *arena, size_t count, size_t size)
{
    size_t bytes, begin = arena->used, end;

    if (halay_mul_overflows(count, size, &bytes) || halay_add_overflows(bytes, HALAY_CACHE_LINE - 1, &bytes) ||
        halay_add_overflows(begin, bytes / HALAY_CACHE_LINE * HALAY_CACHE_LINE, &end)) {
        arena->used = SIZE_MAX;
        return NULL;
    }
    arena->used = end;
    return arena->base ? arena->base + begin : NULL;
}

/* The place after `reals` of scratch from which the next matrix may begin. */
static inline size_t aligned_reals(size_t reals)
{
    return halay_round_up(reals, TFT_ALIGNMENT);
}

static inline real *arena_reals(struct arena *arena, size_t rows, size_t columns)
{
    return arena_bytes(arena, rows, columns * sizeof(real)); /* columns is small: checked with the configuration */
}

/* Activations, or their gradients. */
static inline real *arena_acts(struct arena *arena, size_t rows, size_t columns)
{
    void *place;

    if (!arena->narrow)
        return arena_reals(arena, rows, columns);
    place = arena_bytes(arena, rows, columns * TFT_NARROW_BYTES);
    return place ? tft_narrow_at(place) : NULL;
}

/* The same memory for activations, of which there is room for as many. */
static inline real *pass_acts(const struct pass *pass, real *scratch)
{
    return narrow_of(pass->queue) ? tft_narrow_at(scratch) : scratch;
}

static inline uint8_t *arena_flags(struct arena *arena, size_t rows, size_t columns)
{
    return arena_bytes(arena, rows, columns);
}

#endif
