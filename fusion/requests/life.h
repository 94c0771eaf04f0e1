/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a request in the engine: one table of transitions. Pure.
 *
 *              SEND           START             END
 *      queued -------> sent ---------> running -------> ended
 *        |              |                                 ^
 *        '---- PLAN ----'--> planned ------- END ---------'
 *
 * RETURN goes back to `queued` from `sent` and `planned`. What no coordinator decides on, a transfer on its path or
 * the part of a rank that has joined, starts from `queued`. Each state can end with an error. A steady request does
 * not live while its plan is in force: its word has its state (replay/steady.h). It is `planned` if the plan is left
 * while it is in flight.
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

enum halay_life_event {
    HALAY_LIFE_SEND,   /* its submission is sent to the coordinator */
    HALAY_LIFE_PLAN,   /* it counts in the plan in force, or is taken over from one that is left */
    HALAY_LIFE_RETURN, /* it is sent again: its plan has been left, or a plan without it followed */
    HALAY_LIFE_START,  /* its bucket, or its transfer, begins */
    HALAY_LIFE_END,    /* it completes or fails */
    HALAY_LIFE_EVENTS
};

/* Returns the next state; HALAY_LIVES if the event cannot happen in this one. */
enum halay_life halay_life_next(enum halay_life life, enum halay_life_event event);

#endif
