/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes over the windows. Zero-initialised object, fini accepts it half-built. Single windows come to each rank in
 * order (tft/core/score/forecast.h) and are added up on one thread.
 */
#include "tft/tools/explain/explain.h"
#include "tft/tools/explain/shares.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct tft_model_config *config_of(const struct tft_explanation *e)
{
    return tft_model_config(e->inference->run.model);
}

/* ---- memory ---- */

static enum halay_status no_memory(const struct tft_explanation *e)
{
    halay_error(e->inference->log, "no memory for the explanation of %zu entities", e->inference->data.entity_count);
    return HALAY_ERR_NO_MEMORY;
}

static enum halay_status make_room(struct tft_explanation *e)
{
    size_t entities = e->inference->data.entity_count, all = e->reader.all;
    size_t Q = config_of(e)->quantile_count, rows = 1 + TFT_EXPLAIN_QUANTILES;

    e->memory = calloc(entities + TFT_EXPLAIN_PERIODS, rows * all * sizeof *e->memory);
    e->bins = calloc(1 + TFT_EXPLAIN_PERIODS, all * TFT_SHARE_BINS * sizeof *e->bins);
    e->entities = calloc(entities, sizeof *e->entities);
    e->q_risk = calloc(1 + config_of(e)->variable_count, Q * sizeof *e->q_risk);
    if (!e->memory || !e->bins || !e->entities || !e->q_risk)
        return no_memory(e);
    for (size_t i = 0; i < entities; i++)
        e->entities[i].means = e->memory + i * rows * all;
    for (size_t i = 0; i < TFT_EXPLAIN_PERIODS; i++)
        e->periods[i].means = e->memory + (entities + i) * rows * all;
    return HALAY_OK;
}

/* The moments of the first and the last origin. */
static void find_moments(struct tft_explanation *e)
{
    const struct tft_data *d = &e->inference->data;

    e->begin = INT64_MAX;
    e->end = INT64_MIN;
    for (size_t r = 0; r < e->windows.run_count; r++) {
        const struct tft_window_run *run = &e->windows.runs[r];
        size_t count = run[1].before - run->before;
        if (!count)
            continue;
        int64_t first = tft_data_time(d, run->entity, run->origin);
        int64_t last = tft_data_time(d, run->entity, run->origin + (count - 1) * e->windows.stride);
        e->begin = first < e->begin ? first : e->begin;
        e->end = last > e->end ? last : e->end;
    }
}

/* Series of entities that are spread over all with windows. */
static enum halay_status choose_series(struct tft_explanation *e)
{
    size_t n = e->inference->data.entity_count, chosen = SIZE_MAX;

    for (size_t k = 0; k < TFT_EXPLAIN_SERIES; k++) {
        size_t entity = n > TFT_EXPLAIN_SERIES ? k * n / TFT_EXPLAIN_SERIES : k;
        if (entity >= n || entity == chosen)
            continue;
        chosen = entity;
        size_t count = tft_windows_before(&e->windows, entity + 1) - tft_windows_before(&e->windows, entity);
        struct tft_explained_series *s = &e->series[e->series_count];
        *s = (struct tft_explained_series){ .entity = entity,
                                            .room = count,
                                            .values = calloc(count + 1, sizeof *s->values),
                                            .distances = calloc(count + 1, sizeof *s->distances) };
        e->series_count++;
        if (!s->values || !s->distances || tft_single_init(&e->layout, &e->reader, &s->farthest))
            return no_memory(e);
    }
    return HALAY_OK;
}

/* Single forecasts to keep. */
static enum halay_status choose_singles(struct tft_explanation *e)
{
    if (tft_single_init(&e->layout, &e->reader, &e->worst) || tft_single_init(&e->layout, &e->reader, &e->best) ||
        tft_single_init(&e->layout, &e->reader, &e->asked))
        return no_memory(e);
    e->asked_number = SIZE_MAX;
    if (!e->request->single)
        return HALAY_OK;
    return tft_single_find(e->inference->log, &e->windows, e->request->single, &e->asked_number);
}

void tft_explanation_fini(struct tft_explanation *e)
{
    halay_output_abort(&e->table);
    for (size_t k = 0; k < TFT_EXPLAIN_SERIES; k++) {
        free(e->series[k].values);
        free(e->series[k].distances);
        tft_single_fini(&e->series[k].farthest);
    }
    tft_single_fini(&e->worst);
    tft_single_fini(&e->best);
    tft_single_fini(&e->asked);
    free(e->memory);
    free(e->bins);
    free(e->entities);
    free(e->q_risk);
    tft_weight_sums_fini(&e->sums);
    tft_weight_reader_fini(&e->reader);
    tft_windows_fini(&e->windows);
    *e = (struct tft_explanation){ 0 };
}

/* ---- windows ---- */

static void add_weights(void *arg, const struct tft_forecast_granule *granule)
{
    struct tft_explanation *e = arg;
    tft_weight_sums_add(&e->sums, granule);
}

static enum halay_status take_nothing(void *arg, size_t position, const struct tft_window *window, const float *p)
{
    (void)arg, (void)position, (void)window, (void)p;
    return HALAY_OK;
}

static void measure_granule(void *arg, const struct tft_forecast_granule *granule)
{
    struct tft_explanation *e = arg;
    const struct tft_weights *w = tft_weight_reader_read(&e->reader, granule);

    for (size_t b = 0; b < granule->batch->B; b++)
        tft_single_measure(&e->layout, &e->sums, w, granule, b);
}

/* Returns the counts of the windows of `binned` (row 0) or of a period (from row 1 on). */
static int64_t *bins_at(const struct tft_explanation *e, size_t row)
{
    return e->bins + row * e->reader.all * TFT_SHARE_BINS;
}

static void find_quantiles(const struct tft_explanation *e, const int64_t *bins, const struct tft_explained *of)
{
    static const double quantiles[TFT_EXPLAIN_QUANTILES] = { .1, .5, .9 };
    size_t all = e->reader.all;

    for (size_t q = 0; q < TFT_EXPLAIN_QUANTILES; q++)
        for (size_t j = 0; j < all; j++)
            of->means[(1 + q) * all + j] = tft_share_quantile(bins + j * TFT_SHARE_BINS, quantiles[q]);
}

/* Ends the entity of `binned`, all of whose windows were added; the next are another entity's. */
static void end_entity(struct tft_explanation *e, size_t next)
{
    find_quantiles(e, e->bins, &e->entities[e->binned]);
    memset(e->bins, 0, e->reader.all * TFT_SHARE_BINS * sizeof *e->bins);
    e->binned = next;
}

static void add_window(struct tft_explained *to, int64_t *bins, const struct tft_explanation *e, const float *means,
                       double distance)
{
    to->windows++;
    to->regimes += distance > e->request->distance;
    to->distance += distance;
    to->most = fmax(to->most, distance);
    for (size_t j = 0; j < e->reader.all; j++) {
        to->means[j] += (double)means[j];
        bins[j * TFT_SHARE_BINS + tft_share_bin(means[j])]++;
    }
}

static double mean_target(const struct tft_data *d, const struct tft_window *w)
{
    size_t O = d->schema.target_count, n = 0;
    double sum = 0;

    for (size_t row = w->origin; row < w->origin + d->schema.horizon; row++)
        if (d->present[row * O]) {
            sum += d->target[row * O];
            n++;
        }
    return n ? sum / (double)n : NAN;
}

/* Put a window into the list of the farthest, if it is one of them. */
static void note_distance(struct tft_explanation *e, const struct tft_window *window, double distance)
{
    size_t at = e->farthest_count;

    e->distances[tft_share_bin((float)distance)]++;
    while (at > 0 && distance > e->farthest[at - 1].distance)
        at--;
    if (at == TFT_FARTHEST)
        return;
    e->farthest_count += e->farthest_count < TFT_FARTHEST;
    memmove(e->farthest + at + 1, e->farthest + at, (e->farthest_count - at - 1) * sizeof *e->farthest);
    e->farthest[at] = (struct tft_far){ *window, distance };
}

/* number: the window's among all. */
static void keep_singles(struct tft_explanation *e, size_t number, const struct tft_window *window, const float *p)
{
    double error = tft_single_error(&e->inference->data, &e->inference->run.config.quantiles, window, p);

    tft_single_offer(&e->worst, &e->layout, &e->sums, window, p, error);
    tft_single_offer(&e->best, &e->layout, &e->sums, window, p, -error);
    if (number == e->asked_number)
        tft_single_offer(&e->asked, &e->layout, &e->sums, window, p, 0);
}

static enum halay_status take_window(void *arg, size_t position, const struct tft_window *window, const float *p)
{
    struct tft_explanation *e = arg;
    const struct tft_data *d = &e->inference->data;
    const float *means = p + e->layout.means;
    double distance = (double)p[e->layout.distance];
    int64_t moment = tft_data_time(d, window->entity, window->origin);
    double part = ((double)moment - (double)e->begin) / ((double)e->end - (double)e->begin + 1);
    size_t period = (size_t)(part * TFT_EXPLAIN_PERIODS);

    if (window->entity != e->binned)
        end_entity(e, window->entity);
    add_window(&e->entities[window->entity], e->bins, e, means, distance);
    add_window(&e->periods[period], bins_at(e, 1 + period), e, means, distance);
    for (size_t k = 0; k < e->series_count; k++) {
        struct tft_explained_series *s = &e->series[k];
        if (s->entity == window->entity && s->count < s->room) {
            s->values[s->count] = mean_target(d, window);
            s->distances[s->count++] = distance;
            tft_single_offer(&s->farthest, &e->layout, &e->sums, window, p, distance);
        }
    }
    note_distance(e, window, distance);
    keep_singles(e, e->before + position, window, p);
    tft_explain_tables_window(e, window, means, distance);
    return HALAY_OK;
}

/* A forecaster's windows: those of entities [first, first + count). */
static size_t choose_entities(struct tft_explanation *e, struct tft_forecaster *f, size_t first, size_t count)
{
    f->gather.base = tft_windows_before(&e->windows, first);
    return tft_windows_before(&e->windows, first + count) - f->gather.base;
}

/* Runs both passes over the windows of a batch of entities. */
static enum halay_status explain_entities(struct tft_explanation *e, struct tft_forecaster *add,
                                          struct tft_forecaster *see, size_t first, size_t count,
                                          struct tft_forecast_scores *scores)
{
    size_t n = choose_entities(e, add, first, count);

    choose_entities(e, see, first, count);
    e->before = see->gather.base;
    tft_weight_sums_begin(&e->sums, first, count);
    enum halay_status status = tft_forecast(add, n, take_nothing, NULL);
    if (!status)
        status = tft_weight_sums_end(&e->sums, e->inference->ctx);
    return status ? status : tft_forecast_scores_add(see, n, NULL, take_window, e, scores);
}

static void keep_q_risk(const struct tft_explanation *e, const struct tft_forecast_scores *scores, size_t row)
{
    size_t Q = config_of(e)->quantile_count;

    for (size_t q = 0; q < Q; q++)
        e->q_risk[row * Q + q] = tft_scores_mean_q_risk(scores->scores, scores->target_count, q);
}

static enum halay_status explain_all(struct tft_explanation *e)
{
    struct tft_inference *s = e->inference;
    const struct tft_list *q = &s->run.config.quantiles;
    struct tft_forecaster add = { 0 }, see = { 0 };
    struct tft_forecast_scores scores = { 0 };
    size_t entities = s->data.entity_count, most = e->sums.most;
    enum halay_status status = tft_inference_forecaster(s, &e->windows, 0, &add);

    if (!status)
        status = tft_inference_forecaster(s, &e->windows, e->layout.end - e->layout.forecast, &see);
    add.look = add_weights;
    see.look = measure_granule;
    add.look_arg = see.look_arg = e;
    if (!status)
        status = tft_forecast_scores_init(s->log, q->values, q->count, &s->data, entities, &scores);
    for (size_t first = 0; first < entities && !status; first += most)
        status = explain_entities(e, &add, &see, first, entities - first < most ? entities - first : most, &scores);
    end_entity(e, 0);
    for (size_t i = 0; i < TFT_EXPLAIN_PERIODS; i++)
        find_quantiles(e, bins_at(e, 1 + i), &e->periods[i]);
    if (!status)
        status = tft_weight_sums_join(&e->sums, s->ctx);
    if (!status)
        keep_q_risk(e, &scores, 0);
    tft_forecast_scores_fini(&scores);
    tft_forecaster_fini(&add);
    tft_forecaster_fini(&see);
    return status;
}

/* ---- occlusion ---- */

/* The schema's input of a model's variable. */
static size_t input_of(const struct tft_explanation *e, size_t variable)
{
    const struct tft_schema *s = &e->inference->data.schema;
    size_t i = 0;

    while (i + 1 < s->input_count && strcmp(s->inputs[i].name, config_of(e)->variables[variable].name) != 0)
        i++;
    return i;
}

static enum halay_status forecast_without(struct tft_explanation *e, size_t variable)
{
    struct tft_inference *s = e->inference;
    struct tft_occlusion occlusion = { 0 };
    struct tft_forecaster f = { 0 };
    struct tft_forecast_scores scores = { 0 };
    enum halay_status status = tft_occlusion_init(s->log, &s->data, input_of(e, variable), &occlusion);

    if (!status)
        status = tft_inference_forecaster(s, &e->windows, 0, &f);
    f.gather.occlusion = &occlusion;
    if (!status)
        status = tft_forecast_scores_of(&f, e->windows.count, &scores);
    if (!status)
        keep_q_risk(e, &scores, 1 + variable);
    tft_forecast_scores_fini(&scores);
    tft_forecaster_fini(&f);
    tft_occlusion_fini(&occlusion);
    return status;
}

/* ---- all ---- */

enum halay_status tft_explanation_init(struct tft_inference *s, const struct tft_explain_request *request,
                                       struct tft_explanation *e)
{
    *e = (struct tft_explanation){ .inference = s, .request = request };
    enum halay_status status =
        tft_windows_init(s->log, &s->data, request->windows.split, request->windows.stride, &e->windows);

    if (!status && !e->windows.count) {
        halay_error(s->log, "the data hold no window of split '%s'", tft_split_names[request->windows.split]);
        status = HALAY_ERR_FORMAT;
    }
    if (!status)
        status = tft_weight_reader_init(s->log, s->run.model, (size_t)tft_pool_threads(s->pool), &e->reader);
    if (!status)
        status = tft_weight_sums_init(s->log, &e->reader, s->data.entity_count, &e->sums);
    if (!status)
        status = make_room(e);
    if (!status) {
        e->layout = tft_single_layout_of(&e->reader,
                                         config_of(e)->D * s->data.schema.target_count * config_of(e)->quantile_count);
        status = choose_series(e);
    }
    if (!status)
        status = choose_singles(e);
    if (!status)
        status = tft_explain_tables_open(e);
    if (!status) {
        find_moments(e);
        status = explain_all(e);
    }
    for (size_t i = 0; i < config_of(e)->variable_count && request->has_occlusion && !status; i++)
        status = forecast_without(e, i);
    return status ? status : tft_explain_tables_close(e);
}

double tft_explanation_mean(const struct tft_explanation *e, int choice, size_t j)
{
    int64_t sum = 0, n = 0;

    for (size_t t = 0; t < tft_weight_steps(&e->reader, choice); t++) {
        sum += e->sums.steps[choice][t * e->reader.V[choice] + j];
        n += tft_weight_sums_windows(&e->sums, choice, t);
    }
    return tft_share_mean(sum, n);
}

void tft_explanation_importance(const struct tft_explanation *e, double *importance)
{
    const struct tft_weight_reader *r = &e->reader;

    memset(importance, 0, config_of(e)->variable_count * sizeof *importance);
    for (int choice = 0; choice < TFT_CHOICES; choice++)
        for (size_t j = 0; j < r->V[choice]; j++)
            importance[r->variables[choice][j]] +=
                tft_explanation_mean(e, choice, j) *
                (choice == TFT_CHOICE_STATIC ? 1 : (double)tft_weight_steps(r, choice) / (double)r->T);
}

double tft_explanation_lag(const struct tft_explanation *e, size_t head, size_t lag)
{
    size_t E = e->reader.E, D = e->reader.D, T = e->reader.T, n = 0;
    double sum = 0;

    for (size_t h = 0; h < D; h++) {
        if (E + h < lag || !e->sums.seen[E + h - lag])
            continue;
        size_t at = E + h - lag;
        sum += tft_share_mean(e->sums.attention[(head * D + h) * T + at], e->sums.seen[at]);
        n++;
    }
    return n ? sum / (double)n : NAN;
}
