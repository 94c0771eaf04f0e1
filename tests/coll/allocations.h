/* SPDX-License-Identifier: Apache-2.0
 *
 * No allocation in the data path after warm-up: run by each rank on its own group, all in the same order.
 */
#ifndef HALAY_TEST_ALLOCATIONS_H
#define HALAY_TEST_ALLOCATIONS_H

#include "collectives/group/group.h"

/* Returns the number of failures and prints each. counting.h must be able to count. */
int allocations_run(struct halay_group *group);

#endif
