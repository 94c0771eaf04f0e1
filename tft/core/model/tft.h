/* SPDX-License-Identifier: Apache-2.0
 *
 * What the trainer's files share: the letters of the dimensions and the description of a model.
 *
 *   B  samples of one granule (1 to granule)      E  encoder steps (history)
 *   T  time steps, E + D                          D  decoder steps (horizon)
 *   H  hidden size                                Q  quantiles
 *   V  variables of one selection network         O  targets
 *   R  rows: any product of time and samples      d  size of an attention head, H / heads
 *   P  numbers that the last layer computes for a target (tft/core/kernels/loss.h); Q of them if they are quantiles
 *
 * Arrays are row-major and their shapes are written in comments: (T, B, H). Inside the model rows are time-major: of
 * step t and sample b, row t B + b. So a step of the LSTM, the encoder's part and the decoder's part are each one
 * contiguous block. At the interface (struct tft_batch) samples come first, as in the data. `d_` before a name: the
 * gradient of the loss.
 */
#ifndef HALAY_TFT_TFT_H
#define HALAY_TFT_TFT_H

#include "halay_tft.h"
#include "tft/core/kernels/device.h"
#include "tft/core/kernels/loss.h"
#include "tft/core/kernels/real.h"
#include <stddef.h>
#include <stdint.h>

enum { TFT_VARIABLES_MAX = 128, TFT_QUANTILES_MAX = 16, TFT_NAME_MAX = 63, TFT_GRANULE = 8 };
enum { TFT_FORECAST_GRANULE = 16 }; /* of forecasts at least: they share rows and the LSTM's products */
/* On a device with memory of its own: of a training at most, which takes a rank's share of a batch; of forecasts. */
enum { TFT_DEVICE_GRANULE = 1024, TFT_DEVICE_FORECAST_GRANULE = 256 };
enum { TFT_STEPS_MAX = HALAY_TFT_STEPS_MAX }; /* of an encoder, a horizon, a lag, a stride */

/* The model's knowledge of a variable, in the model's order. A target's past is an input, its future is not. */
enum tft_role { TFT_STATIC = 0, TFT_OBSERVED = 1, TFT_KNOWN = 2, TFT_TARGET = 3, TFT_ROLES };
enum tft_type { TFT_REAL = 0, TFT_CATEGORY = 1 };

struct tft_variable {
    char name[TFT_NAME_MAX + 1]; /* unique within the model */
    enum tft_role role;
    enum tft_type type;
    size_t categories; /* rows of the embedding, at least 1; 0 for a real */
};

/*
 * The kind of model, to the last weight and its initial value: the published one, or one of two that are built
 * differently.
 *
 * NVIDIA's (DeepLearningExamples): no dropout in the selections' joint networks, after the LSTMs, after attention and
 * on its heads; a second bias in the LSTMs; no layer norm over one value; the initial values of PyTorch's layers. (Its
 * static selection also has a context kernel that nothing uses; it is left out.)
 *
 * pytorch-forecasting's: a real is embedded in hidden_continuous numbers, a category in as many as its number of
 * categories suggests; where a width changes, the skip connection is an interpolation with learned scales and layer
 * norm, and a category's own network is nothing else; the joint network's hidden size is at most the number of
 * variables, and missing for one variable; selections have categories before reals (tft_config_choice); queries,
 * keys and values have biases; a step does not attend to itself; layer norm's epsilon is 1e-5; the LSTMs have a second
 * bias; the loss is twice the mean over the quantiles, not their sum.
 */
enum tft_conformance { TFT_PUBLISHED = 0, TFT_NVIDIA = 1, TFT_PYTORCH_FORECASTING = 2 };

/* Types of the matrix products' factors (tft/core/kernels/kernels.h). Parameters, sums, statistics and cell states are
 * reals. TF32 is F32 where the device has no products of it, as a processor. */
enum tft_dtype { TFT_F32 = 0, TFT_BF16 = 1, TFT_TF32 = 2 };

/*
 * A model. Zero-initialise, or begin with tft_config_defaults; then set variables, E and D.
 *
 * Variables stand in the model's order: by role (static, observed, known, target) and, within a role, reals before
 * categories; tft_config_sort brings them there and keeps the order of equals. Targets are reals. A model needs a known
 * variable and a target; without static variables the static vector is zero.
 *
 * In a batch, the k-th column of `reals` is the k-th real among observed, known and target in this order; `cats`,
 * `static_reals` and `static_cats` are ordered the same way.
 */
struct tft_model_config {
    struct tft_device device; /* what computes */
    size_t H, heads, E, D;    /* heads divides H */
    size_t quantile_count;
    double quantiles[TFT_QUANTILES_MAX]; /* each in (0, 1), ascending */
    enum tft_loss loss;                  /* other than quantiles: of the published model only */
    double tweedie_power;                /* in (1, 2); of that loss only */
    double dropout;                      /* in [0, 1) */
    enum tft_conformance conformance;
    enum tft_dtype dtype;
    size_t hidden_continuous; /* pytorch-forecasting: width of a real's embedding, 1 to H */
    size_t granule;           /* samples of a granule, 1 to the device's granule_most (tft/core/kernels/kernels.h) */
    size_t variable_count;
    struct tft_variable variables[TFT_VARIABLES_MAX];
    /* A category of this number of rows or more (0: none) has a sparse gradient (tft/core/kernels/kernels.h) if the
     * most samples of a rank's step touch no more than a quarter of them. */
    size_t sparse_rows, step_samples;
    int ascending; /* nonzero: quantiles cannot cross (tft/core/kernels/kernels.h) */
    int plain;     /* nonzero: the published graph unchanged, without the exact savings; for tests */
};

/* The published Electricity model's numbers (H 160, 4 heads, E 168, D 24, quantiles .1 .5 .9, dropout .1, granule 8),
 * hidden_continuous 8, without variables. */
void tft_config_defaults(struct tft_model_config *config);

/* Brings the variables into the model's order; stable. order (may be NULL, variable_count entries): order[i] is the
 * former index of the variable now at i. */
void tft_config_sort(struct tft_model_config *config, size_t *order);

/* A selection's variables in its order, which is the model's; pytorch-forecasting's has categories before reals and
 * known ones first, and its resampled skip connections depend on that order. variables: room for TFT_VARIABLES_MAX
 * numbers. Returns how many there are. */
enum tft_choice { TFT_CHOICE_STATIC, TFT_CHOICE_HISTORY, TFT_CHOICE_FUTURE, TFT_CHOICES };
size_t tft_config_choice(const struct tft_model_config *config, enum tft_choice choice, size_t *variables);

/* P. */
size_t tft_config_outputs(const struct tft_model_config *config);

/* Returns how many numbers a variable's embedding has. */
size_t tft_config_width(const struct tft_model_config *config, const struct tft_variable *variable);

/* Returns the probability that a value is not above x. */
double tft_distribution_below(const struct tft_distribution *d, double x);

/* Returns the lowest x that a value is not above with probability q, 0 < q < 1; a whole number if the
 * distribution counts. Tweedie's is 0 up to the probability of 0. Accuracy: distribution.c. */
double tft_distribution_quantile(const struct tft_distribution *d, double q);

/*
 * Forecasts one target at one step: the configuration's quantiles, forecast (Q), from what the model computed, o (P).
 * Without a unit of their own (tft_loss_is_unscaled) they are scaled as the data are. offset and unit: the batch's.
 *
 *     quantiles; mae, mse, huber    offset + unit o, each
 *     distributions                 their quantiles (tft/core/kernels/loss.h)
 */
void tft_outputs_forecast(const struct tft_model_config *config, const real *o, real offset, real unit, real *forecast);

#endif
