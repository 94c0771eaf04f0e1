/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers: ENTERED or SETTLED of several ranks as one.
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

/* Returns how many numbers an item of this kind has. */
size_t halay_answers_count(enum halay_item_kind kind);
/* Merges one more of the same kind: ENTERED by minimum, SETTLED by maximum. HALAY_ERR_FORMAT: it is of no rank, or of
 * more than `most` in all, or has another length. */
enum halay_status halay_answers_add(struct halay_answers *a, const struct halay_item *item, int most);

#endif
