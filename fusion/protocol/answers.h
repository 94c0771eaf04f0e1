/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers: ENTERED or SETTLED of several ranks, merged.
 */
#ifndef HALAY_ANSWERS_H
#define HALAY_ANSWERS_H

#include "collectives/group/epoch.h"
#include "fusion/protocol/messages.h"
#include "fusion/protocol/replay.h"

_Static_assert((int)HALAY_ENTERED_NUMBERS <= (int)HALAY_EPOCH_VALUES, "numbers has room for both");

/* Zero-initialised. */
struct halay_answers {
    int ranks; /* the number of ranks */
    uint64_t numbers[HALAY_EPOCH_VALUES];
};

/* Returns the count of numbers in an item of this kind. */
size_t halay_answers_count(enum halay_item_kind kind);
/* Merges one more of the same kind: ENTERED by minimum, SETTLED by maximum. HALAY_ERR_FORMAT: the item is for no rank,
 * would make the answers those of more than `max` ranks, or has another length. */
enum halay_status halay_answers_add(struct halay_answers *a, const struct halay_item *item, int max);

#endif
