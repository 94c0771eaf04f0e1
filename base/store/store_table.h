/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: the store's keys and values in memory, bounded.
 */
#ifndef HALAY_BASE_STORE_TABLE_H
#define HALAY_BASE_STORE_TABLE_H

#include "halay_types.h"
#include <stddef.h>

struct store_entry {
    struct store_entry *next; /* in its bucket */
    unsigned char *value;     /* owned */
    size_t value_bytes;
    size_t key_bytes;
    unsigned char key[]; /* no zero at the end */
};

struct store_table {
    struct store_entry **buckets; /* owned: lists; NULL while the table is empty */
    size_t bucket_count, count;   /* at least as many as entries, but when memory is short */
    size_t bytes, max_bytes;      /* keys and values held, and their limit */
};

void store_table_init(struct store_table *table, size_t max_bytes);
void store_table_fini(struct store_table *table);

/* NULL if the key is absent. The entry is the table's, until the next set or remove. */
const struct store_entry *store_table_get(const struct store_table *table, const unsigned char *key, size_t key_bytes);
/* Removes all keys with this prefix. */
void store_table_remove(struct store_table *table, const unsigned char *prefix, size_t prefix_bytes);
/* Copies both; replaces what was there. HALAY_ERR_NO_MEMORY: none left, or the bound is reached; what was there
 * stays. */
enum halay_status store_table_set(struct store_table *table, const unsigned char *key, size_t key_bytes,
                                  const unsigned char *value, size_t value_bytes);

#endif
