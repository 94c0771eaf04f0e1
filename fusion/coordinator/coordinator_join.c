/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining, the coordinator's side: ranks that have no more data until all have none.
 *
 *     rank 1 joins           what lacks rank 1 only is complete; so is all that comes without it from now on
 *     complete               rank 1 counts as one that agrees with the first rank that came; an operation that needs
 *                            its data is refused on every rank
 *     the last rank joins    the join itself is complete, after all that was before: nobody has joined any more
 */
#include "fusion/coordinator/coordinator_impl.h"
#include <stdio.h>
#include <string.h>

static int first_present(const struct entry *e)
{
    int r = 0;

    while (!e->state[r])
        r++;
    return r;
}

static enum halay_status refuse(struct halay_coordinator *c, struct entry *e, int rank)
{
    char text[HALAY_SUBJECT_MAX + 100], subject[HALAY_SUBJECT_MAX];

    halay_coordinator_subject(c, e, subject, sizeof subject);
    snprintf(text, sizeof text, "%s: only all-reduces and barriers are possible while rank %d has joined",
             e->is_change ? "process sets" : subject, halay_coordinator_rank(c, rank));
    return halay_coordinator_refuse(c, e, HALAY_ERR_UNSUPPORTED, text);
}

enum halay_status halay_coordinator_fill_in(struct halay_coordinator *c, struct entry *e, int *is_refused)
{
    int from = first_present(e);
    const struct announcement *said = e->state[from] == ENTRY_ANNOUNCED ? &e->announced[from] : NULL;
    const struct halay_signature *s = said ? &said->signature : &e->agreed;

    *is_refused = 0;
    for (int r = 0; r < c->options.size; r++) {
        if (e->state[r])
            continue;
        if (s->operation != HALAY_ALLREDUCE && s->operation != HALAY_BARRIER) {
            *is_refused = 1;
            return refuse(c, e, r);
        }
        e->state[r] = ENTRY_READY;
        e->present++;
        e->absent += c->options.join_average == HALAY_JOIN_AVERAGE_PRESENT && s->op == HALAY_AVERAGE;
        enum halay_status status =
            said ? halay_coordinator_announce(c, r, e, s, said->words.at, said->words.count) : HALAY_OK;
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* One set's part of it. */
static enum halay_status join(struct halay_coordinator *c, int rank)
{
    enum halay_status status = HALAY_OK;

    c->joined[rank] = 1;
    c->joined_count++;
    for (struct entry *e = c->waiting.first, *next; e && status == HALAY_OK; e = next) {
        next = e->next;
        if (halay_coordinator_is_complete(c, e))
            status = halay_coordinator_met(c, e, NULL);
    }
    for (struct halay_coordinator_bucket *b = c->buckets; b && status == HALAY_OK; b = b->next)
        status = halay_streams_feed(b->streams, rank, HALAY_STREAM_ALL, HALAY_STREAM_JOINED);
    return status;
}

enum halay_status halay_coordinator_join(struct halay_coordinator *c, int rank)
{
    c->last_joined = (uint64_t)rank;
    enum halay_status status = join(c, rank);
    for (struct halay_coordinator *child = c->children; child && status == HALAY_OK; child = child->next)
        for (int r = 0; r < child->options.size && status == HALAY_OK; r++)
            if (child->options.ranks[r] == rank)
                status = join(child, r);
    return status;
}

void halay_coordinator_unjoin(struct halay_coordinator *c)
{
    for (struct halay_coordinator *child = c->children; child; child = child->next)
        halay_coordinator_unjoin(child);
    memset(c->joined, 0, (size_t)c->options.size);
    c->joined_count = 0;
    for (struct halay_coordinator_bucket *b = c->buckets; b; b = b->next)
        halay_streams_unjoin(b->streams);
}
