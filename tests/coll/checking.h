/* SPDX-License-Identifier: Apache-2.0
 *
 * The checking mode of groups: run by each rank on its own group of all, all in the same order.
 */
#ifndef HALAY_TEST_CHECKING_H
#define HALAY_TEST_CHECKING_H

#include "collectives/group/group.h"

/* The group's world has HALAY_CHECK set. Returns the number of failures and prints each. */
int checking_run(struct halay_group *group);

#endif
