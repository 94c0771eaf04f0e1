/* SPDX-License-Identifier: Apache-2.0
 *
 * Staging: the engine works on the host's memory; what lies on a device is copied there before and back afterwards.
 *
 *     submit    the program's thread: a staging from the pool; the event `follows` is what the submission follows
 *     start     the driver: once that has come, copies device -> pinned, in stream `in`; then an event
 *     look      the event has come: the tensor is told to the others (hold.h), and is like any other from
 *               now on
 *     finish    it has ended well: copies pinned -> device, in stream `out`; an event; from now on a stream of the
 *               program's can wait for the result
 *     look      the event has come: the request has ended
 *
 * The driver looks for `follows` itself, and no stream that copies waits for the program's: what the program's stream
 * has may wait for another rank, which may wait for a tensor that was submitted later, whose copy must not stand behind
 * it. So copies that were started always end, and soon.
 *
 * What the ranks may reduce on their devices (direct.c) stays where it is, and has no memory of the host, unless it
 * falls back: then it is copied when its bucket starts.
 *
 * Each tensor has its own copies, so that one is copied while others travel, and the devices' two directions work at
 * the same time. The memory is the engine's own kind (halay_group_alloc): the ranks of a host reduce it in place, and
 * neither pack nor unpack it.
 *
 * Nothing is allocated in a step: stagings are kept, sorted by size with at most a quarter more than was asked for.
 */
#include "fusion/paths/device/staging.h"
#include "base/clock.h"
#include "base/memory.h"
#include "fusion/state/request.h"
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
    s->cargo.carrier = ctx->carrier;
    pthread_mutex_lock(&ctx->lock);
    s->all_next = halay_device_carrier_of(ctx)->stagings;
    halay_device_carrier_of(ctx)->stagings = s;
    pthread_mutex_unlock(&ctx->lock);
    *out = s;
    return HALAY_OK;
}

/* One that nobody uses; NULL: there is none. */
static struct halay_staging *take_idle(struct halay_context *ctx, struct halay_staging **idle)
{
    pthread_mutex_lock(&ctx->lock);
    struct halay_staging *s = *idle;
    if (s)
        *idle = s->next;
    pthread_mutex_unlock(&ctx->lock);
    return s;
}

static enum halay_status staging_get(struct halay_context *ctx, struct halay_device *device, size_t bytes,
                                     struct halay_staging **out)
{
    size_t capacity, class = halay_transit_class(bytes, &capacity);
    struct halay_staging *s = take_idle(ctx, &idle_of(device)[class]);
    enum halay_status status = HALAY_OK;

    if (!s) /* one whose memory was given back when the ranks changed */
        s = take_idle(ctx, &idle_of(device)[0]);
    if (!s)
        status = staging_create(ctx, device, &s);
    if (status == HALAY_OK && capacity && !s->transit.block)
        status = halay_transit_block_get(&s->transit, ctx->all.group, capacity);
    if (status == HALAY_OK)
        *out = s;
    else
        halay_staging_put(ctx, s);
    return status;
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

void halay_staging_put(struct halay_context *ctx, struct halay_staging *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&ctx->lock);
    staging_put_locked(s);
    pthread_mutex_unlock(&ctx->lock);
}

/* ---- what is where ---- */

static int owner_of(const struct halay_context *ctx, const void *ptr, size_t bytes)
{
    return ptr && bytes ? halay_devices_ops(ctx)->owner(&halay_devices_of(ctx)->host, ptr) : -1;
}

/* The device that all data on devices are on, -1: there are none. */
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
                halay_error(ctx->log, "tensor '%s': its data are on devices %d and %d: they must be on one", name,
                            *device, on[k]);
                return HALAY_ERR_ARGUMENT;
            }
            *device = on[k] >= 0 ? on[k] : *device;
        }
    }
    return HALAY_OK;
}

/* All that is direct is on one device of this rank's, whose segment it goes through. */
static enum halay_status check_direct(struct halay_context *ctx, const char *name, const struct halay_extent *span,
                                      struct halay_device *device)
{
    struct halay_devices *devices = halay_devices_of(ctx);
    struct halay_direct *direct = &halay_device_carrier_of(ctx)->direct;

    if (span->in_on < 0 || span->out_on < 0) {
        halay_error(ctx->log, "tensor '%s': its %s is said to be on a device, as that of all ranks, and is the host's",
                    name, span->in_on < 0 ? "in" : "out");
        return HALAY_ERR_ARGUMENT;
    }
    pthread_mutex_lock(&devices->lock);
    if (!direct->device)
        direct->device = device;
    const struct halay_device *own = direct->device;
    pthread_mutex_unlock(&devices->lock);
    if (own == device)
        return HALAY_OK;
    halay_error(ctx->log,
                "tensor '%s': it is on device %d, and others with HALAY_MEMORY_DEVICES are on %d: they must be on one",
                name, device->number, own->number);
    return HALAY_ERR_ARGUMENT;
}

/* Do in and out get one place at the host? */
static int is_shared(const struct halay_extent *span)
{
    return span->in_on >= 0 && span->out_on >= 0 && span->is_in_place;
}

/* The bytes at the host that a tensor needs. */
static size_t room_for(const struct halay_extent *span)
{
    if (span->is_direct)
        return 0;
    size_t in = span->in_on >= 0 ? halay_round_up(span->in_bytes, LINE) : 0;

    return in + (span->out_on >= 0 && !is_shared(span) ? halay_round_up(span->out_bytes, LINE) : 0);
}

/* at: where they begin. */
static struct halay_staged settle(const struct halay_extent *span, char *at)
{
    struct halay_staged d = {
        .host_in = span->in, .host_out = span->out, .in_bytes = span->in_bytes, .out_bytes = span->out_bytes
    };

    if (span->in_on >= 0) {
        d.device_in = span->in;
        d.host_in = at;
    }
    if (span->is_direct) {
        d.device_out = span->out;
        d.host_in = span->in;
        return d;
    }
    if (span->out_on >= 0) {
        d.device_out = span->out;
        d.host_out = is_shared(span) || span->in_on < 0 ? at : at + halay_round_up(span->in_bytes, LINE);
    }
    if (span->in == span->out && d.device_in) /* of a broadcast one of them is not asked for */
        d.host_out = at;
    else if (span->in == span->out)
        d.host_in = d.host_out;
    return d;
}

static enum halay_status reserve_staged(struct halay_staging *s, size_t count)
{
    if (count > s->staged_capacity) {
        struct halay_staged *grown = realloc(s->staged, count * sizeof *grown);
        if (!grown)
            return HALAY_ERR_NO_MEMORY;
        s->staged = grown;
        s->staged_capacity = count;
    }
    s->count = count;
    return HALAY_OK;
}

/* ---- submission ---- */

static enum halay_status follow(struct halay_staging *s, const struct halay_placing *placing)
{
    s->must_wait = placing->stream || placing->event;
    s->behind = placing->event ? NULL : placing->stream;
    return halay_transit_follow(&s->transit, placing->stream != NULL, placing->stream, placing->event);
}

static enum halay_status stage(struct halay_context *ctx, const char *name, int number,
                               const struct halay_placing *placing, const struct halay_extent *spans, size_t count,
                               struct halay_staging **out)
{
    struct halay_staging *s = NULL;
    struct halay_device *device;
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        if (halay_add_overflows(bytes, room_for(&spans[i]), &bytes))
            return HALAY_ERR_NO_MEMORY;
    enum halay_status status = halay_devices_get(halay_devices_of(ctx), number, &device);
    if (status == HALAY_OK && spans->is_direct && spans->in_bytes)
        status = check_direct(ctx, name, spans, device);
    if (status == HALAY_OK)
        status = staging_get(ctx, device, bytes, &s);
    if (status == HALAY_OK)
        status = reserve_staged(s, count);
    if (status == HALAY_OK)
        status = follow(s, placing);
    if (status != HALAY_OK) {
        halay_staging_put(ctx, s);
        return status;
    }
    s->is_direct = spans->is_direct;
    s->by = NULL;
    char *at = s->transit.block;
    for (size_t i = 0; i < count; i++) {
        s->staged[i] = settle(&spans[i], at);
        at += room_for(&spans[i]);
    }
    *out = s;
    return HALAY_OK;
}

enum halay_status halay_staging_prepare(struct halay_context *ctx, const char *name,
                                        const struct halay_placing *placing, struct halay_extent *spans, size_t count,
                                        struct halay_staging **out)
{
    int follows = placing->stream || placing->event, is_said = placing->memory != HALAY_MEMORY_ANY, device;
    enum halay_status status = HALAY_OK;
    size_t bytes = 0;

    *out = NULL;
    status = halay_device_carrier_load(ctx);
    if (status == HALAY_OK)
        status = find_device(ctx, name, spans, count, &device);
    if (status != HALAY_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        bytes += spans[i].in_bytes + spans[i].out_bytes;
    if (is_said && device < 0 && bytes) {
        halay_error(ctx->log, "tensor '%s': its memory is said to be a device's, and is the host's", name);
        return HALAY_ERR_ARGUMENT;
    }
    if (device < 0 && !follows)
        return HALAY_OK;
    if (device < 0)
        device = halay_devices_ops(ctx)->current(&halay_devices_of(ctx)->host);
    return stage(ctx, name, device, placing, spans, count, out);
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
    enum halay_status status = s->must_wait ? halay_transit_look(&s->transit, s->transit.follows) : HALAY_OK;
    if (status == HALAY_IN_PROGRESS)
        return HALAY_OK;
    return status == HALAY_OK && !s->is_direct ? copy_in(s) : status;
}

enum halay_status halay_staging_look(struct halay_staging *s)
{
    if (s->transit.state == HALAY_TRANSIT_STILL)
        return HALAY_OK;
    int follows = s->transit.state == HALAY_TRANSIT_FOLLOWS;
    enum halay_status status = halay_transit_look(&s->transit, follows ? s->transit.follows : s->transit.moved);
    if (follows && status == HALAY_OK && !s->is_direct)
        status = copy_in(s);
    return status == HALAY_OK && s->transit.state == HALAY_TRANSIT_MOVES ? HALAY_IN_PROGRESS : status;
}

/* The end of what the stream that it goes by has been given. */
static enum halay_status follow_own(struct halay_staging *s)
{
    s->transit.state = HALAY_TRANSIT_MOVES;
    return halay_transit_record(&s->transit, s->by, HALAY_OK);
}

int halay_staging_leave(struct halay_staging *s)
{
    if (s->transit.state == HALAY_TRANSIT_FOLLOWS)
        s->transit.state = HALAY_TRANSIT_STILL;
    if (s->by && s->transit.state == HALAY_TRANSIT_STILL)
        follow_own(s);
    s->by = NULL;
    return s->transit.state == HALAY_TRANSIT_MOVES;
}

void halay_staging_goes_by(struct halay_staging *s, void *stream)
{
    s->by = stream;
}

enum halay_status halay_staging_fall_back(struct halay_context *ctx, struct halay_request *r)
{
    struct halay_staging *s = halay_staging_of(r);
    struct halay_staged *d = s->staged;
    size_t capacity;

    if (!s->is_direct)
        return HALAY_OK;
    s->is_direct = 0;
    halay_transit_class(halay_round_up(d->in_bytes, LINE), &capacity);
    enum halay_status status = capacity ? halay_transit_block_get(&s->transit, ctx->all.group, capacity) : HALAY_OK;
    if (status != HALAY_OK)
        return status;
    d->host_in = d->host_out = s->transit.block;
    point_at(r, s);
    return copy_in(s);
}

/* Bytes of a result. */
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

    if (s->by) {
        status = follow_own(s);
        s->by = NULL;
    }
    for (size_t i = 0; i < s->count && status == HALAY_OK && !s->is_direct; i++) {
        const struct halay_staged *d = &s->staged[i];
        size_t bytes = d->device_out ? result_bytes(r, d) : 0;
        if (bytes)
            status = halay_transit_copy(t, d->device_out, d->host_out, bytes, t->device->out);
    }
    if (!s->is_direct)
        status = halay_transit_record(t, t->device->out, status);
    return status == HALAY_OK && s->transit.state == HALAY_TRANSIT_MOVES ? HALAY_IN_PROGRESS : status;
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
