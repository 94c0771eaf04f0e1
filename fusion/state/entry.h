/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry: a name in a process set, and what belongs to it.
 */
#ifndef HALAY_ENTRY_H
#define HALAY_ENTRY_H

#include "fusion/protocol/enrolment.h"
#include "fusion/protocol/row_words.h"
#include "fusion/state/set.h"

struct halay_request;
struct halay_tensor;

/* A name this rank knows in a process set: registered, in flight, or with an agreed id. */
struct halay_entry {
    struct halay_table_node node;  /* first; the name is in the same block */
    struct halay_process_set *set; /* borrowed: outlives it */
    struct halay_tensor *tensor;   /* registered, or NULL; guarded by lock */
    struct halay_request *request; /* in flight, or NULL; set under lock by submit, cleared under lock by the driver */
    uint64_t submissions;          /* so far; guarded by lock */
    uint32_t id;                   /* agreed, or HALAY_NO_ID; written by the driver under lock */
    struct halay_signature agreed; /* valid with an id; driver only, as are these */
    struct halay_enrolment enrolment;
    uint64_t held;            /* this rank has promised not to put any round up to this one (coordinator/withdraw.h) */
    struct halay_words said;  /* owned: by this rank, when it was agreed */
    struct halay_words heard; /* owned: the answer */
    /* how often in succession another submission or a wait followed at once, up to a few; guarded by lock */
    int followed;
};

#endif
