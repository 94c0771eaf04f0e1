/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawal: a rank withdraws a submission that not all ranks have made yet; it ends on every rank, with the same
 * status and text.
 *
 *     has arrived       ERROR now
 *     has not arrived   it owes: its next submission of the name is the withdrawn one, and gets the ERROR then
 *
 * So the n-th submission of a name on one rank always matches the n-th on the others, and no rank gets out of step, in
 * whatever order messages are received: each submission has one answer.
 */
#ifndef HALAY_WITHDRAW_H
#define HALAY_WITHDRAW_H

#include "fusion/coordinator/coordinator_state.h"

/* The answer to a withdrawn submission. */
struct halay_verdict {
    enum halay_status status;
    char *text; /* owned */
};

/* The withdrawals of an entry. A rank owes the last owed[rank] verdicts, in their order: until it arrives it misses
 * each new one. */
struct halay_withdrawal {
    struct halay_tensor_entry *entry; /* borrowed */
    struct halay_withdrawal *next;    /* of the coordinator's list */
    struct halay_verdict *verdicts;   /* owned: those that a rank owes, the latest last */
    size_t count;
    unsigned owed[]; /* [rank]: submissions that were withdrawn before it made them */
};

/* Takes WITHDRAW from a rank: does nothing if it has not arrived, or all have. */
enum halay_status halay_coordinator_withdraw(struct halay_coordinator *c, int rank, const struct halay_item *item);

/* Returns nonzero if the rank's next submission has already been withdrawn. */
static inline int halay_tensor_entry_is_owed_by(const struct halay_tensor_entry *entry, int rank)
{
    return entry->withdrawal && entry->withdrawal->owed[rank];
}

/* Sends the answer to a rank that has submitted it. The entry may have been freed. */
enum halay_status halay_coordinator_settle(struct halay_coordinator *c, struct halay_tensor_entry *entry, int rank);
/* Clears the debts of a rank that joins: its data are not needed. */
void halay_coordinator_forgive(struct halay_coordinator *c, int rank);
/* Frees all withdrawals, at the end of the coordinator. */
void halay_coordinator_free_withdrawals(struct halay_coordinator *c);

#endif
