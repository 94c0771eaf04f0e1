/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists that are packed in chunks: what is cleared for each collective and each chunk is what the chosen algorithm
 * needs, not what any could need among so many ranks. The storage is filled with a pattern before, and looked at
 * afterwards.
 */
#include "base/memory.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/group/packed.h"
#include "halay_tools.h"
#include "tests/coll/pieces.h"
#include "tests/fake/fake.h"
#include "tests/test.h"
#include <pthread.h>
#include <string.h>

enum { RANKS = 4, PIECES = 2, COUNT = 200000, PATTERN = 0xa5 };

struct rank {
    struct halay_fake_hub *hub;
    int rank;
    size_t untouched, wanted; /* bytes of the storage */
};

/* All-reduce of a list in several chunks: the sums are right. */
static void sum_list(struct halay_group *group)
{
    float *first = malloc(2 * COUNT * sizeof *first), *second = first + COUNT;
    struct halay_piece pieces[PIECES] = { { .data = second, .count = COUNT }, { .data = first, .count = COUNT } };
    struct halay_coll *coll;
    int wrong = 0;

    REQUIRE(first);
    for (int i = 0; i < COUNT; i++) {
        first[i] = (float)(i + halay_group_rank(group));
        second[i] = (float)halay_group_rank(group);
    }
    REQUIRE(!allreduce_pieces_start(group, pieces, PIECES, HALAY_F32, HALAY_SUM, &coll));
    CHECK(coll->ops == &halay_packed && coll->chunk < COUNT * sizeof *first);
    CHECK(halay_coll_wait(coll, -1) == HALAY_OK);
    halay_coll_end(coll);
    for (int i = 0; i < COUNT; i++)
        wrong += first[i] != (float)(RANKS * i + 6) || second[i] != 6;
    CHECK(!wrong, "%d elements", wrong);
    free(first);
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct halay_world *world;
    struct halay_group *group;

    REQUIRE(halay_world_open_fake(r->hub, r->rank, &world) == HALAY_OK &&
            halay_group_create(world, &group) == HALAY_OK);
    REQUIRE(halay_group_set_algorithm(group, "allreduce", "direct") == HALAY_OK);
    group->chunk_shift = -CHUNK_SHIFT_MOST;
    size_t all = halay_packed_state(RANKS, group->sharing);
    size_t needed = halay_algorithm_find(HALAY_COLL_ALLREDUCE, "direct")->ops->state_bytes(RANKS);
    r->wanted = 2 * (halay_round_up(halay_algorithm_state_max(RANKS, group->sharing), HALAY_CACHE_LINE) - needed);
    for (int k = 0; k < HALAY_CHANNELS; k++)
        sum_list(group);
    unsigned char *state = group->channels[halay_group_next(group) % HALAY_CHANNELS].state;
    memset(state, PATTERN, all);
    sum_list(group);
    for (size_t i = 0; i < all; i++)
        r->untouched += state[i] == PATTERN;
    halay_group_close(group);
    halay_world_close(world);
    return NULL;
}

int main(void)
{
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    struct halay_fake_hub *hub;

    CHECK(halay_packed.state_bytes(1024) == halay_packed.state_bytes(2), "it is cleared for each list");
    REQUIRE(halay_fake_hub_create(RANKS, &hub) == HALAY_OK);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){ .hub = hub, .rank = r };
        REQUIRE(!pthread_create(&threads[r], NULL, run_rank, &ranks[r]));
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        CHECK(ranks[r].untouched >= ranks[r].wanted && ranks[r].wanted > 1000, "rank %d: %zu bytes untouched of %zu", r,
              ranks[r].untouched, ranks[r].wanted);
    }
    halay_fake_hub_destroy(hub);
    return test_end();
}
