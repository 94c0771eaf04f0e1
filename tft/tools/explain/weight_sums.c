/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/tools/explain/weight_sums.h"
#include "tft/tools/explain/shares.h"
#include <math.h>
#include <stdlib.h>
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
    const struct tft_weight_reader *r = s->reader;
    size_t used = 0;

    for (int choice = 0; choice < TFT_CHOICES; choice++) {
        s->steps[choice] = take_totals(s, &used, tft_weight_steps(r, choice) * r->V[choice]);
        s->bins[choice] = take_totals(s, &used, r->V[choice] * TFT_SHARE_BINS);
    }
    s->future_bins = take_totals(s, &used, r->D * r->V[TFT_CHOICE_FUTURE] * TFT_SHARE_BINS);
    s->attention = take_totals(s, &used, r->heads * r->D * r->T);
    s->shown_bins = take_totals(s, &used, s->shown * r->T * TFT_SHARE_BINS);
    s->seen = take_totals(s, &used, r->T);
    s->windows = take_totals(s, &used, 1);
    return used;
}

enum halay_status tft_weight_sums_init(struct halay_log *log, const struct tft_weight_reader *reader, size_t entities,
                                       struct tft_weight_sums *s)
{
    size_t one = reader->D * reader->T;

    *s = (struct tft_weight_sums){ .reader = reader,
                                   .shown = reader->D < TFT_HORIZONS_SHOWN ? reader->D : TFT_HORIZONS_SHOWN };
    pthread_mutex_init(&s->lock, NULL); /* default attributes: cannot fail here */
    s->total_count = lay_totals(s);
    s->most = ENTITY_BYTES / sizeof *s->of_entities / one;
    s->most = s->most < 1 ? 1 : s->most < entities ? s->most : entities;
    s->totals = calloc(s->total_count, sizeof *s->totals);
    s->of_entities = calloc(s->most, (one + 1) * sizeof *s->of_entities);
    s->roots = calloc(s->most, one * sizeof *s->roots);
    if (s->totals && s->of_entities && s->roots) {
        lay_totals(s);
        return HALAY_OK;
    }
    halay_error(log, "no memory for the sums of weights");
    return HALAY_ERR_NO_MEMORY;
}

void tft_weight_sums_fini(struct tft_weight_sums *s)
{
    if (s->reader)
        pthread_mutex_destroy(&s->lock);
    free(s->totals);
    free(s->of_entities);
    free(s->roots);
    *s = (struct tft_weight_sums){ 0 };
}

void tft_weight_sums_begin(struct tft_weight_sums *s, size_t first, size_t count)
{
    s->first = first;
    s->count = count;
    memset(s->of_entities, 0, count * (s->reader->D * s->reader->T + 1) * sizeof *s->of_entities);
}

/* Rows of V weights, from step `from` on. */
static void add_selection(struct tft_weight_sums *s, int choice, const real *rows, size_t from)
{
    size_t V = s->reader->V[choice], steps = tft_weight_steps(s->reader, choice);

    for (size_t t = from; t < steps; t++)
        for (size_t j = 0; j < V; j++) {
            float share = (float)rows[t * V + j];
            size_t bin = tft_share_bin(share);
            s->steps[choice][t * V + j] += tft_share_fixed(share);
            s->bins[choice][j * TFT_SHARE_BINS + bin]++;
            if (choice == TFT_CHOICE_FUTURE)
                s->future_bins[(t * V + j) * TFT_SHARE_BINS + bin]++;
        }
}

/* Sample b's attention. */
static void add_attention(struct tft_weight_sums *s, const struct tft_weights *w, size_t b, size_t entity,
                          size_t length)
{
    const struct tft_weight_reader *r = s->reader;
    size_t one = r->D * r->T;
    const real *of_heads = w->attention + b * r->heads * one;
    int64_t *of_entity = s->of_entities + (entity - s->first) * (one + 1);

    for (size_t i = 0; i < r->heads * one; i++)
        s->attention[i] += tft_share_fixed((float)of_heads[i]);
    for (size_t i = 0; i < one; i++)
        of_entity[i] += tft_share_fixed((float)tft_weight_attention(r, w, b, i / r->T, i % r->T));
    for (size_t k = 0; k < s->shown; k++) {
        size_t h = tft_weight_sums_shown(s, k);
        for (size_t t = r->E - length; t <= r->E + h; t++)
            s->shown_bins[(k * r->T + t) * TFT_SHARE_BINS +
                          tft_share_bin((float)tft_weight_attention(r, w, b, h, t))]++;
    }
    of_entity[one]++;
}

void tft_weight_sums_add(struct tft_weight_sums *s, const struct tft_forecast_granule *granule)
{
    const struct tft_weight_reader *r = s->reader;
    const struct tft_batch *batch = granule->batch;
    const struct tft_weights *w = tft_weight_reader_read(r, granule);

    pthread_mutex_lock(&s->lock);
    for (size_t b = 0; b < batch->B; b++) {
        size_t from = r->E - batch->lengths[b];
        struct tft_window window = tft_gather_window(granule->gather, (size_t)batch->position + b);

        add_selection(s, TFT_CHOICE_STATIC, w->statics + b * r->V[TFT_CHOICE_STATIC], 0);
        add_selection(s, TFT_CHOICE_HISTORY, w->history + b * r->E * r->V[TFT_CHOICE_HISTORY], from);
        add_selection(s, TFT_CHOICE_FUTURE, w->future + b * r->D * r->V[TFT_CHOICE_FUTURE], 0);
        add_attention(s, w, b, window.entity, batch->lengths[b]);
        for (size_t t = from; t < r->T; t++)
            s->seen[t]++;
        ++*s->windows;
    }
    pthread_mutex_unlock(&s->lock);
}

static enum halay_status reduce_sums(struct halay_context *ctx, int64_t *sums, size_t count)
{
    if (!ctx || halay_size(ctx) == 1)
        return HALAY_OK;
    return halay_allreduce(ctx, "explain", NULL, sums, count, HALAY_I64, HALAY_SUM);
}

enum halay_status tft_weight_sums_end(struct tft_weight_sums *s, struct halay_context *ctx)
{
    size_t one = s->reader->D * s->reader->T;
    enum halay_status status = reduce_sums(ctx, s->of_entities, s->count * (one + 1));

    for (size_t e = 0; e < s->count && !status; e++) {
        const int64_t *of_entity = s->of_entities + e * (one + 1);
        for (size_t i = 0; i < one; i++)
            s->roots[e * one + i] = of_entity[one] ? sqrt(tft_share_mean(of_entity[i], of_entity[one])) : 0;
    }
    return status;
}

enum halay_status tft_weight_sums_join(struct tft_weight_sums *s, struct halay_context *ctx)
{
    return reduce_sums(ctx, s->totals, s->total_count);
}

double tft_weight_sums_distance(const struct tft_weight_sums *s, size_t entity, const struct tft_weights *weights,
                                size_t b, size_t length)
{
    const struct tft_weight_reader *r = s->reader;
    const double *roots = s->roots + (entity - s->first) * r->D * r->T;
    double sum = 0;

    for (size_t h = 0; h < r->D; h++) {
        double common = 0, seen = 0;
        for (size_t t = r->E - length; t < r->T; t++) {
            double root = roots[h * r->T + t];
            common += root * sqrt(tft_weight_attention(r, weights, b, h, t));
            seen += root * root;
        }
        sum += sqrt(fmax(0, 1 - common / sqrt(seen)));
    }
    return sum / (double)r->D;
}

int64_t tft_weight_sums_windows(const struct tft_weight_sums *s, int choice, size_t t)
{
    return choice == TFT_CHOICE_HISTORY ? s->seen[t] : *s->windows;
}

size_t tft_weight_sums_shown(const struct tft_weight_sums *s, size_t k)
{
    return s->shown > 1 ? k * (s->reader->D - 1) / (s->shown - 1) : 0;
}

double tft_weight_sums_attention(const struct tft_weight_sums *s, size_t head, size_t h, size_t t)
{
    const struct tft_weight_reader *r = s->reader;
    size_t heads = head < r->heads ? 1 : r->heads, first = head < r->heads ? head : 0;
    int64_t sum = 0;

    for (size_t i = first; i < first + heads; i++)
        sum += s->attention[(i * r->D + h) * r->T + t];
    return tft_share_mean(sum, s->seen[t]) / (double)heads;
}

void tft_weight_sums_usual(const struct tft_weight_sums *s, size_t entity, float *lags)
{
    const struct tft_weight_reader *r = s->reader;
    const double *roots = s->roots + (entity - s->first) * r->D * r->T;

    for (size_t lag = 0; lag < r->T; lag++) {
        size_t first = lag > r->E ? lag - r->E : 0;
        double sum = 0;
        for (size_t h = first; h < r->D; h++)
            sum += pow(roots[h * r->T + r->E + h - lag], 2);
        lags[lag] = first < r->D ? (float)(sum / (double)(r->D - first)) : 0;
    }
}

double tft_weight_sums_mean(const struct tft_weight_sums *s, int choice, size_t t, size_t j)
{
    return tft_share_mean(s->steps[choice][t * s->reader->V[choice] + j], tft_weight_sums_windows(s, choice, t));
}
