/* SPDX-License-Identifier: Apache-2.0
 *
 * Forgotten groups: those of which a link drops whatever still arrives. They are asked for only where a message has no
 * receive.
 *
 * Their numbers are kept as ranges. They stay few, however many groups are forgotten: when one is renewed, all numbers
 * are forgotten that no open group has (group/epoch.c).
 */
#ifndef HALAY_FORGOTTEN_H
#define HALAY_FORGOTTEN_H

#include <stddef.h>
#include <stdint.h>

struct halay_group_range {
    uint32_t first, last; /* numbers of groups, both included */
};

struct halay_forgotten {              /* zero-initialised */
    struct halay_group_range *ranges; /* owned: in order; at least one number is between two of them */
    size_t count, room;
};

/* Without memory they are not added: what arrives for them is kept then. */
void halay_forgotten_add(struct halay_forgotten *forgotten, struct halay_group_range groups);
void halay_forgotten_fini(struct halay_forgotten *forgotten);

/* Returns nonzero if the tag is one of a forgotten group. */
int halay_forgotten_has(const struct halay_forgotten *forgotten, uint64_t tag);

/* Returns nonzero if the tag is one of these groups. */
static inline int halay_group_range_has(struct halay_group_range groups, uint64_t tag)
{
    return tag >> 32 >= groups.first && tag >> 32 <= groups.last;
}

#endif
