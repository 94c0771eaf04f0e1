/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a request: the table.
 */
#include "fusion/requests/life.h"

enum { NEVER = HALAY_LIVES };

enum halay_life halay_life_next(enum halay_life life, enum halay_life_event event)
{
    static const unsigned char next[HALAY_LIVES][HALAY_LIFE_EVENTS] = {
        /*                       SEND             PLAN                RETURN             START               END */
        [HALAY_LIFE_QUEUED] = { HALAY_LIFE_SENT, HALAY_LIFE_PLANNED, NEVER, HALAY_LIFE_RUNNING, HALAY_LIFE_ENDED },
        [HALAY_LIFE_SENT] = { NEVER, HALAY_LIFE_PLANNED, HALAY_LIFE_QUEUED, HALAY_LIFE_RUNNING, HALAY_LIFE_ENDED },
        [HALAY_LIFE_PLANNED] = { NEVER, NEVER, HALAY_LIFE_QUEUED, NEVER, HALAY_LIFE_ENDED },
        [HALAY_LIFE_RUNNING] = { NEVER, NEVER, NEVER, NEVER, HALAY_LIFE_ENDED },
        [HALAY_LIFE_ENDED] = { NEVER, NEVER, NEVER, NEVER, NEVER },
    };

    return (enum halay_life)next[life][event];
}
