/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: how parts (parts.h) travel over UCX, as active messages that are matched here and not in UCX.
 *
 * So what arrives is copied from where UCX received it to its place in the user's memory, once, and a receive that is
 * taken back is simply forgotten: UCX never knew its buffer. A frame has a header and perhaps a part's bytes:
 *
 *     byte  0 .. 7   tag
 *           8 .. 11  sender's rank
 *          12 .. 15  kind (enum halay_ucx_kind)
 *          16 .. 19  credit that the sender gives back
 *          20 .. 23  0
 *
 * Of the frames with one sender and tag the n-th one sent matches the n-th receive posted; the endpoint keeps
 * their order.
 *
 * What arrives before its receive is bounded. A rank may send `budget` bytes to a peer ahead of what that peer reports
 * as placed (credit; each part costs the memory that keeping it would take, kept or not). Beyond that it asks:
 *
 *     sender                        receiver
 *       |---- DATA ---------------->|  costs credit           placed, or kept until its receive is posted
 *       |<--- any frame ------------|  gives some back        (a CREDIT of its own if half the budget is to be given)
 *       |---- REQUEST ------------->|  without credit         waits for its receive, takes no memory
 *       |<--- GRANT ----------------|                         when that is posted
 *       |---- GRANTED, data ------->|                         placed; dropped if it was taken back meanwhile
 *       |---- FREE ---------------->|  optional messages (transfer.is_optional): cost nothing, are few
 *       |---- HELLO --------------->|  a lower rank's first frame
 *       |---- CLOSE --------------->|  the close notice: it leaves
 *
 * Nothing is held up by that under other tags: a REQUEST can always be sent.
 *
 * Where the network can write into place (not over TCP) UCX delivers only the header of a large frame. The data are
 * then fetched when the receive is posted, into held memory, or into memory of ours and copied from there (UCX can't be
 * stopped).
 *
 * A frame names its sender, and UCX authenticates no process: any that reaches a worker can send as any rank. Sender,
 * kind and length are checked, no more.
 *
 * Callbacks of UCX may come from within any call into it: they place data and keep lists; what has to be sent or ended
 * waits for halay_ucx_frames_push and _end.
 */
#ifndef HALAY_UCX_FRAMES_H
#define HALAY_UCX_FRAMES_H

#include "collectives/transport/parts.h"
#include <ucp/api/ucp.h>

enum halay_ucx_kind {
    HALAY_UCX_DATA,
    HALAY_UCX_FREE,
    HALAY_UCX_REQUEST,
    HALAY_UCX_GRANT,
    HALAY_UCX_GRANTED,
    HALAY_UCX_CREDIT,
    HALAY_UCX_CLOSE,
    HALAY_UCX_HELLO
};

struct halay_ucx_header {
    uint64_t tag;
    int32_t sender;
    uint32_t kind;
    uint32_t returned;
    uint32_t reserved;
};

/* Lists of parts are borrowed from parts, oldest first. */
struct halay_ucx_peer {
    struct halay_ucx_frames *frames; /* borrowed */
    int rank;
    ucp_ep_h ep; /* owned by the transport; NULL: not open */
    int is_broken;
    int is_reached;              /* a frame has gone to it, or come from it */
    int is_called;               /* a lower rank that has sent HELLO */
    struct halay_part *controls; /* frames to be sent once it is connected, oldest first */
    size_t credit;               /* what may still be sent to it ahead */
    size_t owed;                 /* what is to be given back to it */
    int credit_is_due;           /* a CREDIT for it waits to be sent */
    struct halay_part *posted;   /* receives that nothing has arrived for */
    struct halay_part *granted;  /* receives whose data were asked for */
    struct halay_part *early;    /* what arrived before its receive */
    struct halay_part *held;     /* sends that wait for a GRANT */
};

struct halay_ucx_frames {
    struct halay_parts parts; /* first */
    ucp_worker_h worker;      /* borrowed from start on */
    int is_stopped;
    int called;       /* peers that are called and not opened yet */
    size_t under_way; /* requests that UCX has: a worker is destroyed when it has none */
    size_t budget;
    struct halay_ucx_peer *peers; /* owned: size of them */
    struct halay_part *finished;  /* parts to be ended */
    struct halay_part *due;       /* sends that were granted */
    struct halay_part *to_fetch;  /* receives whose data UCX can fetch */
    struct halay_part *controls;  /* frames to be sent, oldest first */
};

/* Returns the bytes that one peer may send before their receives, in a job of `size` ranks. */
size_t halay_ucx_budget(int size);
/* Returns the bytes of that budget that a part takes: the memory that keeping it needs. */
size_t halay_ucx_cost(size_t bytes);

/* Works as halay_parts_init, whose parts these are. fini: after the worker is destroyed. */
enum halay_status halay_ucx_frames_init(struct halay_ucx_frames *frames, const struct halay_link_ops *slots,
                                        const struct halay_host *host, const struct halay_boot *boot,
                                        size_t part_bytes);
void halay_ucx_frames_fini(struct halay_ucx_frames *frames);

/* As link.h's slot. */
void halay_ucx_frames_forget(struct halay_link *link, struct halay_group_range groups);

/* Starts to take frames. HALAY_ERR_SYSTEM, logged. stop: before the worker is destroyed, returns what it has lent. */
enum halay_status halay_ucx_frames_start(struct halay_ucx_frames *frames, ucp_worker_h worker);
void halay_ucx_frames_stop(struct halay_ucx_frames *frames);

/* Sends a HELLO or a CLOSE to a rank whose endpoint is open. HALAY_ERR_NO_MEMORY, logged. */
enum halay_status halay_ucx_frames_send(struct halay_ucx_frames *frames, int rank, enum halay_ucx_kind kind);
/* Notes that the endpoint of a rank that called is open: frames that waited for that are sent from now on. */
void halay_ucx_frames_connected(struct halay_ucx_frames *frames, int rank);

/* Returns nonzero if there is something for end or push, or a peer to be opened. */
int halay_ucx_frames_have_work(const struct halay_ucx_frames *frames);
/* After progress of the worker: ends the parts that are finished; sends what is due. push returns nonzero if something
 * was sent or may be finished. */
void halay_ucx_frames_end(struct halay_ucx_frames *frames);
int halay_ucx_frames_push(struct halay_ucx_frames *frames);

#endif
