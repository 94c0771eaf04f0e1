/* SPDX-License-Identifier: Apache-2.0
 *
 * Backtest: the list of origins, and for each fit: move the splits, train, forecast, add up.
 *
 *   fit 1   train......|valid..|o   o   o
 *   fit 2   train..................|valid..|o   o   o         fit_every 3: three origins each
 *   fit 3   train..............................|valid..|o
 *
 * The ends of the training and validation spans move on with the origins; each fit is a run of its own, with a folder
 * that all other commands read. Rows keep the scaling of the prepared data, fitted on the original training span.
 *
 * All ranks do the same; rank 0 writes a run's folder and reads it for all, once its training is over.
 * Cleanup: zeroed first, fini accepts half-built.
 */
#include "base/memory.h"
#include "base/output_file.h"
#include "tft/core/data/paths.h"
#include "tft/core/run/ranks.h"
#include "tft/core/score/evaluation.h"
#include "tft/core/score/forecast_file.h"
#include "tft/core/score/inference.h"
#include "tft/core/train/train.h"
#include <stdlib.h>
#include <string.h>

struct backtest {
    struct halay_log *log; /* borrowed, as the next four */
    struct halay_context *ctx;
    const struct tft_run_config *config;
    struct tft_data *data;
    const struct tft_backtest_options *options;
    int rank;
    size_t stride, origins, per_fit, fits;
    int64_t begin;            /* the first forecast's first step */
    struct tft_schema before; /* owned: the data's own schema */
    struct tft_evaluation evaluation;
    struct halay_output out; /* rank 0, if forecasts are asked for */
    struct tft_forecast_file file;
    json_t *described; /* owned: the description of each fit */
};

/* ---- the origins ---- */

/* Returns the moment this number of steps after the first forecast's first. */
static int64_t moment_after(const struct backtest *b, size_t steps)
{
    return tft_period_add(&b->before.every, b->begin, (int64_t)steps);
}

static size_t origins_of(const struct backtest *b, size_t fit)
{
    size_t left = b->origins - fit * b->per_fit;

    return left < b->per_fit ? left : b->per_fit;
}

/* Finds the first and last moment of the data inside the split. */
static void find_moments(const struct tft_data *d, enum tft_split split, int64_t *first, int64_t *last)
{
    int64_t begin = tft_schema_split_begin(&d->schema, split);

    *first = INT64_MAX;
    *last = INT64_MIN;
    for (size_t e = 0; e < d->entity_count; e++) {
        const struct tft_entity *x = &d->entities[e];
        size_t low = tft_data_rows_before(d, e, begin), high = tft_data_rows_before(d, e, d->schema.split_end[split]);
        if (low >= high)
            continue;
        int64_t from = tft_data_time(d, e, x->first + low), to = tft_data_time(d, e, x->first + high - 1);
        *first = from < *first ? from : *first;
        *last = to > *last ? to : *last;
    }
}

static enum halay_status list_origins(struct backtest *b)
{
    const struct tft_data *d = b->data;
    enum tft_split split = b->options->split;
    int64_t last;

    if (split == TFT_TRAIN || !d->schema.has_split[split])
        return halay_fail(b->log, HALAY_ERR_CONFIG,
                          "a backtest needs a split after the training span, which '%s' is not",
                          tft_split_names[split]);
    if (d->schema.splits_by_entity)
        return halay_fail(b->log, HALAY_ERR_UNSUPPORTED,
                          "a backtest goes through moments; the splits of these data are each entity's last horizons");
    find_moments(d, split, &b->begin, &last);
    size_t steps = last < b->begin ? 0 : (size_t)tft_period_between(&d->schema.every, b->begin, last) + 1;
    if (steps < d->schema.horizon)
        return halay_fail(b->log, HALAY_ERR_FORMAT, "the data hold no window of split '%s'", tft_split_names[split]);
    b->stride = b->options->stride ? b->options->stride : d->schema.horizon;
    b->origins = (steps - d->schema.horizon) / b->stride + 1;
    b->per_fit = b->options->fit_every && b->options->fit_every < b->origins ? b->options->fit_every : b->origins;
    b->fits = (b->origins + b->per_fit - 1) / b->per_fit;
    return HALAY_OK;
}

/* ---- one fit ---- */

/* Returns the end of a split before the rolled one, moved on by this number of steps. */
static int64_t moved_end(const struct backtest *b, enum tft_split split, size_t steps)
{
    const struct tft_schema *s = &b->before;

    if (!steps)
        return s->split_end[split];
    return s->split_end[split] == tft_schema_split_begin(s, b->options->split)
               ? moment_after(b, steps)
               : tft_period_add(&s->every, s->split_end[split], (int64_t)steps);
}

/* Gives the data a schema whose earlier splits end later. */
static enum halay_status move_splits(struct backtest *b, size_t steps)
{
    struct tft_schema schema;
    json_t *document = json_deep_copy(b->before.document), *split = json_object_get(document, "split");
    int failed = !document;
    char text[48];

    for (int i = 0; i < (int)b->options->split && steps; i++) {
        if (!b->before.has_split[i])
            continue;
        memcpy(text, "< ", 3);
        tft_schema_print_time(&b->before, moved_end(b, (enum tft_split)i, steps), text + 2, sizeof text - 2);
        failed |= json_object_set_new(split, tft_split_names[i], json_string(text)) != 0;
    }
    enum halay_status status = failed ? halay_no_memory(b->log, "for the schema of a fit")
                                      : tft_schema_init(b->log, "the schema of a fit", document, &schema);
    json_decref(document);
    if (status)
        return status;
    tft_schema_fini(&b->data->schema);
    b->data->schema = schema;
    return HALAY_OK;
}

struct fit_name {
    char text[40];
};

static struct fit_name name_of_fit(size_t fit)
{
    struct fit_name name;

    snprintf(name.text, sizeof name.text, "fit-%04zu", fit + 1);
    return name;
}

/* Returns folder/fit-0001. */
static struct tft_path fit_folder(const struct backtest *b, size_t fit)
{
    return tft_path_in(b->options->folder, name_of_fit(fit).text);
}

/* before: the folder of the fit before, whose weights it starts from; NULL: none. */
static enum halay_status train_fit(struct backtest *b, const char *folder, const char *before)
{
    struct tft_run_config config = *b->config;
    int reason = 0;

    if (before && snprintf(config.init_from, sizeof config.init_from, "%s", before) > TFT_RUN_TEXT_MAX)
        return halay_fail(b->log, HALAY_ERR_CONFIG, "'%s' is too long a name", before);
    const struct tft_path checkpoints = tft_path_in(folder, "checkpoints");
    const struct tft_train_options how = { .folder = folder,
                                           .checkpoints = checkpoints.text,
                                           .holds_out = b->options->split,
                                           .resume = b->options->resume,
                                           .stop = b->options->stop,
                                           .listener = b->options->listener };
    enum halay_status status;

    if ((status = tft_train(b->log, b->ctx, &config, b->data, &how)) ||
        (status = tft_stop_share(b->ctx, b->options->stop, &reason)))
        return status;
    return reason ? HALAY_ERR_CANCELED : HALAY_OK;
}

/* Makes of what a fit added to the sums its q-risk, averaged over the targets. */
static json_t *fit_q_risk(const struct backtest *b, const struct tft_sums *before)
{
    const struct tft_forecast_scores *r = &b->evaluation.result;
    json_t *object = json_object();

    for (size_t q = 0; q < r->scores[0].quantile_count; q++) {
        double sum = 0;
        size_t scored = 0; /* targets */
        char name[32];
        for (size_t o = 0; o < r->target_count; o++) {
            const struct tft_sums *all = &r->scores[o].all;
            double size = all->size - before[o].size, loss = all->quantile_loss[q] - before[o].quantile_loss[q];
            sum += size > 0 ? 2 * loss / size : 0;
            scored += size > 0;
        }
        tft_quantile_name(r->scores[0].quantiles[q], name, sizeof name);
        json_object_set_new(object, name, scored ? json_real(sum / (double)scored) : json_null());
    }
    return object;
}

static enum halay_status describe_fit(struct backtest *b, size_t fit, long long step, size_t windows,
                                      const struct tft_sums *before)
{
    char first[40], last[40];
    size_t from = fit * b->per_fit;

    tft_schema_print_time(&b->before, moment_after(b, from * b->stride), first, sizeof first);
    tft_schema_print_time(&b->before, moment_after(b, (from + origins_of(b, fit) - 1) * b->stride), last, sizeof last);
    json_t *object =
        json_pack("{ss ss ss sI sI so}", "run", name_of_fit(fit).text, "first", first, "last", last, "windows",
                  (json_int_t)windows, "step", (json_int_t)step, "q_risk", fit_q_risk(b, before));
    return json_array_append_new(b->described, object) ? halay_no_memory(b->log, "for the result") : HALAY_OK;
}

/* Forecasts a fit's windows, and adds the scores. */
static enum halay_status add_forecasts(struct backtest *b, size_t fit, long long step, struct tft_forecaster *f)
{
    struct tft_evaluation *a = &b->evaluation;
    struct tft_sums *before = calloc(a->result.target_count, sizeof *before);
    enum halay_status status;

    if (!before)
        return halay_no_memory(b->log, "for scores");
    for (size_t o = 0; o < a->result.target_count; o++)
        before[o] = a->result.scores[o].all;
    b->file.fit = fit + 1;
    status = tft_evaluation_add(a, f, tft_forecast_file_window, &b->file);
    if (!status)
        status = describe_fit(b, fit, step, f->gather.windows->count, before);
    free(before);
    return status;
}

/* Reads, on rank 0, the calibration that the forecasts of a fit are to have, for all ranks. *document: a new reference;
 * NULL: `auto`, and the fit has none. */
static enum halay_status read_calibration(struct backtest *b, const char *folder, const struct tft_run *run,
                                          json_t **document)
{
    const int is_auto = b->config->calibrate == TFT_CALIBRATE_AUTO;
    json_t *found = NULL, *shared = NULL;
    enum halay_status status = HALAY_OK;

    if (b->rank == 0) {
        status = is_auto ? tft_calibration_find(b->log, folder, &found) : tft_calibration_read(b->log, folder, &found);
        if (is_auto && !status && !tft_calibration_suits(b->log, folder, found, run)) {
            json_decref(found);
            found = NULL;
        }
        shared = json_pack("{so?}", "calibration", found);
    }
    status = tft_share_document(b->log, b->ctx, "calibration.json", status, &shared);
    if (!status && json_is_object(json_object_get(shared, "calibration")))
        *document = json_incref(json_object_get(shared, "calibration"));
    json_decref(shared);
    return status;
}

/* Makes the calibrator of a fit, if forecasts are calibrated. */
static enum halay_status calibrate_fit(struct backtest *b, const char *folder, struct tft_inference *s)
{
    struct tft_calibration calibration;
    json_t *document = NULL;

    if (b->config->calibrate == TFT_CALIBRATE_NONE)
        return HALAY_OK;
    enum halay_status status = read_calibration(b, folder, &s->run, &document);
    if (status || !document)
        return status;
    status = tft_calibration_take(b->log, folder, document, &s->run, b->data, &calibration);
    json_decref(document);
    if (status)
        return status;
    return tft_calibrator_init(b->log, b->data, b->config->calibrate == TFT_CALIBRATE_ROLLING, &calibration,
                               &s->calibrator);
}

/* Forecasts the windows by the run that a fit left in its folder. */
static enum halay_status forecast_windows(struct backtest *b, size_t fit, const char *folder, struct tft_inference *s,
                                          const struct tft_windows *windows)
{
    struct tft_forecaster f = { 0 };
    enum halay_status status;

    if ((status = tft_pool_create(b->log, tft_trainer_threads(b->log, b->ctx, b->config), &s->pool)) ||
        (status = tft_inference_start(s)) || (status = calibrate_fit(b, folder, s)))
        return status;
    status = tft_inference_forecaster(s, windows, 0, &f);
    f.params = tft_run_future_params(&s->run); /* which has seen no row of the fit's windows */
    if (!status)
        status = add_forecasts(b, fit, s->run.step, &f);
    tft_forecaster_fini(&f);
    return status;
}

static enum halay_status forecast_fit(struct backtest *b, size_t fit, const char *folder)
{
    struct tft_inference s = { .log = b->log, .ctx = b->ctx, .stop = b->options->stop, .rank = b->rank };
    struct tft_windows windows = { 0 };
    struct tft_device device;
    size_t first = fit * b->per_fit * b->stride, last = first + (origins_of(b, fit) - 1) * b->stride;
    enum halay_status status;

    if ((status =
             tft_device_open(b->log, (enum tft_device_kind)b->config->device, halay_local_rank(b->ctx), &device)) ||
        (status = tft_run_load_shared(b->log, b->ctx, folder, &device, &s.run)))
        return status;
    status = tft_windows_init_between(b->log, b->data, b->options->split, moment_after(b, first),
                                      moment_after(b, last + b->before.horizon), b->stride, &windows);
    if (!status)
        status = forecast_windows(b, fit, folder, &s, &windows);
    tft_windows_fini(&windows);
    tft_inference_fini(&s);
    return status;
}

static enum halay_status run_fit(struct backtest *b, size_t fit)
{
    const struct tft_path folder = fit_folder(b, fit), before = fit_folder(b, fit ? fit - 1 : 0);
    const size_t steps = fit * b->per_fit * b->stride;
    char from[40];
    enum halay_status status = move_splits(b, steps);

    if (status)
        return status;
    if (b->rank == 0) {
        tft_schema_print_time(&b->before, moment_after(b, steps), from, sizeof from);
        tft_say(&b->options->listener, "fit %zu of %zu: %zu origin%s from %s on, '%s'", fit + 1, b->fits,
                origins_of(b, fit), origins_of(b, fit) == 1 ? "" : "s", from, folder.text);
    }
    if ((status = train_fit(b, folder.text, b->options->warm && fit ? before.text : NULL)))
        return status;
    return forecast_fit(b, fit, folder.text);
}

/* ---- all ---- */

/* Rank 0 begins its files; the others learn whether it could. */
static enum halay_status begin_files(struct backtest *b)
{
    enum halay_status status = HALAY_OK;

    if (b->rank == 0) {
        status = tft_make_folder(b->log, b->options->folder);
        if (!status && b->options->forecasts)
            status = halay_output_open(b->log, b->options->forecasts, &b->out);
    }
    b->file.file = b->out.file;
    tft_forecast_file_header(&b->file);
    return tft_agree(b->ctx, "backtest begins", status);
}

static enum halay_status run_fits(struct backtest *b, json_t **result)
{
    enum halay_status status;

    if ((status = list_origins(b)) ||
        (status = tft_evaluation_init(b->log, b->data, &b->config->quantiles, &b->evaluation)) ||
        (status = begin_files(b)))
        return status;
    for (size_t fit = 0; fit < b->fits; fit++)
        if ((status = run_fit(b, fit)))
            return status;
    if (b->out.file && (status = halay_output_commit(&b->out)))
        return status;
    json_t *whole = tft_evaluation_json(&b->evaluation, "backtest", b->options->split, b->stride,
                                        json_pack("{sI}", "fit_every", (json_int_t)b->options->fit_every));
    if (json_object_set(whole, "fits", b->described)) {
        json_decref(whole);
        return halay_no_memory(b->log, "for the result");
    }
    *result = whole;
    return HALAY_OK;
}

enum halay_status tft_backtest(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                               struct tft_data *data, const struct tft_backtest_options *options, json_t **result)
{
    struct backtest b = {
        .log = log,
        .ctx = ctx,
        .config = config,
        .data = data,
        .options = options,
        .rank = halay_rank(ctx),
        .file = { .data = data, .quantiles = &config->quantiles, .json = options->json, .backtest = 1 },
        .described = json_array()
    };
    data->loss = (enum tft_loss)config->loss;
    enum halay_status status = tft_schema_init(log, "schema", data->schema.document, &b.before);

    if (!status)
        status = run_fits(&b, result);
    halay_output_abort(&b.out);
    tft_evaluation_fini(&b.evaluation);
    if (b.before.document) { /* the data have their own splits again */
        tft_schema_fini(&data->schema);
        data->schema = b.before;
    }
    json_decref(b.described);
    return status;
}
