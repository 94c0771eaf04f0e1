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
#include "base/number_text.h"
#include "fusion/coordinator/coordinator_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static struct halay_withdrawal *get_withdrawal(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    struct halay_withdrawal *w = entry->withdrawal;

    if (w)
        return w;
    w = calloc(1, sizeof *w + (size_t)c->options.size * sizeof *w->owed);
    if (!w)
        return NULL;
    w->entry = entry;
    w->next = c->withdrawals;
    c->withdrawals = w;
    entry->withdrawal = w;
    return w;
}

static void drop_verdicts(struct halay_withdrawal *w, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(w->verdicts[i].text);
    w->count -= count;
    if (w->count)
        memmove(w->verdicts, w->verdicts + count, w->count * sizeof *w->verdicts);
}

static void withdrawal_free(struct halay_withdrawal *w)
{
    drop_verdicts(w, w->count);
    free(w->verdicts);
    free(w);
}

/* Drops verdicts that no rank owes. If none is left, frees the withdrawal, and the entry if nothing else keeps that. */
static void entry_release(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    struct halay_withdrawal **at = &c->withdrawals, *w = entry->withdrawal;
    size_t most = 0;

    for (int r = 0; r < c->options.size; r++)
        most = w->owed[r] > most ? w->owed[r] : most;
    drop_verdicts(w, w->count - most);
    if (most)
        return;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    entry->withdrawal = NULL;
    withdrawal_free(w);
    if (!entry->present && entry->id != (uint32_t)HALAY_NO_ID && !entry->forgetting)
        halay_tensor_entry_list_append(&c->resting, entry);
    halay_coordinator_release_entry(c, entry);
}

static enum halay_status emit_verdict(struct halay_coordinator *c, const struct halay_tensor_entry *entry, int rank,
                                      const struct halay_verdict *verdict)
{
    return halay_coordinator_emit_error(c, rank, entry, verdict->status, verdict->text);
}

static void describe_verdict(const struct halay_coordinator *c, const struct halay_tensor_entry *entry, int rank,
                             const struct halay_item *item, char *text, size_t size)
{
    char subject[HALAY_SUBJECT_MAX];
    struct halay_rank_text missing = { .count = 0 };
    int by = halay_coordinator_rank(c, rank);

    halay_coordinator_subject(c, entry, subject, sizeof subject);
    for (int r = 0; r < c->options.size; r++)
        if (halay_coordinator_awaits(c, entry, r))
            halay_rank_text_add(&missing, halay_coordinator_rank(c, r));
    if (item->status == HALAY_ERR_TIMEOUT)
        halay_snprintf(text, size, "%s: timed out after %g s on rank %d", subject, item->after_ms / 1e3, by);
    else
        snprintf(text, size, "%s: canceled by rank %d", subject, by);
    if (missing.count)
        halay_append(text, size, "; not submitted by %s", missing.text);
}

/* Adds the verdict of a rank that withdraws the entry's submissions by this item. */
static enum halay_status add_verdict(const struct halay_coordinator *c, const struct halay_tensor_entry *entry,
                                     int rank, const struct halay_item *item)
{
    struct halay_withdrawal *w = entry->withdrawal;
    char text[HALAY_TEXT_MAX];

    describe_verdict(c, entry, rank, item, text, sizeof text);
    if (item->status == HALAY_ERR_TIMEOUT)
        halay_log_write(c->options.log, halay_log_reported_level(c->options.log), "%s", text);
    else
        halay_info(c->options.log, "%s", text);
    struct halay_verdict *grown = realloc(w->verdicts, (w->count + 1) * sizeof *grown);
    if (!grown)
        return HALAY_ERR_NO_MEMORY;
    w->verdicts = grown;
    grown[w->count] = (struct halay_verdict){ item->status, strdup(text) };
    if (!grown[w->count].text)
        return HALAY_ERR_NO_MEMORY;
    w->count++;
    return HALAY_OK;
}

/* Ends the round: sends the error to the ranks that have arrived, and later to each other one when it arrives. */
static enum halay_status end_round(struct halay_coordinator *c, struct halay_tensor_entry *entry, int rank,
                                   const struct halay_item *item)
{
    struct halay_withdrawal *w = entry->withdrawal;
    enum halay_status status = add_verdict(c, entry, rank, item);

    for (int r = 0; r < c->options.size && status == HALAY_OK; r++)
        if (entry->state[r])
            status = emit_verdict(c, entry, r, &w->verdicts[w->count - 1]);
        else
            w->owed[r] += (unsigned)halay_coordinator_awaits(c, entry, r);
    halay_coordinator_reset_entry(c, entry); /* stays: it has a withdrawal */
    entry_release(c, entry);
    return status;
}

enum halay_status halay_coordinator_withdraw(struct halay_coordinator *c, int rank, const struct halay_item *item)
{
    uint64_t hash = halay_table_hash(item->name, item->name_length);
    struct halay_tensor_entry *entry =
        (struct halay_tensor_entry *)halay_table_find(&c->names, item->name, item->name_length, hash);

    if (!entry || !entry->state[rank] || entry->is_join || halay_coordinator_is_complete(c, entry))
        return HALAY_OK; /* it runs */
    return get_withdrawal(c, entry) ? end_round(c, entry, rank, item) : HALAY_ERR_NO_MEMORY;
}

int halay_coordinator_owes(const struct halay_tensor_entry *entry, int rank)
{
    return entry->withdrawal && entry->withdrawal->owed[rank];
}

enum halay_status halay_coordinator_settle(struct halay_coordinator *c, struct halay_tensor_entry *entry, int rank)
{
    struct halay_withdrawal *w = entry->withdrawal;
    enum halay_status status = emit_verdict(c, entry, rank, &w->verdicts[w->count - w->owed[rank]]);

    w->owed[rank]--;
    entry_release(c, entry);
    return status;
}

void halay_coordinator_forgive(struct halay_coordinator *c, int rank)
{
    for (struct halay_withdrawal *w = c->withdrawals, *next; w; w = next) {
        next = w->next;
        w->owed[rank] = 0;
        entry_release(c, w->entry);
    }
}

void halay_coordinator_free_withdrawals(struct halay_coordinator *c)
{
    for (struct halay_withdrawal *w = c->withdrawals, *next; w; w = next) {
        next = w->next;
        w->entry->withdrawal = NULL;
        withdrawal_free(w);
    }
    c->withdrawals = NULL;
}
