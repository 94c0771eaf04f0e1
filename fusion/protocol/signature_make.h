/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a signature from the caller's description.
 */
#ifndef HALAY_SIGNATURE_MAKE_H
#define HALAY_SIGNATURE_MAKE_H

#include "fusion/protocol/signature.h"

/* Makes the signature of a description, and its number of elements. HALAY_ERR_ARGUMENT or HALAY_ERR_UNSUPPORTED: *why
 * (static storage) has the reason. size: number of ranks of the process set. The root is not checked. */
enum halay_status halay_signature_make(const struct halay_tensor_info *info, int size,
                                       struct halay_signature *signature, size_t *count, const char **why);

#endif
