/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds of express (protocol/enrolment.h), as the coordinator counts them.
 */
#include "fusion/coordinator/express_rounds.h"
#include "fusion/coordinator/rolls.h"
#include "fusion/coordinator/stragglers.h"

/* All but one had been reported late: the missing rank has come now. */
static void note_last(struct halay_coordinator *c, struct halay_roll *roll, int64_t now_us)
{
    int r = 0;

    while (roll->state[r])
        r++;
    roll->present++;
    halay_arrivals_note(c, r, roll, now_us);
}

void halay_coordinator_round_is_over(struct halay_coordinator *c, uint32_t id, uint64_t round, int64_t now_us)
{
    struct halay_roll *roll = c->by_id[id];

    if (round <= roll->enrolment.round)
        return;
    roll->enrolment.round = round;
    if (roll->present == c->options.size - 1)
        note_last(c, roll, now_us);
    if (roll->present)
        halay_coordinator_rest_roll(c, roll);
}

void halay_coordinator_set_express(struct halay_coordinator *c, size_t pairs)
{
    c->express_pairs = pairs;
}
