/* SPDX-License-Identifier: Apache-2.0
 *
 * Points, inside view: what is said to each peer and heard from it, and what waits. Driver only.
 */
#ifndef HALAY_POINTS_IMPL_H
#define HALAY_POINTS_IMPL_H

#include "collectives/transport/route.h"
#include "fusion/paths/p2p/offers.h"
#include "fusion/paths/p2p/points.h"

/* A request of this rank's. */
struct point {
    struct halay_offered own; /* first; what it offers */
    struct halay_request *request;
    int64_t since_us;
    int is_withdrawn;             /* the peer has been asked */
    uint64_t tag;                 /* of its data */
    size_t moved;                 /* bytes, of whole chunks */
    enum halay_status status;     /* how it will end */
    char *text;                   /* owned, or NULL */
    struct halay_offered *unsaid; /* owned: of a receive from any rank, which says it when it has met a peer */
    struct halay_transfer transfer;
};

struct peer {
    struct peer *next;
    int rank;
    const struct halay_route *route; /* borrowed */
    struct halay_offered *waiting;   /* owned, points: they have met nobody */
    struct halay_offered *moving;    /* owned, points, in no order: they have */
    struct halay_offered *heard;     /* owned: the peer's that have met nobody */
    struct halay_offered *unsaid;    /* owned: what is not out; the first is being said */
    uint64_t made, said;             /* how much this rank has had to say; of this, out */
    uint64_t heard_last, due;        /* what was said last by the peer; what is known to be on its way */
    struct halay_transfer saying, hearing;
    struct halay_offer arriving;
    int64_t left_us; /* when it was seen to have left; 0: it has not */
};

struct halay_points {
    struct peer *first;
    struct halay_offered *any; /* owned, points: receives from any rank that have met none */
    size_t busy;               /* points, what is unsaid, peers that are due */
    int64_t reported_us;       /* the last report of stalls */
};

/* The peer of that rank; listened to from now on. NULL: no memory. */
struct peer *halay_points_peer(struct halay_context *ctx, int rank);
/* Say it after all before; owned by the peer from now on. */
void halay_points_say(struct halay_context *ctx, struct peer *peer, struct halay_offered *word);
/* One that has met nobody ends; it is off its list, and freed. */
void halay_points_end(struct halay_context *ctx, struct point *point, enum halay_status status, const char *text);

/* points_wait.c: the peer's WITHDRAW or GONE. */
enum halay_status halay_points_take_word(struct halay_context *ctx, struct peer *peer, const struct halay_offer *word);
/* Those whose peers have left end. Returns how many. */
size_t halay_points_end_left(struct halay_context *ctx);

#endif
