/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: a fixed number of buckets with lists. A job stores some keys a rank, all of them by holders of the secret, so
 * neither growth nor a hash against crafted keys is worth code.
 */
#include "base/store/store_table.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = sizeof((struct store_table *)0)->buckets / sizeof(struct store_entry *) };

void store_table_init(struct store_table *table, size_t most_bytes)
{
    *table = (struct store_table){ .most_bytes = most_bytes };
}

void store_table_fini(struct store_table *table)
{
    for (size_t b = 0; b < BUCKETS; b++)
        for (struct store_entry *entry = table->buckets[b], *next; entry; entry = next) {
            next = entry->next;
            free(entry->value);
            free(entry);
        }
    store_table_init(table, table->most_bytes);
}

/* FNV-1a. */
size_t store_hash(const unsigned char *key, size_t key_bytes)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < key_bytes; i++)
        hash = (hash ^ key[i]) * 16777619u;
    return hash;
}

static size_t bucket_of(const unsigned char *key, size_t key_bytes)
{
    return store_hash(key, key_bytes) % BUCKETS;
}

static struct store_entry *find_entry(const struct store_table *table, const unsigned char *key, size_t key_bytes)
{
    struct store_entry *entry = table->buckets[bucket_of(key, key_bytes)];

    while (entry && (entry->key_bytes != key_bytes || memcmp(entry->key, key, key_bytes)))
        entry = entry->next;
    return entry;
}

const struct store_entry *store_table_get(const struct store_table *table, const unsigned char *key, size_t key_bytes)
{
    return find_entry(table, key, key_bytes);
}

static struct store_entry *append_entry(struct store_table *table, const unsigned char *key, size_t key_bytes)
{
    struct store_entry *entry = malloc(sizeof *entry + key_bytes);

    if (!entry)
        return NULL;
    struct store_entry **bucket = &table->buckets[bucket_of(key, key_bytes)];
    *entry = (struct store_entry){ .next = *bucket, .key_bytes = key_bytes };
    memcpy(entry->key, key, key_bytes);
    *bucket = entry;
    table->bytes += sizeof *entry + key_bytes;
    return entry;
}

void store_table_remove(struct store_table *table, const unsigned char *prefix, size_t prefix_bytes)
{
    for (size_t b = 0; b < BUCKETS; b++)
        for (struct store_entry **at = &table->buckets[b], *entry; (entry = *at);) {
            if (entry->key_bytes < prefix_bytes || memcmp(entry->key, prefix, prefix_bytes) != 0) {
                at = &entry->next;
                continue;
            }
            *at = entry->next;
            table->bytes -= sizeof *entry + entry->key_bytes + entry->value_bytes;
            free(entry->value);
            free(entry);
        }
}

enum halay_status store_table_set(struct store_table *table, const unsigned char *key, size_t key_bytes,
                                  const unsigned char *value, size_t value_bytes)
{
    struct store_entry *entry = find_entry(table, key, key_bytes);
    size_t old = entry ? entry->value_bytes : 0;

    if (table->bytes - old + value_bytes + (entry ? 0 : sizeof *entry + key_bytes) > table->most_bytes)
        return HALAY_ERR_NO_MEMORY;
    unsigned char *copy = malloc(value_bytes ? value_bytes : 1);
    if (!copy)
        return HALAY_ERR_NO_MEMORY;
    if (!entry && !(entry = append_entry(table, key, key_bytes))) {
        free(copy);
        return HALAY_ERR_NO_MEMORY;
    }
    if (value_bytes)
        memcpy(copy, value, value_bytes);
    free(entry->value);
    entry->value = copy;
    entry->value_bytes = value_bytes;
    table->bytes += value_bytes - old;
    return HALAY_OK;
}
