/* SPDX-License-Identifier: Apache-2.0
 *
 * Explicit-state exploration: visits every state that a model can reach, breadth first, and returns the shortest way to
 * a state that breaks a property. A state is a struct without padding whose bytes decide everything that follows.
 *
 * Of a visited state, eight bytes of hash and its origin are kept. Two of 10^7 states share a hash with a probability
 * of 3 in 10^6; then one of them is not visited.
 */
#ifndef HALAY_TEST_EXPLORE_H
#define HALAY_TEST_EXPLORE_H

#include "tests/test.h"
#include <stdint.h>
#include <string.h>

enum { EXPLORE_ACTIONS_MAX = 64, EXPLORE_STEPS_MAX = 200 };

struct action {
    unsigned char kind, who, what;
};

struct explored_model {
    size_t size; /* bytes of a state, a multiple of 16 */
    /* Writes the actions that are possible; returns their number. */
    int (*list_actions)(const void *state, struct action *actions);
    /* Performs one; returns NULL, or the property that this breaks. */
    const char *(*perform)(void *state, struct action action);
    /* Judges a state without actions: NULL if it is a proper end. */
    const char *(*judge_end)(const void *state);
    void (*print)(struct action action);
};

struct exploration {
    size_t states, ends;
    const char *broken; /* the property; NULL if all hold */
    struct action steps[EXPLORE_STEPS_MAX];
    int count;
};

struct explore_origin {
    uint32_t from;
    struct action action;
};

struct explore_level {
    unsigned char *states; /* owned */
    size_t count, capacity;
};

struct explorer {
    uint64_t *hashes; /* owned; open addressing, 0 is free */
    size_t capacity, count, origins_capacity;
    struct explore_origin *origins; /* owned; of each state in the order of discovery */
    struct explore_level levels[2];
};

/* Never 0. The halves of each 16 bytes go separate ways, which a processor follows at once. */
static inline uint64_t explore_hash(const void *state, size_t size)
{
    uint64_t hashes[2] = { 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f }, words[2];

    for (size_t at = 0; at < size; at += sizeof words) {
        memcpy(words, (const unsigned char *)state + at, sizeof words);
        hashes[0] = (hashes[0] ^ words[0]) * 0xff51afd7ed558ccd;
        hashes[1] = (hashes[1] ^ words[1]) * 0xc4ceb9fe1a85ec53;
        hashes[0] ^= hashes[0] >> 32;
        hashes[1] ^= hashes[1] >> 32;
    }
    hashes[0] = (hashes[0] ^ (hashes[1] << 1 | hashes[1] >> 63)) * 0x9e3779b97f4a7c15;
    hashes[0] ^= hashes[0] >> 29;
    return hashes[0] ? hashes[0] : 1;
}

/* Returns nonzero if the hash was new. */
static inline int explore_insert_hash(struct explorer *e, uint64_t hash)
{
    size_t at = hash & (e->capacity - 1);

    while (e->hashes[at] && e->hashes[at] != hash)
        at = (at + 1) & (e->capacity - 1);
    if (e->hashes[at])
        return 0;
    e->hashes[at] = hash;
    return 1;
}

static inline void explore_grow(struct explorer *e)
{
    uint64_t *old = e->hashes;
    size_t old_capacity = e->capacity;

    e->capacity = old_capacity ? 2 * old_capacity : 1024;
    e->hashes = calloc(e->capacity, sizeof *e->hashes);
    REQUIRE(e->hashes != NULL);
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i])
            explore_insert_hash(e, old[i]);
    free(old);
    e->origins_capacity = e->capacity / 2;
    e->origins = realloc(e->origins, e->origins_capacity * sizeof *e->origins);
    REQUIRE(e->origins != NULL);
}

/* Adds a state to the next level unless it is known. */
static inline void explore_add(struct explorer *e, struct explore_level *next, const void *state, size_t size,
                               struct explore_origin origin)
{
    if (e->count == e->origins_capacity)
        explore_grow(e);
    if (!explore_insert_hash(e, explore_hash(state, size)))
        return;
    e->origins[e->count++] = origin;
    if (next->count == next->capacity) {
        next->capacity = next->capacity ? 2 * next->capacity : 256;
        next->states = realloc(next->states, next->capacity * size);
        REQUIRE(next->states != NULL);
    }
    memcpy(next->states + next->count++ * size, state, size);
}

/* Writes the steps that lead to a state, and one more if `last` is not NULL. */
static inline void explore_trace(const struct explorer *e, size_t index, const struct action *last,
                                 struct exploration *found)
{
    int count = last != NULL;

    for (size_t i = index; i; i = e->origins[i].from)
        count++;
    REQUIRE(count <= EXPLORE_STEPS_MAX);
    found->count = count;
    if (last)
        found->steps[--count] = *last;
    for (size_t i = index; i; i = e->origins[i].from)
        found->steps[--count] = e->origins[i].action;
}

/* Visits the successors of one state. */
static inline void explore_expand(struct explorer *e, const struct explored_model *model, const void *state,
                                  size_t index, struct explore_level *next, void *scratch, struct exploration *found)
{
    struct action actions[EXPLORE_ACTIONS_MAX];
    int count = model->list_actions(state, actions);

    REQUIRE(count <= EXPLORE_ACTIONS_MAX);
    for (int i = 0; i < count && !found->broken; i++) {
        memcpy(scratch, state, model->size);
        found->broken = model->perform(scratch, actions[i]);
        if (found->broken)
            explore_trace(e, index, &actions[i], found);
        else
            explore_add(e, next, scratch, model->size, (struct explore_origin){ (uint32_t)index, actions[i] });
    }
    if (!count) {
        found->ends++;
        found->broken = model->judge_end(state);
        if (found->broken)
            explore_trace(e, index, NULL, found);
    }
}

/* Explores from one state until a property is broken or all states are known. */
static inline struct exploration explore_model(const struct explored_model *model, const void *start)
{
    struct explorer e = { 0 };
    struct exploration found = { 0 };
    void *scratch = malloc(model->size);
    size_t first = 0; /* index of the level's first state */
    int at = 0;

    REQUIRE(scratch && model->size % 16 == 0);
    explore_add(&e, &e.levels[0], start, model->size, (struct explore_origin){ 0 });
    while (e.levels[at].count && !found.broken) {
        struct explore_level *level = &e.levels[at], *next = &e.levels[!at];
        next->count = 0;
        for (size_t i = 0; i < level->count && !found.broken; i++)
            explore_expand(&e, model, level->states + i * model->size, first + i, next, scratch, &found);
        first += level->count;
        at = !at;
    }
    found.states = e.count;
    free(scratch);
    free(e.levels[0].states);
    free(e.levels[1].states);
    free(e.origins);
    free(e.hashes);
    return found;
}

static inline void explore_print(const struct explored_model *model, const struct exploration *found)
{
    printf("%s, after\n", found->broken);
    for (int i = 0; i < found->count; i++) {
        printf("  %2d. ", i + 1);
        model->print(found->steps[i]);
        printf("\n");
    }
}

#endif
