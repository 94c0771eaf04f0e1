/* SPDX-License-Identifier: Apache-2.0
 *
 * Request: one submission.
 */
#ifndef HALAY_REQUEST_H
#define HALAY_REQUEST_H

#include "fusion/protocol/members.h"
#include "fusion/protocol/payload.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/life.h"
#include "halay.h"
#include <assert.h>
#include <stdatomic.h>

struct halay_cargo;
struct halay_entry;
struct halay_plan_bucket;

/* Flags of a request's word, and where its turn begins: replay/steady.h. */
enum { HALAY_STEADY_BUSY = 1, HALAY_STEADY_HELD = 2, HALAY_STEADY_DONE = 4, HALAY_STEADY_MOVED = 8 };
#define HALAY_STEADY_TURN_SHIFT 4

struct halay_request {
    struct halay_context *ctx;     /* borrowed */
    struct halay_process_set *set; /* borrowed: outlives it */
    struct halay_entry *entry;     /* borrowed while in flight */
    struct halay_request *next;    /* free list, or list of those that have ended */
    struct halay_signature signature;
    size_t count, bytes;
    struct halay_payload payload;  /* owned, kept: this rank's payload of the signature */
    struct halay_buffers *buffers; /* owned, kept: of a group's members */
    size_t buffer_capacity;
    size_t buckets_left;       /* a group's buckets that have not ended, one a type; driver only */
    struct halay_cargo *cargo; /* held until the last reference ends; NULL: its data are in host memory (carrier.h) */
    size_t out_bytes;          /* size of out; this and the next ones for operations whose result size varies */
    void *held;                /* owned until the request is released: the result, if out is NULL or too small */
    size_t result_rows, result_bytes;
    int other_rank; /* of a join: the last rank to join; on a path: the peer */
    int set_number; /* of the first process set that a change made */
    size_t *rows;   /* owned, kept, [row_capacity]: the rows of each rank in the result */
    size_t row_capacity;
    int has_rows;
    /* Members for a submission in a plan, in few cache lines. */
    const void *in; /* borrowed while in flight; in == out: in place */
    void *out;
    halay_callback callback;
    void *arg;
    uint64_t order;                           /* of the registered tensor's registration, 0: by name */
    _Atomic uint64_t word;                    /* the state of a steady request: replay/steady.h */
    struct halay_plan_bucket *_Atomic steady; /* borrowed: its bucket; stored before the word, which publishes it */
    _Atomic int references;                   /* of the engine, until it has ended, and of the caller */
    _Atomic int status; /* HALAY_IN_PROGRESS until it has ended: stored (release) by the driver after text and data are
                             final, loaded (acquire) by halay_test and halay_wait */
    enum halay_life life; /* driver only, by halay_request_move */
    int is_part;          /* the part of a rank that has joined, without a caller: join.c; driver only */
    uint64_t sequence;    /* in HALAY_LIFE_SENT its number among those sent, in HALAY_LIFE_PLANNED those of the plan */
    /* Driver only, except that timeout_ms and expires_us are set before the driver has the request. 0: never. */
    int timeout_ms;
    int64_t expires_us;          /* when the time limit expires; 0 also once that has been noticed */
    int64_t overdue_us;          /* when the engine fails, because the withdrawn request has not ended */
    int64_t retry_us;            /* when the request is withdrawn again */
    enum halay_status withdrawn; /* HALAY_OK: it has not been withdrawn */
    struct halay_request *watched_next, **watched_at; /* the list of watched requests; NULL: not in it */
    enum halay_status final;                          /* the future value of status; driver only */
    char *text;                                       /* owned, or NULL; written before status */
    uint64_t ordinal;                                 /* its number among the submissions of its name, from 1 */
    uint64_t hash;                                    /* of its name */
    /* For the recorder; 0: not recorded, or not started. Set under lock before the driver has it, then driver only. */
    int64_t submitted_ns, started_ns;
    uint64_t collective;
    uint64_t attached; /* the turn in which it became a steady request; guarded by lock */
};

static inline void halay_request_move(struct halay_request *r, enum halay_life next)
{
    assert(halay_life_may_follow(r->life, next));
    r->life = next;
}

#endif
