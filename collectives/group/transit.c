/* SPDX-License-Identifier: Apache-2.0
 *
 * Transit; transit.h.
 */
#include "collectives/group/transit.h"
#include "base/memory.h"

size_t halay_transit_class(size_t bytes, size_t *capacity)
{
    size_t pages = bytes / HALAY_PAGE + (bytes % HALAY_PAGE != 0), shift = 0;

    while (pages > (size_t)8 << shift)
        shift++;
    size_t units = (pages + ((size_t)1 << shift) - 1) >> shift;
    *capacity = (units << shift) * HALAY_PAGE;
    return shift * 4 + units; /* 0-8, and four more for each doubling */
}

enum halay_status halay_transit_init(struct halay_transit *t, struct halay_devices *devices,
                                     struct halay_device *device)
{
    t->devices = devices;
    t->device = device;
    const struct halay_device_ops *ops = halay_transit_ops(t);
    enum halay_status status = ops->event_create(&devices->host, device->number, 0, &t->follows.event);
    return status == HALAY_OK ? ops->event_create(&devices->host, device->number, 0, &t->marks) : status;
}

void halay_transit_fini(struct halay_transit *t)
{
    const struct halay_device_ops *ops = halay_transit_ops(t);

    if (t->marks)
        ops->event_destroy(&t->devices->host, t->device->number, t->marks);
    if (t->follows.event)
        ops->event_destroy(&t->devices->host, t->device->number, t->follows.event);
    if (t->aside)
        ops->stream_destroy(&t->devices->host, t->device->number, t->aside);
}

enum halay_status halay_transit_block_get(struct halay_transit *t, struct halay_group *group, size_t capacity)
{
    void *block;

    enum halay_status status = halay_group_alloc(group, capacity, &block);
    if (status != HALAY_OK)
        return status;
    status = halay_transit_ops(t)->pin(&t->devices->host, t->device->number, block, capacity);
    if (status != HALAY_OK) {
        halay_group_free(group, block);
        return status;
    }
    t->block = block;
    t->capacity = capacity;
    return HALAY_OK;
}

void halay_transit_block_put(struct halay_transit *t, struct halay_group *group, int64_t deadline_us)
{
    if (t->state == HALAY_TRANSIT_MOVES &&
        halay_devices_await(t->devices, t->device->number, &t->moved, deadline_us) != HALAY_IN_PROGRESS)
        t->state = HALAY_TRANSIT_STILL;
    if (t->block && (t->is_lost || t->state == HALAY_TRANSIT_MOVES)) {
        halay_warning(t->devices->host.log,
                      "device %d has not reported for %d s that a copy is done: %zu bytes of the host's are lost",
                      t->device->number, HALAY_TRANSIT_CLOSE_MS / 1000, t->capacity);
    } else if (t->block) {
        halay_transit_ops(t)->unpin(&t->devices->host, t->device->number, t->block);
        halay_group_free(group, t->block);
    }
    t->block = NULL;
    t->capacity = 0;
    t->is_lost = 0;
    t->state = HALAY_TRANSIT_STILL;
}

/* Ends the stream that waits for the program's events if it still has some of a submission that was refused. */
static void leave_aside(struct halay_transit *t)
{
    const struct halay_device_ops *ops = halay_transit_ops(t);

    if (t->is_aside && ops->event_done(&t->devices->host, t->device->number, &t->follows) != HALAY_OK) {
        ops->stream_destroy(&t->devices->host, t->device->number, t->aside);
        t->aside = NULL;
    }
    t->is_aside = 0;
}

enum halay_status halay_transit_follow(struct halay_transit *t, int has_stream, void *stream, void *event)
{
    const struct halay_device_ops *ops = halay_transit_ops(t);
    const struct halay_device_host *host = &t->devices->host;
    int device = t->device->number;
    enum halay_status status = HALAY_OK;

    leave_aside(t);
    if (!event)
        return has_stream ? ops->event_record(host, device, stream, &t->follows) : HALAY_OK;
    if (!t->aside)
        status = ops->stream_create(host, device, &t->aside);
    if (status != HALAY_OK)
        return status;
    if (has_stream)
        status = ops->stream_join(host, device, t->aside, stream);
    if (status == HALAY_OK)
        status = ops->stream_wait(host, device, t->aside, event);
    if (status == HALAY_OK)
        status = ops->event_record(host, device, t->aside, &t->follows);
    t->is_aside = status == HALAY_OK;
    if (status != HALAY_OK) {
        ops->stream_destroy(host, device, t->aside);
        t->aside = NULL;
    }
    return status;
}

enum halay_status halay_transit_copy(struct halay_transit *t, void *to, const void *from, size_t bytes, void *stream)
{
    t->state = HALAY_TRANSIT_MOVES;
    return halay_transit_ops(t)->copy_start(&t->devices->host, t->device->number, to, from, bytes, stream);
}

enum halay_status halay_transit_record(struct halay_transit *t, void *stream, enum halay_status status)
{
    return halay_transit_record_by(t, stream, t->marks, status);
}

enum halay_status halay_transit_record_by(struct halay_transit *t, void *stream, void *event, enum halay_status status)
{
    if (t->state != HALAY_TRANSIT_MOVES)
        return status;
    t->moved.event = event;
    enum halay_status recorded =
        halay_transit_ops(t)->event_record(&t->devices->host, t->device->number, stream, &t->moved);
    if (recorded != HALAY_OK) {
        t->is_lost = 1;
        t->state = HALAY_TRANSIT_STILL;
    }
    return status == HALAY_OK ? recorded : status;
}

enum halay_status halay_transit_look(struct halay_transit *t, const struct halay_device_point *point)
{
    enum halay_status status = halay_transit_ops(t)->event_done(&t->devices->host, t->device->number, point);

    if (status != HALAY_IN_PROGRESS)
        t->state = HALAY_TRANSIT_STILL;
    return status;
}
