/* SPDX-License-Identifier: Apache-2.0
 *
 * Describe: what a program says of a tensor. Errors are logged.
 */
#ifndef HALAY_DESCRIBE_H
#define HALAY_DESCRIBE_H

#include "fusion/protocol/signature.h"
#include "fusion/state/context.h"

/* Convert a program's description, of any version, to this version's. */
enum halay_status halay_info_read(struct halay_context *ctx, const struct halay_tensor_info *info,
                                  struct halay_tensor_info *known);
/* Without what is the root's, on a rank that is not, and with the in of a reduce in place: info, or *own. */
const struct halay_tensor_info *halay_info_trim(const struct halay_context *ctx, const struct halay_tensor_info *info,
                                                struct halay_tensor_info *own);
/* Check what the caller describes, trimmed. *count: elements, of a group bytes; *length: of the name. */
enum halay_status halay_info_check(struct halay_context *ctx, const struct halay_tensor_info *info,
                                   struct halay_signature *signature, size_t *count, size_t *length);
/* The process set that the caller means. */
struct halay_process_set *halay_info_set(struct halay_context *ctx, const struct halay_tensor_info *info);
const void *halay_info_input(const struct halay_tensor_info *info);
/* count: as halay_info_check gives it. */
size_t halay_info_bytes(const struct halay_tensor_info *info, size_t count);
/* Bytes at out that this rank's result may use. */
size_t halay_room_at_out(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t bytes);
/* One line of the log: what is wrong with this tensor. */
void halay_info_say_fault(struct halay_context *ctx, const struct halay_process_set *set, const char *name,
                          const char *why);
/* Why this set accepts no submissions; NULL: it does. lock held. */
const char *halay_set_refusal_locked(const struct halay_process_set *set);

#endif
