/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait over UCX in which nothing moves: once a transport it is logged with the state of UCX and of the frames.
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

/* Reports a stall; called in every progress. */
void halay_ucx_stall_look(struct halay_ucx_stall *stall, struct halay_ucx_frames *frames);

#endif
