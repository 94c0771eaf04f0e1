/* SPDX-License-Identifier: Apache-2.0
 *
 * Staging: the engine works on host memory; data on a device are copied there before and back afterwards.
 *
 *     submit    the program's thread takes a staging from the pool; the event `follows` marks the work that the data
 *               follow
 *     start     the driver, once that work is done: starts copies device -> pinned in stream `in`, then an event
 *     look      once the event is reached, the tensor is submitted to the coordinator (deferred.h), like any other
 *     finish    the request has succeeded: starts copies pinned -> device in stream `out`, then an event; a stream of
 *               the program can wait for the result from now on
 *     look      once the event is reached, the request has ended
 *
 * The driver waits for `follows` itself, and no stream that copies waits for one of the program's. Otherwise the
 * program's stream might wait for another rank, which waits for a tensor that was submitted later, whose copy is queued
 * after the wait: a deadlock. So copies that have been started always end soon.
 *
 * Data that the ranks may reduce on their devices (direct.c) stay there, without host memory, unless the bucket falls
 * back to the host: then they are copied when the bucket starts.
 *
 * Each tensor has its own copies, so that one is copied while others are sent, and both directions of a device work at
 * the same time. The memory is the engine's own (halay_group_alloc): the ranks of a host reduce it in place, without
 * packing and unpacking.
 *
 * A step allocates nothing: stagings are kept, sorted by size, with at most a quarter more than requested.
 */
#include "fusion/paths/device/staging.h"
#include "base/clock.h"
#include "base/memory.h"
#include "fusion/requests/path.h"
#include "fusion/requests/request.h"
#include <stdlib.h>

enum { LINE = HALAY_TRANSIT_LINE };

/* ---- the pool ---- */

static struct halay_staging **idle_of(struct halay_device *device)
{
    return ((struct halay_staging_device *)device)->idle;
}

static void staging_free(struct halay_staging *s)
{
    halay_transit_fini(&s->transit);
    free(s->staged);
    free(s);
}

static enum halay_status staging_create(struct halay_context *ctx, struct halay_device *device,
                                        struct halay_staging **out)
{
    struct halay_staging *s = calloc(1, sizeof *s);

    if (!s)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = halay_transit_init(&s->transit, halay_devices_of(ctx), device);
    if (status != HALAY_OK) {
        staging_free(s);
        return status;
    }
    pthread_mutex_lock(&ctx->lock);
    s->all_next = halay_device_carrier_of(ctx)->stagings;
    halay_device_carrier_of(ctx)->stagings = s;
    pthread_mutex_unlock(&ctx->lock);
    *out = s;
    return HALAY_OK;
}

/* Returns an unused staging; NULL: all are in use. */
static struct halay_staging *take_idle(struct halay_context *ctx, struct halay_staging **idle)
{
    pthread_mutex_lock(&ctx->lock);
    struct halay_staging *s = *idle;
    if (s)
        *idle = s->next;
    pthread_mutex_unlock(&ctx->lock);
    return s;
}

static void staging_put_locked(struct halay_staging *s)
{
    size_t capacity;
    struct halay_staging **idle = &idle_of(s->transit.device)[halay_transit_class(s->transit.capacity, &capacity)];

    atomic_store_explicit(&s->cargo.is_launched, 0, memory_order_relaxed);
    s->next = *idle;
    *idle = s;
}

void halay_staging_put_cargo_locked(struct halay_cargo *cargo)
{
    staging_put_locked((struct halay_staging *)cargo);
}

static void staging_put(struct halay_context *ctx, struct halay_staging *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&ctx->lock);
    staging_put_locked(s);
    pthread_mutex_unlock(&ctx->lock);
}

static enum halay_status staging_get(struct halay_context *ctx, struct halay_device *device, size_t bytes,
                                     struct halay_staging **out)
{
    size_t capacity, class = halay_transit_class(bytes, &capacity);
    struct halay_staging *s = take_idle(ctx, &idle_of(device)[class]);
    enum halay_status status = HALAY_OK;

    if (!s) /* a staging whose memory was freed when the ranks changed */
        s = take_idle(ctx, &idle_of(device)[0]);
    if (!s)
        status = staging_create(ctx, device, &s);
    if (status == HALAY_OK && capacity && !s->transit.block)
        status = halay_transit_block_get(&s->transit, ctx->all.group, capacity);
    if (status == HALAY_OK)
        *out = s;
    else
        staging_put(ctx, s);
    return status;
}

/* ---- locations ---- */

/* The data of a tensor as described by the program: its input, and the room for its output. */
struct halay_extent {
    const void *in;
    size_t in_bytes; /* 0: nothing is read there */
    void *out;
    size_t out_bytes;  /* 0: nothing is written there */
    int is_direct;     /* the data may stay on the device: paths/device/direct.h */
    int is_in_place;   /* input and output have the same size, and can share one place in host memory */
    int in_on, out_on; /* filled in: the device, -1: the host */
};

static int owner_of(const struct halay_context *ctx, const void *ptr, size_t bytes)
{
    return ptr && bytes ? halay_devices_ops(ctx)->owner(&halay_devices_of(ctx)->host, ptr) : -1;
}

/* Finds the device of the data; -1: all are in host memory. Data on several devices are an error. */
static enum halay_status find_device(struct halay_context *ctx, const char *name, struct halay_extent *spans,
                                     size_t count, int *device)
{
    *device = -1;
    for (size_t i = 0; i < count; i++) {
        struct halay_extent *span = &spans[i];
        int is_same = span->in == span->out && span->in_bytes && span->out_bytes;
        span->in_on = owner_of(ctx, span->in, span->in_bytes);
        span->out_on = is_same ? span->in_on : owner_of(ctx, span->out, span->out_bytes);
        const int on[] = { span->in_on, span->out_on };
        for (int k = 0; k < 2; k++) {
            if (*device >= 0 && on[k] >= 0 && on[k] != *device) {
                halay_error(ctx->log, "tensor '%s': its data are on devices %d and %d; they must be on one", name,
                            *device, on[k]);
                return HALAY_ERR_ARGUMENT;
            }
            *device = on[k] >= 0 ? on[k] : *device;
        }
    }
    return HALAY_OK;
}

/* Returns the device of this rank's direct data: the one that was given first; NULL: none yet. */
static const struct halay_device *direct_device(struct halay_context *ctx, struct halay_device *device)
{
    struct halay_devices *devices = halay_devices_of(ctx);
    struct halay_direct *direct = &halay_device_carrier_of(ctx)->direct;

    pthread_mutex_lock(&devices->lock);
    direct->device = direct->device ? direct->device : device;
    const struct halay_device *own = direct->device;
    pthread_mutex_unlock(&devices->lock);
    return own;
}

/* Checks that all direct data of this rank are on one device, if they pass through its segment. */
static enum halay_status check_direct(struct halay_context *ctx, const char *name, const struct halay_extent *spans,
                                      size_t count, struct halay_device *device)
{
    struct halay_devices *devices = halay_devices_of(ctx);
    struct halay_direct *direct = &halay_device_carrier_of(ctx)->direct;

    for (size_t i = 0; i < count; i++) {
        int is_in = spans[i].in_bytes && spans[i].in_on < 0;
        if (!is_in && (!spans[i].out_bytes || spans[i].out_on >= 0))
            continue;
        halay_error(ctx->log, "tensor '%s': its %s is in host memory; HALAY_MEMORY_DEVICES requires a device", name,
                    is_in ? "in" : "out");
        return HALAY_ERR_ARGUMENT;
    }
    if (!direct->wants_segment && ctx->world->config.device_algorithm != HALAY_DEVICE_ALGORITHM_NCCL)
        return HALAY_OK;
    const struct halay_device *own = direct_device(ctx, NULL);
    if (!own && direct->wants_segment) { /* without the lock: it may wait for the device */
        enum halay_status status = halay_devices_ops(ctx)->load(&devices->host, device->number);
        if (status != HALAY_OK)
            return status;
    }
    own = own ? own : direct_device(ctx, device);
    if (own == device)
        return HALAY_OK;
    halay_error(ctx->log,
                "tensor '%s': it is on device %d, and others with HALAY_MEMORY_DEVICES are on %d; they must be on one",
                name, device->number, own->number);
    return HALAY_ERR_ARGUMENT;
}

/* Returns nonzero if in and out share one place in host memory. */
static int is_shared(const struct halay_extent *span)
{
    return span->in_on >= 0 && span->out_on >= 0 && span->is_in_place;
}

/* Returns the host memory that a tensor needs, in bytes. */
static size_t room_for(const struct halay_extent *span)
{
    if (span->is_direct)
        return 0;
    size_t in = span->in_on >= 0 ? halay_round_up(span->in_bytes, LINE) : 0;

    return in + (span->out_on >= 0 && !is_shared(span) ? halay_round_up(span->out_bytes, LINE) : 0);
}

/* Assigns host memory, which begins at `at`. */
static struct halay_staged assign_host(const struct halay_extent *span, char *at)
{
    struct halay_staged d = {
        .host_in = span->in, .host_out = span->out, .in_bytes = span->in_bytes, .out_bytes = span->out_bytes
    };

    if (span->in_on >= 0) {
        d.device_in = span->in;
        d.host_in = at;
    }
    if (span->is_direct) {
        d.device_out = span->out_on >= 0 ? span->out : NULL;
        d.host_in = span->in;
        return d;
    }
    if (span->out_on >= 0) {
        d.device_out = span->out;
        d.host_out = is_shared(span) || span->in_on < 0 ? at : at + halay_round_up(span->in_bytes, LINE);
    }
    if (span->in == span->out && d.device_in) /* a broadcast uses only one of them */
        d.host_out = at;
    else if (span->in == span->out)
        d.host_in = d.host_out;
    return d;
}

/* ---- submission ---- */

static enum halay_status note_followed(struct halay_staging *s, const struct halay_placing *placing)
{
    s->must_wait = placing->stream || placing->event;
    return halay_transit_follow(&s->transit, placing->stream != NULL, placing->stream, placing->event);
}

static enum halay_status make_staging(struct halay_context *ctx, const char *name, int number,
                                      const struct halay_placing *placing, const struct halay_extent *spans,
                                      size_t count, struct halay_cargo **out)
{
    struct halay_staging *s = NULL;
    struct halay_device *device;
    size_t bytes = 0, data = 0;

    for (size_t i = 0; i < count; i++) {
        if (halay_add_overflows(bytes, room_for(&spans[i]), &bytes))
            return HALAY_ERR_NO_MEMORY;
        data |= spans[i].in_bytes | spans[i].out_bytes;
    }
    enum halay_status status = halay_devices_get(halay_devices_of(ctx), number, &device);
    if (status == HALAY_OK && spans->is_direct && data)
        status = check_direct(ctx, name, spans, count, device);
    if (status == HALAY_OK)
        status = staging_get(ctx, device, bytes, &s);
    if (status == HALAY_OK)
        status = halay_list_reserve(&s->staged, count, &s->staged_capacity, sizeof *s->staged);
    if (status == HALAY_OK)
        status = note_followed(s, placing);
    if (status != HALAY_OK) {
        staging_put(ctx, s);
        return status;
    }
    s->count = count;
    s->cargo.is_direct = spans->is_direct;
    s->end = NULL;
    char *at = s->transit.block;
    for (size_t i = 0; i < count; i++) {
        s->staged[i] = assign_host(&spans[i], at);
        at += room_for(&spans[i]);
    }
    *out = &s->cargo;
    return HALAY_OK;
}

enum halay_status halay_staging_load(struct halay_context *ctx)
{
    enum halay_status status = halay_devices_open(halay_devices_of(ctx), ctx->log, &ctx->world->config);

    if (status == HALAY_OK)
        atomic_store_explicit(&ctx->carrier->is_loaded, 1, memory_order_release);
    return status;
}

static enum halay_status prepare_spans(const struct halay_tensor *t, struct halay_extent *spans, size_t count,
                                       struct halay_cargo **cargo)
{
    struct halay_context *ctx = t->ctx;
    int follows = t->placing.stream || t->placing.event, device;
    size_t bytes = 0;

    *cargo = NULL;
    enum halay_status status = halay_staging_load(ctx);
    if (status == HALAY_OK)
        status = find_device(ctx, t->name, spans, count, &device);
    if (status != HALAY_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        bytes += spans[i].in_bytes + spans[i].out_bytes;
    if (t->placing.memory != HALAY_MEMORY_ANY && device < 0 && bytes) {
        halay_error(ctx->log, "tensor '%s': its data are in host memory; HALAY_MEMORY_DEVICE requires a device",
                    t->name);
        return HALAY_ERR_ARGUMENT;
    }
    if (device < 0 && !follows)
        return HALAY_OK;
    if (device < 0)
        device = halay_devices_ops(ctx)->current(&halay_devices_of(ctx)->host);
    return make_staging(ctx, t->name, device, &t->placing, spans, count, cargo);
}

static int is_in_place(int collective)
{
    return collective == HALAY_ALLREDUCE || collective == HALAY_REDUCE || collective == HALAY_BROADCAST;
}

/* Returns what the collective reads and writes on this rank. */
static struct halay_extent span_of(const struct halay_tensor *t)
{
    int collective = t->signature.collective, is_root = t->signature.root == t->ctx->rank;
    struct halay_extent span = { .in = t->in, .in_bytes = t->bytes, .out = t->out, .out_bytes = t->out_bytes };

    span.is_in_place = is_in_place(collective);
    if (halay_collective_is_empty(collective))
        span.in_bytes = span.out_bytes = 0;
    if (collective == HALAY_BROADCAST)
        *(is_root ? &span.out_bytes : &span.in_bytes) = 0;
    if (collective == HALAY_SEND)
        span.out_bytes = 0;
    if (collective == HALAY_RECEIVE)
        span.in_bytes = 0;
    return span;
}

static int stays_on_device(const struct halay_tensor *t)
{
    return t->set == &t->ctx->all && halay_direct_takes(t->ctx, &t->signature);
}

static enum halay_status prepare_group(const struct halay_tensor *t, struct halay_cargo **cargo)
{
    size_t count = t->signature.members;
    struct halay_extent *spans = calloc(count, sizeof *spans);
    struct halay_buffers *own = t->buffers ? NULL : calloc(count, sizeof *own);
    enum halay_status status = HALAY_ERR_NO_MEMORY;
    int is_direct = stays_on_device(t); /* of all members alike: the driver may refuse meanwhile */

    if (spans && (t->buffers || own)) {
        if (own)
            halay_members_buffers(t->naming->info, own);
        for (size_t i = 0; i < count; i++) {
            const struct halay_buffers *b = own ? &own[i] : &t->buffers[i];
            size_t bytes = b->count * halay_dtype_size(b->dtype);
            spans[i] = (struct halay_extent){ .in = b->in,
                                              .in_bytes = bytes,
                                              .out = b->out,
                                              .out_bytes = bytes,
                                              .is_direct = is_direct,
                                              .is_in_place = 1 };
        }
        status = prepare_spans(t, spans, count, cargo);
    }
    free(own);
    free(spans);
    return status;
}

enum halay_status halay_staging_prepare(const struct halay_tensor *t, struct halay_cargo **cargo)
{
    if (t->signature.members)
        return prepare_group(t, cargo);
    struct halay_extent span = span_of(t);
    span.is_direct = stays_on_device(t);
    return prepare_spans(t, &span, 1, cargo);
}

static void point_at(struct halay_request *r, const struct halay_staging *s)
{
    for (size_t i = 0; i < r->signature.members; i++) {
        r->buffers[i].in = s->staged[i].host_in;
        r->buffers[i].out = s->staged[i].host_out;
    }
    if (!r->signature.members) {
        r->in = s->staged[0].host_in;
        r->out = s->staged[0].host_out;
    }
}

void halay_staging_apply_locked(struct halay_cargo *cargo, struct halay_request *r)
{
    r->cargo = cargo;
    cargo->program_out = r->out;
    point_at(r, (struct halay_staging *)cargo);
}

/* ---- copies ---- */

static enum halay_status copy_in(struct halay_staging *s)
{
    struct halay_transit *t = &s->transit;
    enum halay_status status = HALAY_OK;

    t->state = HALAY_TRANSIT_STILL;
    for (size_t i = 0; i < s->count && status == HALAY_OK; i++) {
        const struct halay_staged *d = &s->staged[i];
        if (d->device_in)
            status = halay_transit_copy(t, (void *)d->host_in, d->device_in, d->in_bytes, t->device->in);
    }
    return halay_transit_record(t, t->device->in, status);
}

enum halay_status halay_staging_start(struct halay_staging *s)
{
    s->transit.state = s->must_wait ? HALAY_TRANSIT_FOLLOWS : HALAY_TRANSIT_STILL;
    enum halay_status status = s->must_wait ? halay_transit_look(&s->transit, &s->transit.follows) : HALAY_OK;
    if (status == HALAY_IN_PROGRESS)
        return HALAY_OK;
    return status == HALAY_OK && !s->cargo.is_direct ? copy_in(s) : status;
}

enum halay_status halay_staging_look(struct halay_staging *s)
{
    if (s->transit.state == HALAY_TRANSIT_STILL)
        return HALAY_OK;
    int follows = s->transit.state == HALAY_TRANSIT_FOLLOWS;
    enum halay_status status = halay_transit_look(&s->transit, follows ? &s->transit.follows : &s->transit.moved);
    if (follows && status == HALAY_OK && !s->cargo.is_direct)
        status = copy_in(s);
    return status == HALAY_OK && s->transit.state == HALAY_TRANSIT_MOVES ? HALAY_IN_PROGRESS : status;
}

/* A direct submission moves until the end of what its stream has been given. */
static void follow_end(struct halay_staging *s)
{
    s->transit.state = HALAY_TRANSIT_MOVES;
    s->transit.moved = *s->end;
    s->end = NULL;
}

int halay_staging_leave(struct halay_staging *s)
{
    if (s->transit.state == HALAY_TRANSIT_FOLLOWS)
        s->transit.state = HALAY_TRANSIT_STILL;
    if (s->end && s->transit.state == HALAY_TRANSIT_STILL)
        follow_end(s);
    s->end = NULL;
    return s->transit.state == HALAY_TRANSIT_MOVES;
}

void halay_staging_set_end(struct halay_staging *s, const struct halay_device_point *end)
{
    s->end = end;
}

/* Returns where direct data are, as data to be copied. */
static struct halay_extent span_again(const struct halay_staging *s, size_t i, int collective)
{
    const struct halay_staged *d = &s->staged[i];

    return (struct halay_extent){ .in = d->host_in,
                                  .in_bytes = d->in_bytes,
                                  .out = d->host_out,
                                  .out_bytes = d->out_bytes,
                                  .is_in_place = is_in_place(collective),
                                  .in_on = d->device_in ? s->transit.device->number : -1,
                                  .out_on = d->device_out ? s->transit.device->number : -1 };
}

/* Gives the staging the block of an unused one, or a new block. */
static enum halay_status block_get(struct halay_context *ctx, struct halay_staging *s, size_t bytes)
{
    size_t capacity, class = halay_transit_class(bytes, &capacity);
    struct halay_staging *idle = capacity ? take_idle(ctx, &idle_of(s->transit.device)[class]) : NULL;

    if (!idle)
        return capacity ? halay_transit_block_get(&s->transit, ctx->all.group, capacity) : HALAY_OK;
    s->transit.block = idle->transit.block;
    s->transit.capacity = idle->transit.capacity;
    s->transit.is_lost |= idle->transit.is_lost;
    idle->transit.block = NULL;
    idle->transit.capacity = 0;
    idle->transit.is_lost = 0;
    staging_put(ctx, idle);
    return HALAY_OK;
}

enum halay_status halay_staging_fall_back(struct halay_context *ctx, struct halay_request *r)
{
    struct halay_staging *s = halay_staging_of(r);
    int collective = r->signature.collective;
    size_t bytes = 0;

    if (!s->cargo.is_direct)
        return HALAY_OK;
    s->cargo.is_direct = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct halay_extent span = span_again(s, i, collective);
        bytes += room_for(&span);
    }
    enum halay_status status = block_get(ctx, s, bytes);
    char *at = s->transit.block;
    for (size_t i = 0; i < s->count && status == HALAY_OK; i++) {
        struct halay_extent span = span_again(s, i, collective);
        s->staged[i] = assign_host(&span, at);
        at += room_for(&span);
    }
    if (status != HALAY_OK)
        return status;
    point_at(r, s);
    return copy_in(s);
}

/* Returns the bytes of a result that are to be copied to the device. */
static size_t result_bytes(const struct halay_request *r, const struct halay_staged *d)
{
    if (!halay_collective_goes_by_rows(r->signature.collective))
        return d->out_bytes;
    return r->held ? 0 : r->result_bytes;
}

enum halay_status halay_staging_finish(struct halay_request *r)
{
    struct halay_staging *s = halay_staging_of(r);
    struct halay_transit *t = &s->transit;
    enum halay_status status = HALAY_OK;

    if (s->end)
        follow_end(s);
    for (size_t i = 0; i < s->count && status == HALAY_OK && !s->cargo.is_direct; i++) {
        const struct halay_staged *d = &s->staged[i];
        size_t bytes = d->device_out ? result_bytes(r, d) : 0;
        if (bytes)
            status = halay_transit_copy(t, d->device_out, d->host_out, bytes, t->device->out);
    }
    s->has_no_mark = !s->cargo.is_direct && t->state == HALAY_TRANSIT_MOVES;
    return status == HALAY_OK && s->transit.state == HALAY_TRANSIT_MOVES ? HALAY_IN_PROGRESS : status;
}

enum halay_status halay_staging_mark(struct halay_request *first)
{
    struct halay_device_point last = { 0 }; /* nothing has been copied since */
    enum halay_status status = HALAY_OK;

    for (struct halay_request *r = first; r; r = r->next) {
        struct halay_staging *s = halay_staging_of(r);
        struct halay_transit *t = &s->transit;
        if (!s->has_no_mark)
            continue;
        if (t->device->landed != last.event)
            status = halay_transit_record_by(t, t->device->out, t->device->landed, status);
        else
            t->moved = last;
        if (!t->is_lost)
            last = t->moved;
        else if (r->final == HALAY_OK)
            r->final = status;
        s->has_no_mark = 0;
    }
    return status;
}

/* ---- the end ---- */

void halay_staging_close(struct halay_context *ctx)
{
    int64_t deadline_us = halay_deadline_us(HALAY_TRANSIT_CLOSE_MS);

    for (struct halay_staging *s = halay_device_carrier_of(ctx)->stagings; s; s = s->all_next) {
        halay_staging_leave(s);
        halay_transit_block_put(&s->transit, ctx->all.group, deadline_us);
    }
    pthread_mutex_lock(&ctx->lock);
    for (struct halay_device *device = halay_devices_of(ctx)->first; device; device = device->next)
        for (size_t class = 1; class < HALAY_STAGING_CLASSES; class ++) /* they are of class 0 now */
            for (struct halay_staging *s; (s = idle_of(device)[class]);) {
                idle_of(device)[class] = s->next;
                staging_put_locked(s);
            }
    pthread_mutex_unlock(&ctx->lock);
}

void halay_staging_free_all(struct halay_context *ctx)
{
    for (struct halay_staging *s = halay_device_carrier_of(ctx)->stagings, *next; s; s = next) {
        next = s->all_next;
        staging_free(s);
    }
    halay_device_carrier_of(ctx)->stagings = NULL;
}
