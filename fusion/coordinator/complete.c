/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion: all ranks that submit a name have arrived. If they agree it is queued to run.
 *
 *     all ranks arrived        agree: it is runnable
 *     the members arrived      of a process set that is made or removed: the others count as agreeing
 *     the others have joined   they count as agreeing with the first rank that arrived; an operation that needs their
 *                              data is refused on every rank
 *     a join itself            afterwards no rank has joined
 */
#include "fusion/coordinator/coordinator_state.h"
#include <stdio.h>

int halay_coordinator_is_complete(const struct halay_coordinator *c, const struct halay_tensor_entry *entry)
{
    int is_all =
        entry->present + entry->outsiders >= c->options.size; /* above it: fill_in has counted outsiders, too */

    if (is_all || !halay_coordinator_parent(c)->joined_count || !entry->present)
        return is_all;
    for (int r = 0; r < c->options.size; r++)
        if (halay_coordinator_awaits(c, entry, r))
            return 0;
    return 1;
}

static int first_present(const struct halay_tensor_entry *entry)
{
    int r = 0;

    while (!entry->state[r])
        r++;
    return r;
}

static enum halay_status refuse_joined(struct halay_coordinator *c, struct halay_tensor_entry *entry, int rank)
{
    char text[HALAY_SUBJECT_MAX + 100], subject[HALAY_SUBJECT_MAX];

    halay_coordinator_subject(c, entry, subject, sizeof subject);
    snprintf(text, sizeof text, "%s: only all-reduces and barriers are possible while rank %d has joined",
             entry->is_change ? "process sets" : subject, halay_coordinator_rank(c, rank));
    return halay_coordinator_refuse(c, entry, HALAY_ERR_UNSUPPORTED, text);
}

/* Counts ranks that have joined, or are not to arrive, as present. *is_refused: not possible for this operation; the
 * entry may have been freed. */
static enum halay_status fill_in(struct halay_coordinator *c, struct halay_tensor_entry *entry, int *is_refused)
{
    int from = first_present(entry);
    const struct halay_announcement *said =
        entry->state[from] == HALAY_ENTRY_ANNOUNCED ? &entry->announced[from] : NULL;
    const struct halay_signature *s = said ? &said->signature : &entry->agreed;

    *is_refused = 0;
    for (int r = 0; r < c->options.size; r++) {
        if (entry->state[r])
            continue;
        if (halay_tensor_entry_lacks(entry, r) && s->collective != HALAY_ALLREDUCE && s->collective != HALAY_BARRIER) {
            *is_refused = 1;
            return refuse_joined(c, entry, r);
        }
        entry->state[r] = HALAY_ENTRY_READY;
        entry->present++;
        entry->has_parts = 1;
        entry->absent += c->options.join_average == HALAY_JOIN_AVERAGE_PRESENT && s->reduction == HALAY_AVERAGE;
        enum halay_status status =
            said ? halay_tensor_entry_announce(entry, c->options.size, r, s, said->payload.at, said->payload.count)
                 : HALAY_OK;
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* Returns nonzero if the tensor may share a bucket. HALAY_DETERMINISTIC=run: the bits of a result must not depend on
 * the other tensors in its bucket. An all-reduce adds each element in the same order, wherever it is
 * (collectives/choose/select.c); adasum does not. */
static int can_fuse(const struct halay_coordinator *c, const struct halay_signature *s)
{
    return halay_signature_fuses(s) &&
           (c->options.deterministic != HALAY_DETERMINISTIC_RUN || s->reduction != HALAY_ADASUM);
}

/* Queues an agreed tensor. One that cannot share a bucket need not wait for others. */
static enum halay_status make_runnable(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    halay_coordinator_note(c);
    if (entry->is_join) {
        for (int r = 0; r < c->options.size; r++)
            c->arrivals[r].has_joined = 0; /* all have joined */
        c->joined_count = 0;
        c->join = entry;
        return HALAY_OK;
    }
    if (!can_fuse(c, &entry->agreed))
        return halay_coordinator_choose(c, entry);
    c->runnable_bytes += halay_signature_bytes(&entry->agreed);
    return halay_tensor_entry_push(&c->runnable, entry);
}

enum halay_status halay_coordinator_complete(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    enum halay_status status = HALAY_OK;
    int is_refused = 0, is_agreed = 0;

    if (entry->present < c->options.size)
        status = fill_in(c, entry, &is_refused);
    if (status == HALAY_OK && !is_refused)
        status = halay_coordinator_agree(c, entry, &is_agreed);
    if (status == HALAY_OK && is_agreed) {
        halay_tensor_entry_list_remove(entry);
        status = make_runnable(c, entry);
    }
    return status;
}
