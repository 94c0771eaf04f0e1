/* SPDX-License-Identifier: Apache-2.0
 *
 * Role: the transitions. tests/fusion/test_role_model.c explores all states and events, and all orders of the threads
 * that use them.
 */
#include "fusion/engine/role.h"

static int is_awake(struct halay_role role)
{
    return role.driver == HALAY_ROLE_THREAD || role.driver == HALAY_ROLE_WAITER;
}

/* Handles work: the driver sees it, or a sleeper is woken. A thread whose bell has been rung looks for all work when it
 * returns. */
static struct halay_role_step work(struct halay_role role)
{
    if (is_awake(role)) {
        role.has_news = 1;
        return (struct halay_role_step){ role, HALAY_ROLE_NOTHING };
    }
    if (role.driver != HALAY_ROLE_FREE || role.thread == HALAY_ROLE_ON_BELL) {
        enum halay_role_action action = role.needs_bell ? HALAY_ROLE_RING : HALAY_ROLE_NOTHING;
        role.needs_bell = 0;
        return (struct halay_role_step){ role, action };
    }
    if (role.thread != HALAY_ROLE_PARKED)
        return (struct halay_role_step){ role, HALAY_ROLE_NOTHING };
    role.thread = HALAY_ROLE_AWAKE;
    return (struct halay_role_step){ role, HALAY_ROLE_SIGNAL };
}

/* Takes the role. The first step sees all earlier work. */
static struct halay_role_step take(struct halay_role role, enum halay_role_driver driver)
{
    enum halay_role_action action = role.driver == HALAY_ROLE_FREE ? HALAY_ROLE_NOTHING : HALAY_ROLE_DISARM;

    role.driver = (unsigned char)driver;
    role.has_news = 0;
    return (struct halay_role_step){ role, action };
}

static struct halay_role_step fall_asleep(struct halay_role role)
{
    int is_thread = role.driver == HALAY_ROLE_THREAD;

    if (role.has_news) {
        role.has_news = 0;
        return (struct halay_role_step){ role, HALAY_ROLE_LOOK };
    }
    role.driver = is_thread ? HALAY_ROLE_THREAD_ASLEEP : HALAY_ROLE_WAITER_ASLEEP;
    role.thread = is_thread ? HALAY_ROLE_ON_BELL : role.thread;
    role.needs_bell = 1;
    return (struct halay_role_step){ role, HALAY_ROLE_NOTHING };
}

/* Handles the return of a sleeper. Another thread may have taken the thread's role, but never a waiter's. */
static struct halay_role_step wake(struct halay_role role, int is_thread)
{
    if (is_thread)
        role.thread = HALAY_ROLE_AWAKE;
    if (is_thread && role.driver != HALAY_ROLE_THREAD_ASLEEP)
        return (struct halay_role_step){ role, HALAY_ROLE_LOST };
    role.driver = is_thread ? HALAY_ROLE_THREAD : HALAY_ROLE_WAITER;
    return (struct halay_role_step){ role, HALAY_ROLE_NOTHING };
}

struct halay_role_step halay_role_next(struct halay_role role, enum halay_role_event event)
{
    switch (event) {
    case HALAY_ROLE_WORK:
        return work(role);
    case HALAY_ROLE_TAKES_THREAD:
        return take(role, HALAY_ROLE_THREAD);
    case HALAY_ROLE_TAKES_WAITER:
        return take(role, HALAY_ROLE_WAITER);
    case HALAY_ROLE_SLEEPS:
        return fall_asleep(role);
    case HALAY_ROLE_WAKES_THREAD:
        return wake(role, 1);
    case HALAY_ROLE_WAKES_WAITER:
        return wake(role, 0);
    case HALAY_ROLE_GIVES:
        role.driver = HALAY_ROLE_FREE;
        break;
    case HALAY_ROLE_PARKS:
        role.thread = HALAY_ROLE_PARKED;
        return (struct halay_role_step){ role, HALAY_ROLE_NOTHING };
    case HALAY_ROLE_UNPARKS:
        role.thread = HALAY_ROLE_AWAKE;
        return (struct halay_role_step){ role, HALAY_ROLE_NOTHING };
    default: /* STAYS */
        break;
    }
    role.has_news = 0;
    return (struct halay_role_step){ role, HALAY_ROLE_NOTHING };
}
