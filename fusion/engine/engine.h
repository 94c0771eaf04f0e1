/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine: the context's part of this folder: this rank's side of the agreement on the next buckets, and its knowledge
 * of other ranks. Driver only.
 */
#ifndef HALAY_ENGINE_H
#define HALAY_ENGINE_H

#include "fusion/protocol/messages.h"
#include "fusion/requests/context.h"

struct halay_engine {
    int64_t stepped_us;                       /* when the last step began that was a whole one */
    int64_t checked_us;                       /* when peers and stalls were looked at last */
    struct halay_request *watched;            /* requests with a time limit, or withdrawn (withdraw.c) */
    int64_t look_us;                          /* time of the next check; 0: never */
    uint64_t sent;                            /* submissions sent to the coordinator so far */
    int suspect;                              /* a rank that is gone since suspected_us, for an unknown cause */
    int64_t suspected_us;                     /* 0: no rank is suspected */
    int is_draining;                          /* failed because a rank left: collectives in flight still complete */
    int has_sent_bye, has_sent_fail, is_done; /* is_done: DONE was received */
};

/* Starts buckets that can be started, progresses running ones, ends ended ones. Returns nonzero if anything
 * progressed. */
size_t halay_buckets_progress(struct halay_context *ctx);
/* Sends an item of this rank to the coordinator, which is in this process on rank 0: about a set's tensors, or about
 * the rank in the name of all ranks' set. An error ends the engine. */
void halay_send_item(struct halay_process_set *set, const struct halay_item *item);

#endif
