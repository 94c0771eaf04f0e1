/* SPDX-License-Identifier: Apache-2.0
 *
 * Transit: pinned memory of the host through which data of a device travel, and the events that tell when they have
 * arrived.
 *
 * A user looks for `follows` itself, and no stream that copies waits for the program's: what the program's stream has
 * may wait for another rank, which may wait for data whose copy would have to wait as well. So copies that were started
 * always end, and soon.
 */
#ifndef HALAY_TRANSIT_H
#define HALAY_TRANSIT_H

#include "collectives/transport/devices.h"
#include "halay_coll.h"

enum { HALAY_TRANSIT_LINE = 64, HALAY_TRANSIT_CLOSE_MS = 2000 };

enum halay_transit_state {
    HALAY_TRANSIT_STILL,
    HALAY_TRANSIT_FOLLOWS, /* `follows` has not been reached */
    HALAY_TRANSIT_MOVES,   /* copies were started, and have not been seen to end */
};

struct halay_transit {
    struct halay_devices *devices; /* borrowed, as the next */
    struct halay_device *device;
    void *block; /* owned: `capacity` bytes, pinned; NULL: none */
    size_t capacity;
    void *aside;                       /* owned: a stream that waits for the program's event; NULL: none */
    int is_aside;                      /* `follows` is recorded there */
    struct halay_device_point follows; /* what the program had given to its stream then; its event is owned */
    struct halay_device_point moved;   /* the end of the copies that were started last, by `marks` or another event */
    void *marks;                       /* owned: an event */
    int is_lost;                       /* no event marks the end of its copies: the memory cannot be given back */
    enum halay_transit_state state;
};

static inline const struct halay_device_ops *halay_transit_ops(const struct halay_transit *t)
{
    return halay_devices_table(t->devices);
}

/* Rounds a size up to pages of three significant bits, at most a quarter more than was asked for. Returns a number for
 * each, below 256; *capacity: bytes. */
size_t halay_transit_class(size_t bytes, size_t *capacity);

/* Zero-initialised by the caller. On an error fini is called all the same. Errors as of device_ops.h. */
enum halay_status halay_transit_init(struct halay_transit *t, struct halay_devices *devices,
                                     struct halay_device *device);
/* It has no block. */
void halay_transit_fini(struct halay_transit *t);

/* Gets the block, of the group's memory, which the ranks of this host reduce in place; it has no other. */
enum halay_status halay_transit_block_get(struct halay_transit *t, struct halay_group *group, size_t capacity);
/* Gives it back, once the copies have ended: waits for that until the deadline, then the memory is lost, with a line in
 * the log. */
void halay_transit_block_put(struct halay_transit *t, struct halay_group *group, int64_t deadline_us);

/* Sets `follows` to what the stream, and the event (NULL: none), stand for now: both may change once this has returned.
 * has_stream: 0: the event alone. A stream that is NULL is the device's default one. */
enum halay_status halay_transit_follow(struct halay_transit *t, int has_stream, void *stream, void *event);
/* Starts a copy, in one of the device's two streams. */
enum halay_status halay_transit_copy(struct halay_transit *t, void *to, const void *from, size_t bytes, void *stream);
/* Notes the end of what was started in this stream; called also when something could not be started: status, which is
 * returned unless it was HALAY_OK and this fails. */
enum halay_status halay_transit_record(struct halay_transit *t, void *stream, enum halay_status status);
/* The same with an event of that stream alone, borrowed until the next record: streams can wait for it. */
enum halay_status halay_transit_record_by(struct halay_transit *t, void *stream, void *event, enum halay_status status);
/* Looks at `follows` or `moved`: HALAY_IN_PROGRESS, HALAY_OK once it has been reached (nothing is under way then), or
 * an error of the device's. */
enum halay_status halay_transit_look(struct halay_transit *t, const struct halay_device_point *point);

#endif
