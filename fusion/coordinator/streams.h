/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: a bucket whose members are fixed, and what each rank has done with them, in that rank's own order. Decides
 * what runs together so that the decision depends on the ranks' programs, never on timing. Pure: no clock, no I/O.
 *
 * A rank's stream is a sequence of READY (the member was submitted) and WAITED (somebody waits for it), and at its end
 * JOINED (the rank has no more data). Rounds:
 *
 *     open ----- all members ready -----------------------> complete (the rest of the stream belongs to a later round)
 *      |-------- somebody waits for a ready member, not
 *      |         all are ready -------------------------> flushed  (likewise)
 *      `-------- JOINED --------------------------------> joined   (whatever the others have is ready here)
 *
 * When no rank is open: if all are complete, the whole bucket runs together. Otherwise what is ready on every rank
 * runs, each member alone, and the next round begins with what is left over, then with the rest of the streams. If
 * nothing is ready everywhere, the flushed ranks read on until something is. Ranks that have joined don't count for any
 * of this; what only they have left runs when all have joined.
 */
#ifndef HALAY_STREAMS_H
#define HALAY_STREAMS_H

#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

struct halay_streams;

enum halay_stream_event { HALAY_STREAM_READY, HALAY_STREAM_WAITED, HALAY_STREAM_JOINED };

/* What is to run: members together, in order; called inside feed, drop and retract. members is borrowed for the
 * call. */
typedef void (*halay_streams_run)(void *arg, const size_t *members, size_t count);

/* arg is borrowed until destroy. */
enum halay_status halay_streams_create(size_t members, int ranks, halay_streams_run run, void *arg,
                                       struct halay_streams **out);
void halay_streams_destroy(struct halay_streams *streams); /* NULL is allowed */

/* WAITED for all members that are ready; the member of JOINED. */
#define HALAY_STREAM_ALL SIZE_MAX

/* The next event of a rank's stream. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_streams_feed(struct halay_streams *streams, int rank, size_t member,
                                     enum halay_stream_event event);

/* The ranks disagreed about this member: every rank's submission of it is void. */
void halay_streams_retract(struct halay_streams *streams, size_t member);
/* Nobody has joined any more; everything has run. */
void halay_streams_unjoin(struct halay_streams *streams);
/* Forgets all events: the ranks start anew. No rank has joined. */
void halay_streams_reset(struct halay_streams *streams);
/* The member is no member any more; returns how many are left. */
size_t halay_streams_drop(struct halay_streams *streams, size_t member);

#endif
