/* SPDX-License-Identifier: Apache-2.0
 *
 * Forgotten groups: those of which a link drops whatever still arrives. They are few, the groups that failed, and asked
 * for only where a message has no receive.
 */
#ifndef HALAY_FORGOTTEN_H
#define HALAY_FORGOTTEN_H

#include <stddef.h>
#include <stdint.h>

struct halay_forgotten { /* zero-initialised */
    uint32_t *groups;    /* owned */
    size_t count, room;
};

/* Without memory it is not added: what arrives for it is kept then. */
void halay_forgotten_add(struct halay_forgotten *forgotten, uint32_t group);
void halay_forgotten_fini(struct halay_forgotten *forgotten);

/* Returns nonzero if the tag is one of a forgotten group. */
int halay_forgotten_has(const struct halay_forgotten *forgotten, uint64_t tag);

#endif
