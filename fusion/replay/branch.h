/* SPDX-License-Identifier: Apache-2.0
 *
 * Branch: a rank of a process set in the tree along which the set leaves a plan
 * (collectives/transport/bootstrap/tree.h). Driver only.
 */
#ifndef HALAY_BRANCH_H
#define HALAY_BRANCH_H

#include "fusion/protocol/messages.h"
#include "fusion/state/context.h"

enum { HALAY_BRANCH_DEGREE = 4 }; /* rank 0 of 16,384 has 21 below it, and the deepest rank is 7 levels down */

/* Messages with those above and below this rank are exchanged from now on. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_branch_reach(struct halay_process_set *set);
/* How many of the set's ranks this one answers for: itself, and those below it. On rank 0 of the job, where the
 * coordinator merges, itself. */
int halay_branch_ranks(const struct halay_process_set *set);
/* An item to the rank above this one, which is not rank 0 of the job. */
enum halay_status halay_branch_send_up(struct halay_process_set *set, const struct halay_item *item);
/* An item to those right below this one, or below rank 0 of the job, even if that is no member. */
enum halay_status halay_branch_send_down(struct halay_process_set *set, const struct halay_item *item);

#endif
