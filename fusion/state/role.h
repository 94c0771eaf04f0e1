/* SPDX-License-Identifier: Apache-2.0
 *
 * Role: who has the driver's role, where the background thread is, and what a moment asks for. Pure; the state is
 * guarded by the context's lock. docs/reference/threading.md has the picture.
 */
#ifndef HALAY_ROLE_H
#define HALAY_ROLE_H

/* Who has the role. Asleep: on the bell, and touches nothing else. */
enum halay_role_driver {
    HALAY_ROLE_FREE,
    HALAY_ROLE_THREAD,
    HALAY_ROLE_THREAD_ASLEEP,
    HALAY_ROLE_WAITER,
    HALAY_ROLE_WAITER_ASLEEP,
    HALAY_ROLE_DRIVERS
};

/* Where the background thread is. */
enum halay_role_thread {
    HALAY_ROLE_AWAKE,  /* or a signal is on its way to it */
    HALAY_ROLE_DOZING, /* on the bell, whether it still has the role or not */
    HALAY_ROLE_PARKED, /* on its condition, and no signal is on its way */
    HALAY_ROLE_THREADS
};

struct halay_role {
    unsigned char driver;     /* enum halay_role_driver */
    unsigned char thread;     /* enum halay_role_thread */
    unsigned char needs_bell; /* a thread has fallen asleep on the bell since it was last rung */
    unsigned char has_news;   /* something came while the driver was awake: it looks before it sleeps */
};

enum halay_role_event {
    HALAY_ROLE_WORK,         /* there is something for the driver */
    HALAY_ROLE_TAKES_THREAD, /* the thread takes the role, as halay_role_may_take allows */
    HALAY_ROLE_TAKES_WAITER, /* so does any other */
    HALAY_ROLE_GIVES,        /* the driver, which is awake, gives the role up */
    HALAY_ROLE_SLEEPS,       /* the driver has found nothing to do, and holds a token of the bell */
    HALAY_ROLE_STAYS,        /* so it has, but does not sleep after all */
    HALAY_ROLE_WAKES_THREAD, /* the thread is back from the bell */
    HALAY_ROLE_WAKES_WAITER, /* so is another driver */
    HALAY_ROLE_PARKS,        /* the thread, which does not have the role, sleeps on its condition */
    HALAY_ROLE_UNPARKS,      /* it is back */
    HALAY_ROLE_EVENTS
};

enum halay_role_action {
    HALAY_ROLE_NOTHING,
    HALAY_ROLE_RING,   /* the bell */
    HALAY_ROLE_SIGNAL, /* the thread's condition */
    HALAY_ROLE_DISARM, /* the bell: it was armed for a sleeper that has lost the role */
    HALAY_ROLE_LOOK,   /* something has come: do not sleep */
    HALAY_ROLE_LOST    /* the role was taken away during the sleep */
};

struct halay_role_step {
    struct halay_role role;
    enum halay_role_action action;
};

struct halay_role_step halay_role_next(struct halay_role role, enum halay_role_event event);

/* Returns nonzero if any thread may take the role: it is free, or the background thread's, which sleeps. */
static inline int halay_role_may_take(struct halay_role role)
{
    return role.driver == HALAY_ROLE_FREE || role.driver == HALAY_ROLE_THREAD_ASLEEP;
}

/* Returns nonzero if the background thread sleeps, and no wake is on its way. */
static inline int halay_role_thread_sleeps(struct halay_role role)
{
    return role.thread == HALAY_ROLE_PARKED || (role.thread == HALAY_ROLE_DOZING && role.needs_bell);
}

static inline int halay_role_is_waiters(struct halay_role role)
{
    return role.driver == HALAY_ROLE_WAITER || role.driver == HALAY_ROLE_WAITER_ASLEEP;
}

#endif
