/* SPDX-License-Identifier: Apache-2.0
 *
 * Members: the tensors of a grouped all-reduce. One name stands for all of them, so that they are ready together,
 * agreed on together and fail together; what they are is said in words (row_words.h):
 *
 *     each member: type | dimensions << 8, then a word for each dimension
 */
#ifndef HALAY_MEMBERS_H
#define HALAY_MEMBERS_H

#include "fusion/protocol/signature.h"

/* Where the elements of a tensor are, and where they go. */
struct halay_buffers {
    const void *in; /* borrowed while in flight; in == out: in place */
    void *out;
    size_t count;
    enum halay_dtype dtype;
};

/* The fault of a type that the reduction does not take, of a tensor or a member of it: the same pointer for all. */
extern const char halay_type_fault[];

/* The member i < member_count; info has members, and their size is one that this version knows. */
const struct halay_member *halay_members_at(const struct halay_tensor_info *info, size_t i);

/* Can these be a group, under this reduction and these factors? NULL: yes; *words: how many say it, *bytes: of all
 * data. */
const char *halay_members_fault(const struct halay_tensor_info *info, size_t *words, size_t *bytes);
/* Of members that have no fault: their words; their buffers. */
void halay_members_say(const struct halay_tensor_info *info, uint64_t *words);
void halay_members_buffers(const struct halay_tensor_info *info, struct halay_buffers *buffers);

/* Words from another rank (not aligned): are they the members of this signature? */
int halay_members_are_valid(const struct halay_signature *signature, const void *words, size_t count);

/* How many words the first member of these has. */
size_t halay_members_words(const uint64_t *words);
/* Counts and types of the buffers that words speak of; where they lie is not set. */
void halay_members_read(const uint64_t *words, size_t members, struct halay_buffers *buffers);

/* The first member in which two groups of as many members differ, from 0 on, in words as of halay_signature_difference.
 * Returns 0 if there is none. */
int halay_members_difference(const uint64_t *a, const uint64_t *b, size_t members, char *a_text, char *b_text,
                             size_t size);

#endif
