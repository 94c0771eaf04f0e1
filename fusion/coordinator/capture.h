/* SPDX-License-Identifier: Apache-2.0
 *
 * Capture: finds the turn that a program repeats, in the tensors that the coordinator dispatches.
 */
#ifndef HALAY_CAPTURE_H
#define HALAY_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

struct halay_tensor_entry;

/* The tensors dispatched since one of them was last dispatched again. Zero-initialised. */
struct halay_capture {
    uint32_t *ids; /* owned array: in the order of dispatch */
    size_t *ends;  /* owned array: of each bucket, the number of ids up to its end */
    size_t count, id_capacity;
    size_t buckets, bucket_capacity;
    uint64_t turn;  /* its number */
    size_t matched; /* tensors that the turn before had too */
    size_t before;  /* tensors of the turn before */
    int equal;      /* turns before this one, in succession, that were equal to the one before them */
    int is_whole;   /* this turn has exactly the tensors of the one before */
    unsigned rest;  /* turns to wait before the next plan */
    unsigned pause; /* how many turns the last pause had */
};

/* Adds tensors that are dispatched as one bucket. can_replay: a plan may have it. HALAY_ERR_NO_MEMORY is returned as 0
 * by the next halay_capture_is_due only: no plan is made. */
void halay_capture_add(struct halay_capture *c, struct halay_tensor_entry *const *entries, size_t count,
                       int can_replay);
/* Forgets all turns. */
void halay_capture_reset(struct halay_capture *c);
/* Returns nonzero if this turn is whole and equal to enough turns before it. */
int halay_capture_is_due(const struct halay_capture *c);
/* Returns nonzero if the tensor is in this turn. */
int halay_capture_has(const struct halay_capture *c, const struct halay_tensor_entry *entry);
/* Notes that a plan was left after this number of turns: short ones delay the next one, twice as long each time. */
void halay_capture_left(struct halay_capture *c, uint64_t turns);
void halay_capture_fini(struct halay_capture *c);

#endif
