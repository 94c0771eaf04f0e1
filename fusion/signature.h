/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature: what all ranks must agree on about a tensor of one name: operation, type, shape, reduction, root, scale
 * factors.
 *
 * Plain values without padding, so that two of them are equal exactly when their bytes are. What an operation does not use
 * (the root of an all-reduce, dimensions that are not there) is zero; factors that don't scale are 1.
 */
#ifndef HALAY_SIGNATURE_H
#define HALAY_SIGNATURE_H

#include "halay.h"
#include <stddef.h>
#include <stdint.h>

struct halay_signature {
    uint8_t operation; /* enum halay_operation */
    uint8_t dtype;     /* enum halay_dtype */
    uint8_t op;        /* enum halay_op; 0 for a broadcast */
    uint8_t dimensions;
    int32_t root; /* 0 for an all-reduce */
    double prescale, postscale; /* finite; all-reduce only */
    uint64_t shape[HALAY_DIMENSIONS_MAX];
};

/* The signature of what the caller describes, and its number of elements. HALAY_ERR_ARGUMENT or HALAY_ERR_UNSUPPORTED: *why
 * (static storage) says what is wrong. size: number of ranks. */
enum halay_status halay_signature_make(const struct halay_tensor_info *info, int size, struct halay_signature *signature,
                                       size_t *count, const char **why);

/* Is it one that halay_signature_make could have made? For what arrives from other ranks. */
int halay_signature_is_valid(const struct halay_signature *signature, int size);

int halay_signature_equal(const struct halay_signature *a, const struct halay_signature *b);

/* Elements of a valid signature. */
size_t halay_signature_count(const struct halay_signature *signature);
/* Bytes of a valid signature; cannot overflow. */
size_t halay_signature_bytes(const struct halay_signature *signature);

/* Tensors that may share a bucket have the same kind. */
uint64_t halay_signature_kind(const struct halay_signature *signature);

/*
 * The first difference, in words that follow "rank 3 has " and "rank 0 has ": *a_text "shape [160,4]", *b_text
 * "[160,8]". Both cut to size. Returns 0 if they are equal.
 */
int halay_signature_difference(const struct halay_signature *a, const struct halay_signature *b, char *a_text,
                               char *b_text, size_t size);

#endif
