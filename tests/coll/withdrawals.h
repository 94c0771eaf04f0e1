/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawals and renewals: run by each rank on its own group of all, all in the same order.
 */
#ifndef HALAY_TEST_WITHDRAWALS_H
#define HALAY_TEST_WITHDRAWALS_H

#include "collectives/group/group.h"

/* brief: fewer rounds. Returns the number of failures and prints each. */
int withdrawals_run(struct halay_group *group, int brief);

#endif
