/* SPDX-License-Identifier: Apache-2.0
 *
 * Role: the driver's role, the state of the background thread, and the actions that an event requires. Pure; the state
 * is guarded by the context's lock. docs/reference/threading.md has a picture.
 */
#ifndef HALAY_ROLE_H
#define HALAY_ROLE_H

/* The holder of the role. Asleep: waits on the bell, and accesses nothing else. */
enum halay_role_driver {
    HALAY_ROLE_FREE,
    HALAY_ROLE_THREAD,
    HALAY_ROLE_THREAD_ASLEEP,
    HALAY_ROLE_WAITER,
    HALAY_ROLE_WAITER_ASLEEP,
    HALAY_ROLE_DRIVERS
};

/* The state of the background thread. */
enum halay_role_thread {
    HALAY_ROLE_AWAKE,   /* or a signal has been sent to it */
    HALAY_ROLE_ON_BELL, /* waits on the bell, whether it still has the role or not */
    HALAY_ROLE_PARKED,  /* waits on its condition, and no signal has been sent */
    HALAY_ROLE_THREADS
};

struct halay_role {
    unsigned char driver;     /* enum halay_role_driver */
    unsigned char thread;     /* enum halay_role_thread */
    unsigned char needs_bell; /* a thread has fallen asleep on the bell since it was last rung */
    unsigned char has_news;   /* an event while the driver was awake: it looks before it sleeps */
};

enum halay_role_event {
    HALAY_ROLE_WORK,         /* there is work for the driver */
    HALAY_ROLE_TAKES_THREAD, /* the thread takes the role, as halay_role_may_take allows */
    HALAY_ROLE_TAKES_WAITER, /* any other thread takes the role */
    HALAY_ROLE_GIVES,        /* the driver, which is awake, releases the role */
    HALAY_ROLE_SLEEPS,       /* the driver has found nothing to do, and holds a token of the bell */
    HALAY_ROLE_STAYS,        /* the driver does not sleep after all */
    HALAY_ROLE_WAKES_THREAD, /* the thread has returned from the bell */
    HALAY_ROLE_WAKES_WAITER, /* another driver has returned from the bell */
    HALAY_ROLE_PARKS,        /* the thread, which does not have the role, sleeps on its condition */
    HALAY_ROLE_UNPARKS,      /* the thread has returned from its condition */
    HALAY_ROLE_EVENTS
};

enum halay_role_action {
    HALAY_ROLE_NOTHING,
    HALAY_ROLE_RING,   /* ring the bell */
    HALAY_ROLE_SIGNAL, /* signal the thread's condition */
    HALAY_ROLE_DISARM, /* disarm the bell: it was armed for a sleeper that has lost the role */
    HALAY_ROLE_LOOK,   /* do not sleep: there is work */
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
    return role.thread == HALAY_ROLE_PARKED || (role.thread == HALAY_ROLE_ON_BELL && role.needs_bell);
}

#endif
