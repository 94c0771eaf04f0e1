/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaving: ranks that submit nothing any more.
 */
#ifndef HALAY_LEAVE_H
#define HALAY_LEAVE_H

#include "fusion/coordinator/coordinator_state.h"

/* BYE: the rank leaves all sets. */
enum halay_status halay_coordinator_leave(struct halay_coordinator *c, int rank);
/* A rank has come to this name: if it lacks one that has left, the job ends. */
enum halay_status halay_coordinator_check_left(struct halay_coordinator *c, const struct halay_roll *roll);

#endif
