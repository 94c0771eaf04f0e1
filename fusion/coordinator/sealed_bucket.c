/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed buckets: which members a static bucket has, and what becomes of what the ranks said about them before the
 * bucket was sealed.
 *
 * The members are what rank 0 had registered when it submitted the first of them. Other ranks may have been faster;
 * what they said is numbered in the order in which each said it and is fed to the streams in that order now.
 *
 * Cleanup: zero-initialised; bucket_free accepts any state.
 */
#include "fusion/coordinator/sealed_bucket.h"
#include "fusion/coordinator/give_out.h"
#include "fusion/coordinator/rolls.h"
#include "fusion/coordinator/streams.h"
#include <stdlib.h>
#include <string.h>

struct early_event {
    uint64_t number;
    size_t member;
    enum halay_stream_event event;
};

static void sealed_bucket_free(struct halay_sealed_bucket *b)
{
    halay_streams_destroy(b->streams);
    free(b->rolls);
    free(b->scratch);
    free(b);
}

static void run_members(void *arg, const size_t *members, size_t count)
{
    struct halay_sealed_bucket *b = arg;

    for (size_t i = 0; i < count; i++)
        b->scratch[i] = b->rolls[members[i]];
    /* Out of memory: the members do not run, and the next decide ends the engine. */
    if (halay_coordinator_choose(b->coordinator, b->scratch, count) != HALAY_OK)
        b->coordinator->out_of_memory = 1;
}

static int compare_early(const void *a, const void *b)
{
    const struct early_event *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

/* Feed what one rank had said about the members before. */
static enum halay_status feed_early(struct halay_sealed_bucket *b, int rank, struct early_event *events)
{
    enum halay_status status = HALAY_OK;
    size_t count = 0;

    for (size_t m = 0; m < b->count; m++)
        for (int k = 0; b->rolls[m]->early && k < 2; k++)
            if (b->rolls[m]->early[2 * rank + k])
                events[count++] = (struct early_event){ b->rolls[m]->early[2 * rank + k], m,
                                                        k ? HALAY_STREAM_WAITED : HALAY_STREAM_READY };
    qsort(events, count, sizeof *events, compare_early);
    for (size_t i = 0; i < count && status == HALAY_OK; i++)
        status = halay_streams_feed(b->streams, rank, events[i].member, events[i].event);
    if (status == HALAY_OK && b->coordinator->joined[rank])
        status = halay_streams_feed(b->streams, rank, HALAY_STREAM_ALL, HALAY_STREAM_JOINED);
    return status;
}

enum halay_status halay_coordinator_seal(struct halay_coordinator *c, const char *const *names, size_t count,
                                         struct halay_sealed_bucket **out)
{
    enum halay_status status = HALAY_ERR_NO_MEMORY;
    struct early_event *events = malloc(2 * count * sizeof *events);
    struct halay_sealed_bucket *b = calloc(1, sizeof *b);

    if (!b || !events)
        goto err_free;
    *b = (struct halay_sealed_bucket){ .coordinator = c, .count = count };
    b->rolls = calloc(count, sizeof *b->rolls);
    b->scratch = calloc(count, sizeof *b->scratch);
    if (!b->rolls || !b->scratch ||
        halay_streams_create(count, c->options.size, run_members, b, &b->streams) != HALAY_OK)
        goto err_free;
    for (size_t m = 0; m < count; m++) {
        b->rolls[m] = halay_coordinator_roll(c, names[m], strlen(names[m]));
        if (!b->rolls[m])
            goto err_free;
    }
    for (size_t m = 0; m < count; m++) {
        b->rolls[m]->sealed = b;
        b->rolls[m]->member = m;
    }
    b->next = c->sealed;
    if (b->next)
        b->next->previous = b;
    c->sealed = b;
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
        sealed_bucket_free(b);
    return status;
}

enum halay_status halay_coordinator_drop_member(struct halay_coordinator *c, struct halay_sealed_bucket *b,
                                                size_t member)
{
    struct halay_roll *roll = b->rolls[member];

    if (roll->sealed == b)
        roll->sealed = NULL;
    if (halay_streams_drop(b->streams, member) == 0) {
        *(b->previous ? &b->previous->next : &c->sealed) = b->next;
        if (b->next)
            b->next->previous = b->previous;
        sealed_bucket_free(b);
    }
    return c->out_of_memory ? HALAY_ERR_NO_MEMORY : HALAY_OK;
}

enum halay_status halay_sealed_buckets_feed(struct halay_coordinator *c, int rank, enum halay_stream_event event)
{
    enum halay_status status = HALAY_OK;

    for (struct halay_sealed_bucket *b = c->sealed; b && status == HALAY_OK; b = b->next)
        status = halay_streams_feed(b->streams, rank, HALAY_STREAM_ALL, event);
    return status;
}

void halay_sealed_buckets_reset(struct halay_coordinator *c)
{
    for (struct halay_sealed_bucket *b = c->sealed; b; b = b->next)
        halay_streams_reset(b->streams);
}

void halay_sealed_buckets_unjoin(struct halay_coordinator *c)
{
    for (struct halay_sealed_bucket *b = c->sealed; b; b = b->next)
        halay_streams_unjoin(b->streams);
}

void halay_sealed_buckets_destroy(struct halay_coordinator *c)
{
    for (struct halay_sealed_bucket *b = c->sealed, *next; b; b = next) {
        next = b->next;
        sealed_bucket_free(b);
    }
    c->sealed = NULL;
}
