/* SPDX-License-Identifier: Apache-2.0
 *
 * P2p: what p2p.c, p2p_name.c and p2p_wait.c share. Driver only, where not said otherwise.
 */
#ifndef HALAY_P2P_IMPL_H
#define HALAY_P2P_IMPL_H

#include "collectives/transport/route.h"
#include "fusion/paths/p2p/offers.h"
#include "fusion/paths/p2p/p2p.h"
#include "fusion/requests/path.h"

/* What a request's words are. request->other_rank is the peer, once one is known. */
enum p2p_word { P2P_PEER, P2P_TAG, P2P_NAME_LENGTH };
_Static_assert(P2P_NAME_LENGTH + 1 == HALAY_POINT_WORDS, "a word each");

/* A send or receive of this rank. */
struct point {
    struct halay_offered own; /* first; what it offers */
    struct halay_request *request;
    int64_t since_us;
    int is_withdrawn;              /* the peer has been asked */
    uint64_t tag;                  /* of its data */
    size_t moved;                  /* bytes, of whole chunks */
    enum halay_status status;      /* how it will end */
    char *text;                    /* owned, or NULL */
    struct halay_offered *pending; /* owned: of a receive from any rank, which sends it when it has met a peer */
    struct halay_transfer transfer;
};

struct peer {
    struct peer *next;
    int rank;
    const struct halay_route *route; /* borrowed */
    struct halay_offered *waiting;   /* owned, points: they have met no offer */
    struct halay_offered *moving;    /* owned, points, in no order: they have */
    struct halay_offered *received;  /* owned: the peer's that have met no point */
    struct halay_offered *unsent;    /* owned: what is not out; the first is being sent */
    uint64_t made, sent;             /* messages of this rank to the peer; of these, out */
    uint64_t received_last, due;     /* the peer's last message that is here; that is known to be on its way */
    struct halay_transfer sending, receiving;
    struct halay_offer arriving;
    int64_t left_us; /* when it was seen to have left; 0: it has not */
};

struct p2p {
    struct halay_path path;   /* first */
    _Atomic uint64_t unnamed; /* points without a name, so far; relaxed: only to tell them apart; of all threads */
    struct peer *peers;
    struct halay_offered *any; /* owned, points: receives from any rank that have met no offer */
    size_t busy;               /* points, messages that are not out, peers that are due */
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
