/* SPDX-License-Identifier: Apache-2.0
 *
 * Detour: a collective, a send or a receive of a group whose data are on a device. It works on pinned memory of the
 * host, to which they are copied first, and from which the result is copied.
 *
 *     start     finds the device; notes what the program's stream has been given (transit.h)
 *     in        once that is done: copies device -> host
 *               the collective, by any algorithm, with its number and channel from the start on
 *     out       copies host -> device; it is complete when they are
 */
#ifndef HALAY_DETOUR_H
#define HALAY_DETOUR_H

#include "collectives/group/channel.h"
#include "collectives/group/transit.h"

/* A copy that has one direction: bytes are 0 if there is nothing to copy. */
struct halay_detour_copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct halay_detour {
    struct halay_transit transit;
    struct halay_group *group; /* borrowed: it owns this */
    struct halay_detour *next; /* of all that the group has */
    int is_taken;              /* from start to end of the call */
    int is_moving;             /* a device is waited for: counted in world->moving */
    int is_back;               /* the copies out were started */
    struct halay_detour_copy in, out[2];
};

/* The arrays of a call; one of 0 bytes has no place. */
struct halay_detour_arrays {
    char *in, *out;
    size_t in_bytes, out_bytes;
    int is_elementwise; /* in and out may be one array on the host: of the same bytes, combined element by element */
};

/* Takes a detour for these arrays, if they are on a device; *out is NULL otherwise. arrays gets the places on the host;
 * the copies are the caller's to set. HALAY_ERR_ARGUMENT: they are not in one place. Other errors as of device_ops.h.
 * All are logged. */
enum halay_status halay_detour_take(struct halay_group *group, struct halay_detour_arrays *arrays,
                                    struct halay_detour **out);
/* Gives it back when the call ends. Nothing touches the program's memory from then on: waits for copies under way, at
 * most two seconds. NULL is allowed. */
void halay_detour_put(struct halay_detour *detour);
void halay_detour_free_all(struct halay_group *group);

/* Advance the data on their way to the host, and back. HALAY_IN_PROGRESS, HALAY_OK, or an error of the device's. */
enum halay_status halay_detour_go_in(struct halay_detour *detour);
enum halay_status halay_detour_go_out(struct halay_detour *detour);

/* ---- collectives ---- */

/* Takes a detour for the collective, c->detour, if its data need one, and sets c's arrays to those on the host. Errors
 * as of halay_detour_take. */
enum halay_status halay_detour_prepare(struct halay_coll *c);
/* Sets it going, in the place of halay_coll_go, which follows when the data have arrived. */
void halay_detour_enter(struct halay_coll *c);
/* Called when it is complete on the host: HALAY_OK once the result is on the device. */
enum halay_status halay_detour_leave(struct halay_coll *c);

/* Returns nonzero if the collective needs no other rank any more. */
static inline int halay_detour_is_back(const struct halay_coll *c)
{
    return c->detour && c->detour->is_back;
}

#endif
