/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration of a run: one table of keys, each with type, default and help, taken from documents, each overriding
 * the one before.
 *
 * A number may also be written as a text (all values of a hyperparameters.json are, and those of a command line).
 * An unknown key is an error that names the nearest known one.
 */
#ifndef HALAY_TFT_RUN_CONFIG_H
#define HALAY_TFT_RUN_CONFIG_H

#include "base/log.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { TFT_RUN_QUANTILES_MAX = 16, TFT_RUN_TEXT_MAX = 1023, TFT_RUN_MEMBERS_MAX = 16 };

enum tft_lr_schedule { TFT_LR_CONSTANT, TFT_LR_WARMUP, TFT_LR_COSINE };
enum tft_clip_word { TFT_CLIP_BY_TENSOR, TFT_CLIP_BY_GLOBAL };
enum tft_optimizer { TFT_OPTIMIZER_ADAM, TFT_OPTIMIZER_ADAMW };
enum tft_calibrate_word { TFT_CALIBRATE_NONE, TFT_CALIBRATE_CONFORMAL, TFT_CALIBRATE_ROLLING, TFT_CALIBRATE_AUTO };
enum tft_health_reaction { TFT_HEALTH_WARN, TFT_HEALTH_OFF };

struct tft_list {
    size_t count;
    double values[TFT_RUN_QUANTILES_MAX];
};

/* Integers and words (numbers of the lists above) are int64_t, so that one table describes all; 0 means "absent" where
 * the table allows it. */
struct tft_run_config {
    int64_t hidden_size, heads;
    double dropout;
    struct tft_list quantiles;
    int quantiles_given;
    int64_t loss; /* of enum tft_loss */
    int64_t batch_size;
    double learning_rate;
    int64_t schedule, optimizer;
    double weight_decay, clip;
    int64_t clip_mode, epochs, max_steps;
    double max_time; /* seconds */
    int64_t train_samples, valid_samples, eval_every, patience;
    int64_t seed, dtype, deterministic, granule, conformance, device, threads;
    int64_t hidden_continuous_size, crossing, sparse_rows;
    double ema;
    int64_t refit, members, calibrate, checkpoint_every, keep;
    int64_t log, health;                  /* log: a set, of enum tft_track */
    char init_from[TFT_RUN_TEXT_MAX + 1]; /* "": none */
};

/* The words of `calibrate`, and of `loss`, and NULL. */
extern const char *const tft_calibrate_words[], *const tft_loss_words[];

void tft_run_config_defaults(struct tft_run_config *config);

/* Take the keys of a document (a configuration file). where: for messages. HALAY_ERR_UNSUPPORTED: a key that older
 * versions had; the message has what replaces it. */
enum halay_status tft_run_config_take(struct halay_log *log, const char *where, const json_t *document,
                                      struct tft_run_config *config);
/* Does the same for a run's own document, which may be of an older version: removed keys are left out, unless forecasts
 * depend on one (HALAY_ERR_UNSUPPORTED). */
enum halay_status tft_run_config_take_run(struct halay_log *log, const char *where, const json_t *document,
                                          struct tft_run_config *config);
/* Checks that the values fit together. A loss that forecasts one number gets its one quantile if none was given. */
enum halay_status tft_run_config_check(struct halay_log *log, struct tft_run_config *config);

/* All keys with their values; NULL without memory. A document that take reads. */
json_t *tft_run_config_json(const struct tft_run_config *config);

/* The numbers as a new reference; NULL without memory. */
json_t *tft_numbers_json(const double *values, size_t count);
json_t *tft_list_json(const struct tft_list *list);

/* The keys that identify a run: a new reference without those that may change when it resumes (its length, threads,
 * checkpoints). NULL without memory. */
json_t *tft_run_config_identity(const json_t *config);
/* Checks that a run that began with the keys of `before` (where: for messages) can resume with config. HALAY_ERR_CONFIG
 * names the key. */
enum halay_status tft_run_config_check_resume(struct halay_log *log, const char *where, const json_t *before,
                                              const struct tft_run_config *config);

/* Describes all keys, as halay_tft_keys gives them. A new reference; NULL without memory. */
json_t *tft_run_config_keys(void);

#endif
