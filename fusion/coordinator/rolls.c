/* SPDX-License-Identifier: Apache-2.0
 *
 * Rolls: those of a coordinator, found by name, made and given back.
 */
#include "fusion/coordinator/rolls.h"
#include "fusion/coordinator/stragglers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct halay_roll *halay_coordinator_roll(struct halay_coordinator *c, const char *name, size_t length)
{
    uint64_t hash = halay_table_hash(name, length);
    struct halay_roll *roll = (struct halay_roll *)halay_table_find(&c->names, name, length, hash);

    if (roll)
        return roll;
    roll = halay_roll_create(name, length, hash, c->options.size);
    if (roll && halay_table_add(&c->names, &roll->node) != HALAY_OK) {
        halay_roll_free(roll, c->options.size);
        return NULL;
    }
    return roll;
}

void halay_coordinator_release_roll(struct halay_coordinator *c, struct halay_roll *roll)
{
    if (roll->present || roll->id != (uint32_t)HALAY_NO_ID || roll->withdrawal)
        return;
    halay_roll_list_remove(roll);
    halay_table_remove(&c->names, &roll->node);
    halay_arrivals_forget(c, roll);
    halay_roll_free(roll, c->options.size);
}

void halay_coordinator_rest_roll(struct halay_coordinator *c, struct halay_roll *roll)
{
    memset(roll->state, 0, (size_t)c->options.size);
    roll->present = roll->different = roll->absent = roll->has_parts = roll->is_change = 0;
    roll->since_us = roll->latest_us = 0;
    free(roll->outside);
    roll->outside = NULL;
    roll->outsiders = 0;
    if (roll->id != (uint32_t)HALAY_NO_ID && !roll->forgetting && !roll->withdrawal)
        halay_roll_list_append(&c->resting, roll);
    else
        halay_roll_list_remove(roll);
    halay_coordinator_release_roll(c, roll);
}

void halay_coordinator_free_rolls(struct halay_coordinator *c)
{
    struct halay_table_node *node;

    while ((node = halay_table_take(&c->names))) {
        struct halay_roll *roll = (struct halay_roll *)node;
        if (c->options.parent)
            halay_arrivals_forget(c, roll);
        halay_roll_free(roll, c->options.size);
    }
    halay_table_fini(&c->names);
}

void halay_coordinator_subject(const struct halay_coordinator *c, const struct halay_roll *roll, char *text,
                               size_t size)
{
    if (roll->is_change)
        snprintf(text, size, "%.*s", (int)roll->node.length, roll->node.name);
    else if (c->options.number)
        snprintf(text, size, "tensor '%.*s' of process set %d", (int)roll->node.length, roll->node.name,
                 c->options.number);
    else
        snprintf(text, size, "tensor '%.*s'", (int)roll->node.length, roll->node.name);
}
