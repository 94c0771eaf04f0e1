/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration of a run: the published defaults, sources one over the other, and every refusal.
 */
#include "base/document.h"
#include "tests/tft/files.h"
#include "tft/core/kernels/loss.h"
#include "tft/core/run/checkpoints.h"
#include "tft/core/run/run_config.h"

static enum halay_status take(const char *yaml, struct tft_run_config *c)
{
    json_t *d;
    REQUIRE(!halay_document_parse(&test_log, "c", yaml, strlen(yaml), 0, NULL, &d));
    enum halay_status status = tft_run_config_take(&test_log, "configuration 'c'", d, c);
    json_decref(d);
    return status;
}

static void defaults(void)
{
    struct tft_run_config c;

    tft_run_config_defaults(&c);
    CHECK(c.hidden_size == 32 && c.heads == 4 && c.dropout == 0.1 && c.batch_size == 64 && c.learning_rate == 3e-3 &&
          c.schedule == TFT_LR_COSINE && c.ema == 0.99 && c.clip == 0.01);
    CHECK(c.clip_mode == TFT_CLIP_BY_TENSOR && !c.epochs && c.patience == 10 && c.seed == 1 && c.granule == 8);
    CHECK(c.quantiles.count == 3 && c.quantiles.values[0] == 0.1 && c.quantiles.values[2] == 0.9 &&
          c.deterministic == 1);
    CHECK(!c.max_steps && !c.train_samples && !c.eval_every && c.max_time == 0 && !tft_run_config_check(&test_log, &c));
}

static void sources(void)
{
    struct tft_run_config c, d;

    tft_run_config_defaults(&c);
    CHECK(!take("hidden_size: 32\nheads: \"2\"\nquantiles: [0.05, 0.5, 0.95]\nschedule: cosine\nlearning_rate: "
                "\"3e-3\"\nseed: 7\n",
                &c));
    CHECK(c.hidden_size == 32 && c.heads == 2 && c.quantiles.values[0] == 0.05 && c.schedule == TFT_LR_COSINE &&
          c.learning_rate == 3e-3);
    CHECK(!take("seed: '8'\ndropout: '0.3'\nbatch-size: '16'\nquantiles: '0.1,0.9'\n", &c));
    CHECK(c.seed == 8 && c.dropout == 0.3 && c.batch_size == 16 && c.quantiles.count == 2);
    CHECK(!take("quantiles: '[0.25, 0.5]'\n", &c) && c.quantiles.values[0] == 0.25);
    CHECK(!take("quantiles: '1e-6,0.999998,0.999999'\n", &c) && c.quantiles.values[2] == 0.999999);
    CHECK(!take("max_steps: 0\n", &c) && !c.max_steps);
    CHECK(!take("deterministic: ranks\n", &c) && c.deterministic == 2);
    CHECK(!take("sparse_rows: 0\n", &c) && !c.sparse_rows); /* which is not its default */
    json_t *json = tft_run_config_json(&c);
    tft_run_config_defaults(&d);
    CHECK(json && !tft_run_config_take(&test_log, "again", json, &d) && !memcmp(&c, &d, sizeof c));
    json_decref(json);
}

static void refused(void)
{
    static const char *const cases[][2] = {
        { "hiden_size: 3\n", "unknown key 'hiden_size'; did you mean 'hidden_size'?" },
        { "device: tpu\n", "must be one of cpu, cuda" },
        { "strategy: zero1\n", "key 'strategy' was removed: every rank holds" },
        { "\"strategy\": allreduce\n", "every rank holds the whole optimizer state" },
        { "conformance: keras\n", "must be one of published, nvidia, pytorch-forecasting" },
        { "ema: 1\n", "'ema' must be a number from 0 to 0.99999" },
        { "keep: -1\n", "'keep' must be a whole number from 0" },
        { "init_from: 3\n", "'init_from' must be a text" },
        { "sampling: scale\n", "key 'sampling' was removed: 'train_samples' takes any windows" },
        { "scale-learning-rate: sqrt\n", "key 'scale_learning_rate' was removed" },
        { "min_delta: 0\n", "by 0.0001" },
        { "category-dropout: 0\n", "key 'category_dropout' was removed: training takes" },
        { "commit_every: 3\n", "every step is committed" },
        { "log_every: 3\n", "10 steps apart" },
        { "tweedie_power: 1.2\n", "power of 1.5" },
        { "schedule: plateau\n", "'schedule: plateau' was removed: 'cosine'" },
        { "clip_mode: none\n", "'clip: 1000000' clips nothing" },
        { "health: stop\n", "'health: stop' was removed: 'warn'" },
        { "dtype: f16\n", "'dtype' must be one of f32, bf16" },
        { "schedule: cosinus\n", "must be one of constant, warmup, cosine" },
        { "hidden_size: 32.5\n", "must be a whole number" },
        { "hidden_size: 0\n", "must be a whole number from 1" },
        { "hidden_size: many\n", "must be a whole number" },
        { "dropout: 1.0\n", "must be a number from 0 to 0.99" },
        { "dropout: \"0.1x\"\n", "must be a number" },
        { "quantiles: [0.5, 0.1]\n", "ascending numbers between 0 and 1" },
        { "quantiles: [0, 0.5]\n", "ascending numbers between 0 and 1" },
        { "quantiles: []\n", "ascending numbers between 0 and 1" },
        { "quantiles: [0.5, 0.9999999]\n", "at most six decimals" },
        { "quantiles: [0.0000001]\n", "at most six decimals" },
        { "quantiles: [0.1, 0.1000001]\n", "at most six decimals" },
        { "quantiles: [0.1, 0.10000000000001]\n", "ascending" },
        { "batch_size: -4\n", "must be a whole number" },
        { "seed: 4294967296\n", "must be a whole number" },
    };
    struct tft_run_config c, before;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tft_run_config_defaults(&c);
        before = c;
        CHECK(take(cases[i][0], &c) != HALAY_OK && error_says(cases[i][1]), "%s", cases[i][0]);
        CHECK(!memcmp(&c, &before, sizeof c));
    }
    tft_run_config_defaults(&c);
    CHECK(!take("heads: 3\n", &c) && tft_run_config_check(&test_log, &c) == HALAY_ERR_CONFIG &&
          error_says("must be a multiple of 'heads'"));
    tft_run_config_defaults(&c);
    CHECK(!take("weight_decay: 0.1\n", &c) && tft_run_config_check(&test_log, &c) == HALAY_ERR_CONFIG &&
          error_says("adamw"));
}

/* A run that wrote what is not written any more forecasts and resumes with the rest. */
static void resumed_without_word(void)
{
    struct tft_run_config c;

    tft_run_config_defaults(&c);
    json_t *run = tft_run_config_json(&c);
    REQUIRE(run && !json_object_set_new(run, "log", json_pack("[sss]", "tensorboard", "mlflow", "csv")));
    CHECK(!tft_run_config_take_run(&test_log, "'x'", run, &c) && c.log == 3, "%lld", (long long)c.log);
    CHECK(!tft_run_config_check_resume(&test_log, "'x'", run, &c));
    json_decref(run);
    CHECK(take("log: [csv, mlflow]\n", &c) == HALAY_ERR_UNSUPPORTED &&
          error_says("'log: mlflow' was removed: write 'csv', of which Python's halay.tft.write_mlflow('RUN')"));
}

/* What a run may change when it goes on, and what not. */
static void resumed(void)
{
    struct tft_run_config c;

    tft_run_config_defaults(&c);
    REQUIRE(!take("hidden_size: 32\nepochs: 7\ninit_from: there\nema: 0.5\n", &c));
    CHECK(!strcmp(c.init_from, "there") && c.ema == 0.5 && c.keep == 3);
    json_t *before = tft_run_config_json(&c), *identity = tft_run_config_identity(before);
    CHECK(!json_object_get(identity, "epochs") && !json_object_get(identity, "init_from") &&
          json_object_get(identity, "seed") && json_object_get(before, "epochs"));
    REQUIRE(!take(
        "epochs: 9\nthreads: 3\nkeep: 1\ncheckpoint_every: 10\npatience: 9\nmax_time: 5\nmax_steps: 8\ninit_from: ''\n",
        &c));
    CHECK(!c.init_from[0] && !tft_run_config_check_resume(&test_log, "'x'", before, &c));
    REQUIRE(!take("ema: 0\n", &c));
    CHECK(tft_run_config_check_resume(&test_log, "'x'", before, &c) == HALAY_ERR_CONFIG &&
          error_says("'x': 'ema' was 0.5 when the run began and is 0.0 now"));
    REQUIRE(!take("ema: 0.5\n", &c));
    json_object_del(before, "weight_decay"); /* as if written before there was such a key: its default */
    CHECK(!tft_run_config_check_resume(&test_log, "'x'", before, &c));
    REQUIRE(!take("max_time: 0\ntrain_samples: 5\n", &c));
    CHECK(tft_run_config_check_resume(&test_log, "'x'", before, &c) == HALAY_ERR_CONFIG &&
          error_says("'train_samples' was absent when the run began and is 5 now"));
    REQUIRE(!take("train_samples: 0\n", &c) && !json_object_set_new(before, "strategy", json_string("zero1")));
    CHECK(!tft_run_config_check_resume(&test_log, "'x'", before, &c)); /* of an older version */
    CHECK(!tft_run_config_take_run(&test_log, "'x'", before, &c) && json_object_get(before, "strategy"));
    static const char *const changed[][2] = { { "accumulate", "2" },
                                              { "category_dropout", "0.5" },
                                              { "min_delta", "0.5" },
                                              { "schedule", "\"plateau\"" },
                                              { "sampling", "\"scale\"" },
                                              { "clip_mode", "\"none\"" },
                                              { "scale_learning_rate", "\"linear\"" } };
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) { /* they forecast, and are not resumed */
        json_t *old = json_deep_copy(before);
        REQUIRE(!json_object_set_new(old, changed[i][0], json_loads(changed[i][1], JSON_DECODE_ANY, NULL)));
        CHECK(!tft_run_config_take_run(&test_log, "'x'", old, &c), "%s", changed[i][0]);
        CHECK(tft_run_config_check_resume(&test_log, "'x'", old, &c) == HALAY_ERR_UNSUPPORTED &&
                  error_says("'x': the run began with '") && error_says(changed[i][0]) && error_says(changed[i][1]),
              "%s", changed[i][0]);
        json_decref(old);
    }
    json_t *same =
        json_pack("{si sf sf ss si sf ss ss}", "accumulate", 1, "category_dropout", .05, "min_delta", 1e-4, "sampling",
                  "uniform", "log_every", 7, "tweedie_power", 1.5, "scale_learning_rate", "none", "health", "stop");
    REQUIRE(!json_object_update_missing(same, before) && !json_object_set_new(same, "health", json_string("stop")));
    CHECK(!tft_run_config_check_resume(&test_log, "'x'", same, &c));
    REQUIRE(!json_object_set_new(same, "tweedie_power", json_real(1.2))); /* of which the forecast is */
    CHECK(tft_run_config_take_run(&test_log, "'x'", same, &c) == HALAY_ERR_UNSUPPORTED && error_says("power of 1.5"));
    json_decref(same);
    json_decref(before);
    json_decref(identity);
}

/* Checkpoints of older versions with a file of each rank are refused before anything is written. */
static void rank_files(void)
{
    const struct tft_checkpoints c = { .log = &test_log, .folder = "there" };
    struct tft_training_state state;
    const json_t *run;
    json_t *manifest =
        json_pack("{s{} s{} s[{ss}{sssi}]}", "run", "state", "files", "block", "params", "block", "moment1", "rank", 1);

    CHECK(tft_checkpoints_state(&c, manifest, &run, &state) == HALAY_ERR_UNSUPPORTED &&
          error_says("the former key 'strategy'") && error_says("init_from"));
    json_decref(manifest);
}

/* Which losses go with what; a run without the key has quantiles. */
static void losses(void)
{
    static const char *const refused[][2] = {
        { "loss: gaussian\nconformance: pytorch-forecasting\n", "is of 'conformance: published'" },
        { "loss: student-t\ncrossing: forbid\n", "'crossing: forbid' is of 'loss: quantiles'" },
        { "loss: mse\nquantiles: [0.1, 0.5, 0.9]\n", "leave 'quantiles' out" },
        { "loss: huber\nquantiles: [0.4]\n", "leave 'quantiles' out" },
        { "loss: mae\ncalibrate: rolling\n", "no interval to calibrate" },
    };
    struct tft_run_config c;

    tft_run_config_defaults(&c);
    CHECK(c.loss == TFT_LOSS_QUANTILES);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tft_run_config_defaults(&c);
        CHECK(!take(refused[i][0], &c) && tft_run_config_check(&test_log, &c) == HALAY_ERR_CONFIG &&
                  error_says(refused[i][1]),
              "%s", refused[i][0]);
    }
    for (size_t loss = 0; tft_loss_words[loss]; loss++) {
        tft_run_config_defaults(&c);
        char line[64];
        snprintf(line, sizeof line, "loss: %s\n", tft_loss_words[loss]);
        CHECK(!take(line, &c) && c.loss == (int64_t)loss);
        CHECK(!tft_run_config_check(&test_log, &c) &&
              c.quantiles.count == (tft_loss_is_point((enum tft_loss)loss) ? 1 : 3));
        CHECK(c.quantiles.values[c.quantiles.count / 2] == 0.5);
    }
    tft_run_config_defaults(&c);
    REQUIRE(!take("loss: tweedie\nquantiles: [0.25, 0.75]\n", &c) && !tft_run_config_check(&test_log, &c));
    json_t *before = tft_run_config_json(&c);
    CHECK(c.quantiles.count == 2 && !strcmp(json_string_value(json_object_get(before, "loss")), "tweedie"));
    REQUIRE(!take("loss: gaussian\n", &c));
    CHECK(tft_run_config_check_resume(&test_log, "'x'", before, &c) == HALAY_ERR_CONFIG && error_says("'loss' was"));
    REQUIRE(!take("loss: quantiles\n", &c));
    json_object_del(before, "loss"); /* a run of a time without the key */
    CHECK(!tft_run_config_check_resume(&test_log, "'x'", before, &c));
    json_decref(before);
}

int main(void)
{
    losses();
    begin_scratch();
    defaults();
    sources();
    refused();
    resumed();
    resumed_without_word();
    rank_files();
    end_scratch();
    return test_end();
}
