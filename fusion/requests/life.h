/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a request in the engine: its states, and one table of what may follow each. Pure.
 *
 *      queued ------> sent --------> running ------> ended
 *        |              |                              ^
 *        '--------------+---> planned -----------------'
 *
 * A request is queued again, to be sent again, if its plan has been left, or if a plan without it followed. What no
 * coordinator decides on, a transfer on its path or the part of a rank that has joined, runs next after `queued`. Each
 * state can end with an error. A steady request does not live while its plan is in force: its word has its state
 * (replay/steady.h). It is `planned` if the plan is left while it is in flight.
 */
#ifndef HALAY_LIFE_H
#define HALAY_LIFE_H

enum halay_life {
    HALAY_LIFE_QUEUED,  /* submitted; the coordinator does not know it */
    HALAY_LIFE_SENT,    /* sent to the coordinator */
    HALAY_LIFE_PLANNED, /* counts in a bucket of a plan, which has the rest of its state */
    HALAY_LIFE_RUNNING, /* in a bucket of the coordinator, or transferred on its path */
    HALAY_LIFE_ENDED,   /* its status is known; it is delivered next */
    HALAY_LIVES
};

/* Returns nonzero if a request can go from one state to the other. */
static inline int halay_life_may_follow(enum halay_life life, enum halay_life next)
{
    enum { QUEUED = 1, SENT = 2, PLANNED = 4, RUNNING = 8, ENDED = 16 };
    static const int states[HALAY_LIVES] = { [HALAY_LIFE_QUEUED] = SENT | PLANNED | RUNNING | ENDED,
                                             [HALAY_LIFE_SENT] = QUEUED | PLANNED | RUNNING | ENDED,
                                             [HALAY_LIFE_PLANNED] = QUEUED | ENDED,
                                             [HALAY_LIFE_RUNNING] = ENDED };

    return states[life] >> next & 1;
}

#endif
