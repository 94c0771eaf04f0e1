/* SPDX-License-Identifier: Apache-2.0
 *
 * The carrier of data on devices (requests/carrier.h): its results, and its life. A submission with such data goes
 * through it like this:
 *
 *     program's thread   halay_staging_prepare    reserves its memory, and notes the work that its data follow
 *     driver             halay_deferred_add       the data have not arrived: its event waits, and the events that must
 *                                                 not overtake it
 *                        halay_deferred_release   returns events whose data have arrived
 *                        halay_direct_start       starts a bucket whose data stay where they are
 *                        land                     it has ended: its result is copied back before that is published
 *                        halay_carrier_progress   finds results that have been copied: they are published next
 */
#ifndef HALAY_DEVICE_CARRIER_H
#define HALAY_DEVICE_CARRIER_H

#include "fusion/requests/carrier.h"

/* Makes the stream follow the launched result of a request. Any thread. */
enum halay_status halay_carrier_join(struct halay_context *ctx, struct halay_cargo *cargo, void *stream);
/* Returns how many results have been copied; *status: HALAY_OK, or why they cannot be. Driver. */
size_t halay_carrier_progress(struct halay_context *ctx, enum halay_status *status);
/* Returns the longest sleep while the carrier is at work, 0: look again at once; HALAY_RINGS: it is idle. Driver. */
long halay_carrier_sleep_us(const struct halay_context *ctx);

/* ---- life: no other thread ---- */

struct halay_carrier *halay_carrier_create(void);    /* NULL: no memory */
void halay_carrier_open(struct halay_context *ctx);  /* the world exists; before the driver starts */
void halay_carrier_end(struct halay_context *ctx);   /* the driver has stopped: lands the rest */
void halay_carrier_stop(struct halay_context *ctx);  /* the group still exists; another world may be opened */
void halay_carrier_close(struct halay_context *ctx); /* no request is left; the world still exists */
void halay_carrier_destroy(struct halay_context *ctx);

#endif
