/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait over UCX in which nothing moves: once a transport the log gets what both UCX and the frames know of it.
 */
#ifndef HALAY_UCX_STALL_H
#define HALAY_UCX_STALL_H

#include "collectives/transport/ucx/ucx_frames.h"

/* Zero-initialised. */
struct halay_ucx_stall {
    uint64_t moves;   /* of the frames, and transfers posted, at since_us */
    int64_t since_us; /* 0: anything has moved since the last look */
    int is_reported;
};

/* To be called in every progress. */
void halay_ucx_stall_look(struct halay_ucx_stall *stall, struct halay_ucx_frames *frames);

#endif
