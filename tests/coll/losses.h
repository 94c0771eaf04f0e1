/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank of a job of processes is lost in the middle of a collective.
 */
#ifndef HALAY_TEST_LOSSES_H
#define HALAY_TEST_LOSSES_H

#include "collectives/schedule/coll.h"

/* The last rank gets the signal (SIGKILL, SIGSTOP) in the middle of an operation by that algorithm; all others must get
 * an error that names it, now and from then on. Returns the number of failures and prints each. */
int losses_run(struct halay_group *group, const struct halay_algorithm *algorithm, int signal);

/* First the last rank is killed, then the one before it, each in the middle of an operation of a group: the groups that
 * it is in end, those of the others go on. At least four ranks. */
int losses_of_members(struct halay_group *group);

#endif
