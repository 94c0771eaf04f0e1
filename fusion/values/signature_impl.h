/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature, inside view: what signature.c has members.c do for a group.
 */
#ifndef HALAY_SIGNATURE_IMPL_H
#define HALAY_SIGNATURE_IMPL_H

#include "fusion/values/signature.h"

/* Can these be a group, under this reduction and these factors? NULL: yes; *words: how many say it, *bytes: of all
 * data. */
const char *halay_members_fault(const struct halay_tensor_info *info, size_t *words, size_t *bytes);
/* Words of members that have no fault. */
void halay_members_say(const struct halay_tensor_info *info, uint64_t *words);

/* Words from another rank (not aligned): are they the members of this signature? */
int halay_members_are_valid(const struct halay_signature *signature, const void *words, size_t count);

#endif
