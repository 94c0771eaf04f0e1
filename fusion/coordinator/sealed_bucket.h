/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed buckets: the static buckets of the deterministic modes (paths/static_bucket.h) whose members are fixed. What
 * runs together of one follows from its streams.
 */
#ifndef HALAY_SEALED_BUCKET_H
#define HALAY_SEALED_BUCKET_H

#include "fusion/coordinator/coordinator_state.h"
#include "fusion/coordinator/streams.h"

struct halay_sealed_bucket {
    struct halay_coordinator *coordinator; /* borrowed */
    struct halay_sealed_bucket *previous, *next;
    struct halay_streams *streams; /* owned */
    struct halay_roll **rolls;     /* owned array: the members in order */
    struct halay_roll **scratch;   /* owned array */
    size_t count;
};

/*
 * Rank 0 submits the first tensor of this static bucket: its members from now on (copied), in order. Comes before that
 * tensor's announcement. The bucket lives until all its members are dropped.
 */
enum halay_status halay_coordinator_seal(struct halay_coordinator *c, const char *const *names, size_t count,
                                         struct halay_sealed_bucket **out);
enum halay_status halay_coordinator_drop_member(struct halay_coordinator *c, struct halay_sealed_bucket *bucket,
                                                size_t member);

/* The next event of a rank's streams, in all of them. */
enum halay_status halay_sealed_buckets_feed(struct halay_coordinator *c, int rank, enum halay_stream_event event);
/* Nobody has joined any more. */
void halay_sealed_buckets_unjoin(struct halay_coordinator *c);
/* What the ranks have submitted of all of them counts no more. */
void halay_sealed_buckets_reset(struct halay_coordinator *c);
void halay_sealed_buckets_destroy(struct halay_coordinator *c);

#endif
