/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature: what all ranks must agree on about a tensor of one name: collective, type, shape, reduction, root, scale
 * factors.
 *
 * Plain values without padding, so that two signatures are equal exactly when their bytes are. Fields that a collective
 * does not use (the root of an all-reduce, unused dimensions) are zero; unused factors are 1.
 *
 * Some operations work on rows, indices of the first dimension (rows x a shape that is equal everywhere). For most of
 * them the number of rows may differ between ranks: then shape[0] is 0 here, and a rank's rows are in the payload.
 */
#ifndef HALAY_SIGNATURE_H
#define HALAY_SIGNATURE_H

#include "collectives/transport/device_work.h"
#include "halay.h"
#include <stddef.h>
#include <stdint.h>

#define HALAY_JOIN_NAME "join"
#define HALAY_CHANGE_SETS_NAME "process sets" /* prefix of the names of changes of process sets */

enum { HALAY_PAYLOAD_MAX = 8000 }; /* so that an item fits in a message */

/* A change of process sets: agreed on like a tensor, but never submitted by a program (halay_process_set_create,
 * _remove). */
#define HALAY_CHANGE_SETS ((enum halay_collective)HALAY_COLLECTIVE_COUNT)
enum { HALAY_COLLECTIVE_KINDS = HALAY_COLLECTIVE_COUNT + 1 };

/* Sent as it is, up to the shape (messages.h). */
struct halay_signature {
    uint8_t collective; /* enum halay_collective */
    uint8_t dtype;      /* enum halay_dtype */
    uint8_t reduction;  /* enum halay_reduction; 0 where nothing is reduced */
    uint8_t dimensions;
    int32_t root; /* its rank in the job, for operations that have one; otherwise 0 */
    /* Counts of a group's tensors (members.h) and of the words of the payload that describes them. A change of process
     * sets, a send or receive, and a reduce-scatter with splits have a payload only; others have 0. */
    uint16_t members, payload_count;
    int16_t priority;
    uint8_t wire;               /* enum halay_wire */
    uint8_t is_on_devices;      /* the data are on devices on all ranks, and may stay there (paths/device/direct.c) */
    double prescale, postscale; /* finite; reductions only */
    uint64_t shape[HALAY_DIMENSIONS_MAX];
};

/* Returns the name of a valid collective: "allreduce". */
const char *halay_collective_name(int collective);
/* Return nonzero for operations between two ranks, and for operations without data of the caller. */
static inline int halay_collective_is_point(int collective)
{
    return collective == HALAY_SEND || collective == HALAY_RECEIVE;
}
static inline int halay_collective_is_empty(int collective)
{
    return collective == HALAY_BARRIER || collective >= HALAY_JOIN;
}
/* Return nonzero for operations that reduce, that have a root, whose number of rows may differ between ranks, and that
 * divide data by rows. */
static inline int halay_collective_reduces(int collective)
{
    return collective == HALAY_ALLREDUCE || collective == HALAY_REDUCE_SCATTER || collective == HALAY_REDUCE;
}
static inline int halay_collective_has_root(int collective)
{
    return collective == HALAY_BROADCAST || (collective >= HALAY_REDUCE && collective <= HALAY_SCATTER);
}
static inline int halay_collective_is_ragged(int collective)
{
    return collective == HALAY_ALLGATHER || collective == HALAY_ALLTOALL || collective == HALAY_GATHER ||
           collective == HALAY_SCATTER;
}
static inline int halay_collective_goes_by_rows(int collective)
{
    return collective == HALAY_REDUCE_SCATTER || halay_collective_is_ragged(collective);
}

/* Checks a signature from another rank. Returns nonzero if halay_signature_make could have made it. */
int halay_signature_is_valid(const struct halay_signature *signature, int size);

/* Returns nonzero if the scale factors are finite and not 0, and the type supports them. */
int halay_signature_scales_are_valid(const struct halay_signature *signature);

int halay_signature_equal(const struct halay_signature *a, const struct halay_signature *b);

/* Returns nonzero if devices support it (collectives/transport/device_ops.h). */
static inline int halay_signature_may_be_on_devices(const struct halay_signature *s)
{
    if (s->collective == HALAY_BROADCAST || s->collective == HALAY_ALLGATHER)
        return 1;
    if ((s->collective != HALAY_ALLREDUCE && s->collective != HALAY_REDUCE_SCATTER) || s->wire)
        return 0;
    return (!s->members && halay_sums_floats(s->reduction, s->dtype)) || /* of a group the payload has the types */
           (s->reduction != HALAY_ADASUM && s->prescale == 1 && s->postscale == 1);
}

/* Returns the bytes of a valid signature; cannot overflow. */
size_t halay_signature_bytes(const struct halay_signature *signature);

/* Returns nonzero if a plan (replay.h) may contain such a tensor. */
static inline int halay_signature_can_replay(const struct halay_signature *s)
{
    return s->collective < HALAY_JOIN;
}

/* Returns nonzero if the signature has neither scale factors nor a wire type. */
static inline int halay_signature_is_plain(const struct halay_signature *s)
{
    return s->prescale == 1 && s->postscale == 1 && !s->wire;
}

/* Returns the elements of a valid signature. */
size_t halay_signature_count(const struct halay_signature *signature);

/* Returns the elements of a shape; sets *fits to 0 if they, or their bytes of `element` each, exceed memory. */
size_t halay_shape_count(const uint64_t *shape, int dimensions, size_t element, int *fits);
/* Prints "[2,3]", or "[*,3]" if the number of rows may differ between ranks. */
void halay_shape_print(const uint64_t *shape, int dimensions, int has_any_rows, char *text, size_t size);

/* Returns the elements of a row. */
size_t halay_signature_row(const struct halay_signature *signature);

/* Returns nonzero if such a tensor may share a bucket with others of the same kind. */
int halay_signature_fuses(const struct halay_signature *signature);
uint64_t halay_signature_kind(const struct halay_signature *signature);

/* Finds the first difference, as texts after "rank 3 has " and "rank 0 has ": *a_text "shape [160,4]", *b_text
 * "[160,8]". Both truncated to size. Returns 0 if they are equal. */
int halay_signature_difference(const struct halay_signature *a, const struct halay_signature *b, char *a_text,
                               char *b_text, size_t size);

/* ---- signature_make.c ---- */

/* Makes the signature of a description, and its number of elements. HALAY_ERR_ARGUMENT or HALAY_ERR_UNSUPPORTED: *why
 * (static storage) has the reason. size: number of ranks of the process set. The root is not checked. */
enum halay_status halay_signature_make(const struct halay_tensor_info *info, int size,
                                       struct halay_signature *signature, size_t *count, const char **why);

/*
 * ---- signature_payload.c: words sent by a rank with a signature, and in the coordinator's answer ----
 *
 *                       sent by a rank                  answered by the coordinator
 *     all-gather        its rows                        the rows of each rank
 *     gather            its rows                        the rows of each rank
 *     all-to-all        its rows for each rank          the rows that each rank has for this one
 *     scatter           the same; all but the root have 0 rows for each rank
 *     reduce-scatter    with splits, these: equal on all ranks, as is the answer
 *     join                                              the rank that joined last
 *     a group           its members: equal on all ranks, as is the answer
 *     process sets      the change (set_change.h): equal on all ranks that send it, as is the answer
 *     send, receive     peer, tag, length of the name: not sent, read by this rank's path (paths/p2p/p2p_impl.h)
 */

enum { HALAY_POINT_PAYLOAD = 3 }; /* of a send or receive */

/* Return the number of words that a rank sends for such a tensor, and the number in the coordinator's answer. */
size_t halay_signature_sent_count(const struct halay_signature *signature, int size);
size_t halay_signature_answer_count(const struct halay_signature *signature, int size);

/* Writes the payload that a rank sends: halay_signature_sent_count words. info is one that halay_signature_make
 * accepts. */
void halay_signature_write_payload(const struct halay_tensor_info *info, int size, uint64_t *payload);

/* Returns nonzero if data of the answered numbers of rows can fit in memory. payload need not be aligned. */
int halay_signature_fits(const struct halay_signature *signature, const void *payload, size_t count);

/* Returns nonzero if the result on each rank needs data of every rank, so that it completes on no rank before all have
 * begun it. payload: of all ranks, one after the other, as agreed. */
int halay_signature_needs_all(const struct halay_signature *signature, const uint64_t *payload, int size);

#endif
