/* SPDX-License-Identifier: Apache-2.0
 *
 * Table: nodes found by name. The nodes belong to the caller, who embeds them; the table owns only its array of chains.
 */
#ifndef HALAY_TABLE_H
#define HALAY_TABLE_H

#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

struct halay_table_node {
    struct halay_table_node *next;
    const char *name; /* borrowed while in the table; not terminated */
    size_t length;
    uint64_t hash;
};

struct halay_table {                  /* zero-initialised */
    struct halay_table_node **chains; /* owned */
    size_t size;                      /* a power of two, or 0 */
    size_t count;
};

uint64_t halay_table_hash(const char *name, size_t length);

/* Finds a node, NULL if the name is unknown. hash: halay_table_hash of the name. */
struct halay_table_node *halay_table_find(const struct halay_table *table, const char *name, size_t length,
                                          uint64_t hash);

/* Adds a node whose name, length and hash are set and not in the table. HALAY_ERR_NO_MEMORY: it is not added. */
enum halay_status halay_table_add(struct halay_table *table, struct halay_table_node *node);
void halay_table_remove(struct halay_table *table, struct halay_table_node *node);

/* Removes any node; NULL when the table is empty. For emptying a table. */
struct halay_table_node *halay_table_take(struct halay_table *table);
void halay_table_fini(struct halay_table *table);

#endif
