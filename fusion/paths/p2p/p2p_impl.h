/* SPDX-License-Identifier: Apache-2.0
 *
 * P2p: shared by p2p.c, p2p_name.c and p2p_wait.c. Driver only, unless stated otherwise.
 */
#ifndef HALAY_P2P_IMPL_H
#define HALAY_P2P_IMPL_H

#include "collectives/transport/route.h"
#include "fusion/paths/p2p/offers.h"
#include "fusion/paths/p2p/p2p.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/path.h"

/* The payload of a request. request->other_rank is the peer, once one is known. */
enum p2p_word { P2P_PEER, P2P_TAG, P2P_NAME_LENGTH };
_Static_assert(P2P_NAME_LENGTH + 1 == HALAY_POINT_PAYLOAD, "a word each");

/* A send or receive of this rank. */
struct point {
    struct halay_offered own; /* first; its offer */
    struct halay_request *request;
    int64_t since_us;
    int is_withdrawn;              /* WITHDRAW has been sent to the peer */
    uint64_t tag;                  /* of its data */
    size_t moved;                  /* bytes, of whole chunks */
    enum halay_status status;      /* its final status */
    char *text;                    /* owned, or NULL */
    struct halay_offered *pending; /* owned: of a receive from any rank: sent when it has found a peer */
    struct halay_transfer transfer;
};

struct peer {
    struct peer *next;
    int rank;
    const struct halay_route *route; /* borrowed */
    struct halay_offered *waiting;   /* owned, points: unmatched */
    struct halay_offered *moving;    /* owned, points, in no order: matched */
    struct halay_offered *received;  /* owned: the peer's, unmatched */
    struct halay_offered *unsent;    /* owned: to be sent; the first is being sent */
    uint64_t made, sent;             /* messages of this rank to the peer; of these, sent */
    uint64_t received_last, due;     /* the peer's last message received; known to be sent */
    struct halay_transfer sending, receiving;
    struct halay_offer arriving;
    int64_t left_us; /* when its leave was noticed; 0: it has not left */
};

struct p2p {
    struct halay_path path;   /* first */
    _Atomic uint64_t unnamed; /* points without a name, so far; relaxed: only to distinguish them; of all threads */
    struct peer *peers;
    struct halay_offered *any; /* owned, points: receives from any rank unmatched */
    size_t busy;               /* points, unsent messages, peers with messages due */
    int64_t reported_us;       /* the last report of stalls */
};

static inline struct p2p *p2p_of(struct halay_path *path)
{
    return (struct p2p *)path;
}

/* p2p.c. peer: created on demand, NULL: no memory. send: message is p's from now on, its number is set. end: frees the
 * point; text may be its own. */
struct peer *halay_p2p_peer(struct p2p *p2p, int rank);
void halay_p2p_send(struct p2p *p2p, struct peer *p, struct halay_offered *message);
void halay_p2p_end(struct p2p *p2p, struct point *point, enum halay_status status, const char *text);

/* p2p_name.c */
enum halay_status halay_p2p_name(struct halay_path *path, const struct halay_tensor_info *info,
                                 struct halay_naming *naming);

/* p2p_wait.c. take: WITHDRAW, or GONE. end_left: ends those whose peers have left, and returns their number. */
enum halay_status halay_p2p_withdraw(struct halay_path *path, struct halay_request *request);
enum halay_status halay_p2p_look(struct halay_path *path, struct halay_path_look *look);
enum halay_status halay_p2p_take(struct p2p *p2p, struct peer *p, const struct halay_offer *message);
size_t halay_p2p_end_left(struct p2p *p2p);

#endif
