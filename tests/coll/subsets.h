/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of some ranks: run by each rank on its own group of all, all in the same order.
 */
#ifndef HALAY_TEST_SUBSETS_H
#define HALAY_TEST_SUBSETS_H

#include "collectives/group/group.h"

/* brief: neither as many groups as there can be nor the matrix. Returns the number of failures and prints each. */
int subsets_run(struct halay_group *group, int brief);

#endif
