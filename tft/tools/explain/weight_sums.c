/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/tools/explain/explain.h"
#include <math.h>
#include <string.h>

/* Memory for the attention of single entities. */
enum { ENTITY_BYTES = 32 << 20 };

/* Returns the next `count` numbers of totals; NULL before they are allocated. */
static int64_t *take_totals(const struct tft_weight_sums *s, size_t *used, size_t count)
{
    *used += count;
    return s->totals ? s->totals + (*used - count) : NULL;
}

/* Sets the places in totals; returns how many numbers they are. */
static size_t lay_totals(struct tft_weight_sums *s)
{
    const struct tft_weighed *of = s->of;
    size_t used = 0;

    for (int part = 0; part < TFT_WEIGHED_PARTS; part++) {
        s->steps[part] = take_totals(s, &used, of->steps[part] * of->V[part]);
        s->bins[part] = take_totals(s, &used, of->V[part] * TFT_SHARE_BINS);
    }
    s->future_bins = take_totals(s, &used, of->D * of->V[TFT_WEIGHED_FUTURE] * TFT_SHARE_BINS);
    s->attention = take_totals(s, &used, of->heads * of->D * of->T);
    s->shown_bins = take_totals(s, &used, s->shown * of->T * TFT_SHARE_BINS);
    s->seen = take_totals(s, &used, of->T);
    s->windows = take_totals(s, &used, 1);
    return used;
}

void tft_weight_sums_init(const struct tft_weighed *of, size_t entities, struct halay_region *memory,
                          struct tft_weight_sums *s)
{
    const size_t one = of->D * of->T, most = ENTITY_BYTES / sizeof *s->of_entities / one;

    *s = (struct tft_weight_sums){ .of = of, .shown = of->D < TFT_HORIZONS_SHOWN ? of->D : TFT_HORIZONS_SHOWN };
    pthread_mutex_init(&s->lock, NULL); /* default attributes: cannot fail here */
    s->total_count = lay_totals(s);
    s->most = most < 1 ? 1 : most < entities ? most : entities;
    s->totals = halay_region_alloc(memory, s->total_count, sizeof *s->totals);
    s->of_entities = halay_region_alloc(memory, s->most, (one + 1) * sizeof *s->of_entities);
    s->roots = halay_region_alloc(memory, s->most, one * sizeof *s->roots);
    lay_totals(s);
}

void tft_weight_sums_fini(struct tft_weight_sums *s)
{
    if (s->of)
        pthread_mutex_destroy(&s->lock);
    *s = (struct tft_weight_sums){ 0 };
}

/* ---- adding windows ---------------------------------------------------------------------------------------------- */

void tft_weight_sums_begin(struct tft_weight_sums *s, size_t first, size_t count)
{
    s->first = first;
    s->count = count;
    memset(s->of_entities, 0, count * (s->of->D * s->of->T + 1) * sizeof *s->of_entities);
}

/* Adds rows of V weights, from step `from` on. */
static void add_selection(struct tft_weight_sums *s, int part, const float *rows, size_t from)
{
    const size_t V = s->of->V[part];

    for (size_t t = from; t < s->of->steps[part]; t++)
        for (size_t j = 0; j < V; j++) {
            float share = rows[t * V + j];
            size_t bin = tft_share_bin(share);
            s->steps[part][t * V + j] += tft_share_fixed(share);
            s->bins[part][j * TFT_SHARE_BINS + bin]++;
            if (part == TFT_WEIGHED_FUTURE)
                s->future_bins[(t * V + j) * TFT_SHARE_BINS + bin]++;
        }
}

static void add_attention(struct tft_weight_sums *s, const struct halay_tft_weights *w)
{
    const struct tft_weighed *of = s->of;
    const size_t one = of->D * of->T;
    int64_t *of_entity = s->of_entities + (w->number - s->first) * (one + 1);

    for (size_t i = 0; i < of->heads * one; i++)
        s->attention[i] += tft_share_fixed(w->attention[i]);
    for (size_t i = 0; i < one; i++)
        of_entity[i] += tft_share_fixed((float)tft_weighed_attention(of, w, i / of->T, i % of->T));
    for (size_t k = 0; k < s->shown; k++) {
        const size_t h = tft_weight_sums_shown(s, k);
        for (size_t t = of->E - w->past; t <= of->E + h; t++)
            s->shown_bins[(k * of->T + t) * TFT_SHARE_BINS +
                          tft_share_bin((float)tft_weighed_attention(of, w, h, t))]++;
    }
    of_entity[one]++;
}

void tft_weight_sums_add(struct tft_weight_sums *s, const struct halay_tft_weights *w)
{
    const size_t from = s->of->E - w->past;

    pthread_mutex_lock(&s->lock);
    add_selection(s, TFT_WEIGHED_STATIC, w->statics, 0);
    add_selection(s, TFT_WEIGHED_PAST, w->history, from);
    add_selection(s, TFT_WEIGHED_FUTURE, w->future, 0);
    add_attention(s, w);
    for (size_t t = from; t < s->of->T; t++)
        s->seen[t]++;
    ++*s->windows;
    pthread_mutex_unlock(&s->lock);
}

static enum halay_status reduce_sums(struct halay_context *ctx, int64_t *sums, size_t count)
{
    if (halay_size(ctx) == 1)
        return HALAY_OK;
    return halay_allreduce(ctx, "explain", NULL, sums, count, HALAY_I64, HALAY_SUM);
}

enum halay_status tft_weight_sums_end(struct tft_weight_sums *s, struct halay_context *ctx)
{
    const size_t one = s->of->D * s->of->T;
    enum halay_status status = reduce_sums(ctx, s->of_entities, s->count * (one + 1));

    if (status)
        return status;
    for (size_t e = 0; e < s->count; e++) {
        const int64_t *of_entity = s->of_entities + e * (one + 1);
        for (size_t i = 0; i < one; i++)
            s->roots[e * one + i] = of_entity[one] ? sqrt(tft_share_mean(of_entity[i], of_entity[one])) : 0;
    }
    return HALAY_OK;
}

enum halay_status tft_weight_sums_join(struct tft_weight_sums *s, struct halay_context *ctx)
{
    return reduce_sums(ctx, s->totals, s->total_count);
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

int64_t tft_weight_sums_windows(const struct tft_weight_sums *s, int part, size_t t)
{
    return part == TFT_WEIGHED_PAST ? s->seen[t] : *s->windows;
}

double tft_weight_sums_mean(const struct tft_weight_sums *s, int part, size_t t, size_t j)
{
    return tft_share_mean(s->steps[part][t * s->of->V[part] + j], tft_weight_sums_windows(s, part, t));
}

double tft_weight_sums_mean_of_steps(const struct tft_weight_sums *s, int part, size_t j)
{
    int64_t sum = 0, n = 0;

    for (size_t t = 0; t < s->of->steps[part]; t++) {
        sum += s->steps[part][t * s->of->V[part] + j];
        n += tft_weight_sums_windows(s, part, t);
    }
    return tft_share_mean(sum, n);
}

size_t tft_weight_sums_shown(const struct tft_weight_sums *s, size_t k)
{
    return s->shown > 1 ? k * (s->of->D - 1) / (s->shown - 1) : 0;
}

double tft_weight_sums_attention(const struct tft_weight_sums *s, size_t head, size_t h, size_t t)
{
    const struct tft_weighed *of = s->of;
    size_t heads = head < of->heads ? 1 : of->heads, first = head < of->heads ? head : 0;
    int64_t sum = 0;

    for (size_t i = first; i < first + heads; i++)
        sum += s->attention[(i * of->D + h) * of->T + t];
    return tft_share_mean(sum, s->seen[t]) / (double)heads;
}

double tft_weight_sums_lag(const struct tft_weight_sums *s, size_t head, size_t lag)
{
    const size_t E = s->of->E, D = s->of->D;
    double sum = 0;
    size_t n = 0;

    for (size_t h = 0; h < D; h++) {
        if (E + h < lag || !s->seen[E + h - lag])
            continue;
        sum += tft_weight_sums_attention(s, head, h, E + h - lag);
        n++;
    }
    return n ? sum / (double)n : NAN;
}

/* ---- one window and its entity ----------------------------------------------------------------------------------- */

double tft_weighed_attention(const struct tft_weighed *of, const struct halay_tft_weights *w, size_t h, size_t t)
{
    double sum = 0;

    for (size_t head = 0; head < of->heads; head++)
        sum += (double)w->attention[(head * of->D + h) * of->T + t];
    return sum / (double)of->heads;
}

double tft_weight_sums_distance(const struct tft_weight_sums *s, const struct halay_tft_weights *w)
{
    const struct tft_weighed *of = s->of;
    const double *roots = s->roots + (w->number - s->first) * of->D * of->T;
    double sum = 0;

    for (size_t h = 0; h < of->D; h++) {
        double common = 0, seen = 0;
        for (size_t t = of->E - w->past; t < of->T; t++) {
            double root = roots[h * of->T + t];
            common += root * sqrt(tft_weighed_attention(of, w, h, t));
            seen += root * root;
        }
        sum += sqrt(fmax(0, 1 - common / sqrt(seen)));
    }
    return sum / (double)of->D;
}

void tft_weight_sums_usual(const struct tft_weight_sums *s, size_t entity, double *lags)
{
    const struct tft_weighed *of = s->of;
    const double *roots = s->roots + (entity - s->first) * of->D * of->T;

    for (size_t lag = 0; lag < of->T; lag++) {
        size_t first = lag > of->E ? lag - of->E : 0;
        double sum = 0;
        for (size_t h = first; h < of->D; h++)
            sum += pow(roots[h * of->T + of->E + h - lag], 2);
        lags[lag] = first < of->D ? (double)(float)(sum / (double)(of->D - first)) : 0; /* as a window's are rounded */
    }
}
