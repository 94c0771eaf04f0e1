/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits that make no progress.
 *
 * A peer whose process is stopped (SIGSTOP, a debugger) is not dead and sends nothing: a rank that waits for it would
 * wait without a time limit. So after HALAY_PEER_TIMEOUT in vain the processes of this host are looked at, and the
 * group is given up if one is stopped. (Of another host's processes the transport knows only whether their connection
 * broke.)
 *
 * Otherwise a peer that is merely slow is waited for as long as it takes. But it may as well never call the collective,
 * or its message may be lost: so the wait is reported after HALAY_STALL_CHECK_TIME, as the engine does with tensors,
 * and ended after HALAY_STALL_SHUTDOWN_TIME. The report names the ranks of this host that have not started the
 * collective (area.h: next), and the peers of the transfers that are posted: each algorithm's cancel lists those.
 * Bytes that a transport has moved count as progress: a long message is not a stall.
 *
 * Time in vain is added up from look to look and no step counts for more than STEP_MAX_US: when a whole job was
 * stopped and continues, the clock has moved but no rank has waited. For the same reason a rank must be stopped in two
 * looks in a row: it may continue a moment after this one.
 */
#include "base/clock.h"
#include "base/number_text.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/area.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/group/p2p.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_US = 10000, STEP_MAX_US = 1000000 };

/* ---- time ---- */

int64_t halay_stall_limit_us(const struct halay_config *config)
{
    const int limits_ms[] = { config->peer_timeout_ms, config->stall_check_ms, config->stall_shutdown_ms };
    int64_t shortest = HALAY_NEVER;

    for (size_t i = 0; i < sizeof limits_ms / sizeof *limits_ms; i++)
        if (limits_ms[i] && (int64_t)limits_ms[i] * 1000 < shortest)
            shortest = (int64_t)limits_ms[i] * 1000;
    return shortest;
}

/* Nonzero if the time since the last look is to be counted now. */
static int is_due(const struct halay_stall *stall, const struct halay_config *config, int64_t now)
{
    int64_t limit = halay_stall_limit_us(config), step = limit / 4 < STEP_US ? limit / 4 : STEP_US;

    return limit != HALAY_NEVER && (!stall->looked_us || now - stall->looked_us >= step);
}

static int has_passed(const struct halay_stall *stall, int64_t since_us, int limit_ms)
{
    return limit_ms && stall->waited_us - since_us >= (int64_t)limit_ms * 1000;
}

static enum halay_stall_event count_time(struct halay_stall *stall, const struct halay_config *config, uint64_t work,
                                         int64_t now)
{
    int64_t step = now - stall->looked_us;

    if (stall->work != work || !stall->looked_us) {
        *stall = (struct halay_stall){ .work = work, .looked_us = now, .suspect = -1 };
        return HALAY_STALL_NONE;
    }
    stall->waited_us += step < STEP_MAX_US ? step : STEP_MAX_US;
    stall->looked_us = now;
    if (has_passed(stall, 0, config->stall_shutdown_ms))
        return HALAY_STALL_END;
    if (!has_passed(stall, stall->reported_us, config->stall_check_ms))
        return HALAY_STALL_COUNTED;
    stall->reported_us = stall->waited_us;
    return HALAY_STALL_REPORT;
}

enum halay_stall_event halay_stall_look(struct halay_stall *stall, const struct halay_config *config, uint64_t work)
{
    int64_t now = halay_now_us();

    return is_due(stall, config, now) ? count_time(stall, config, work, now) : HALAY_STALL_NONE;
}

/* ---- a process that is stopped ---- */

/* No rank waits for one that has left, whatever its process does. */
static int member_has_closed(const struct halay_group *group, int rank)
{
    return group->closed && group->closed[rank] &&
           atomic_load_explicit(group->closed[rank], memory_order_acquire) != HALAY_OK;
}

static int stopped_member(const struct halay_group *group)
{
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && !member_has_closed(group, r) &&
            halay_world_is_stopped(group->world, halay_group_world_rank(group, r)))
            return r;
    return -1;
}

/* The rank that has been stopped for long enough, -1: none. The first look is at half the time, so that the second one
 * is in time. */
static int find_stopped(struct halay_group *group)
{
    struct halay_stall *stall = &group->stall;
    int64_t timeout_us = (int64_t)group->world->config.peer_timeout_ms * 1000;

    if (!timeout_us || stall->waited_us < timeout_us / 2)
        return -1;
    int rank = stopped_member(group), is_sure = rank >= 0 && rank == stall->suspect && stall->waited_us >= timeout_us;
    stall->suspect = rank;
    if (!is_sure)
        return -1;
    const int stopped = halay_group_world_rank(group, rank);
    halay_error_at(group->world->log, &HALAY_ERROR_OF_RANK(stopped),
                   "rank %d is stopped: its process did not run while nothing arrived for %.4g s", stopped,
                   (double)timeout_us / 1e6);
    return rank;
}

/* ---- what is waited for ---- */

void halay_posted_add(const struct halay_group *group, const struct halay_transfer *x)
{
    struct halay_posted *posted = group->posted;

    posted->moved += x->moved;
    for (int r = 0; posted->is_awaited && r < group->size; r++)
        if (halay_route_is_with(&group->world->route, halay_group_world_rank(group, r), x))
            posted->is_awaited[r] = 1;
}

static void list_posted(struct halay_group *group, const struct halay_coll *only, struct halay_posted *posted)
{
    group->posted = posted;
    for (unsigned left = group->under_way; left; left &= left - 1) {
        struct halay_coll *c = &group->channels[__builtin_ctz(left)].coll;
        if (c->ops->cancel && (!only || c == only))
            c->ops->cancel(c);
    }
    if (!only)
        halay_p2p_cancel(group);
    group->posted = NULL;
}

/* Ranks that share memory with this one and have not started it. */
static void list_missing(const struct halay_group *group, const struct halay_coll *c, unsigned char *is_awaited)
{
    for (int r = 0; group->memory && r < group->size; r++) {
        const struct halay_area *area = c->channel->areas[r];
        if (area && atomic_load_explicit(&area->next, memory_order_relaxed) <= c->number)
            is_awaited[r] = 1;
    }
}

static const struct halay_coll *find_oldest(const struct halay_group *group)
{
    const struct halay_coll *oldest = NULL;

    for (unsigned left = group->under_way; left; left &= left - 1) {
        const struct halay_coll *c = &group->channels[__builtin_ctz(left)].coll;
        if (!oldest || c->number < oldest->number)
            oldest = c;
    }
    return oldest;
}

/* ---- the report ---- */

static void print_ranks(const unsigned char *is_awaited, int count, const int *members, char *text, size_t size)
{
    int many = 0;
    size_t used = 0;

    text[0] = 0;
    for (int r = 0; r < count && used + 24 < size; r++)
        if (is_awaited[r])
            used += (size_t)snprintf(text + used, size - used, "%s%d", many++ ? ", " : "", members ? members[r] : r);
    if (used + 24 >= size)
        snprintf(text + used, size - used, ", ...");
}

void halay_stall_print(const struct halay_stall *stall, const char *subject, const unsigned char *is_awaited, int count,
                       const int *members, char *text, size_t size)
{
    char ranks[160];

    print_ranks(is_awaited, count, members, ranks, sizeof ranks);
    halay_snprintf(text, size, "stalled for %.3g s: %s: waits for %s%s", (double)stall->waited_us / 1e6, subject,
                   !*ranks              ? "no rank that is known"
                   : strchr(ranks, ',') ? "ranks "
                                        : "rank ",
                   ranks);
}

static const char *name_of(const struct halay_coll *c)
{
    if (c->form == HALAY_FORM_PLAIN)
        return halay_coll_kind_name(c->operation);
    return c->form == HALAY_FORM_GATHER ? "gather" : "scatter";
}

/* c: the oldest collective under way; NULL: only sends or receives are. */
static void print_subject(const struct halay_group *group, const struct halay_coll *c, char *text, size_t size)
{
    char what[80];

    if (c) {
        halay_snprintf(text, size, "%s number %llu of a group of %d ranks, algorithm '%s'", name_of(c),
                       (unsigned long long)c->number, group->size, c->algorithm->name);
        return;
    }
    halay_p2p_print(group, what, sizeof what);
    halay_snprintf(text, size, "%s in a group of %d ranks", what, group->size);
}

/* The rank to name, -1: none is known. */
static int report_stall(struct halay_group *group, enum halay_log_level level)
{
    const struct halay_coll *c = find_oldest(group);
    unsigned char *is_awaited = calloc((size_t)group->size, 1);
    char subject[160], text[512];
    int rank = 0;

    if (!is_awaited)
        return -1;
    list_posted(group, c, &(struct halay_posted){ .is_awaited = is_awaited });
    if (c)
        list_missing(group, c, is_awaited);
    print_subject(group, c, subject, sizeof subject);
    halay_stall_print(&group->stall, subject, is_awaited, group->size, group->members, text, sizeof text);
    halay_log_write(group->world->log, level, "%s", text);
    while (rank < group->size && !is_awaited[rank])
        rank++;
    free(is_awaited);
    return rank < group->size ? rank : -1;
}

int halay_group_has_stalled(struct halay_group *group, int *rank)
{
    const struct halay_config *config = &group->world->config;
    struct halay_posted posted = { 0 };
    int64_t now;

    if (!halay_group_is_active(group)) {
        group->stall.looked_us = 0;
        return 0;
    }
    if (!is_due(&group->stall, config, now = halay_now_us()))
        return 0;
    list_posted(group, NULL, &posted);
    enum halay_stall_event event = count_time(&group->stall, config, group->work + posted.moved, now);
    if (event == HALAY_STALL_NONE)
        return 0;
    if ((*rank = find_stopped(group)) >= 0)
        return 1;
    if (event == HALAY_STALL_REPORT)
        report_stall(group, HALAY_LOG_WARNING);
    if (event != HALAY_STALL_END)
        return 0;
    *rank = report_stall(group, HALAY_LOG_ERROR);
    return 1;
}
