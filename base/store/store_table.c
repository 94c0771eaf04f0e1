/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: buckets with lists, twice as many whenever there are more entries than buckets: a job stores some keys a rank.
 * All are by holders of the secret, so a hash against crafted keys is not worth code.
 */
#include "base/store/store_table.h"
#include "base/hash.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS_FIRST = 256 };

void store_table_init(struct store_table *table, size_t max_bytes)
{
    *table = (struct store_table){ .max_bytes = max_bytes };
}

void store_table_fini(struct store_table *table)
{
    for (size_t b = 0; b < table->bucket_count; b++)
        for (struct store_entry *entry = table->buckets[b], *next; entry; entry = next) {
            next = entry->next;
            free(entry->value);
            free(entry);
        }
    free(table->buckets);
    store_table_init(table, table->max_bytes);
}

/* Returns the bucket of a key; the table has buckets. */
static struct store_entry **bucket_of(const struct store_table *table, const unsigned char *key, size_t key_bytes)
{
    return &table->buckets[halay_hash_more(HALAY_HASH_BEGIN, key, key_bytes) % table->bucket_count];
}

/* Returns zero without memory for more buckets, and leaves the table unchanged. */
static int grow_buckets(struct store_table *table)
{
    size_t count = table->bucket_count ? 2 * table->bucket_count : BUCKETS_FIRST;
    struct store_table grown = { .buckets = calloc(count, sizeof *grown.buckets), .bucket_count = count };

    if (!grown.buckets)
        return 0;
    for (size_t b = 0; b < table->bucket_count; b++)
        for (struct store_entry *entry = table->buckets[b], *next; entry; entry = next) {
            struct store_entry **bucket = bucket_of(&grown, entry->key, entry->key_bytes);
            next = entry->next;
            entry->next = *bucket;
            *bucket = entry;
        }
    free(table->buckets);
    table->buckets = grown.buckets;
    table->bucket_count = count;
    return 1;
}

static struct store_entry *find_entry(const struct store_table *table, const unsigned char *key, size_t key_bytes)
{
    struct store_entry *entry = table->buckets ? *bucket_of(table, key, key_bytes) : NULL;

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
    if (table->count >= table->bucket_count && !grow_buckets(table) && !table->buckets)
        return NULL;
    struct store_entry *entry = malloc(sizeof *entry + key_bytes);
    if (!entry)
        return NULL;
    struct store_entry **bucket = bucket_of(table, key, key_bytes);
    *entry = (struct store_entry){ .next = *bucket, .key_bytes = key_bytes };
    memcpy(entry->key, key, key_bytes);
    *bucket = entry;
    table->count++;
    table->bytes += sizeof *entry + key_bytes;
    return entry;
}

void store_table_remove(struct store_table *table, const unsigned char *prefix, size_t prefix_bytes)
{
    for (size_t b = 0; b < table->bucket_count; b++)
        for (struct store_entry **at = &table->buckets[b], *entry; (entry = *at);) {
            if (entry->key_bytes < prefix_bytes || memcmp(entry->key, prefix, prefix_bytes) != 0) {
                at = &entry->next;
                continue;
            }
            *at = entry->next;
            table->count--;
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

    if (table->bytes - old + value_bytes + (entry ? 0 : sizeof *entry + key_bytes) > table->max_bytes)
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
