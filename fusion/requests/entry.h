/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry: a name in a process set, with its registration, request and agreement.
 */
#ifndef HALAY_ENTRY_H
#define HALAY_ENTRY_H

#include "fusion/protocol/messages.h"
#include "fusion/protocol/payload.h"
#include "fusion/requests/request.h"
#include "fusion/requests/set.h"

struct halay_plan_bucket;
struct halay_tensor;

/* A name this rank knows in a process set: registered, in flight, or with an agreed id. */
struct halay_entry {
    struct halay_table_node node;  /* first; the name is in the same block */
    struct halay_process_set *set; /* borrowed: outlives it */
    struct halay_tensor *tensor;   /* registered, or NULL; guarded by lock */
    struct halay_request *request; /* in flight, or NULL; set under lock by submit, cleared under lock by the driver */
    /* Owned: its steady request, or NULL (replay/steady.h). Stored under lock, loaded (acquire) by submit. */
    struct halay_request *_Atomic steady;
    uint64_t submissions;          /* their number so far; guarded by lock */
    uint32_t id;                   /* agreed, or HALAY_NO_ID; written by the driver under lock */
    struct halay_signature agreed; /* valid with an id; driver only, as are these */
    /* Borrowed: its bucket in the plan in force; NULL: it is in no plan (replay/replay.h). Written by the driver under
     * lock. */
    struct halay_plan_bucket *planned;
    struct halay_payload sent;   /* owned: this rank's when the id was agreed */
    struct halay_payload answer; /* owned: the coordinator's */
    /* how often in succession another submission or a wait followed at once, up to a few; guarded by lock */
    int followed;
};

/* Returns the entry of an id, NULL for an unknown id. Driver only. */
static inline struct halay_entry *halay_entry_by_id(const struct halay_process_set *set, uint32_t id)
{
    return id < set->id_capacity ? set->by_id[id] : NULL;
}

/* Returns nonzero if the request's name has an id for the signature that this rank submitted. Driver only. */
static inline int halay_request_is_agreed(const struct halay_request *r)
{
    const struct halay_entry *e = r->entry;

    return e->id != (uint32_t)HALAY_NO_ID && r->signature.collective != HALAY_JOIN &&
           halay_signature_equal(&e->agreed, &r->signature) &&
           halay_payload_equal(&e->sent, r->payload.at, r->payload.count);
}

#endif
