/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer whose process is stopped (SIGSTOP, a debugger) is not dead and says nothing: a rank that waits for it would
 * wait forever. So a wait that has been in vain for HALAY_PEER_TIMEOUT looks at the processes of this host, and gives
 * up only if one is stopped: a peer that is merely slow is waited for as long as it takes. (Between hosts nobody can
 * look; a connection that breaks is seen by the transport.)
 *
 * Time in vain is added up from look to look and no step counts for more than STEP_MOST_US: when a whole job was
 * stopped and goes on, the clock has moved but nobody has waited. For the same reason a rank must be stopped in two
 * looks in a row: it may go on a moment after this one.
 */
#include "base/clock.h"
#include "collectives/api/group.h"
#include "collectives/group/channel.h"

enum { STEP_US = 10000, STEP_MOST_US = 1000000 };

/* No one waits for a rank that has left, whatever its process does. */
static int member_has_closed(const struct halay_group *group, int rank)
{
    return group->closed && group->closed[rank] &&
           atomic_load_explicit(group->closed[rank], memory_order_acquire) != HALAY_OK;
}

static int stopped_member(const struct halay_group *group)
{
    for (int r = 0; r < group->t->size; r++)
        if (r != group->t->rank && !member_has_closed(group, r) &&
            halay_world_is_stopped(group->world, halay_group_world_rank(group, r)))
            return r;
    return -1;
}

/* Nonzero if it is time to look at the processes. */
static int count_time(struct halay_stall *stall, unsigned long work, int64_t timeout_us)
{
    int64_t now = halay_now_us(), step = now - stall->looked_us;

    if (stall->work != work || !stall->looked_us) {
        *stall = (struct halay_stall){ .work = work, .looked_us = now, .suspect = -1 };
        return 0;
    }
    if (step < STEP_US && step < timeout_us / 4)
        return 0;
    stall->waited_us += step < STEP_MOST_US ? step : STEP_MOST_US;
    stall->looked_us = now;
    return stall->waited_us >= timeout_us / 2; /* the second look comes in time then */
}

int halay_group_find_stopped(struct halay_group *group)
{
    struct halay_stall *stall = &group->stall;
    int64_t timeout_us = (int64_t)group->world->config.peer_timeout_ms * 1000;

    if (!timeout_us)
        return -1;
    if (!group->under_way) {
        stall->looked_us = 0;
        return -1;
    }
    if (!count_time(stall, group->work, timeout_us))
        return -1;
    int rank = stopped_member(group), is_sure = rank >= 0 && rank == stall->suspect && stall->waited_us >= timeout_us;
    stall->suspect = rank;
    if (!is_sure)
        return -1;
    halay_error(group->world->log, "rank %d is stopped: its process did not run while nothing arrived for %.4g s",
                halay_group_world_rank(group, rank), (double)timeout_us / 1e6);
    return rank;
}
