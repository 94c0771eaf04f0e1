/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a model: its layers, and the arrays that they leave to each other. For the files of tft/core/model.
 */
#ifndef HALAY_TFT_MODEL_IMPL_H
#define HALAY_TFT_MODEL_IMPL_H

#include "tft/core/layers/attention.h"
#include "tft/core/layers/embedding.h"
#include "tft/core/layers/lstm.h"
#include "tft/core/layers/vsn.h"
#include "tft/core/model/model.h"

/* The four uses of the static vector. */
enum { CONTEXT_SELECTION, CONTEXT_ENRICHMENT, CONTEXT_H, CONTEXT_C, CONTEXTS };

/*
 * The layers between the LSTMs and the output, in the order of forward: X(kind, name, rows). From a row follow the
 * layer in the model and its parameters, its state in a workspace, and its part of the arena and of the scratch memory.
 * In rows and columns: B samples, T steps, N queries, D steps of the horizon, H, P numbers of the output.
 */
#define TFT_LAYERS(X)               \
    X(glu, sequence_gate, (T * B))  \
    X(grn, enrichment, (T * B))     \
    X(attention, attention, B)      \
    X(glu, attention_gate, (N * B)) \
    X(grn, feedforward, (N * B))    \
    X(glu, output_gate, (N * B))

/* The arrays that layers leave to each other, and their gradients: X(kind, name, rows, columns); kind: as in
 * arena_<kind>. */
#define TFT_ACTIVATIONS(X)                                           \
    X(acts, static_vector, B, H)                                     \
    X(acts, d_static, B, H)                                          \
    X(acts, selected, (T * B), H) /* the selections' output */       \
    X(acts, gates, (T * B), 4 * H)                                   \
    X(acts, h, B + T * B, H)                                         \
    X(reals, c, B + T * B, H)                                        \
    X(acts, phi, (T * B), H)                                         \
    X(acts, enriched, (T * B), H)                                    \
    X(acts, attended, (N * B), H)                                    \
    X(acts, gated, (N * B), H)                                       \
    X(acts, fed, (N * B), H)                                         \
    X(acts, last, (N * B), H)                                        \
    X(reals, output, (D * B), P)                                     \
    X(reals, predictions, (D * B), P) /* (B, D, O, P of a target) */ \
    X(acts, d_phi, (T * B), H)                                       \
    X(acts, d_enriched, (T * B), H)                                  \
    X(acts, d_sequence, (T * B), H)                                  \
    X(acts, d_tail, (N * B), H)                                      \
    X(acts, d_tail_in, (N * B), H)                                   \
    X(reals, d_output, (D * B), P)

/* A variable's embedding, and its column among the batch's reals or categories (static or temporal). */
struct variable {
    enum tft_role role;
    int rank1; /* selection gets x, not xi */
    struct embedding embedding;
    size_t column;
    struct span params;
};

struct tft_model {
    struct halay_log *log;         /* borrowed */
    const struct kernels *kernels; /* of the device that computes */
    struct tft_model_config config;
    struct tft_columns columns;
    struct tft_param_table table;
    size_t T, queries;                             /* E + D; steps of the tail: D, or T in the plain graph */
    size_t derived;                                /* weights that a granule derives from parameters */
    size_t folded;                                 /* weights that forecasts derive from parameters */
    double loss_factor;                            /* pytorch-forecasting's loss is a multiple of the published one */
    size_t chosen[TFT_CHOICES][TFT_VARIABLES_MAX]; /* the selections' variables */
    struct variable variables[TFT_VARIABLES_MAX];

    struct vsn static_selection, history_selection, future_selection;
    struct grn contexts[CONTEXTS];
    struct lstm encoder, decoder;
#define X(kind, name, rows) struct kind name;
    TFT_LAYERS(X)
#undef X
    struct linear output;
    struct span encoder_params, decoder_params, output_params;
#define X(kind, name, rows) struct span name##_params;
    TFT_LAYERS(X)
#undef X
    struct grn networks[]; /* of all variables in the three selections */
};

/* Steps of a window whose values of such a variable the model sees. */
static inline size_t steps_seen(const struct tft_model *model, enum tft_role role)
{
    if (role == TFT_STATIC)
        return 1;
    return role == TFT_KNOWN ? model->T : model->config.E;
}

/* Checks a configuration: HALAY_ERR_ARGUMENT (logged, with what would be right). */
enum halay_status config_check(struct halay_log *log, const struct kernels *kernels,
                               const struct tft_model_config *config);

struct tft_workspace {
    const struct tft_model *model; /* borrowed */
    void *memory;                  /* owned: the arena */
    void *host;                    /* owned: what the host fills and reads, where it cannot do so in `memory` */
    struct tft_batch batch;        /* the host's */
    struct tft_batch input;        /* its arrays on the device */
    size_t most;                   /* samples that the arrays have room for */

    /* The batch by variable, time-major. */
    real *x[TFT_VARIABLES_MAX];        /* (T B) or (B) of a real */
    int32_t *codes[TFT_VARIABLES_MAX]; /* of a category */
    real *xi[TFT_VARIABLES_MAX];       /* (T B, W) or (B, W), where not rank 1 */
    real *d_xi[TFT_VARIABLES_MAX];

    struct vsn_state static_selection, history_selection, future_selection;
    struct grn_state contexts[CONTEXTS];
#define X(kind, name, rows) struct kind##_state name;
    TFT_LAYERS(X)
#undef X
#define X(kind, name, rows, columns) real *name;
    TFT_ACTIVATIONS(X)
#undef X
    real *context[CONTEXTS], *d_context[CONTEXTS]; /* (B, H) */
    real *forecast;                                /* the host's predictions */
    real *derived, *d_derived;
    struct queue *queue; /* owned: what computes */
    uint64_t version;    /* version of the parameters that the rounded ones come from (tft/core/model/model.h) */
    real *folded;        /* NULL in the plain graph */
    uint64_t folded_version;
    int32_t *places;     /* (T B): of rows that windows share (forward.c), as is slots; NULL in the plain graph */
    size_t *slots;       /* (shared_rows_slots) */
    int alike;           /* forecasts: the samples have the same static inputs, so what follows from them is made of the
                        first one, and selections of the rows that differ: */
    size_t past, coming; /* how many differ in the history and in the future; 0: not alike. Until the LSTMs are done,
                            phi holds what was selected for them */
    real *scratch;
    size_t *padding, *host_padding; /* (B) encoder steps that a sample lacks */
    int padded;                     /* whether one lacks any */
    double *loss;

    double seconds[TFT_PART_COUNT], sums_seconds, mark; /* sums_seconds: spent in the final callback since mark */

    struct grn_state networks[]; /* as the model's */
};

/* Returns the number of encoder steps that each sample lacks; NULL if none does. */
static inline const size_t *padding_of(const struct tft_workspace *workspace)
{
    return workspace->padded ? workspace->padding : NULL;
}

/* The steps of the two LSTMs. encoder: reals of the encoder's rows, (E B, H). */
static inline struct lstm_steps encoder_steps(struct tft_workspace *w)
{
    return (struct lstm_steps){
        .S = w->model->config.E,
        .padding = padding_of(w),
        .x = w->selected,
        .distinct = w->phi,
        .places = w->places,
        .count = w->past,
        .gates = w->gates,
        .h = w->h,
        .c = w->c,
    };
}

static inline struct lstm_steps decoder_steps(struct tft_workspace *w, size_t encoder)
{
    return (struct lstm_steps){ .S = w->model->config.D,
                                .x = w->selected + encoder,
                                .distinct = w->phi + encoder,
                                .places = w->coming ? w->places + w->model->config.E * w->batch.B : NULL,
                                .count = w->coming,
                                .gates = w->gates + 4 * encoder,
                                .h = w->h + encoder,
                                .c = w->c + encoder };
}

/* Seconds on a clock that never goes back. */
double workspace_now(void);
/* Adds the time since the last call to a part (less what the final callback took, which is the part SUM's). */
void workspace_clock(struct tft_workspace *workspace, enum tft_part part);

/* Describes a selection's inputs, from a row on. */
void selection_inputs(const struct tft_workspace *workspace, const struct vsn *vsn, size_t row,
                      struct vsn_input *inputs);

/* Brings the batch, and how many steps each sample lacks, to where the device reads them. */
void workspace_upload(struct tft_workspace *workspace);

/* Adds every layer's parameters to the table of a model whose configuration is set (network.c). */
enum halay_status network_build(struct tft_model *model);
void model_forward(struct tft_workspace *workspace, const struct pass *pass);
void model_backward(struct tft_workspace *workspace, const struct pass *pass);
/* Run a gate over all rows, block by block. row: the window's row of the first one. */
void gate_rows_forward(const struct pass *pass, const struct glu *glu, struct glu_state *state, size_t row,
                       const real *x, const real *skip, size_t R, real *z);
void gate_rows_backward(const struct pass *pass, const struct glu *glu, const struct glu_state *state, size_t R,
                        real *d_z, real *d_x, real *scratch);

#endif
