/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of a blend: for each target and third of the horizon those with the lowest quantile loss in validation,
 * found by greedy selection with replacement (R. Caruana, A. Niculescu-Mizil, G. Crew, A. Ksikes, "Ensemble selection
 * from libraries of models", ICML 2004): twenty times the model or the baseline is added whose part in the mean lowers
 * the loss most; the best of these means counts. A window's loss is in units of its own past, so that series count
 * alike.
 *
 * Windows of one origin share what happened after it, which the lowest loss follows: so the weights are half those, and
 * half equal ones of all parts whose loss over the whole horizon is within 3 % of the lowest.
 *
 * Few windows decide little: the weights are drawn towards those that the blend has before (tft/core/run/blend.h), by
 * n / (n + 10) for n windows of a horizon that do not overlap, unless that is worse than the best baseline alone and n
 * is at least 10.
 */
#include "tft/core/run/ranks.h"
#include "tft/core/score/forecast_scores.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A part whose loss is at most this much above the lowest is as good as the best. */
static const double close_by = .03;
/* The part of the mean unit that is added to a window's, so that no flat past counts for all others. */
static const double unit_min = .1;

/* ROUNDS: parts of a mean; PRIOR: number of windows that the prior weights count for. */
enum { ROUNDS = 20, PRIOR = 10, PARTS_MAX = TFT_BASELINES_MAX + 1 };

struct choice {
    const struct tft_forecaster *forecaster;
    const struct tft_data *data; /* borrowed */
    struct tft_blend *blend;
    size_t count, kept;          /* windows: forecast, kept (tft_spread) */
    size_t next;                 /* to keep */
    size_t of_window, of_points; /* numbers */
    struct halay_region memory;  /* owned: of the arrays */
    struct tft_window *windows;  /* (kept) */
    float *p;                    /* (kept, of_window) the model's forecasts */
    double *points;              /* (kept, of_points) the baselines' of one target, (baselines, horizon) */
    double *units;               /* (kept) of that target */
    double *window_weights;      /* (kept) of a window in a loss of that target */
    double *sums;                /* (kept, horizon, quantiles) of that target, of the parts so far */
    double independent;          /* windows that do not overlap */
};

/* ---- windows ---- */

static enum halay_status keep_window(void *arg, size_t position, const struct tft_window *w, const float *p)
{
    struct choice *c = arg;
    size_t i = c->next;

    if (i == c->kept || position != tft_spread(i, c->kept, c->count))
        return HALAY_OK;
    enum halay_status status = tft_data_check(c->data, w->origin, c->blend->horizon);
    memcpy(c->p + i * c->of_window, p, c->of_window * sizeof *p);
    c->windows[i] = *w;
    c->next++;
    return status;
}

size_t tft_blend_choice_windows(const struct tft_blend *b, size_t count)
{
    enum { NUMBERS_MAX = 4000000, WINDOWS_MIN = 20 };
    size_t most = NUMBERS_MAX / (b->targets * b->horizon * (b->count + b->quantile_count));

    most = most < WINDOWS_MIN ? WINDOWS_MIN : most;
    return count < most ? count : most;
}

static enum halay_status choice_init(struct choice *c)
{
    const struct tft_blend *b = c->blend;
    const struct tft_windows *windows = c->forecaster->gather.windows;

    c->of_points = b->count * b->horizon;
    c->of_window = b->targets * b->horizon * b->quantile_count;
    c->kept = tft_blend_choice_windows(b, c->count);
    c->independent =
        ((double)windows->count * (double)windows->stride + (double)(windows->run_count * (b->horizon - 1))) /
        (double)b->horizon;
    c->independent = fmin(c->independent, (double)c->kept);
    c->windows = halay_region_alloc(&c->memory, c->kept, sizeof *c->windows);
    c->p = halay_region_alloc(&c->memory, c->kept * c->of_window, sizeof *c->p);
    c->points = halay_region_alloc(&c->memory, c->kept * c->of_points, sizeof *c->points);
    c->units = halay_region_alloc(&c->memory, c->kept, sizeof *c->units);
    c->window_weights = halay_region_alloc(&c->memory, c->kept, sizeof *c->window_weights);
    c->sums = halay_region_alloc(&c->memory, c->kept * b->horizon * b->quantile_count, sizeof *c->sums);
    if (!c->memory.failed)
        return HALAY_OK;
    return halay_no_memory(c->forecaster->log, "for the forecasts of %zu validation windows", c->kept);
}

/* ---- losses ---- */

/* The baselines of a target. Losses are in units of the window's own changes, so that series count alike. */
static enum halay_status take_target(struct choice *c, size_t target)
{
    enum halay_status status;
    double mean = 0;

    for (size_t i = 0; i < c->kept; i++) {
        status =
            tft_blend_points(c->blend, c->data, &c->windows[i], target, c->points + i * c->of_points, &c->units[i]);
        if (status)
            return status;
        mean += c->units[i] / (double)c->kept;
    }
    for (size_t i = 0; i < c->kept; i++)
        c->window_weights[i] = mean > 0 ? 1 / (c->units[i] + unit_min * mean) : 1;
    return HALAY_OK;
}

/* A target's steps [begin, end). */
struct third {
    size_t target, begin, end;
};

/* The forecast of a part, the model (0) or a baseline, of a window's step. */
static void part_at(const struct choice *c, size_t o, size_t part, size_t i, size_t h, double *to)
{
    const struct tft_blend *b = c->blend;
    const float *p = c->p + i * c->of_window + (h * b->targets + o) * b->quantile_count;
    size_t k = part ? part - 1 : 0;
    double point = part ? c->points[i * c->of_points + k * b->horizon + h] : NAN;
    const double *errors = tft_blend_errors_at(b, o, k, h);

    for (size_t q = 0; q < b->quantile_count; q++)
        to[q] = isnan(point) ? (double)p[q] : point + c->units[i] * errors[q];
}

/* The quantile loss of what is so far in sums, with this part, over `parts`; `adds`: keep it there. */
static double loss_with(struct choice *c, const struct third *third, size_t part, double weight, double parts, int adds)
{
    const struct tft_blend *b = c->blend;
    const double *quantiles = tft_model_config(c->forecaster->model)->quantiles;
    double all = 0, of_part[TFT_SCORE_QUANTILES_MAX];

    for (size_t i = 0; i < c->kept; i++)
        for (size_t h = third->begin; h < third->end; h++) {
            size_t row = c->windows[i].origin + h;
            double *sums = c->sums + (i * b->horizon + h) * b->quantile_count, loss = 0;
            if (!c->data->present[row * b->targets + third->target])
                continue;
            part_at(c, third->target, part, i, h, of_part);
            double y = tft_data_forecast_target(c->data, row, third->target);
            for (size_t q = 0; q < b->quantile_count; q++) {
                double sum = sums[q] + weight * of_part[q], over = y - sum / parts;
                loss += fmax(quantiles[q] * over, (quantiles[q] - 1) * over);
                sums[q] = adds ? sum : sums[q];
            }
            all += loss * (double)tft_data_weight(c->data, row) * c->window_weights[i];
        }
    return all;
}

static void clear_sums(struct choice *c)
{
    memset(c->sums, 0, c->kept * c->blend->horizon * c->blend->quantile_count * sizeof *c->sums);
}

static double loss_of_weights(struct choice *c, const struct third *third, const double *weights)
{
    double loss = 0;

    clear_sums(c);
    for (size_t part = 0; part <= c->blend->count; part++)
        if (weights[part] > 0 || part == c->blend->count)
            loss = loss_with(c, third, part, weights[part], 1, 1);
    return loss;
}

/* ---- the choice ---- */

/* The best mean of at most ROUNDS parts. *alone: the loss of the best baseline. */
static void select_greedily(struct choice *c, const struct third *third, double *weights, double *alone)
{
    size_t count[PARTS_MAX] = { 0 }, parts = c->blend->count + 1;
    double lowest = INFINITY;

    *alone = INFINITY;
    clear_sums(c);
    for (size_t round = 1; round <= ROUNDS; round++) {
        size_t best = 0;
        double loss = INFINITY;
        for (size_t part = 0; part < parts; part++) {
            double of_part = loss_with(c, third, part, 1, (double)round, 0);
            if (of_part < loss) {
                loss = of_part;
                best = part;
            }
            if (round == 1 && part)
                *alone = fmin(*alone, of_part);
        }
        (void)loss_with(c, third, best, 1, (double)round, 1);
        count[best]++;
        if (!(loss < lowest))
            continue;
        lowest = loss;
        for (size_t part = 0; part < parts; part++)
            weights[part] = (double)count[part] / (double)round;
    }
}

/* Sets equal weights of the parts that are as good as the best, by the whole horizon. Returns zero if no value was
 * measured, so that they have no loss to compare. */
static int find_close(struct choice *c, size_t target, double *weights)
{
    const struct third whole = { target, 0, c->blend->horizon };
    size_t parts = c->blend->count + 1, n = 0;
    double losses[PARTS_MAX], lowest = INFINITY, highest = 0;

    clear_sums(c);
    for (size_t part = 0; part < parts; part++) {
        losses[part] = loss_with(c, &whole, part, 1, 1, 0);
        lowest = fmin(lowest, losses[part]);
        highest = fmax(highest, losses[part]);
    }
    for (size_t part = 0; part < parts; part++)
        n += losses[part] <= (1 + close_by) * lowest;
    for (size_t part = 0; part < parts; part++)
        weights[part] = losses[part] <= (1 + close_by) * lowest ? 1 / (double)n : 0;
    weights[0] = n ? weights[0] : 1;
    return highest > 0;
}

static void choose_third(struct choice *c, const struct third *third, const double *close)
{
    double best[PARTS_MAX] = { 1 }, alone, drawn = c->independent / (c->independent + PRIOR);
    double *weights = tft_blend_weights_at(c->blend, third->target, third->begin);
    size_t parts = c->blend->count + 1;

    select_greedily(c, third, best, &alone);
    for (size_t part = 0; part < parts; part++) {
        best[part] = (best[part] + close[part]) / 2;
        weights[part] = drawn * best[part] + (1 - drawn) * weights[part];
    }
    if (c->independent >= PRIOR && loss_of_weights(c, third, weights) > alone)
        memcpy(weights, best, parts * sizeof *weights);
}

static enum halay_status choose_target(struct choice *c, size_t target)
{
    const size_t horizon = c->blend->horizon, parts = c->blend->count + 1;
    double close[PARTS_MAX];
    enum halay_status status = take_target(c, target);

    if (status || !find_close(c, target, close))
        return status;
    for (size_t k = 0; k < TFT_BLEND_THIRDS; k++) {
        const struct third third = { target, (k * horizon + TFT_BLEND_THIRDS - 1) / TFT_BLEND_THIRDS,
                                     ((k + 1) * horizon + TFT_BLEND_THIRDS - 1) / TFT_BLEND_THIRDS };
        double *weights = c->blend->weights + (target * TFT_BLEND_THIRDS + k) * parts;
        if (third.begin < third.end)
            choose_third(c, &third, close);
        else /* of a horizon below three steps, after the first */
            memcpy(weights, weights - parts, parts * sizeof *weights);
    }
    return HALAY_OK;
}

static enum halay_status score_blend(struct choice *c, struct tft_forecast_scores *r)
{
    size_t of_step = c->blend->targets * c->blend->quantile_count;

    for (size_t i = 0; i < c->kept; i++) {
        float *p = c->p + i * c->of_window;
        enum halay_status status = tft_blend_apply(c->blend, c->data, &c->windows[i], NULL, p);
        if (status)
            return status;
        for (size_t h = 0; h < c->blend->horizon; h++)
            tft_forecast_scores_add_step(r, c->data, NULL, &c->windows[i], h, p + h * of_step);
    }
    tft_forecast_scores_finish(c->forecaster->model, r);
    return HALAY_OK;
}

enum halay_status tft_blend_choose(struct tft_forecaster *f, size_t count, struct tft_blend *blend,
                                   struct tft_forecast_scores *r)
{
    const struct tft_model_config *m = tft_model_config(f->model);
    struct choice c = { .forecaster = f, .data = f->gather.windows->data, .blend = blend, .count = count };
    enum halay_status status;

    *r = (struct tft_forecast_scores){ 0 };
    if (!(status = choice_init(&c)))
        status = tft_forecast_scores_init(f->log, m->quantiles, m->quantile_count, c.data, 1, r);
    if (f->ctx) /* no rank waits for the forecasts of one that has no memory */
        status = tft_agree(f->ctx, "blend.room", status);
    if (!status)
        status = tft_forecast(f, count, keep_window, &c);
    for (size_t o = 0; o < blend->targets && !status; o++)
        if (tft_blend_has(blend, &c.data->schema, o))
            status = choose_target(&c, o);
    if (status || (status = score_blend(&c, r)))
        tft_forecast_scores_fini(r);
    halay_region_fini(&c.memory);
    return status;
}
