/* SPDX-License-Identifier: Apache-2.0
 *
 * Roll: the lists it is on, and what is kept of the ranks' announcements.
 */
#include "fusion/coordinator/roll.h"
#include <stdlib.h>
#include <string.h>

struct halay_roll *halay_roll_create(const char *name, size_t length, uint64_t hash, int size)
{
    struct halay_roll *roll = calloc(1, sizeof *roll + length + 1 + (size_t)size);

    if (!roll)
        return NULL;
    roll->state = (unsigned char *)(roll + 1);
    char *copy = (char *)roll->state + size;
    memcpy(copy, name, length);
    roll->node = (struct halay_table_node){ .name = copy, .length = length, .hash = hash };
    roll->id = (uint32_t)HALAY_NO_ID;
    return roll;
}

void halay_roll_free_announced(struct halay_roll *roll, int size)
{
    for (int r = 0; roll->announced && r < size; r++)
        halay_words_fini(&roll->announced[r].words);
    free(roll->announced);
    roll->announced = NULL;
}

void halay_roll_free(struct halay_roll *roll, int size)
{
    halay_roll_free_announced(roll, size);
    halay_words_fini(&roll->words);
    free(roll->outside);
    free(roll);
}

enum halay_status halay_roll_announce(struct halay_roll *roll, int size, int rank,
                                      const struct halay_signature *signature, const void *words, size_t count)
{
    if (!roll->announced)
        roll->announced = calloc((size_t)size, sizeof *roll->announced);
    if (!roll->announced || halay_words_set(&roll->announced[rank].words, words, count) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    roll->announced[rank].signature = *signature;
    roll->state[rank] = HALAY_ROLL_ANNOUNCED;
    roll->different++;
    return HALAY_OK;
}

enum halay_status halay_roll_ask_only(struct halay_roll *roll, int size, const uint64_t *ranks, size_t count)
{
    if (!roll->outside)
        roll->outside = malloc((size_t)size);
    if (!roll->outside)
        return HALAY_ERR_NO_MEMORY;
    memset(roll->outside, 1, (size_t)size);
    roll->outsiders = size;
    for (size_t i = 0; i < count; i++)
        if (ranks[i] < (uint64_t)size && roll->outside[ranks[i]]) {
            roll->outside[ranks[i]] = 0;
            roll->outsiders--;
        }
    return HALAY_OK;
}

void halay_roll_list_remove(struct halay_roll *roll)
{
    if (!roll->list)
        return;
    *(roll->previous ? &roll->previous->next : &roll->list->first) = roll->next;
    *(roll->next ? &roll->next->previous : &roll->list->last) = roll->previous;
    roll->list->count--;
    roll->list = NULL;
    roll->previous = roll->next = NULL;
}

void halay_roll_list_append(struct halay_roll_list *list, struct halay_roll *roll)
{
    halay_roll_list_remove(roll);
    roll->list = list;
    roll->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = roll;
    list->last = roll;
    list->count++;
}

enum halay_status halay_roll_push(struct halay_roll_vector *v, struct halay_roll *roll)
{
    if (v->count == v->capacity) {
        size_t capacity = v->capacity ? v->capacity * 2 : 64;
        struct halay_roll **grown = realloc(v->rolls, capacity * sizeof *grown);
        if (!grown)
            return HALAY_ERR_NO_MEMORY;
        v->rolls = grown;
        v->capacity = capacity;
    }
    v->rolls[v->count++] = roll;
    return HALAY_OK;
}
