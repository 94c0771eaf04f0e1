/* SPDX-License-Identifier: Apache-2.0
 *
 * Join: the neutral data of a rank that has joined. Driver only.
 */
#ifndef HALAY_JOIN_H
#define HALAY_JOIN_H

#include "fusion/requests/context.h"

struct halay_entry;
struct halay_request;

/* Returns this rank's neutral part of a tensor that it did not submit because it has joined. NULL: it has not joined,
 * or no memory. */
struct halay_request *halay_join_part(struct halay_context *ctx, const struct halay_entry *entry);
void halay_join_part_end(struct halay_request *part);

#endif
