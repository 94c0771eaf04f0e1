/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: an array of chains that doubles when there are as many nodes as chains. Zero-initialised; fini accepts any
 * state.
 */
#include "fusion/protocol/table.h"
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u; /* odd: 2^64 over the golden ratio */
    return hash ^ hash >> 29;                   /* not 32, which chain_of would undo */
}

/* Hashes a name, eight bytes at a time; the last eight overlap with those before them. */
uint64_t halay_table_hash(const char *name, size_t length)
{
    uint64_t hash = length, word = 0;

    for (size_t i = 0; i + sizeof word < length; i += sizeof word) {
        memcpy(&word, name + i, sizeof word);
        hash = mix(hash, word);
    }
    if (length >= sizeof word)
        memcpy(&word, name + length - sizeof word, sizeof word);
    for (size_t i = 0; length < sizeof word && i < length; i++)
        word = word << 8 | (unsigned char)name[i];
    return mix(hash, word);
}

static struct halay_table_node **chain_of(const struct halay_table *table, uint64_t hash)
{
    return &table->chains[(hash ^ hash >> 32) & (table->size - 1)];
}

struct halay_table_node *halay_table_find(const struct halay_table *table, const char *name, size_t length,
                                          uint64_t hash)
{
    if (!table->count)
        return NULL;
    for (struct halay_table_node *node = *chain_of(table, hash); node; node = node->next)
        if (node->hash == hash && node->length == length && !memcmp(node->name, name, length))
            return node;
    return NULL;
}

static enum halay_status grow_table(struct halay_table *table)
{
    struct halay_table bigger = { .size = table->size ? table->size * 2 : 64, .count = table->count };

    bigger.chains = calloc(bigger.size, sizeof *bigger.chains);
    if (!bigger.chains)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < table->size; i++)
        for (struct halay_table_node *node = table->chains[i], *next; node; node = next) {
            struct halay_table_node **chain = chain_of(&bigger, node->hash);
            next = node->next;
            node->next = *chain;
            *chain = node;
        }
    free(table->chains);
    *table = bigger;
    return HALAY_OK;
}

enum halay_status halay_table_add(struct halay_table *table, struct halay_table_node *node)
{
    if (table->count >= table->size && grow_table(table) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    struct halay_table_node **chain = chain_of(table, node->hash);
    node->next = *chain;
    *chain = node;
    table->count++;
    return HALAY_OK;
}

void halay_table_remove(struct halay_table *table, struct halay_table_node *node)
{
    struct halay_table_node **at = chain_of(table, node->hash);

    while (*at && *at != node)
        at = &(*at)->next;
    if (*at) {
        *at = node->next;
        table->count--;
    }
}

struct halay_table_node *halay_table_take(struct halay_table *table)
{
    for (size_t i = 0; i < table->size && table->count; i++)
        if (table->chains[i]) {
            struct halay_table_node *node = table->chains[i];
            table->chains[i] = node->next;
            table->count--;
            return node;
        }
    return NULL;
}

void halay_table_fini(struct halay_table *table)
{
    free(table->chains);
    *table = (struct halay_table){ 0 };
}
