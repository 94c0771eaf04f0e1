/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds of tensors that go by express (protocol/enrolment.h), as the coordinator counts them.
 */
#ifndef HALAY_EXPRESS_ROUNDS_H
#define HALAY_EXPRESS_ROUNDS_H

#include "fusion/coordinator/coordinator_state.h"

/* How many names may go by express. Before the first item. */
void halay_coordinator_set_express(struct halay_coordinator *c, size_t pairs);

/* Rank 0 has seen that all ranks have put this round of a tensor that goes by express. now_us: the clock. */
void halay_coordinator_round_is_over(struct halay_coordinator *c, uint32_t id, uint64_t round, int64_t now_us);

static inline int halay_roll_goes_by_express(const struct halay_roll *roll)
{
    return roll->enrolment.pair && halay_express_suits(&roll->agreed);
}

#endif
