/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: a small state machine for each rank and a rule over all of them; the picture is in streams.h.
 *
 * Events that belong to a later round wait in the rank's queue; it holds at most two a member, so it is made once.
 * Cleanup: zero-initialised; destroy accepts any state.
 */
#include "fusion/coordinator/streams.h"
#include "base/memory.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum stream_state { STREAM_OPEN, STREAM_COMPLETE, STREAM_FLUSHED, STREAM_JOINED };

struct stream_event {
    size_t member;
    enum halay_stream_event event;
};

struct stream {
    enum stream_state state;
    unsigned char *ready, *waited; /* owned: a flag each member */
    size_t ready_count, waited_count;
    int has_joined;
    struct stream_event *queue; /* owned: a ring of queue_size */
    size_t queue_first, queue_count;
};

struct halay_streams {
    size_t members, alive, queue_size;
    int ranks;
    halay_streams_run run;
    void *arg;              /* borrowed */
    unsigned char *dropped; /* owned */
    size_t *chosen;         /* owned: members of them */
    struct stream *streams; /* owned: ranks of them */
};

enum halay_status halay_streams_create(size_t members, int ranks, halay_streams_run run, void *arg,
                                       struct halay_streams **out)
{
    struct halay_streams *s = calloc(1, sizeof *s);

    if (!s)
        return HALAY_ERR_NO_MEMORY;
    *s = (struct halay_streams){
        .members = members, .alive = members, .queue_size = 4 * members + 4, .ranks = ranks, .run = run, .arg = arg
    };
    s->dropped = calloc(members, 1);
    s->chosen = calloc(members, sizeof *s->chosen);
    s->streams = calloc((size_t)ranks, sizeof *s->streams);
    if (!s->dropped || !s->chosen || !s->streams)
        goto err_destroy;
    for (int r = 0; r < ranks; r++) {
        struct stream *stream = &s->streams[r];
        stream->ready = calloc(members, 1);
        stream->waited = calloc(members, 1);
        stream->queue = calloc(s->queue_size, sizeof *stream->queue);
        if (!stream->ready || !stream->waited || !stream->queue)
            goto err_destroy;
    }
    *out = s;
    return HALAY_OK;

err_destroy:
    halay_streams_destroy(s);
    return HALAY_ERR_NO_MEMORY;
}

void halay_streams_destroy(struct halay_streams *s)
{
    if (!s)
        return;
    for (int r = 0; s->streams && r < s->ranks; r++) {
        free(s->streams[r].ready);
        free(s->streams[r].waited);
        free(s->streams[r].queue);
    }
    free(s->streams);
    free(s->chosen);
    free(s->dropped);
    free(s);
}

static void set_state(const struct halay_streams *s, struct stream *stream)
{
    if (stream->has_joined)
        stream->state = STREAM_JOINED;
    else if (s->alive && stream->ready_count == s->alive)
        stream->state = STREAM_COMPLETE;
    else if (stream->waited_count)
        stream->state = STREAM_FLUSHED;
    else
        stream->state = STREAM_OPEN;
}

static void take_event(const struct halay_streams *s, struct stream *stream, struct stream_event e)
{
    if (e.event == HALAY_STREAM_JOINED) {
        stream->has_joined = 1;
        return;
    }
    if (e.member == HALAY_STREAM_ALL) {
        memcpy(stream->waited, stream->ready, s->members);
        stream->waited_count = stream->ready_count;
        return;
    }
    if (s->dropped[e.member])
        return;
    if (e.event == HALAY_STREAM_READY && !stream->ready[e.member]) {
        stream->ready[e.member] = 1;
        stream->ready_count++;
    } else if (e.event == HALAY_STREAM_WAITED && stream->ready[e.member] && !stream->waited[e.member]) {
        stream->waited[e.member] = 1;
        stream->waited_count++;
    }
}

static void take_back(struct stream *stream, size_t member)
{
    stream->ready_count -= stream->ready[member];
    stream->waited_count -= stream->waited[member];
    stream->ready[member] = stream->waited[member] = 0;
}

static int dequeue(struct stream *stream, size_t size, struct stream_event *e)
{
    if (!stream->queue_count)
        return 0;
    *e = stream->queue[stream->queue_first];
    stream->queue_first = (stream->queue_first + 1) % size;
    stream->queue_count--;
    return 1;
}

/* Begin a round: judge what is left over, then read the queue for as long as the stream is open. */
static void begin_round(const struct halay_streams *s)
{
    struct stream_event e;

    for (struct stream *stream = s->streams; stream < s->streams + s->ranks; stream++) {
        set_state(s, stream);
        while (stream->state == STREAM_OPEN && dequeue(stream, s->queue_size, &e)) {
            take_event(s, stream, e);
            set_state(s, stream);
        }
    }
}

/* On every rank that has not joined, and somewhere. */
static int is_ready_everywhere(const struct halay_streams *s, size_t member)
{
    int somewhere = 0;

    for (int r = 0; r < s->ranks; r++)
        if (s->streams[r].ready[member])
            somewhere = 1;
        else if (!s->streams[r].has_joined)
            return 0;
    return somewhere;
}

/* Flushed ranks read one event more, so that something may become ready everywhere. */
static int read_on(const struct halay_streams *s)
{
    struct stream_event e;
    int read = 0;

    for (struct stream *stream = s->streams; stream < s->streams + s->ranks; stream++)
        if (stream->state == STREAM_FLUSHED && dequeue(stream, s->queue_size, &e)) {
            take_event(s, stream, e);
            read = 1;
        }
    return read;
}

/* One round, if it is decided. */
static int resolve_once(struct halay_streams *s)
{
    int others = 0, complete = 0;
    size_t count = 0;

    for (int r = 0; r < s->ranks; r++) {
        if (s->streams[r].state == STREAM_OPEN)
            return 0;
        others += s->streams[r].state != STREAM_JOINED;
        complete += s->streams[r].state == STREAM_COMPLETE;
    }
    for (size_t m = 0; m < s->members; m++)
        if (is_ready_everywhere(s, m))
            s->chosen[count++] = m;
    if (!count)
        return read_on(s);
    for (size_t i = 0; i < count; i++)
        for (int r = 0; r < s->ranks; r++)
            take_back(&s->streams[r], s->chosen[i]);
    if (others && complete == others)
        s->run(s->arg, s->chosen, count);
    else
        for (size_t i = 0; i < count; i++)
            s->run(s->arg, &s->chosen[i], 1);
    begin_round(s);
    return 1;
}

enum halay_status halay_streams_feed(struct halay_streams *s, int rank, size_t member, enum halay_stream_event event)
{
    struct stream *stream = &s->streams[rank];
    struct stream_event e = { member, event };

    int waits_for_all = member == HALAY_STREAM_ALL && event == HALAY_STREAM_WAITED;

    if (waits_for_all && (stream->has_joined || (stream->state == STREAM_OPEN && !stream->ready_count)))
        return HALAY_OK;
    if (waits_for_all && stream->queue_count &&
        stream->queue[(stream->queue_first + stream->queue_count - 1) % s->queue_size].member == HALAY_STREAM_ALL)
        return HALAY_OK; /* nothing was submitted since the last one */
    if (stream->state == STREAM_OPEN) {
        take_event(s, stream, e);
        set_state(s, stream);
    } else {
        if (stream->queue_count == s->queue_size)
            return HALAY_ERR_NO_MEMORY; /* more events than members that have not run can have: not from our engine */
        stream->queue[(stream->queue_first + stream->queue_count++) % s->queue_size] = e;
    }
    while (resolve_once(s))
        ;
    return HALAY_OK;
}

/* Drop what is queued of a member; order is kept. */
static void unqueue(const struct halay_streams *s, struct stream *stream, size_t member)
{
    size_t kept = 0;

    for (size_t i = 0; i < stream->queue_count; i++) {
        struct stream_event e = stream->queue[(stream->queue_first + i) % s->queue_size];
        if (e.member != member)
            stream->queue[(stream->queue_first + kept++) % s->queue_size] = e;
    }
    stream->queue_count = kept;
}

void halay_streams_retract(struct halay_streams *s, size_t member)
{
    for (int r = 0; r < s->ranks; r++) {
        take_back(&s->streams[r], member);
        unqueue(s, &s->streams[r], member);
    }
    begin_round(s);
    while (resolve_once(s))
        ;
}

void halay_streams_unjoin(struct halay_streams *s)
{
    for (struct stream *stream = s->streams; stream < s->streams + s->ranks; stream++)
        stream->has_joined = 0;
    begin_round(s);
    while (resolve_once(s))
        ;
}

void halay_streams_reset(struct halay_streams *s)
{
    for (struct stream *stream = s->streams; stream < s->streams + s->ranks; stream++) {
        memset(stream->ready, 0, s->members);
        memset(stream->waited, 0, s->members);
        stream->ready_count = stream->waited_count = stream->queue_count = 0;
        set_state(s, stream);
    }
}

size_t halay_streams_drop(struct halay_streams *s, size_t member)
{
    assert(!s->dropped[member]);
    s->dropped[member] = 1;
    s->alive--;
    halay_streams_retract(s, member);
    return s->alive;
}
