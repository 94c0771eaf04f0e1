/* SPDX-License-Identifier: Apache-2.0
 *
 * Describe: checks a program's description of a tensor. Errors are logged.
 */
#ifndef HALAY_DESCRIBE_H
#define HALAY_DESCRIBE_H

#include "fusion/requests/tensor.h"

/* Converts a program's description, of any version, to this version's. */
enum halay_status halay_info_read(struct halay_context *ctx, const struct halay_tensor_info *info,
                                  struct halay_tensor_info *known);
/* Checks a description, and makes a tensor of it, without an entry, a payload and buffers. A path may name it
 * (requests/path.h). may_lack_name: otherwise it gets a name if it has none, of which its submission writes the end
 * (requests/names.h). info and naming are borrowed as long as the tensor uses them. */
enum halay_status halay_describe(struct halay_context *ctx, const struct halay_tensor_info *info, int may_lack_name,
                                 struct halay_naming *naming, struct halay_tensor *tensor);
/* Writes the payload and, for a group, the buffers of a described tensor, which has a naming. */
void halay_tensor_write(const struct halay_tensor *tensor, uint64_t *payload, struct halay_buffers *buffers);
/* Returns why this set accepts no submissions; NULL: it does. */
const char *halay_set_refusal_locked(const struct halay_process_set *set);
/* Logs one line with the fault of a tensor. */
void halay_info_say_fault(struct halay_context *ctx, const struct halay_process_set *set, const char *name,
                          const char *why);

#endif
