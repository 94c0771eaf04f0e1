/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards: buckets, their cuts, and the offsets that follow. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/train/shards.h"
#include "tft/model/stages.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Large enough to make a message's latency negligible, and small enough that even a small model has several, so that
 * the first ones travel during backward. */
enum { BUCKET_REALS = 1 << 18, BUCKETS_LEAST = 16 };

static size_t bucket_reals(const struct tft_param_table *table)
{
    size_t share = tft_params_count(table) / BUCKETS_LEAST;

    return share < BUCKET_REALS ? share : BUCKET_REALS;
}

static size_t find_buckets(const struct tft_param_table *table, struct tft_bucket *buckets)
{
    size_t most = bucket_reals(table), count = 0;
    struct tft_bucket *open = NULL;

    for (size_t i = table->count; i-- > 0;) {
        const struct tft_param *p = &table->params[i];
        if (p->dead || (open && open->count >= most))
            open = NULL;
        if (p->dead)
            continue;
        if (!open) {
            open = &buckets[count++];
            *open = (struct tft_bucket){ .end = i + 1 };
        }
        open->first = i;
        open->offset = p->offset;
        open->count += p->count;
        open->reals += tft_params_room(table, i);
    }
    return count;
}

/* The best parts of ranks [0, rank) of tensors [first, first + end) of a bucket. */
struct choice {
    double cost;  /* squared differences from the even share, added up */
    size_t begin; /* where the last part begins */
};

/*
 * Cut one bucket, so that the ranks' loads, of all buckets so far, come as near to their even share as possible.
 *     loads: (ranks) values of the buckets before; before: their sum; best: room for (ranks + 1) x (tensors + 1)
 */
static void cut_bucket(const struct tft_param_table *table, const struct tft_bucket *b, size_t ranks, size_t before,
                       struct choice *best, size_t *loads, size_t *splits)
{
    size_t n = b->end - b->first, width = n + 1;
    double even = (double)(before + b->count) / (double)ranks;

    for (size_t end = 0; end <= n; end++)
        best[end] = (struct choice){ end ? INFINITY : 0, 0 };
    for (size_t r = 0; r < ranks; r++)
        for (size_t end = 0; end <= n; end++) {
            struct choice *c = &best[(r + 1) * width + end];
            double load = (double)loads[r] - even;
            *c = (struct choice){ best[r * width + end].cost + load * load, end };
            for (size_t begin = end; begin-- > 0;) {
                load += (double)table->params[b->first + begin].count;
                double cost = best[r * width + begin].cost + load * load;
                if (cost < c->cost)
                    *c = (struct choice){ cost, begin };
            }
        }
    for (size_t r = ranks, end = n; r-- > 0;) {
        size_t begin = best[(r + 1) * width + end].begin;
        for (splits[r] = 0; end > begin; end--) {
            splits[r] += tft_params_room(table, b->first + end - 1);
            loads[r] += table->params[b->first + end - 1].count;
        }
    }
}

/* Each stage's tensors are its rank's; segments ascend in the table, so that each rank's part is in one piece. */
static void split_by_stages(const struct tft_param_table *table, const struct tft_bucket *b, int ranks, size_t *splits)
{
    for (size_t i = b->first; i < b->end; i++)
        splits[tft_segment_rank(table->params[i].segment, ranks)] += tft_params_room(table, i);
}

static enum halay_status make_splits(struct tft_shards *s, const struct tft_param_table *table, size_t ranks)
{
    size_t before = 0, *loads = calloc(ranks, sizeof *loads);
    struct choice *best = calloc(ranks + 1, (table->count + 1) * sizeof *best);

    for (size_t b = 0; b < s->bucket_count && loads && best; b++) {
        size_t *splits = s->splits + b * ranks;
        s->buckets[b].splits = splits;
        if (s->strategy == TFT_PARAMETER_SERVER)
            splits[0] = s->buckets[b].reals;
        else if (s->strategy == TFT_PIPELINE)
            split_by_stages(table, &s->buckets[b], (int)ranks, splits);
        else
            cut_bucket(table, &s->buckets[b], ranks, before, best, loads, splits);
        before += s->buckets[b].count;
    }
    enum halay_status status = loads && best ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    free(loads);
    free(best);
    return status;
}

/* This rank's tensors, one after the other, in a block of its own. */
static void place_own(struct tft_shards *s, const struct tft_param_table *table, int rank)
{
    for (size_t i = 0; i < table->count; i++)
        s->offsets[i] = s->bucket_of[i] = SIZE_MAX;
    for (size_t k = 0; k < s->bucket_count; k++) {
        struct tft_bucket *b = &s->buckets[k];
        b->own_offset = b->offset;
        for (int r = 0; r < rank; r++)
            b->own_offset += b->splits[r];
        for (size_t i = b->first; i < b->end; i++) {
            struct tft_param *p = &s->table.params[s->table.count];
            s->bucket_of[i] = k;
            if (table->params[i].offset < b->own_offset || table->params[i].offset >= b->own_offset + b->splits[rank])
                continue;
            *p = table->params[i];
            s->offsets[i] = p->offset = s->table.reals;
            s->table.reals += p->count;
            s->table.count++;
            b->own++;
        }
    }
}

enum halay_status tft_shards_init(struct halay_log *log, const struct tft_param_table *table,
                                  enum tft_strategy strategy, int rank, int ranks, struct tft_shards *shards)
{
    size_t n = table->count ? table->count : 1;

    *shards = (struct tft_shards){ .strategy = strategy };
    if (strategy == TFT_ALLREDUCE)
        return HALAY_OK;
    shards->offsets = calloc(n, sizeof *shards->offsets);
    shards->bucket_of = calloc(n, sizeof *shards->bucket_of);
    shards->buckets = calloc(n, sizeof *shards->buckets);
    shards->table.params = calloc(n, sizeof *shards->table.params);
    if (!shards->offsets || !shards->bucket_of || !shards->buckets || !shards->table.params)
        goto err_fini;
    shards->table.capacity = n;
    shards->bucket_count = find_buckets(table, shards->buckets);
    shards->splits = calloc(shards->bucket_count + 1, (size_t)ranks * sizeof *shards->splits);
    if (!shards->splits || make_splits(shards, table, (size_t)ranks))
        goto err_fini;
    place_own(shards, table, rank);
    return HALAY_OK;

err_fini:
    tft_shards_fini(shards);
    halay_error(log, "no memory to deal out %zu tensors", table->count);
    return HALAY_ERR_NO_MEMORY;
}

void tft_shards_fini(struct tft_shards *s)
{
    free(s->offsets);
    free(s->bucket_of);
    free(s->buckets);
    free(s->splits);
    tft_params_fini(&s->table);
    *s = (struct tft_shards){ 0 };
}

void tft_shards_take(const struct tft_shards *s, const struct tft_param_table *table, const float *block, float *own)
{
    if (!s->offsets)
        memcpy(own, block, table->reals * sizeof *own);
    for (size_t i = 0; s->offsets && i < table->count; i++)
        if (s->offsets[i] != SIZE_MAX)
            memcpy(own + s->offsets[i], block + table->params[i].offset, table->params[i].count * sizeof *own);
}

void tft_shards_give(const struct tft_shards *s, const struct tft_param_table *table, const float *own, float *block)
{
    if (!s->offsets)
        memcpy(block, own, table->reals * sizeof *own);
    for (size_t i = 0; s->offsets && i < table->count; i++)
        if (s->offsets[i] != SIZE_MAX)
            memcpy(block + table->params[i].offset, own + s->offsets[i], table->params[i].count * sizeof *own);
}

size_t tft_shards_reals(const struct tft_shards *s, const struct tft_param_table *table)
{
    return s->offsets ? s->table.reals : table->reals;
}
