/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration of a run: the table, and the one function that sets a value by it, whatever its source.
 */
#include "tft/core/run/run_config.h"
#include "base/number_text.h"
#include "base/parse.h"
#include "tft/core/kernels/device.h"
#include "tft/core/kernels/loss.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { WHOLE, REAL, WORD, SET, LIST, TEXT };

#define AT(member) offsetof(struct tft_run_config, member)
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define KEY(member, type) #member, type, AT(member)
#define FREE .is_free = 1

const char *const tft_calibrate_words[] = { "none", "conformal", "rolling", "auto", NULL };
const char *const tft_loss_words[] = { [TFT_LOSS_QUANTILES] = "quantiles",
                                       [TFT_LOSS_MAE] = "mae",
                                       [TFT_LOSS_MSE] = "mse",
                                       [TFT_LOSS_HUBER] = "huber",
                                       [TFT_LOSS_POISSON] = "poisson",
                                       [TFT_LOSS_NEGATIVE_BINOMIAL] = "negative-binomial",
                                       [TFT_LOSS_TWEEDIE] = "tweedie",
                                       [TFT_LOSS_GAUSSIAN] = "gaussian",
                                       [TFT_LOSS_STUDENT_T] = "student-t",
                                       NULL };

/* WHOLE and REAL are in [least, most]; absent_zero: 0 means none. WORD: one of the words. SET: any of them, bit 0 is
 * the first's. is_free: a run may change the key when it resumes. */
static const struct key {
    const char *name;
    enum kind kind;
    size_t at;
    double preset, least, most;
    int absent_zero;
    const char *const *words;
    const char *help;
    int is_free;
} keys[] = {
    { KEY(hidden_size, WHOLE), 32, 1, 4096, .help = "width of the model's layers" },
    { KEY(heads, WHOLE), 4, 1, 64, .help = "attention heads; divides hidden_size" },
    { KEY(dropout, REAL), 0.1, 0, 0.99, .help = "share of values dropped in training" },
    { KEY(quantiles, LIST), .help = "ascending, each between 0 and 1 (0.1,0.5,0.9)" },
    { KEY(loss, WORD), .words = tft_loss_words,
      .help = "what is learned: quantiles, one number (mae, mse, huber), or a distribution, of which forecasts are "
              "quantiles" },
    { KEY(batch_size, WHOLE), 64, 1, 1 << 20, .help = "samples per step, of all ranks together" },
    { KEY(learning_rate, REAL), 3e-3, 0, 10, .help = "the highest, if a schedule changes it" },
    { KEY(schedule, WORD), TFT_LR_COSINE, .words = WORDS("constant", "warmup", "cosine"),
      .help = "warmup: rises over the first 5 % of steps; cosine: that, then falls to 0" },
    { KEY(optimizer, WORD), .words = WORDS("adam", "adamw"), .help = "adamw decays kernels" },
    { KEY(weight_decay, REAL), 0, 0, 1, .help = "of adamw" },
    { KEY(clip, REAL), 0.01, 0, 1e6, .help = "largest norm of a gradient" },
    { KEY(clip_mode, WORD), .words = WORDS("tensor", "global"), .help = "of each tensor alone, or of all together" },
    { KEY(epochs, WHOLE), 0, 1, 1000000, .absent_zero = 1,
      .help = "most epochs; 0: no limit, and without max_steps and max_time a length that suits the data", FREE },
    { KEY(max_steps, WHOLE), 0, 1, 1e9, .absent_zero = 1, .help = "most steps; 0: no limit", FREE },
    { KEY(max_time, REAL), 0, 0, 1e9, .absent_zero = 1, .help = "most seconds; 0: no limit", FREE },
    { KEY(train_samples, WHOLE), 0, 1, 1e12, .absent_zero = 1, .help = "windows of an epoch; 0: all" },
    { KEY(valid_samples, WHOLE), 1000, 1, 1e12, .absent_zero = 1, .help = "windows of a validation; 0: all" },
    { KEY(eval_every, WHOLE), 0, 1, 1e9, .absent_zero = 1,
      .help = "steps between validations; 0: an epoch with 'epochs', else a twentieth of the run" },
    { KEY(patience, WHOLE), 10, 1, 1000000, .help = "evaluations without improvement before it stops", FREE },
    { KEY(seed, WHOLE), 1, 0, 4294967295.0, .help = "of weights, order and dropout" },
    { KEY(dtype, WORD), .words = WORDS("f32", "bf16", "tf32"), .help = "of the matrix products' factors" },
    { KEY(deterministic, WORD), 1, .words = WORDS("off", "run", "ranks"),
      .help = "run: the same bits in every run; ranks: also on 1, 2 and 4 ranks" },
    { KEY(granule, WHOLE), 8, 1, 64, .help = "samples that one thread computes at a time" },
    { KEY(conformance, WORD), .words = WORDS("published", "nvidia", "pytorch-forecasting"),
      .help = "whose model it is" },
    { KEY(hidden_continuous_size, WHOLE), 8, 1, 4096,
      .help = "width of a real's embedding; of pytorch-forecasting's model" },
    { KEY(crossing, WORD), .words = WORDS("allow", "forbid"),
      .help = "forbid: each quantile is the previous one plus a positive step" },
    { KEY(sparse_rows, WHOLE), 65536, 1, 1e9, .absent_zero = 1,
      .help = "categories from which on a step updates only those it saw; 0: always all" },
    { KEY(device, WORD), .words = tft_device_words, .help = "what computes: the processor, or GPUs, one a rank", FREE },
    { KEY(threads, WHOLE), 0, 1, 1024, .absent_zero = 1, .help = "compute threads of a rank; 0: its share of the cores",
      FREE },
    { KEY(ema, REAL), 0.99, 0, 0.99999,
      .help = "decay of a moving average of the weights, which is then evaluated and kept; 0: none" },
    { KEY(refit, WORD), .words = WORDS("off", "on"),
      .help = "on: train on with all rows at the end, for forecasts of the future", FREE },
    { KEY(members, WHOLE), 0, 1, TFT_RUN_MEMBERS_MAX, .absent_zero = 1,
      .help = "models that are trained, from one seed each, and whose quantiles are averaged; 0: as many as suit "
              "max_time and "
              "the data",
      FREE },
    { KEY(calibrate, WORD), TFT_CALIBRATE_AUTO, .words = tft_calibrate_words,
      .help =
          "widen or narrow intervals so that they hold what they promise: conformal: as the validation windows say; "
          "rolling: as the latest windows before each forecast say; auto: conformal for 'loss: quantiles', but for a "
          "model "
          "that conforms to another program; none",
      FREE },
    { KEY(checkpoint_every, WHOLE), 0, 1, 1e9, .absent_zero = 1,
      .help = "steps between checkpoints, besides the one before each evaluation", FREE },
    { KEY(keep, WHOLE), 3, 0, 1e6, .help = "how many checkpoints are kept; 0: none is written", FREE },
    { KEY(log, SET), .words = WORDS("tensorboard", "csv"),
      .help = "what else to write the numbers for: any of tensorboard, csv (halay-tft(1)); none", FREE },
    { KEY(health, WORD), .words = WORDS("warn", "off"), .help = "warn of a sick training (halay-tft(1))", FREE },
    { KEY(init_from, TEXT), .help = "folder of a run whose weights to start from", FREE },
};

enum { KEYS = sizeof keys / sizeof *keys };

/* Keys of older versions, and words of keys. */
static const struct removed_key {
    const char *name, *word; /* word NULL: the whole key */
    const char *same;        /* the value of runs that are trained and forecast here as they began; NULL: any */
    int is_model;            /* forecasts depend on it */
    const char *instead;
} removed_keys[] = {
    { "accumulate", NULL, "1", 0, "multiply 'batch_size' by it; memory does not grow with that" },
    { "category_dropout", NULL, "0.05", 0,
      "training takes a category with 'unknown: true' for unknown in 5 % of windows" },
    { "clip_mode", "none", NULL, 0, "'clip: 1000000' clips nothing" },
    { "commit_every", NULL, NULL, 0, "every step is committed" },
    { "health", "stop", NULL, 0, "'warn' reports what is wrong, and 'patience' ends the training" },
    { "log", "mlflow", NULL, 0, "write 'csv', of which Python's halay.tft.write_mlflow('RUN') makes MLflow's files" },
    { "log_every", NULL, NULL, 0, "rows are 10 steps apart" },
    { "min_delta", NULL, "1e-4", 0, "an improvement is one by 0.0001" },
    { "sampling", NULL, "uniform", 0, "'train_samples' takes any windows" },
    { "scale_learning_rate", NULL, "none", 0, "'learning_rate' is that of any number of ranks" },
    { "schedule", "plateau", NULL, 0, "'cosine' falls to 0 by itself" },
    { "strategy", NULL, NULL, 0, "every rank holds the whole optimizer state and gradients are all-reduced" },
    { "tweedie_power", NULL, "1.5", 1, "the variance is proportional to the mean to the power of 1.5" },
};

enum { REMOVED_KEYS = sizeof removed_keys / sizeof *removed_keys };

static int64_t *whole_at(const struct key *key, struct tft_run_config *config)
{
    return (int64_t *)((char *)config + key->at);
}

static double *real_at(const struct key *key, struct tft_run_config *config)
{
    return (double *)((char *)config + key->at);
}

void tft_run_config_defaults(struct tft_run_config *config)
{
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < KEYS; i++)
        if (keys[i].kind == REAL)
            *real_at(&keys[i], config) = keys[i].preset;
        else if (keys[i].kind == WHOLE || keys[i].kind == WORD)
            *whole_at(&keys[i], config) = (int64_t)keys[i].preset;
    config->quantiles = (struct tft_list){ 3, { 0.1, 0.5, 0.9 } };
}

/* '-' may stand for '_'. */
static int is_name_of(const char *key, const char *name)
{
    while (*key && (*key == *name || (*key == '_' && *name == '-'))) {
        key++;
        name++;
    }
    return !*key && !*name;
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < KEYS; i++)
        if (is_name_of(keys[i].name, name))
            return &keys[i];
    return NULL;
}

/* Finds what was removed: a whole key (word NULL), or one of its words; NULL: nothing. */
static const struct removed_key *find_removed(const char *name, const char *word)
{
    for (size_t i = 0; i < REMOVED_KEYS; i++) {
        const struct removed_key *r = &removed_keys[i];
        if (is_name_of(r->name, name) && !r->word == !word && (!word || !strcmp(r->word, word)))
            return r;
    }
    return NULL;
}

static enum halay_status unknown_key(struct halay_log *log, const char *where, const char *name)
{
    const char *names[KEYS + 1] = { NULL };
    const struct removed_key *removed = find_removed(name, NULL);
    char plain[64];

    if (removed)
        return halay_fail(log, HALAY_ERR_UNSUPPORTED, "%s: key '%s' was removed: %s", where, removed->name,
                          removed->instead);
    snprintf(plain, sizeof plain, "%s", name);
    for (char *c = plain; *c; c++)
        *c = *c == '-' ? '_' : *c;
    for (size_t i = 0; i < KEYS; i++)
        names[i] = keys[i].name;
    const char *near = halay_nearest_name(plain, names);
    if (near)
        halay_error(log, "%s: unknown key '%s'; did you mean '%s'?", where, name, near);
    else
        halay_error(log, "%s: unknown key '%s'", where, name);
    return HALAY_ERR_CONFIG;
}

/* ---- values ---- */

/* Takes the values of a document. */
struct taker {
    struct halay_log *log;
    const char *where; /* for messages */
    struct tft_run_config *config;
};

/* A number, from a number or from a text that is one. */
static int get_number(const json_t *value, double *number)
{
    char *end;

    if (json_is_number(value)) {
        *number = json_number_value(value);
        return 1;
    }
    const char *text = json_string_value(value);
    if (!text || !*text || strspn(text, "+-.0123456789eE") != strlen(text))
        return 0;
    *number = halay_strtod(text, &end);
    return !*end && isfinite(*number);
}

static enum halay_status take_number(const struct taker *t, const struct key *key, const json_t *value)
{
    double number, least = key->absent_zero ? 0 : key->least;

    if (!get_number(value, &number) || (key->kind == WHOLE && number != floor(number)) || number < least ||
        number > key->most)
        return halay_fail(t->log, HALAY_ERR_CONFIG, "%s: '%s' must be a %snumber from %g to %.10g", t->where, key->name,
                          key->kind == WHOLE ? "whole " : "", least, key->most);
    if (key->kind == WHOLE)
        *whole_at(key, t->config) = (int64_t)number;
    else
        *real_at(key, t->config) = number;
    return HALAY_OK;
}

/* The words, with a text between them. */
static void list_words(const struct key *key, const char *between, char list[128])
{
    list[0] = 0;
    for (size_t i = 0; key->words[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, 128 - used, "%s%s", i ? between : "", key->words[i]);
    }
}

static enum halay_status take_word(const struct taker *t, const struct key *key, const json_t *value)
{
    const char *text = json_string_value(value);
    char list[128];

    for (size_t i = 0; key->words[i]; i++)
        if (text && !strcmp(text, key->words[i])) {
            *whole_at(key, t->config) = (int64_t)i;
            return HALAY_OK;
        }
    const struct removed_key *removed = text ? find_removed(key->name, text) : NULL;
    if (removed)
        return halay_fail(t->log, HALAY_ERR_UNSUPPORTED, "%s: '%s: %s' was removed: %s", t->where, key->name, text,
                          removed->instead);
    list_words(key, ", ", list);
    return halay_fail(t->log, HALAY_ERR_CONFIG, "%s: '%s' must be one of %s", t->where, key->name, list);
}

/* A list of texts from one: "0.1,0.5,0.9" or "[0.1, 0.5, 0.9]"; a new reference, or NULL. */
static json_t *list_of_text(const char *text)
{
    json_t *list = json_array();
    char *copy = strdup(text), *rest = copy, *item;

    while (copy && list && (item = strsep(&rest, ","))) {
        item += strspn(item, " [");
        item[strcspn(item, " ]")] = 0;
        json_array_append_new(list, json_string(item));
    }
    free(copy);
    return list;
}

/* Words with commas or spaces between them, or a list of them; "none" is the empty set. */
static enum halay_status take_set(const struct taker *t, const struct key *key, const json_t *value)
{
    json_t *of_text = json_is_string(value) ? list_of_text(json_string_value(value)) : NULL;
    const json_t *items = of_text ? of_text : value;
    int good = json_is_array(items);
    int64_t set = 0;

    for (size_t i = 0; good && i < json_array_size(items); i++) {
        const char *word = json_string_value(json_array_get(items, i));
        size_t w = 0;
        while (word && key->words[w] && strcmp(word, key->words[w]))
            w++;
        const struct removed_key *removed = word ? find_removed(key->name, word) : NULL;
        if (removed) {
            halay_error(t->log, "%s: '%s: %s' was removed: %s", t->where, key->name, word, removed->instead);
            json_decref(of_text);
            return HALAY_ERR_UNSUPPORTED;
        }
        good = word && (key->words[w] || (!strcmp(word, "none") && json_array_size(items) == 1));
        set |= key->words[w] ? (int64_t)1 << w : 0;
    }
    json_decref(of_text);
    if (!good) {
        char list[128];
        list_words(key, ",", list);
        return halay_fail(t->log, HALAY_ERR_CONFIG, "%s: '%s' must be none, or some of %s", t->where, key->name, list);
    }
    *whole_at(key, t->config) = set;
    return HALAY_OK;
}

/* A quantile has at most six decimals, so that no two have one name and none is taken for 1. Set to the nearest such
 * number. */
static int take_quantile(const json_t *value, double *quantile)
{
    double number, millionths;

    if (!get_number(value, &number) || !(number > 0 && number < 1))
        return 0;
    millionths = nearbyint(number * 1e6);
    if (fabs(number * 1e6 - millionths) > 1e-6 || millionths < 1 || millionths > 999999)
        return 0;
    *quantile = millionths / 1e6;
    return 1;
}

static enum halay_status take_list(const struct taker *t, const struct key *key, const json_t *value)
{
    struct tft_list list = { 0 };
    json_t *of_text = json_is_string(value) ? list_of_text(json_string_value(value)) : NULL;
    const json_t *items = of_text ? of_text : value;
    int good = json_is_array(items) && json_array_size(items) >= 1 && json_array_size(items) <= TFT_RUN_QUANTILES_MAX;

    for (size_t i = 0; good && i < json_array_size(items); i++) {
        good = take_quantile(json_array_get(items, i), &list.values[i]) && (!i || list.values[i] > list.values[i - 1]);
        list.count++;
    }
    json_decref(of_text);
    if (!good)
        return halay_fail(
            t->log, HALAY_ERR_CONFIG,
            "%s: '%s' must be 1 to %d ascending numbers between 0 and 1, of at most six decimals, like [0.1, 0.5, 0.9]",
            t->where, key->name, TFT_RUN_QUANTILES_MAX);
    t->config->quantiles = list;
    t->config->quantiles_given = 1;
    return HALAY_OK;
}

static enum halay_status take_string(const struct taker *t, const struct key *key, const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || strlen(text) > TFT_RUN_TEXT_MAX)
        return halay_fail(t->log, HALAY_ERR_CONFIG, "%s: '%s' must be a text of at most %d bytes", t->where, key->name,
                          TFT_RUN_TEXT_MAX);
    memset((char *)t->config + key->at, 0, TFT_RUN_TEXT_MAX + 1);
    memcpy((char *)t->config + key->at, text, strlen(text));
    return HALAY_OK;
}

static enum halay_status take_key(const struct taker *t, const char *name, const json_t *value)
{
    const struct key *key = find_key(name);

    if (!key)
        return unknown_key(t->log, t->where, name);
    switch (key->kind) {
    case TEXT:
        return take_string(t, key, value);
    case WORD:
        return take_word(t, key, value);
    case SET:
        return take_set(t, key, value);
    case LIST:
        return take_list(t, key, value);
    default:
        return take_number(t, key, value);
    }
}

/* ---- sources ---- */

enum halay_status tft_run_config_take(struct halay_log *log, const char *where, const json_t *document,
                                      struct tft_run_config *config)
{
    struct tft_run_config taken = *config;
    const struct taker taker = { log, where, &taken };
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)document, name, value) {
        enum halay_status status = take_key(&taker, name, value);
        if (status)
            return status;
    }
    *config = taken;
    return HALAY_OK;
}

/* Returns nonzero if a run of an older version continues here as it began. */
static int is_as_before(const struct removed_key *removed, const json_t *value)
{
    const char *text = json_string_value(value);
    char *end;

    if (!value || (removed->word && (!text || strcmp(text, removed->word))))
        return 1;
    if (removed->word)
        return find_key(removed->name)->is_free;
    if (!removed->same)
        return 1;
    return text ? !strcmp(text, removed->same) : json_number_value(value) == halay_strtod(removed->same, &end);
}

/* A list of words without one of them; a new reference. */
static json_t *list_without(const json_t *list, const char *word)
{
    json_t *kept = json_array(), *item;
    size_t i;

    json_array_foreach(list, i, item)
        if (!json_is_string(item) || strcmp(json_string_value(item), word))
            json_array_append(kept, item);
    return kept;
}

static enum halay_status refuse_removed(struct halay_log *log, const char *where, const struct removed_key *removed,
                                        const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

    halay_error(log, "%s: the run began with '%s' %s, which was removed: %s", where, removed->name, text ? text : "",
                removed->instead);
    free(text);
    return HALAY_ERR_UNSUPPORTED;
}

enum halay_status tft_run_config_take_run(struct halay_log *log, const char *where, const json_t *document,
                                          struct tft_run_config *config)
{
    json_t *copy = json_copy((json_t *)document);
    enum halay_status status = copy ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    for (size_t i = 0; i < REMOVED_KEYS && !status; i++) {
        const struct removed_key *removed = &removed_keys[i];
        const json_t *value = json_object_get(copy, removed->name);
        const char *text = json_string_value(value);
        if (removed->is_model && !is_as_before(removed, value))
            status = refuse_removed(log, where, removed, value);
        else if (!removed->word || (text && !strcmp(text, removed->word)))
            json_object_del(copy, removed->name);
        else if (json_is_array(value) && json_object_set_new(copy, removed->name, list_without(value, removed->word)))
            status = HALAY_ERR_NO_MEMORY;
    }
    status = status ? status : tft_run_config_take(log, where, copy, config);
    json_decref(copy);
    return status;
}

/* A loss other than quantiles: what goes with it. */
static enum halay_status check_loss(struct halay_log *log, struct tft_run_config *config)
{
    const char *word = tft_loss_words[config->loss];

    if (config->loss == TFT_LOSS_QUANTILES)
        return HALAY_OK;
    if (config->conformance)
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "'loss: %s' is of 'conformance: published'; the models of others forecast quantiles", word);
    if (config->crossing)
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "'crossing: forbid' is of 'loss: quantiles'; what '%s' forecasts cannot cross", word);
    if (!tft_loss_is_point((enum tft_loss)config->loss))
        return HALAY_OK;
    if (!config->quantiles_given)
        config->quantiles = (struct tft_list){ 1, { 0.5 } };
    if (config->quantiles.count > 1 || fabs(config->quantiles.values[0] - 0.5) > 1e-9)
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "'loss: %s' forecasts one number: leave 'quantiles' out, or choose a distribution", word);
    if (config->calibrate)
        return halay_fail(log, HALAY_ERR_CONFIG, "'loss: %s' forecasts one number and so has no interval to calibrate",
                          word);
    return HALAY_OK;
}

enum halay_status tft_run_config_check(struct halay_log *log, struct tft_run_config *config)
{
    if (config->hidden_size % config->heads)
        return halay_fail(log, HALAY_ERR_CONFIG, "'hidden_size' %" PRId64 " must be a multiple of 'heads' %" PRId64,
                          config->hidden_size, config->heads);
    if (config->weight_decay > 0 && config->optimizer != TFT_OPTIMIZER_ADAMW)
        return halay_fail(log, HALAY_ERR_CONFIG, "'weight_decay' is adamw's: set 'optimizer: adamw' too");
    if (!(config->learning_rate > 0))
        return halay_fail(log, HALAY_ERR_CONFIG, "'learning_rate' must be above 0");
    if (!(config->clip > 0))
        return halay_fail(log, HALAY_ERR_CONFIG, "'clip' must be above 0; 1000000 clips nothing");
    if (config->members > 1 && config->refit)
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "'refit: on' trains one model on, not %" PRId64 " members: give one of the two",
                          config->members);
    if (config->calibrate == TFT_CALIBRATE_AUTO && (config->conformance || config->loss != TFT_LOSS_QUANTILES))
        config->calibrate = TFT_CALIBRATE_NONE;
    return check_loss(log, config);
}

json_t *tft_numbers_json(const double *values, size_t count)
{
    json_t *numbers = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(numbers, json_real(values[i]))) {
            json_decref(numbers);
            return NULL;
        }
    return numbers;
}

json_t *tft_list_json(const struct tft_list *list)
{
    return tft_numbers_json(list->values, list->count);
}

/* Returns a key's value; NULL if it is absent. */
static json_t *value_json(const struct key *key, const struct tft_run_config *config)
{
    const char *at = (const char *)config + key->at;
    const int omits_zero = key->absent_zero && key->preset == 0;
    json_t *set;

    switch (key->kind) {
    case TEXT:
        return *at ? json_string(at) : NULL;
    case REAL:
        return omits_zero && *(const double *)at == 0 ? NULL : json_real(*(const double *)at);
    case WHOLE:
        return omits_zero && *(const int64_t *)at == 0 ? NULL : json_integer(*(const int64_t *)at);
    case WORD:
        return json_string(key->words[*(const int64_t *)at]);
    case LIST:
        return tft_list_json(&config->quantiles);
    default:
        set = json_array();
        for (size_t w = 0; key->words[w]; w++)
            if (*(const int64_t *)at >> w & 1)
                json_array_append_new(set, json_string(key->words[w]));
        return set;
    }
}

json_t *tft_run_config_json(const struct tft_run_config *config)
{
    json_t *object = json_object();

    for (size_t i = 0; i < KEYS; i++) {
        json_t *value = value_json(&keys[i], config);
        if (value)
            json_object_set_new(object, keys[i].name, value);
    }
    return object;
}

json_t *tft_run_config_identity(const json_t *config)
{
    json_t *copy = json_deep_copy(config);

    for (size_t i = 0; i < KEYS; i++)
        if (keys[i].is_free)
            json_object_del(copy, keys[i].name);
    return copy;
}

enum halay_status tft_run_config_check_resume(struct halay_log *log, const char *where, const json_t *before,
                                              const struct tft_run_config *config)
{
    struct tft_run_config began;
    enum halay_status status;

    for (size_t i = 0; i < REMOVED_KEYS; i++) {
        const json_t *value = json_object_get(before, removed_keys[i].name);
        if (!is_as_before(&removed_keys[i], value))
            return refuse_removed(log, where, &removed_keys[i], value);
    }
    tft_run_config_defaults(&began);
    status = tft_run_config_take_run(log, where, before, &began);
    if (status)
        return status;
    json_t *then = tft_run_config_json(&began), *now = tft_run_config_json(config);
    status = then && now ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < KEYS && !status; i++) {
        json_t *was = json_object_get(then, keys[i].name), *is = json_object_get(now, keys[i].name);
        if (keys[i].is_free || was == is || (was && is && json_equal(was, is)))
            continue;
        char *old = was ? json_dumps(was, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        char *new = is ? json_dumps(is, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        status = halay_fail(
            log, HALAY_ERR_CONFIG,
            "%s: '%s' was %s when the run began and is %s now; a run resumes with the keys that it began with", where,
            keys[i].name, old ? old : "absent", new ? new : "absent");
        free(old);
        free(new);
    }
    json_decref(then);
    json_decref(now);
    return status;
}

/* ---- what there is ---- */

static json_t *describe_key(const struct key *key, json_t *preset)
{
    static const char *const kinds[] = {
        [WHOLE] = "whole", [REAL] = "real", [WORD] = "word", [SET] = "set", [LIST] = "list", [TEXT] = "text"
    };
    const int has_bounds = key->kind == WHOLE || key->kind == REAL;
    json_t *words = key->words ? json_array() : NULL;

    for (size_t w = 0; words && key->words[w]; w++)
        json_array_append_new(words, json_string(key->words[w]));
    return json_pack("{ss ss sO? so* so* so* ss}", "name", key->name, "kind", kinds[key->kind], "default", preset,
                     "least", has_bounds ? json_real(key->absent_zero ? 0 : key->least) : NULL, "most",
                     has_bounds ? json_real(key->most) : NULL, "words", words, "help", key->help);
}

json_t *tft_run_config_keys(void)
{
    struct tft_run_config config;
    json_t *list = json_array();

    tft_run_config_defaults(&config);
    json_t *presets = tft_run_config_json(&config);
    for (size_t i = 0; i < KEYS; i++)
        if (json_array_append_new(list, describe_key(&keys[i], json_object_get(presets, keys[i].name)))) {
            json_decref(list);
            list = NULL;
        }
    json_decref(presets);
    return list;
}
