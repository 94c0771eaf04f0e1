/* SPDX-License-Identifier: Apache-2.0
 *
 * The checking mode of groups (HALAY_CHECK): an algorithm that is run before the chosen one.
 */
#ifndef HALAY_CHECK_H
#define HALAY_CHECK_H

#include "collectives/schedule/coll.h"

/* Compares the ranks' calls, then continues with the collective itself (halay_coll_begin); if they differ it ends with
 * HALAY_ERR_MISMATCH and a line in every rank's log. Uses the channel's last tags. Not in the table of algorithms. */
extern const struct halay_algorithm halay_check;

#endif
