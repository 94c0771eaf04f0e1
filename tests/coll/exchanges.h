/* SPDX-License-Identifier: Apache-2.0
 *
 * Gather and scatter, send and receive: run by each rank on its own group, all in the same order.
 */
#ifndef HALAY_TEST_EXCHANGES_H
#define HALAY_TEST_EXCHANGES_H

#include "collectives/group/group.h"

/* Returns the number of failures and prints each. */
int exchanges_run(struct halay_group *group);

#endif
