/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets: the tensors that run as one collective. Driver only.
 */
#ifndef HALAY_BUCKET_H
#define HALAY_BUCKET_H

#include "base/record.h"
#include "fusion/requests/context.h"
#include "fusion/requests/request.h"
#include "fusion/run/execution.h"

/* A tensor of an all-reduce. */
struct halay_bucket_tensor {
    struct halay_buffers buffers;
    double prescale, postscale;
};

struct halay_plan_bucket;

struct halay_bucket {
    struct halay_bucket *next, *next_made;
    struct halay_process_set *set;   /* borrowed */
    struct halay_request **requests; /* owned array, borrowed requests */
    size_t count, capacity;
    struct halay_plan_bucket *planned; /* borrowed: its bucket in the plan; NULL: dispatched by the coordinator */
    int is_steady;                     /* in a plan: all requests are steady ones, which end with the plan's bucket */
    int is_same;            /* steady as in the last turn, and not a group: requests, tensors and lists are the same */
    int absent;             /* the number of ranks by which averages are not divided */
    int has_parts;          /* agreed: ranks that have joined take part */
    int is_plain;           /* agreed: no request has factors or a wire type (joined ranks take this from the others) */
    enum halay_dtype dtype; /* of an all-reduce; of a group only the members of this type are reduced */
    struct halay_bucket_tensor *tensors; /* owned array: the tensors of an all-reduce, without empty ones */
    struct halay_piece *pieces;          /* owned array, [tensor_capacity]; of an all-reduce: its inputs */
    struct halay_piece *results;         /* owned array, [tensor_capacity]: the results of an all-reduce */
    size_t tensor_count, tensor_capacity;
    size_t piece_count, result_count; /* of an all-reduce, adjacent ones joined */
    int is_in_place;                  /* pieces are the results, too */
    size_t bytes;                     /* in a plan: of all requests */
    struct halay_coll *coll;          /* owned while it runs */
    void *scratch; /* owned, of the group of all ranks: memory that local ranks share where they can */
    size_t scratch_bytes;
    int is_voting;              /* in a plan: the barrier is in flight, the operation is next */
    int is_due;                 /* in a plan, on devices: the operation waits until those before it have ended */
    unsigned types;             /* of a group in a plan: bit t: elements of type t remain to be reduced */
    int has_copy;               /* scratch has a copy of the only request's input, which other ranks' data overwrite */
    uint64_t number;            /* among the set's dispatched collectives, from 1: the same on all its ranks */
    struct halay_record record; /* of its start; kind 0: not recorded */
};

/* Returns the operation of its requests. */
static inline int halay_bucket_collective(const struct halay_bucket *b)
{
    return b->requests[0]->signature.collective;
}

/* Makes room for this number of pieces and tensors. */
enum halay_status halay_bucket_reserve_tensors(struct halay_bucket *b, size_t count);

/* Makes b->scratch at least that large; kept for the next time. */
enum halay_status halay_bucket_scratch(struct halay_context *ctx, struct halay_bucket *b, size_t bytes);

/* Adds a BUCKET that the coordinator dispatched. HALAY_ERR_FORMAT: an id that this rank did not submit, or all are
 * absent. */
enum halay_status halay_bucket_add(struct halay_process_set *set, const struct halay_item *item);
/* Makes a bucket of a plan, whose tensors are submitted as agreed. NULL: no memory. */
struct halay_bucket *halay_bucket_make(struct halay_process_set *set, struct halay_plan_bucket *planned);
/* Continues after the end of a collective and halay_coll_end: returns nonzero if the bucket has another one. */
int halay_bucket_continue(struct halay_bucket *b);
/* Makes the next collective of its group one of this bucket's. */
void halay_bucket_number_next(const struct halay_bucket *b);
/* Drops the bucket. The caller ends its requests; parts of a join, which have no other owner, end here. */
void halay_bucket_drop(struct halay_context *ctx, struct halay_bucket *b);
/* Reverts a bucket whose collective was taken back: its requests and their inputs are as before. */
void halay_bucket_revert(struct halay_bucket *b);
/* Frees its storage for another bucket. */
void halay_bucket_put(struct halay_context *ctx, struct halay_bucket *b);
/* Abandons all buckets; the caller has ended the requests. */
void halay_buckets_abandon(struct halay_context *ctx);
/* Returns nonzero if a dispatched bucket has not ended. */
int halay_buckets_are_pending(const struct halay_context *ctx);
void halay_buckets_free_all(struct halay_context *ctx);

#endif
