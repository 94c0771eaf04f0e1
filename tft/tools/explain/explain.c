/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes over the windows, and the call. A pass that only lists the windows stays open throughout, and keeps the
 * data in use. Windows come to each rank in order and are added up on one thread. What one rank alone may fail in is
 * agreed on before the next pass. Zero-initialised object, explanation_fini accepts it half-built.
 */
#include "tft/tools/explain/explain.h"
#include "base/document.h"
#include "base/error_text.h"
#include "base/struct_size.h"
#include "tft/tools/report/page.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A window belongs to another regime if its attention is farther than this from its entity's mean: the published
 * threshold. */
static const double default_regime = .3;

const char *const tft_weighed_parts[TFT_WEIGHED_PARTS] = { "static", "past", "future" };

/* ---- the model --------------------------------------------------------------------------------------------------- */

static size_t size_at(const json_t *about, const char *key)
{
    return (size_t)json_integer_value(json_object_get(about, key));
}

static enum halay_status read_model(struct tft_explanation *e)
{
    struct tft_weighed *of = &e->of;
    char *text;
    enum halay_status status = halay_tft_model_describe(e->model, &text);

    if (status)
        return status;
    of->about = json_loads(text, 0, NULL);
    halay_tft_free(text);
    if (!of->about)
        return halay_no_memory(e->log, "for the explanation of a model");
    of->E = of->steps[TFT_WEIGHED_PAST] = size_at(of->about, "encoder");
    of->D = of->steps[TFT_WEIGHED_FUTURE] = size_at(of->about, "horizon");
    of->T = of->E + of->D;
    of->steps[TFT_WEIGHED_STATIC] = 1;
    of->heads = size_at(of->about, "heads");
    for (int part = 0; part < TFT_WEIGHED_PARTS; part++) {
        of->selected[part] = json_object_get(json_object_get(of->about, "selected"), tft_weighed_parts[part]);
        of->all += of->V[part] = json_array_size(of->selected[part]);
    }
    e->target_count = json_array_size(json_object_get(of->about, "targets"));
    e->quantile_count = json_array_size(json_object_get(of->about, "quantiles"));
    return HALAY_OK;
}

const json_t *tft_explanation_inputs(const struct tft_explanation *e)
{
    return json_object_get(e->of.about, "inputs");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void single_init(struct tft_explanation *e, struct tft_single *s)
{
    const size_t T = e->of.T, values = e->of.D * e->target_count * e->quantile_count;

    s->weights = halay_region_alloc(&e->memory, e->of.all, sizeof *s->weights);
    s->lags = halay_region_alloc(&e->memory, T, sizeof *s->lags);
    s->usual = halay_region_alloc(&e->memory, T, sizeof *s->usual);
    s->places = halay_region_alloc(&e->memory, T, sizeof *s->places);
    s->values = halay_region_alloc(&e->memory, values, sizeof *s->values);
}

/* Chooses series of entities that are spread over all with windows. */
static void choose_series(struct tft_explanation *e, struct halay_tft_pass *list)
{
    size_t n = e->entity_count, chosen = SIZE_MAX;

    for (size_t k = 0; k < TFT_EXPLAIN_SERIES; k++) {
        size_t entity = n > TFT_EXPLAIN_SERIES ? k * n / TFT_EXPLAIN_SERIES : k;
        if (entity >= n || entity == chosen)
            continue;
        chosen = entity;
        struct tft_explained_series *s = &e->series[e->series_count++];
        s->entity = entity;
        s->room = halay_tft_pass_seek(list, entity, 1);
        s->values = halay_region_alloc(&e->memory, s->room, sizeof *s->values);
        s->distances = halay_region_alloc(&e->memory, s->room, sizeof *s->distances);
        single_init(e, &s->farthest);
    }
}

static enum halay_status make_room(struct tft_explanation *e, struct halay_tft_pass *list)
{
    const size_t all = e->of.all, rows = 1 + TFT_EXPLAIN_QUANTILES, entities = e->entity_count;
    const size_t inputs = json_array_size(tft_explanation_inputs(e));
    double *means = halay_region_alloc(&e->memory, entities + TFT_EXPLAIN_PERIODS, rows * all * sizeof *means);

    e->bins = halay_region_alloc(&e->memory, 1 + TFT_EXPLAIN_PERIODS, all * TFT_SHARE_BINS * sizeof *e->bins);
    e->entities = halay_region_alloc(&e->memory, entities, sizeof *e->entities);
    e->quantiles = halay_region_alloc(&e->memory, e->quantile_count, sizeof *e->quantiles);
    e->q_risk = halay_region_alloc(&e->memory, 1 + inputs, e->quantile_count * sizeof *e->q_risk);
    e->weights = halay_region_alloc(&e->memory, 4 * inputs, sizeof *e->weights);
    e->changes = e->weights + inputs;
    e->compared[0] = e->changes + inputs;
    e->compared[1] = e->compared[0] + inputs;
    tft_weight_sums_init(&e->of, entities, &e->memory, &e->sums);
    choose_series(e, list);
    single_init(e, &e->worst);
    single_init(e, &e->best);
    single_init(e, &e->asked);
    if (e->memory.failed)
        return halay_no_memory(e->log, "for the explanation of %zu entities", entities);
    for (size_t i = 0; i < entities; i++)
        e->entities[i].means = means + i * rows * all;
    for (size_t i = 0; i < TFT_EXPLAIN_PERIODS; i++)
        e->periods[i].means = means + (entities + i) * rows * all;
    for (size_t q = 0; q < e->quantile_count; q++) {
        e->quantiles[q] = json_number_value(json_array_get(json_object_get(e->of.about, "quantiles"), q));
        if (fabs(e->quantiles[q] - .5) < fabs(e->quantiles[e->median] - .5))
            e->median = q;
    }
    return HALAY_OK;
}

static void explanation_fini(struct tft_explanation *e)
{
    halay_output_abort(&e->table);
    tft_weight_sums_fini(&e->sums);
    json_decref(e->of.about);
    halay_region_fini(&e->memory);
}

/* ---- the list of windows ----------------------------------------------------------------------------------------- */

static int names_moment(const char *text, const char *moment)
{
    size_t n = strlen(text);

    return n && !strncmp(text, moment, n) && !(moment[n] >= '0' && moment[n] <= '9');
}

static int names_entity(const char *text, const char *comma, const char *entity)
{
    return strlen(entity) == (size_t)(comma - text) && !strncmp(entity, text, (size_t)(comma - text));
}

/* Notes the window if "ENTITY,TIME" names it, by its origin or the beginning of that, up to the end of a word. first:
 * gets the origin of the entity's first window. */
static void look_for_asked(struct tft_explanation *e, const struct halay_tft_forecast *w, char *first)
{
    const char *text = e->given.window, *comma = text ? strrchr(text, ',') : NULL;
    char moment[TFT_TIME_MAX];

    if (!comma || e->asked_number != SIZE_MAX || !names_entity(text, comma, w->entity))
        return;
    halay_tft_data_print_time(e->data, w->origin, moment);
    if (names_moment(comma + 1, moment))
        e->asked_number = e->windows;
    if (!*first)
        snprintf(first, TFT_TIME_MAX, "%s", moment);
}

static enum halay_status refuse_asked(const struct tft_explanation *e, const char *first)
{
    const char *text = e->given.window, *comma = strrchr(text, ','), *entity;
    int is_known = 0;

    for (size_t i = 0; comma && (entity = halay_tft_data_entity(e->data, i, NULL)); i++)
        is_known |= names_entity(text, comma, entity);
    if (!comma)
        return halay_fail(e->log, HALAY_ERR_CONFIG,
                          "'--window %s' names no window: write its entity, a comma, and its origin", text);
    if (!is_known)
        return halay_fail(e->log, HALAY_ERR_CONFIG, "'--window %s' names no window: the data have no entity '%.*s'",
                          text, (int)(comma - text), text);
    return halay_fail(e->log, HALAY_ERR_CONFIG,
                      "'--window %s' names no window: that entity's first one has the origin '%s', the others are %zu "
                      "steps apart (--stride)",
                      text, first, e->given.stride);
}

/* Counts the windows, and finds the moments of the first and the last, and the window that is asked for. */
static enum halay_status list_windows(struct tft_explanation *e, struct halay_tft_pass *list)
{
    const struct halay_tft_forecast *w = NULL;
    char first[TFT_TIME_MAX] = "";
    enum halay_status status;

    e->begin = INT64_MAX;
    e->end = INT64_MIN;
    e->asked_number = SIZE_MAX;
    for (; !(status = halay_tft_pass_next(list, &w)) && w; e->windows++) {
        e->begin = w->times[0] < e->begin ? w->times[0] : e->begin;
        e->end = w->times[0] > e->end ? w->times[0] : e->end;
        look_for_asked(e, w, first);
    }
    if (status)
        return status;
    if (!e->windows)
        return halay_fail(e->log, HALAY_ERR_FORMAT, "the data hold no window of split '%s'", e->given.split);
    return e->given.window && e->asked_number == SIZE_MAX ? refuse_asked(e, first) : HALAY_OK;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static void add_weights(void *arg, const struct halay_tft_weights *weights, float *numbers)
{
    struct tft_explanation *e = arg;

    (void)numbers;
    tft_weight_sums_add(&e->sums, weights);
}

/* A window's numbers: the distance of its attention from its entity's mean, then (T) its attention to each step, mean
 * over the heads and the horizon. */
static void measure_window(void *arg, const struct halay_tft_weights *weights, float *numbers)
{
    const struct tft_explanation *e = arg;

    numbers[0] = (float)tft_weight_sums_distance(&e->sums, weights);
    for (size_t t = 0; t < e->of.T; t++) {
        double sum = 0;
        for (size_t h = 0; h < e->of.D; h++)
            sum += tft_weighed_attention(&e->of, weights, h, t);
        numbers[1 + t] = (float)(sum / (double)e->of.D);
    }
}

/* Returns the counts of the windows of `binned` (row 0) or of a period (from row 1 on). */
static int64_t *bins_at(const struct tft_explanation *e, size_t row)
{
    return e->bins + row * e->of.all * TFT_SHARE_BINS;
}

static void find_quantiles(const struct tft_explanation *e, const int64_t *bins, const struct tft_explained *of)
{
    static const double quantiles[TFT_EXPLAIN_QUANTILES] = { .1, .5, .9 };
    const size_t all = e->of.all;

    for (size_t q = 0; q < TFT_EXPLAIN_QUANTILES; q++)
        for (size_t j = 0; j < all; j++)
            of->means[(1 + q) * all + j] = tft_share_quantile(bins + j * TFT_SHARE_BINS, quantiles[q]);
}

/* Ends the entity of `binned`, all of whose windows were added; the next are another entity's. */
static void end_entity(struct tft_explanation *e, size_t next)
{
    find_quantiles(e, e->bins, &e->entities[e->binned]);
    memset(e->bins, 0, e->of.all * TFT_SHARE_BINS * sizeof *e->bins);
    e->binned = next;
}

static void add_window(const struct tft_explanation *e, struct tft_explained *to, int64_t *bins, const double *weights,
                       double distance)
{
    to->windows++;
    to->regimes += distance > e->given.regime;
    to->distance += distance;
    to->most = fmax(to->most, distance);
    for (size_t j = 0; j < e->of.all; j++) {
        to->means[j] += weights[j];
        bins[j * TFT_SHARE_BINS + tft_share_bin((float)weights[j])]++;
    }
}

/* Puts a window into the list of the farthest, if it is one of them. */
static void note_distance(struct tft_explanation *e, const struct halay_tft_forecast *w, double distance)
{
    size_t at = e->farthest_count;

    e->distances[tft_share_bin((float)distance)]++;
    while (at > 0 && distance > e->farthest[at - 1].distance)
        at--;
    if (at == TFT_FARTHEST)
        return;
    e->farthest_count += e->farthest_count < TFT_FARTHEST;
    memmove(e->farthest + at + 1, e->farthest + at, (e->farthest_count - at - 1) * sizeof *e->farthest);
    e->farthest[at] = (struct tft_far){ w->number, w->origin, distance };
}

/* Returns a mean over what was measured of the first target; NaN if nothing was. is_error: of the distance from the
 * median; otherwise of the values. */
static double mean_of_target(const struct tft_explanation *e, const struct halay_tft_forecast *w, int is_error)
{
    const size_t O = w->target_count, Q = w->quantile_count;
    double sum = 0;
    size_t n = 0;

    for (size_t h = 0; h < w->horizon; h++) {
        const double y = w->actuals[h * O];
        if (isnan(y))
            continue;
        sum += is_error ? fabs(y - w->values[h * O * Q + e->median]) : y;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

/* Returns the distance of a forecast's median from the measured targets, scaled, as their mean; NAN without any. */
static double scaled_error(const struct tft_explanation *e, const struct halay_tft_forecast *w)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < w->horizon * w->target_count; i++) {
        if (isnan(w->scaled_actuals[i]))
            continue;
        sum += fabs(w->scaled_actuals[i] - (double)w->scaled[i * w->quantile_count + e->median]) /
               w->scales[i % w->target_count];
        n++;
    }
    return n ? sum / (double)n : NAN;
}

/* Keeps a window if nothing is kept yet, or if its value is larger; a NaN value is not kept. Returns nonzero if it is
 * kept. */
static int offer_single(const struct tft_explanation *e, struct tft_single *s, const struct halay_tft_forecast *w,
                        double value)
{
    const size_t T = e->of.T, values = w->horizon * w->target_count * w->quantile_count;

    if (isnan(value) || (s->has_window && value <= s->value))
        return 0;
    s->has_window = 1;
    s->value = value;
    s->distance = (double)w->numbers[0];
    s->mae = mean_of_target(e, w, 1);
    s->entity = w->number;
    s->past = w->past;
    s->row = w->row;
    s->origin = w->origin;
    s->begin = w->times[0];
    memcpy(s->weights, w->weights, e->of.all * sizeof *s->weights);
    memcpy(s->lags, w->lags, T * sizeof *s->lags);
    memcpy(s->places, w->numbers + 1, T * sizeof *s->places);
    memcpy(s->values, w->values, values * sizeof *s->values);
    tft_weight_sums_usual(&e->sums, w->number, s->usual);
    return 1;
}

static void add_to_series(const struct tft_explanation *e, struct tft_explained_series *s,
                          const struct halay_tft_forecast *w, double distance)
{
    if (s->entity != w->number || s->count == s->room)
        return;
    if (!s->count)
        s->from = w->origin;
    s->until = w->origin;
    s->values[s->count] = mean_of_target(e, w, 0);
    s->distances[s->count] = distance;
    if (offer_single(e, &s->farthest, w, distance))
        s->farthest_at = s->count;
    s->count++;
}

static void take_window(struct tft_explanation *e, const struct halay_tft_forecast *w)
{
    const double distance = (double)w->numbers[0], error = scaled_error(e, w);
    const double part = ((double)w->times[0] - (double)e->begin) / ((double)e->end - (double)e->begin + 1);
    const size_t period = (size_t)(part * TFT_EXPLAIN_PERIODS);

    if (w->number != e->binned)
        end_entity(e, w->number);
    add_window(e, &e->entities[w->number], e->bins, w->weights, distance);
    add_window(e, &e->periods[period], bins_at(e, 1 + period), w->weights, distance);
    for (size_t k = 0; k < e->series_count; k++)
        add_to_series(e, &e->series[k], w, distance);
    note_distance(e, w, distance);
    offer_single(e, &e->worst, w, error);
    offer_single(e, &e->best, w, -error);
    if (e->taken++ == e->asked_number)
        offer_single(e, &e->asked, w, 0);
    tft_explain_tables_window(e, w, distance);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Returns a pass over the windows that are explained. */
static struct halay_tft_pass_options pass_over(const struct tft_explanation *e)
{
    return (struct halay_tft_pass_options){ .struct_size = sizeof(struct halay_tft_pass_options),
                                            .split = e->given.split,
                                            .stride = e->given.stride,
                                            .calibrate = "none" };
}

/* Forecasts all windows of a pass for what it measures. */
static enum halay_status run_pass(struct halay_tft_pass *pass)
{
    const struct halay_tft_forecast *w = NULL;
    enum halay_status status;

    while (!(status = halay_tft_pass_next(pass, &w)) && w)
        ;
    return status;
}

/* Runs both passes over the windows of a batch of entities. */
static enum halay_status explain_entities(struct tft_explanation *e, struct halay_tft_pass *add,
                                          struct halay_tft_pass *see, size_t first, size_t count)
{
    const struct halay_tft_forecast *w = NULL;
    enum halay_status status;

    tft_weight_sums_begin(&e->sums, first, count);
    halay_tft_pass_seek(add, first, count);
    halay_tft_pass_seek(see, first, count);
    if ((status = run_pass(add)) || (status = tft_weight_sums_end(&e->sums, e->ctx)))
        return status;
    while (!(status = halay_tft_pass_next(see, &w)) && w)
        take_window(e, w);
    return status;
}

static enum halay_status explain_all(struct tft_explanation *e)
{
    struct halay_tft_pass_options of_add = pass_over(e), of_see = of_add;
    struct halay_tft_pass *add = NULL, *see = NULL;
    const size_t entities = e->entity_count, most = e->sums.most;
    enum halay_status status;

    of_add.arg = of_see.arg = e;
    of_add.measure = add_weights;
    of_see.measure = measure_window;
    of_see.number_count = 1 + e->of.T;
    of_see.explains = 1;
    if ((status = halay_tft_pass_open(e->model, e->data, &of_add, &add)) ||
        (status = halay_tft_pass_open(e->model, e->data, &of_see, &see)))
        goto close;
    for (size_t first = 0; first < entities; first += most)
        if ((status = explain_entities(e, add, see, first, entities - first < most ? entities - first : most)))
            goto close;
    end_entity(e, 0);
    for (size_t i = 0; i < TFT_EXPLAIN_PERIODS; i++)
        find_quantiles(e, bins_at(e, 1 + i), &e->periods[i]);
    halay_tft_pass_q_risk(see, e->q_risk);
    status = tft_weight_sums_join(&e->sums, e->ctx);
close:
    halay_tft_pass_close(add);
    halay_tft_pass_close(see);
    return status;
}

/* Forecasts all windows without each of the model's inputs. */
static enum halay_status check_weights(struct tft_explanation *e)
{
    struct halay_tft_pass_options without = pass_over(e);
    const json_t *input;
    size_t i;

    json_array_foreach(tft_explanation_inputs(e), i, input) {
        struct halay_tft_pass *pass = NULL;
        without.without = json_string_value(json_object_get(input, "name"));
        enum halay_status status = halay_tft_pass_open(e->model, e->data, &without, &pass);
        if (!status)
            status = run_pass(pass);
        if (!status)
            halay_tft_pass_q_risk(pass, e->q_risk + (1 + i) * e->quantile_count);
        halay_tft_pass_close(pass);
        if (status)
            return status;
    }
    return HALAY_OK;
}

static enum halay_status explain_windows(struct tft_explanation *e)
{
    struct halay_tft_pass_options listed = pass_over(e);
    struct halay_tft_pass *list = NULL;
    enum halay_status status;

    listed.is_list = 1;
    if ((status = halay_tft_pass_open(e->model, e->data, &listed, &list)))
        return status;
    if (!(status = list_windows(e, list)) && !(status = make_room(e, list)))
        status = tft_explain_tables_open(e);
    if ((status = halay_tft_agree(halay_tft_model_session(e->model), status)) || (status = explain_all(e)))
        goto close;
    if (e->given.has_occlusion && (status = check_weights(e)))
        goto close;
    status = tft_explain_tables_close(e);
close:
    halay_tft_pass_close(list);
    return status;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* Files of the result, which rank 0 writes. */
struct result_files {
    struct halay_output json, page;
};

static enum halay_status read_windows(struct tft_explanation *e, const struct halay_tft_windows *windows)
{
    struct halay_tft_windows *g = &e->given;
    enum halay_status status = HALAY_OK;

    if (windows)
        status = halay_struct_read(e->log, "halay_tft_windows", windows,
                                   offsetof(struct halay_tft_windows, has_pictures), sizeof *g, g);
    if (status)
        return status;
    if (!g->stride)
        g->stride = e->of.D;
    if (g->regime <= 0)
        g->regime = g->regime < 0 ? 0 : default_regime;
    return HALAY_OK;
}

/* Opens what this rank alone may fail in: a table that is read as data (*read), and the files. */
static enum halay_status open_all(struct tft_explanation *e, struct halay_tft_data **read, struct result_files *files)
{
    const struct halay_tft_windows *g = &e->given;
    enum halay_status status;

    if (!e->data == !g->table)
        return halay_fail(e->log, HALAY_ERR_ARGUMENT, "give either data or a table to score");
    if (g->table && (status = halay_tft_model_read(e->model, g->table, 0, NULL, read)))
        return status;
    if (g->table)
        e->data = *read;
    if (e->is_first && g->file && (status = halay_output_open(e->log, g->file, &files->json)))
        return status;
    return e->is_first && g->page ? halay_output_open(e->log, g->page, &files->page) : HALAY_OK;
}

/* Chooses the split test, or the validation windows, with a warning, if the data have no test split. */
static enum halay_status choose_split(struct tft_explanation *e)
{
    struct halay_tft_extent extent = { .struct_size = sizeof extent };
    enum halay_status status = halay_tft_data_extent(e->data, &extent);

    if (status)
        return status;
    e->entity_count = extent.entities;
    if (!e->given.split)
        e->given.split = "test";
    if (strcmp(e->given.split, "test") != 0 || extent.test_end != INT64_MIN || extent.valid_end == INT64_MIN)
        return HALAY_OK;
    e->given.split = "valid";
    if (e->is_first)
        halay_warning(e->log, "the data have no test split: these are the validation windows, by which training chose "
                              "its parameters ('prepare --test' holds one back)");
    return HALAY_OK;
}

/* Gives the explanation's document, in the files and as a text. */
static enum halay_status give_result(const struct tft_explanation *e, struct result_files *files, char **json)
{
    json_t *result = tft_explanation_json(e);
    enum halay_status status = HALAY_OK;

    if (!result)
        return halay_no_memory(e->log, "for the explanation");
    if (e->given.has_pictures || files->page.file)
        status = tft_explanation_pictures(e, result);
    if (!status && files->page.file) {
        tft_page_write(files->page.file, result);
        status = halay_output_commit(&files->page);
    }
    if (!e->given.has_pictures)
        json_object_del(result, "pictures");
    if (!status && files->json.file)
        status = halay_document_commit(&files->json, result);
    if (!status && !(*json = json_dumps(result, JSON_COMPACT)))
        status = halay_no_memory(e->log, "for a description");
    json_decref(result);
    return status;
}

enum halay_status halay_tft_explain(struct halay_tft_model *model, struct halay_tft_data *data,
                                    const struct halay_tft_windows *windows, char **json)
{
    struct tft_explanation e = { .model = model, .data = data };
    struct result_files files = { 0 };
    struct halay_tft_data *read = NULL;

    if (!model || !json)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_tft_explain: an argument is NULL");
    struct halay_tft *t = halay_tft_model_session(model);
    enum halay_status status = halay_tft_join(t);
    if (status)
        return status;
    e.ctx = halay_tft_context(t);
    e.is_first = halay_rank(e.ctx) == 0;
    e.log = halay_tft_log(t);
    *json = NULL;
    if (!(status = read_model(&e)) && !(status = read_windows(&e, windows)))
        status = open_all(&e, &read, &files);
    if ((status = halay_tft_agree(t, status)) || (status = choose_split(&e)) || (status = explain_windows(&e)))
        goto close;
    if (e.is_first)
        status = give_result(&e, &files, json);
close:
    halay_output_abort(&files.json);
    halay_output_abort(&files.page);
    explanation_fini(&e);
    halay_tft_data_close(read);
    return halay_tft_agree(t, status);
}
