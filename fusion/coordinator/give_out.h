/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving out: the last step of a decision.
 */
#ifndef HALAY_GIVE_OUT_H
#define HALAY_GIVE_OUT_H

#include "fusion/coordinator/coordinator_state.h"

/* These run together, after all that was chosen before. */
enum halay_status halay_coordinator_choose(struct halay_coordinator *c, struct halay_roll *const *rolls, size_t count);
/* Give out what has been chosen, as BUCKETs; averages with other divisors go into a BUCKET of their own. */
enum halay_status halay_coordinator_give_out(struct halay_coordinator *c);

#endif
