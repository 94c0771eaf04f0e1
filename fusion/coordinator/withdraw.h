/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawal: a rank takes back a submission that not all ranks have made yet; it ends on every rank, with the same
 * status and text.
 *
 *     has come          ERROR now
 *     has not come      it owes: its next submission of the name is the one that was withdrawn, and gets the ERROR then
 *
 * So the n-th submission of a name on one rank always belongs to the n-th on the others, and no rank gets out of step,
 * however the messages cross: each submission has one answer.
 */
#ifndef HALAY_WITHDRAW_H
#define HALAY_WITHDRAW_H

#include "fusion/coordinator/coordinator_state.h"

/* What the ranks are told of one. */
struct halay_verdict {
    enum halay_status status;
    char *text; /* owned */
};

/* Of an entry. A rank owes the last owed[rank] verdicts, in their order: until it has come it misses each new one. */
struct halay_withdrawal {
    struct halay_tensor_entry *entry; /* borrowed */
    struct halay_withdrawal *next;    /* of the coordinator's list */
    struct halay_verdict *verdicts;   /* owned: those that somebody owes, the latest last */
    size_t count;
    unsigned owed[]; /* [rank]: submissions that were withdrawn before it made them */
};

/* WITHDRAW from a rank: nothing if it has not come, or all have. */
enum halay_status halay_coordinator_withdraw(struct halay_coordinator *c, int rank, const struct halay_item *item);

/* What the rank submits now was withdrawn before. */
static inline int halay_tensor_entry_is_owed_by(const struct halay_tensor_entry *entry, int rank)
{
    return entry->withdrawal && entry->withdrawal->owed[rank];
}

/* It has submitted it: the answer. The entry may be gone afterwards. */
enum halay_status halay_coordinator_settle(struct halay_coordinator *c, struct halay_tensor_entry *entry, int rank);
/* A rank that joins owes nothing any more: its data are not asked for. */
void halay_coordinator_forgive(struct halay_coordinator *c, int rank);
/* At the end of the coordinator. */
void halay_coordinator_free_withdrawals(struct halay_coordinator *c);

#endif
