/* SPDX-License-Identifier: Apache-2.0
 *
 * Members: the tensors of a grouped all-reduce. They share one name, so that they become ready, are agreed on and fail
 * together; their payload (payload.h) describes them:
 *
 *     each member: type | dimensions << 8, then a word for each dimension
 */
#ifndef HALAY_MEMBERS_H
#define HALAY_MEMBERS_H

#include "fusion/protocol/signature.h"

/* The addresses of a tensor's elements and of its result. */
struct halay_buffers {
    const void *in; /* borrowed while in flight; in == out: in place */
    void *out;
    size_t count;
    enum halay_dtype dtype;
};

/* The text for a type that the reduction does not support, of a tensor or a member. Compared by address. */
extern const char halay_type_fault[];

/* Returns the member i < member_count; info has members, and their size is one that this version supports. */
const struct halay_member *halay_members_at(const struct halay_tensor_info *info, size_t i);

/* Returns why these members cannot be a group with this reduction and these factors; NULL: they can. *payload_count:
 * the length of the payload that describes the group; *bytes: the size of its data. */
const char *halay_members_fault(const struct halay_tensor_info *info, size_t *payload_count, size_t *bytes);
/* Write the payload, and set the buffers, of members without fault. */
void halay_members_write_payload(const struct halay_tensor_info *info, uint64_t *payload);
void halay_members_buffers(const struct halay_tensor_info *info, struct halay_buffers *buffers);

/* Returns nonzero if a payload from another rank (not aligned) has the members of this signature. */
int halay_members_are_valid(const struct halay_signature *signature, const void *payload, size_t count);

/* Returns the number of words of the first member in a payload. */
size_t halay_members_words(const uint64_t *payload);
/* Reads counts and types of the buffers from a payload; addresses are not set. */
void halay_members_read(const uint64_t *payload, size_t members, struct halay_buffers *buffers);

/* Finds the first member in which two groups of the same number of members differ, as texts of
 * halay_signature_difference. Returns 0 if they are equal. */
int halay_members_difference(const uint64_t *a, const uint64_t *b, size_t members, char *a_text, char *b_text,
                             size_t size);

#endif
