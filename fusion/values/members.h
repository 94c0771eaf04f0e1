/* SPDX-License-Identifier: Apache-2.0
 *
 * Members: the tensors of a grouped all-reduce. One name stands for all of them, so that they are ready together,
 * agreed on together and fail together; what they are is said in words (row_words.h):
 *
 *     each member: type | dimensions << 8, then a word for each dimension
 */
#ifndef HALAY_MEMBERS_H
#define HALAY_MEMBERS_H

#include "halay.h"
#include <stddef.h>
#include <stdint.h>

/* A member as it is run. */
struct halay_part {
    const void *in; /* borrowed while in flight; in == out: in place */
    void *out;
    size_t count;
    enum halay_dtype dtype;
};

/* Of members that can be a group (fusion/values/signature.h). */
void halay_members_parts(const struct halay_tensor_info *info, struct halay_part *parts);

/* Counts and types of the parts that words speak of; where they lie is not set. */
void halay_members_read(const uint64_t *words, size_t members, struct halay_part *parts);

/* The first member in which two groups of as many members differ, from 0 on, in words as of halay_signature_difference.
 * Returns 0 if there is none. */
int halay_members_difference(const uint64_t *a, const uint64_t *b, size_t members, char *a_text, char *b_text,
                             size_t size);

#endif
