/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a signature from what the caller describes.
 */
#ifndef HALAY_SIGNATURE_MAKE_H
#define HALAY_SIGNATURE_MAKE_H

#include "fusion/protocol/signature.h"

/* The signature of what the caller describes, and its number of elements. HALAY_ERR_ARGUMENT or HALAY_ERR_UNSUPPORTED:
 * *why (static storage) says what is wrong. size: number of ranks of the process set. The root is taken as it is. */
enum halay_status halay_signature_make(const struct halay_tensor_info *info, int size,
                                       struct halay_signature *signature, size_t *count, const char **why);

#endif
