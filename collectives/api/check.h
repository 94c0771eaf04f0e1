/* SPDX-License-Identifier: Apache-2.0
 *
 * The checking mode of groups (HALAY_CHECK): an algorithm that is run before the chosen one.
 */
#ifndef HALAY_CHECK_H
#define HALAY_CHECK_H

#include "collectives/schedule/coll.h"

/* Compares what the ranks call, then goes on with the collective itself (halay_coll_begin); ends with
 * HALAY_ERR_MISMATCH and a line in everybody's log where they disagree. Uses the last tags of the channel. Not in the
 * table of algorithms. */
extern const struct halay_algorithm halay_check;

#endif
