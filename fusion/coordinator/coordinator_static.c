/* SPDX-License-Identifier: Apache-2.0
 *
 * Static buckets of the coordinator (HALAY_DETERMINISTIC=run and ranks): which members they have, and what becomes of
 * what the ranks said about them before the bucket was sealed.
 *
 * The members are what rank 0 had registered when it submitted the first of them. Other ranks may have been faster;
 * what they said is numbered in the order in which each said it and is fed to the streams in that order now.
 *
 * Cleanup: zero-initialised; bucket_free accepts any state.
 */
#include "fusion/coordinator/coordinator_impl.h"
#include <stdlib.h>
#include <string.h>

struct early_event {
    uint64_t number;
    size_t member;
    enum halay_stream_event event;
};

static void bucket_free(struct halay_coordinator_bucket *b)
{
    halay_streams_destroy(b->streams);
    free(b->entries);
    free(b->scratch);
    free(b);
}

static void run_members(void *arg, const size_t *members, size_t count)
{
    struct halay_coordinator_bucket *b = arg;

    for (size_t i = 0; i < count; i++)
        b->scratch[i] = b->entries[members[i]];
    /* Without memory the group does not run: the next decide says so and ends the engine. */
    if (halay_coordinator_choose(b->coordinator, b->scratch, count) != HALAY_OK)
        b->coordinator->out_of_memory = 1;
}

static int compare_early(const void *a, const void *b)
{
    const struct early_event *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* Feed what one rank had said about the members before. */
static enum halay_status feed_early(struct halay_coordinator_bucket *b, int rank, struct early_event *events)
{
    enum halay_status status = HALAY_OK;
    size_t count = 0;

    for (size_t m = 0; m < b->count; m++)
        for (int k = 0; b->entries[m]->early && k < 2; k++)
            if (b->entries[m]->early[2 * rank + k])
                events[count++] = (struct early_event){ b->entries[m]->early[2 * rank + k], m,
                                                        k ? HALAY_STREAM_WAITED : HALAY_STREAM_READY };
    qsort(events, count, sizeof *events, compare_early);
    for (size_t i = 0; i < count && status == HALAY_OK; i++)
        status = halay_streams_feed(b->streams, rank, events[i].member, events[i].event);
    if (status == HALAY_OK && b->coordinator->joined[rank])
        status = halay_streams_feed(b->streams, rank, HALAY_STREAM_ALL, HALAY_STREAM_JOINED);
    return status;
}

enum halay_status halay_coordinator_seal(struct halay_coordinator *c, const char *const *names, size_t count,
                                         struct halay_coordinator_bucket **out)
{
    enum halay_status status = HALAY_ERR_NO_MEMORY;
    struct early_event *events = malloc(2 * count * sizeof *events);
    struct halay_coordinator_bucket *b = calloc(1, sizeof *b);

    if (!b || !events)
        goto err_free;
    *b = (struct halay_coordinator_bucket){ .coordinator = c, .count = count };
    b->entries = calloc(count, sizeof *b->entries);
    b->scratch = calloc(count, sizeof *b->scratch);
    if (!b->entries || !b->scratch ||
        halay_streams_create(count, c->options.size, run_members, b, &b->streams) != HALAY_OK)
        goto err_free;
    for (size_t m = 0; m < count; m++) {
        b->entries[m] = halay_coordinator_entry(c, names[m], strlen(names[m]));
        if (!b->entries[m])
            goto err_free;
    }
    for (size_t m = 0; m < count; m++) {
        b->entries[m]->bucket = b;
        b->entries[m]->member = m;
    }
    b->next = c->buckets;
    if (b->next)
        b->next->previous = b;
    c->buckets = b;
    status = HALAY_OK;
    for (int r = 0; r < c->options.size && status == HALAY_OK; r++)
        status = feed_early(b, r, events);
    free(events);
    if (status == HALAY_OK)
        *out = b;
    return status;

err_free:
    free(events);
    if (b)
        bucket_free(b);
    return status;
}

enum halay_status halay_coordinator_drop_member(struct halay_coordinator *c, struct halay_coordinator_bucket *b,
                                                size_t member)
{
    struct entry *e = b->entries[member];

    if (e->bucket == b)
        e->bucket = NULL;
    if (halay_streams_drop(b->streams, member) == 0) {
        *(b->previous ? &b->previous->next : &c->buckets) = b->next;
        if (b->next)
            b->next->previous = b->previous;
        bucket_free(b);
    }
    return c->out_of_memory ? HALAY_ERR_NO_MEMORY : HALAY_OK;
}

void halay_coordinator_destroy_buckets(struct halay_coordinator *c)
{
    for (struct halay_coordinator_bucket *b = c->buckets, *next; b; b = next) {
        next = b->next;
        bucket_free(b);
    }
    c->buckets = NULL;
}
