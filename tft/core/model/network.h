/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's inside: which layers it has, and where. For network.c, workspace.c, forward.c and backward.c only.
 */
#ifndef HALAY_TFT_NETWORK_H
#define HALAY_TFT_NETWORK_H

#include "tft/core/layers/attention.h"
#include "tft/core/layers/embedding.h"
#include "tft/core/layers/lstm.h"
#include "tft/core/layers/vsn.h"
#include "tft/core/model/model.h"

/* The four uses of the static vector. */
enum { CONTEXT_SELECTION, CONTEXT_ENRICHMENT, CONTEXT_H, CONTEXT_C, CONTEXTS };

/* A variable's embedding, and its column among the batch's reals or categories (static or temporal). */
struct variable {
    enum tft_role role;
    int rank1; /* comes to selection as x, not as xi */
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
    size_t T, queries;  /* E + D; steps of the tail: D, or T in the plain graph */
    size_t derived;     /* weights that a granule derives from parameters */
    size_t folded;      /* weights that forecasts derive from parameters */
    double loss_factor; /* pytorch-forecasting's loss is a multiple of the published one */
    size_t statics, history_count, future_count;
    size_t chosen[TFT_CHOICES][TFT_VARIABLES_MAX]; /* the selections' variables */
    struct variable variables[TFT_VARIABLES_MAX];

    struct vsn static_selection, history_selection, future_selection;
    struct grn *networks; /* of all variables in the three selections, owned */
    struct grn contexts[CONTEXTS];
    struct lstm encoder, decoder;
    struct glu sequence_gate; /* after the LSTMs */
    struct grn enrichment;
    struct attention attention;
    struct glu attention_gate;
    struct grn feedforward;
    struct glu output_gate;
    struct linear output;
    struct span encoder_params, decoder_params, sequence_gate_params, attention_params, attention_gate_params,
        output_gate_params, output_params;
};

/* Steps of a window whose values of such a variable the model sees. */
static inline size_t steps_seen(const struct tft_model *model, enum tft_role role)
{
    if (role == TFT_STATIC)
        return 1;
    return role == TFT_KNOWN ? model->T : model->config.E;
}

/* Logs what would be right if something is wrong. */
enum halay_status config_check(struct halay_log *log, const struct kernels *kernels,
                               const struct tft_model_config *config);

struct tft_workspace {
    const struct tft_model *model; /* borrowed */
    void *memory;                  /* owned: the arena */
    struct grn_state *networks;    /* owned */
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
    struct grn_state contexts[CONTEXTS], enrichment, feedforward;
    struct glu_state sequence_gate, attention_gate, output_gate;
    struct attention_state attention;
    real *static_vector, *context[CONTEXTS]; /* (B, H) */
    real *selected;                          /* (T B, H): the selections' output */
    real *gates, *h, *c;                     /* (T B, 4 H), (B + T B, H) */
    real *phi, *enriched;                    /* (T B, H) */
    real *attended, *gated, *fed, *last;     /* (N B, H), N queries */
    real *output, *predictions;              /* (D B, P O), (B, D, O, P) */
    real *forecast;                          /* the host's predictions */

    real *d_static, *d_context[CONTEXTS];  /* (B, H) */
    real *d_phi, *d_enriched, *d_sequence; /* (T B, H) */
    real *d_tail, *d_tail_in;              /* (N B, H) */
    real *d_output;                        /* (D B, P O) */
    real *derived, *d_derived;
    struct queue *queue; /* owned: what computes */
    uint64_t version;    /* version of the parameters that the rounded ones come from (tft/core/model/model.h) */
    real *folded;        /* NULL in the plain graph */
    uint64_t folded_version;
    int32_t *places;     /* (T B): for tft/core/model/shared_rows.c, as is slots; NULL in the plain graph */
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
};

/* How many encoder steps each sample lacks; NULL if none does. */
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

/* Adds the time since the last call to a part (less what the final callback took, which is the part SUM's). */
void workspace_clock(struct tft_workspace *workspace, enum tft_part part);

/* Selection's inputs, from the row on. */
void selection_inputs(const struct tft_workspace *workspace, const struct vsn *vsn, size_t row,
                      struct vsn_input *inputs);

/* Rows that windows share, computed once (shared_rows.c): whether all samples have the same static inputs. */
int shared_rows_statics(const struct tft_workspace *workspace);
/* Brings the distinct ones of rows [row, row + R) of a selection's inputs to the front, in their order, and returns how
 * many they are; places[row + r] is then where row + r went, counted from row. */
size_t shared_rows_gather(struct tft_workspace *workspace, const struct vsn *vsn, size_t row, size_t R);

void model_forward(struct tft_workspace *workspace, const struct pass *pass);
void model_backward(struct tft_workspace *workspace, const struct pass *pass);
/* A gate over all rows, block by block. row: the window's row of the first one. */
void gate_rows_forward(const struct pass *pass, const struct glu *glu, struct glu_state *state, size_t row,
                       const real *x, const real *skip, size_t R, real *z);
void gate_rows_backward(const struct pass *pass, const struct glu *glu, const struct glu_state *state, size_t R,
                        real *d_z, real *d_x, real *scratch);

#endif
