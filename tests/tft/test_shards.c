/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards: each living tensor is one rank's, parts are in the order of ranks and cover their bucket, places are dense,
 * and the shares differ by no more than a tensor; blocks taken apart and put together are what they were.
 */
#include "perf/trainer/synthetic.h"
#include "tests/tft/model_helpers.h"
#include "tft/model/model.h"
#include "tft/model/stages.h"
#include "tft/train/shards.h"

enum { RANKS_MOST = 9 };

static size_t largest(const struct tft_param_table *table)
{
    size_t most = 0;

    for (size_t i = 0; i < table->count; i++)
        most = table->params[i].count > most ? table->params[i].count : most;
    return most;
}

static void check_buckets(const struct tft_param_table *table, const struct tft_shards *s, int rank, int ranks)
{
    size_t at = table->count, living = 0, own = 0;

    for (size_t k = 0; k < s->bucket_count; k++) {
        const struct tft_bucket *b = &s->buckets[k];
        size_t sum = 0, before = 0, mine = 0;
        for (int r = 0; r < ranks; r++) {
            before += r < rank ? b->splits[r] : 0;
            sum += b->splits[r];
        }
        CHECK(b->first < b->end && b->end <= at && sum == b->reals && b->own_offset == b->offset + before);
        for (size_t i = b->first; i < b->end; i++) {
            const struct tft_param *p = &table->params[i];
            int in_part = p->offset >= b->own_offset && p->offset < b->own_offset + b->splits[rank];
            CHECK(!p->dead && s->bucket_of[i] == k && in_part == (s->offsets[i] != SIZE_MAX));
            CHECK(!in_part || p->offset + p->count <= b->own_offset + b->splits[rank], "a tensor is cut");
            CHECK(!in_part || s->offsets[i] == own, "places have gaps");
            own += in_part ? p->count : 0;
            mine += in_part;
            living++;
        }
        CHECK(b->own == mine);
        at = b->first;
    }
    CHECK(own == s->table.reals);
    for (size_t i = 0; i < table->count; i++)
        living += table->params[i].dead && s->bucket_of[i] == SIZE_MAX && s->offsets[i] == SIZE_MAX;
    CHECK(living == table->count, "%zu of %zu tensors are dealt out", living, table->count);
}

/* All ranks' shards of a table together; *most: of their sizes. */
static void check_ranks(const struct tft_param_table *table, enum tft_strategy strategy, int ranks, size_t *most)
{
    float *block = calloc(3 * table->reals, sizeof *block), *again = block + table->reals, *own = again + table->reals;
    size_t least = SIZE_MAX;

    *most = 0;
    REQUIRE(block);
    for (size_t i = 0; i < table->reals; i++)
        block[i] = (float)i;
    for (int r = 0; r < ranks; r++) {
        struct tft_shards s;
        REQUIRE(tft_shards_init(NULL, table, strategy, r, ranks, &s) == HALAY_OK);
        check_buckets(table, &s, r, ranks);
        size_t reals = tft_shards_reals(&s, table);
        CHECK(strategy != TFT_PARAMETER_SERVER || r == 0 || reals == 0);
        for (size_t i = 0; i < s.table.count; i++)
            CHECK(strategy != TFT_PIPELINE || tft_segment_rank(s.table.params[i].segment, ranks) == r);
        tft_shards_take(&s, table, block, own);
        tft_shards_give(&s, table, own, again);
        *most = reals > *most ? reals : *most;
        least = reals < least ? reals : least;
        tft_shards_fini(&s);
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct tft_param *p = &table->params[i];
        CHECK(p->dead || !memcmp(again + p->offset, block + p->offset, p->count * sizeof *block));
    }
    CHECK(strategy >= TFT_PARAMETER_SERVER || *most - least <= 2 * largest(table), "%d ranks: from %zu to %zu", ranks,
          least, *most);
    free(block);
}

static void check_random(void)
{
    for (uint32_t seed = 1; seed < 40; seed++) {
        struct tft_param_table table = { 0 };
        size_t most;
        real sizes[60];
        fill_values(sizes, 60, seed);
        for (size_t i = 0; i < 1 + seed % 50; i++) {
            char name[16];
            size_t count = 1 + (size_t)(1000 * sizes[i] * sizes[i]);
            snprintf(name, sizeof name, "t%zu", i);
            if (seed % 2 && i % 3 == 0)
                tft_params_align(&table);
            REQUIRE(tft_params_add(&table, name, 0, count, TFT_INIT_ZERO, NULL) == HALAY_OK);
            table.params[i].dead = i && sizes[i] > (real)0.8;
            table.params[i].segment = (int)(i * TFT_SEGMENTS / 51);
        }
        for (int ranks = 1; ranks < RANKS_MOST; ranks++)
            for (int strategy = TFT_ZERO1; strategy <= TFT_PIPELINE; strategy++)
                check_ranks(&table, (enum tft_strategy)strategy, ranks, &most);
        tft_params_fini(&table);
    }
}

/* The published configuration comes out even. */
static void check_electricity(void)
{
    struct tft_model_config config;
    struct tft_model *model;

    tft_synthetic_electricity(&config);
    REQUIRE(tft_model_create(NULL, &config, &model) == HALAY_OK);
    const struct tft_param_table *table = tft_model_params(model);
    size_t living = 0, most;
    for (size_t i = 0; i < table->count; i++)
        living += table->params[i].dead ? 0 : table->params[i].count;
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        check_ranks(table, TFT_ZERO2, ranks, &most);
        printf("%d ranks: at most %zu of %zu reals (%.4f)\n", ranks, most, living, (double)most / (double)living);
        CHECK((double)most < 1.08 * (double)living / ranks, "%d ranks: %zu of %zu", ranks, most, living);
    }
    tft_model_destroy(model);
}

int main(void)
{
    check_random();
    check_electricity();
    return test_end();
}
