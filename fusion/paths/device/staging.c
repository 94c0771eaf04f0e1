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

enum { LINE = 64, CLOSE_MS = 2000 };

/* ---- the pool ---- */

/* Pages rounded up to three significant bits. *capacity: bytes. */
static size_t class_of(size_t bytes, size_t *capacity)
{
    size_t pages = bytes / HALAY_PAGE + (bytes % HALAY_PAGE != 0), shift = 0;

    while (pages > (size_t)8 << shift)
        shift++;
    size_t units = (pages + ((size_t)1 << shift) - 1) >> shift;
    *capacity = (units << shift) * HALAY_PAGE;
    return shift * 4 + units; /* 0-8, and four more for each doubling */
}

static struct halay_staging **idle_of(struct halay_device *device)
{
    return ((struct halay_staging_device *)device)->idle;
}

static void staging_free(struct halay_context *ctx, struct halay_staging *s)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);

    if (s->moved)
        ops->event_destroy(&halay_devices_of(ctx)->host, s->device->number, s->moved);
    if (s->follows)
        ops->event_destroy(&halay_devices_of(ctx)->host, s->device->number, s->follows);
    if (s->aside)
        ops->stream_destroy(&halay_devices_of(ctx)->host, s->device->number, s->aside);
    free(s->staged);
    free(s);
}

static enum halay_status block_get(struct halay_context *ctx, struct halay_staging *s, size_t capacity)
{
    void *block;

    enum halay_status status = halay_group_alloc(ctx->all.group, capacity, &block);
    if (status != HALAY_OK)
        return status;
    status = halay_devices_ops(ctx)->pin(&halay_devices_of(ctx)->host, s->device->number, block, capacity);
    if (status != HALAY_OK) {
        halay_group_free(ctx->all.group, block);
        return status;
    }
    s->block = block;
    s->capacity = capacity;
    return HALAY_OK;
}

static enum halay_status staging_create(struct halay_context *ctx, struct halay_device *device,
                                        struct halay_staging **out)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    struct halay_staging *s = calloc(1, sizeof *s);

    if (!s)
        return HALAY_ERR_NO_MEMORY;
    s->device = device;
    enum halay_status status = ops->event_create(&halay_devices_of(ctx)->host, device->number, &s->follows);
    if (status == HALAY_OK)
        status = ops->event_create(&halay_devices_of(ctx)->host, device->number, &s->moved);
    if (status != HALAY_OK) {
        staging_free(ctx, s);
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
    size_t capacity, class = class_of(bytes, &capacity);
    struct halay_staging *s = take_idle(ctx, &idle_of(device)[class]);
    enum halay_status status = HALAY_OK;

    if (!s) /* one whose memory was given back when the ranks changed */
        s = take_idle(ctx, &idle_of(device)[0]);
    if (!s)
        status = staging_create(ctx, device, &s);
    if (status == HALAY_OK && capacity && !s->block)
        status = block_get(ctx, s, capacity);
    if (status == HALAY_OK)
        *out = s;
    else
        halay_staging_put(ctx, s);
    return status;
}

static void staging_put_locked(struct halay_staging *s)
{
    size_t capacity;
    struct halay_staging **idle = &idle_of(s->device)[class_of(s->capacity, &capacity)];

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

/* The program's event as it is now: it may be recorded again, or destroyed, once this has returned. */
static enum halay_status follow_event(struct halay_context *ctx, struct halay_staging *s, void *event)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    int device = s->device->number;
    enum halay_status status = HALAY_OK;

    if (!s->aside)
        status = ops->stream_create(host, device, &s->aside);
    if (status == HALAY_OK)
        status = ops->stream_wait(host, device, s->aside, event);
    return status == HALAY_OK ? ops->event_record(host, device, s->follows, s->aside) : status;
}

static enum halay_status follow(struct halay_context *ctx, struct halay_staging *s, const struct halay_placing *placing)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    int device = s->device->number;
    enum halay_status status = HALAY_OK;

    s->must_wait = placing->stream || placing->event;
    s->behind = placing->event ? NULL : placing->stream;
    if (placing->stream)
        status = ops->event_record(host, device, s->follows, placing->stream);
    if (status != HALAY_OK || !placing->event)
        return status;
    if (placing->stream && !s->aside)
        status = ops->stream_create(host, device, &s->aside);
    if (placing->stream && status == HALAY_OK)
        status = ops->stream_wait(host, device, s->aside, s->follows);
    return status == HALAY_OK ? follow_event(ctx, s, placing->event) : status;
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
        status = follow(ctx, s, placing);
    if (status != HALAY_OK) {
        halay_staging_put(ctx, s);
        return status;
    }
    s->is_direct = spans->is_direct;
    s->by = NULL;
    char *at = s->block;
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

static enum halay_status copy(struct halay_context *ctx, struct halay_staging *s, void *to, const void *from,
                              size_t bytes, void *stream)
{
    s->state = HALAY_STAGING_MOVES;
    return halay_devices_ops(ctx)->copy_start(&halay_devices_of(ctx)->host, s->device->number, to, from, bytes, stream);
}

/* What was started in this stream ends with its event; also if something could not be started. */
static enum halay_status record(struct halay_context *ctx, struct halay_staging *s, void *stream,
                                enum halay_status status)
{
    if (s->state != HALAY_STAGING_MOVES)
        return status;
    enum halay_status recorded =
        halay_devices_ops(ctx)->event_record(&halay_devices_of(ctx)->host, s->device->number, s->moved, stream);
    if (recorded != HALAY_OK) {
        s->is_lost = 1;
        s->state = HALAY_STAGING_STILL;
    }
    return status == HALAY_OK ? recorded : status;
}

static enum halay_status copy_in(struct halay_context *ctx, struct halay_staging *s)
{
    enum halay_status status = HALAY_OK;

    s->state = HALAY_STAGING_STILL;
    for (size_t i = 0; i < s->count && status == HALAY_OK; i++) {
        const struct halay_staged *d = &s->staged[i];
        if (d->device_in)
            status = copy(ctx, s, (void *)d->host_in, d->device_in, d->in_bytes, s->device->in);
    }
    return record(ctx, s, s->device->in, status);
}

/* The event has come: HALAY_OK, and it stands still. */
static enum halay_status look_for(struct halay_context *ctx, struct halay_staging *s, void *event)
{
    enum halay_status status =
        halay_devices_ops(ctx)->event_done(&halay_devices_of(ctx)->host, s->device->number, event);

    if (status != HALAY_IN_PROGRESS)
        s->state = HALAY_STAGING_STILL;
    return status;
}

enum halay_status halay_staging_start(struct halay_context *ctx, struct halay_staging *s)
{
    s->state = s->must_wait ? HALAY_STAGING_FOLLOWS : HALAY_STAGING_STILL;
    enum halay_status status = s->must_wait ? look_for(ctx, s, s->follows) : HALAY_OK;
    if (status == HALAY_IN_PROGRESS)
        return HALAY_OK;
    return status == HALAY_OK && !s->is_direct ? copy_in(ctx, s) : status;
}

enum halay_status halay_staging_look(struct halay_context *ctx, struct halay_staging *s)
{
    if (s->state == HALAY_STAGING_STILL)
        return HALAY_OK;
    int follows = s->state == HALAY_STAGING_FOLLOWS;
    enum halay_status status = look_for(ctx, s, follows ? s->follows : s->moved);
    if (follows && status == HALAY_OK && !s->is_direct)
        status = copy_in(ctx, s);
    return status == HALAY_OK && s->state == HALAY_STAGING_MOVES ? HALAY_IN_PROGRESS : status;
}

/* The end of what the stream that it goes by has been given. */
static enum halay_status follow_own(struct halay_context *ctx, struct halay_staging *s)
{
    s->state = HALAY_STAGING_MOVES;
    return record(ctx, s, s->by, HALAY_OK);
}

int halay_staging_leave(struct halay_context *ctx, struct halay_staging *s)
{
    if (s->state == HALAY_STAGING_FOLLOWS)
        s->state = HALAY_STAGING_STILL;
    if (s->by && s->state == HALAY_STAGING_STILL)
        follow_own(ctx, s);
    s->by = NULL;
    return s->state == HALAY_STAGING_MOVES;
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
    class_of(halay_round_up(d->in_bytes, LINE), &capacity);
    enum halay_status status = capacity ? block_get(ctx, s, capacity) : HALAY_OK;
    if (status != HALAY_OK)
        return status;
    d->host_in = d->host_out = s->block;
    point_at(r, s);
    return copy_in(ctx, s);
}

/* Bytes of a result. */
static size_t result_bytes(const struct halay_request *r, const struct halay_staged *d)
{
    if (!halay_collective_goes_by_rows(r->signature.collective))
        return d->out_bytes;
    return r->held ? 0 : r->result_bytes;
}

enum halay_status halay_staging_finish(struct halay_context *ctx, struct halay_request *r)
{
    struct halay_staging *s = halay_staging_of(r);
    enum halay_status status = HALAY_OK;

    if (s->by) {
        status = follow_own(ctx, s);
        s->by = NULL;
    }
    for (size_t i = 0; i < s->count && status == HALAY_OK && !s->is_direct; i++) {
        const struct halay_staged *d = &s->staged[i];
        size_t bytes = d->device_out ? result_bytes(r, d) : 0;
        if (bytes)
            status = copy(ctx, s, d->device_out, d->host_out, bytes, s->device->out);
    }
    if (!s->is_direct)
        status = record(ctx, s, s->device->out, status);
    return status == HALAY_OK && s->state == HALAY_STAGING_MOVES ? HALAY_IN_PROGRESS : status;
}

/* ---- the end ---- */

/* Its memory goes back, unless a device does not come to the end of its copies. */
static void block_put(struct halay_context *ctx, struct halay_staging *s, int64_t deadline_us)
{
    if (halay_staging_leave(ctx, s) &&
        halay_devices_await(halay_devices_of(ctx), s->device->number, s->moved, deadline_us) != HALAY_IN_PROGRESS)
        s->state = HALAY_STAGING_STILL;
    if (s->block && (s->is_lost || s->state == HALAY_STAGING_MOVES)) {
        halay_warning(ctx->log, "device %d has not said for %d s that a copy is done: %zu bytes of the host's are lost",
                      s->device->number, CLOSE_MS / 1000, s->capacity);
    } else if (s->block) {
        halay_devices_ops(ctx)->unpin(&halay_devices_of(ctx)->host, s->device->number, s->block);
        halay_group_free(ctx->all.group, s->block);
    }
    s->block = NULL;
    s->capacity = 0;
    s->is_lost = 0;
    s->state = HALAY_STAGING_STILL;
}

void halay_staging_close(struct halay_context *ctx)
{
    int64_t deadline_us = halay_deadline_us(CLOSE_MS);

    for (struct halay_staging *s = halay_device_carrier_of(ctx)->stagings; s; s = s->all_next)
        block_put(ctx, s, deadline_us);
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
        staging_free(ctx, s);
    }
    halay_device_carrier_of(ctx)->stagings = NULL;
}
