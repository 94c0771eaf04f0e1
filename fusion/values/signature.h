/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature: what all ranks must agree on about a tensor of one name: operation, type, shape, reduction, root, scale
 * factors.
 *
 * Plain values without padding, so that two of them are equal exactly when their bytes are. What an operation does not
 * use (the root of an all-reduce, dimensions that are not there) is zero; factors that don't scale are 1.
 *
 * Some operations go by rows, the first dimension (rows x a shape that is equal everywhere). Of all-gather and
 * all-to-all the number of rows may differ between ranks: then shape[0] is 0 here, and what a rank has to say about
 * rows is in words:
 *
 *                       what a rank says                what the coordinator answers
 *     all-gather        its rows                        the rows of each rank
 *     all-to-all        its rows for each rank          the rows that each rank has for this one
 *     reduce-scatter    with splits, these: equal on all ranks, as is the answer
 *     join                                              the rank that joined last
 *     a group           what its members are: equal on all ranks, as is the answer
 *     process sets      what is made or removed (set_words.h): likewise
 */
#ifndef HALAY_SIGNATURE_H
#define HALAY_SIGNATURE_H

#include "halay.h"
#include <stddef.h>
#include <stdint.h>

#define HALAY_JOIN_NAME "join"
#define HALAY_CHANGE_SETS_NAME "process sets"

enum { HALAY_WORDS_MAX = 8000 }; /* so that an item fits in a message */

struct halay_signature {
    uint8_t operation; /* enum halay_operation */
    uint8_t dtype;     /* enum halay_dtype */
    uint8_t op;        /* enum halay_op; 0 where nothing is reduced */
    uint8_t dimensions;
    int32_t root;            /* of a broadcast: the job's number; else 0 */
    uint32_t members, words; /* a group's tensors (members.h), and how many words say what they are; of a change of
                                   process sets and of a reduce-scatter with splits the words only; else 0 */
    int32_t priority;
    uint32_t wire;              /* enum halay_wire */
    double prescale, postscale; /* finite; reductions only */
    uint64_t shape[HALAY_DIMENSIONS_MAX];
};

/* The signature of what the caller describes, and its number of elements. HALAY_ERR_ARGUMENT or HALAY_ERR_UNSUPPORTED:
 * *why (static storage) says what is wrong. size: number of ranks of the process set. The root is taken as it is. */
enum halay_status halay_signature_make(const struct halay_tensor_info *info, int size,
                                       struct halay_signature *signature, size_t *count, const char **why);

/* How many words a rank says of such a tensor, and how many it is answered. */
size_t halay_signature_said_count(const struct halay_signature *signature, int size);
size_t halay_signature_heard_count(const struct halay_signature *signature, int size);

/* What a rank says of it: halay_signature_said_count numbers. info is one that halay_signature_make accepts. */
void halay_signature_say(const struct halay_tensor_info *info, int size, uint64_t *words);

/* Words that were answered: could that much data be in memory? words need not be aligned. */
int halay_signature_fits(const struct halay_signature *signature, const void *words, size_t count);

/* Is it one that halay_signature_make could have made? For what arrives from other ranks. */
int halay_signature_is_valid(const struct halay_signature *signature, int size);

int halay_signature_equal(const struct halay_signature *a, const struct halay_signature *b);

/* Nothing is multiplied or travels as another type. */
static inline int halay_signature_is_plain(const struct halay_signature *s)
{
    return s->prescale == 1 && s->postscale == 1 && !s->wire;
}

/* Elements of a valid signature. */
size_t halay_signature_count(const struct halay_signature *signature);
/* Bytes of a valid signature; cannot overflow. */
size_t halay_signature_bytes(const struct halay_signature *signature);

/* Elements of a shape; 0 in *fits if they, or their bytes of `element` each, exceed memory. */
size_t halay_shape_count(const uint64_t *shape, int dimensions, size_t element, int *fits);
/* "[2,3]"; with any number of rows "[*,3]". */
void halay_shape_print(const uint64_t *shape, int dimensions, int has_any_rows, char *text, size_t size);

/* Elements of a row. */
size_t halay_signature_row(const struct halay_signature *signature);

/* May it share a bucket? Those that may have the same kind. */
int halay_signature_fuses(const struct halay_signature *signature);
uint64_t halay_signature_kind(const struct halay_signature *signature);

/*
 * The first difference, in words that follow "rank 3 has " and "rank 0 has ": *a_text "shape [160,4]", *b_text
 * "[160,8]". Both cut to size. Returns 0 if they are equal.
 */
int halay_signature_difference(const struct halay_signature *a, const struct halay_signature *b, char *a_text,
                               char *b_text, size_t size);

#endif
