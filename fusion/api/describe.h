/* SPDX-License-Identifier: Apache-2.0
 *
 * Describe: checks a program's description of a tensor. Errors are logged.
 */
#ifndef HALAY_DESCRIBE_H
#define HALAY_DESCRIBE_H

#include "fusion/protocol/signature.h"
#include "fusion/requests/context.h"

/* Converts a program's description, of any version, to this version's. */
enum halay_status halay_info_read(struct halay_context *ctx, const struct halay_tensor_info *info,
                                  struct halay_tensor_info *known);
/* Returns the description without the root's fields on other ranks, and with the in of a reduce in place: info, or
 * *own. */
const struct halay_tensor_info *halay_info_trim(const struct halay_context *ctx, const struct halay_tensor_info *info,
                                                struct halay_tensor_info *own);
/* Checks a trimmed description. *count: elements, for a group bytes; *length: of the name. */
enum halay_status halay_info_check(struct halay_context *ctx, const struct halay_tensor_info *info,
                                   struct halay_signature *signature, size_t *count, size_t *length);
/* Returns the process set of a description. */
struct halay_process_set *halay_info_set(struct halay_context *ctx, const struct halay_tensor_info *info);
const void *halay_info_input(const struct halay_tensor_info *info);
/* Returns the bytes of a tensor. count: as of halay_info_check. */
size_t halay_info_bytes(const struct halay_tensor_info *info, size_t count);
/* Returns how many bytes at out this rank's result may use. */
size_t halay_room_at_out(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t bytes);
/* Logs one line with the fault of this tensor. */
void halay_info_say_fault(struct halay_context *ctx, const struct halay_process_set *set, const char *name,
                          const char *why);
/* Returns why this set accepts no submissions; NULL: it does. lock held. */
const char *halay_set_refusal_locked(const struct halay_process_set *set);

#endif
