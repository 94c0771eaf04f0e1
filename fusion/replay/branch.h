/* SPDX-License-Identifier: Apache-2.0
 *
 * Branch: this rank's place in the tree along which a process set leaves a plan
 * (collectives/transport/bootstrap/tree.h). Driver only.
 */
#ifndef HALAY_BRANCH_H
#define HALAY_BRANCH_H

#include "fusion/protocol/messages.h"
#include "fusion/requests/context.h"

enum { HALAY_BRANCH_DEGREE = 4 }; /* rank 0 of 16,384 has 21 below it, and the deepest rank is 7 levels down */

/* Makes the messenger exchange messages with this rank's parent and children. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_branch_reach(struct halay_process_set *set);
/* Returns the number of the set's ranks for which this one answers: itself and all below it. On rank 0 of the job 1,
 * since its coordinator merges the answers. */
int halay_branch_ranks(const struct halay_process_set *set);
/* Queues an item for this rank's parent. Not on rank 0 of the job. */
enum halay_status halay_branch_send_up(struct halay_process_set *set, const struct halay_item *item);
/* Queues an item for this rank's children. Rank 0 of the job has children in every set, even as a non-member. */
enum halay_status halay_branch_send_down(struct halay_process_set *set, const struct halay_item *item);

#endif
