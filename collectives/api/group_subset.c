/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of some ranks: how the members agree on one, without the others.
 *
 *     member                                      leader: the lowest number of the job
 *       | my list (a hash), my next number,         |
 *       | where my areas lie ---------------------->|  same list? the highest number of all
 *       |                                           |
 *       |<------- the number, and where all areas lie
 *
 * A rank that could not prepare sends its status instead, and every rank gets the first such status. The messages go
 * under a group number of their own: they match in the order of the calls, the same at the two ends of each pair if
 * members make their groups in the same order. A group is made step by step, so that the engine continues all else;
 * halay_group_subset waits, and drives all groups meanwhile, since a member that is late may need a collective that is
 * under way here.
 *
 * Cleanup: zero-initialised; halay_group_making_end accepts any state.
 */
#include "collectives/api/group_subset.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/sync.h"
#include "collectives/group/area.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum step { PROPOSAL, DECISION, AREAS }; /* also the messages' tags */
enum { SPINS = 200, YIELDS = 2000, CHECK_EVERY = 128, SLEEP_US = 200000 };

struct proposal {
    uint64_t members; /* hash of the list */
    uint64_t offset;  /* of this rank's areas; HALAY_PRIVATE: it has none */
    int32_t status;
    uint32_t number; /* none of its groups has had this number or a higher one */
};

/* The offsets of areas follow, if the status is HALAY_OK: members that disagree about their list disagree about the
 * length. */
struct decision {
    int32_t status;
    uint32_t number;
};

struct halay_group_making {
    struct halay_group *parent; /* borrowed, as is the world */
    struct halay_world *world;
    int *members;   /* owned: the world's numbers */
    int rank, size; /* among them */
    int leader;
    enum step step;
    enum halay_status mine;     /* has this rank what it needs? */
    enum halay_status status;   /* HALAY_IN_PROGRESS until all is done */
    struct halay_group *group;  /* owned until it is handed over; not yet entered. NULL unless `mine` is HALAY_OK */
    struct proposal *proposals; /* owned: the leader has all, others their own at [rank] */
    struct decision decision;
    int is_refused;                   /* by the decision, which all members have */
    uint64_t *offsets;                /* owned: of each member's areas; HALAY_PRIVATE, all of them: some has none */
    struct halay_transfer *transfers; /* owned: one a member */
    struct halay_stall stall;
    uint64_t steps; /* so far */
};

static enum halay_status making_init(struct halay_group_making *a, struct halay_group *parent, const int *ranks,
                                     int count, int rank)
{
    size_t n = (size_t)count;

    a->parent = parent;
    a->world = parent->world;
    a->members = malloc(n * sizeof *a->members);
    a->proposals = calloc(n, sizeof *a->proposals);
    a->offsets = calloc(n, sizeof *a->offsets);
    a->transfers = calloc(n, sizeof *a->transfers);
    if (!a->members || !a->proposals || !a->offsets || !a->transfers)
        return halay_fail(a->world->log, HALAY_ERR_NO_MEMORY, "out of memory: a group of %d ranks", count);
    for (int r = 0; r < count; r++) {
        a->members[r] = halay_group_world_rank(parent, ranks[r]);
        a->leader = a->members[r] < a->members[a->leader] ? r : a->leader;
    }
    a->rank = rank;
    a->size = count;
    return HALAY_OK;
}

void halay_group_making_end(struct halay_group_making *a)
{
    if (!a)
        return;
    for (int r = 0; r < a->size; r++)
        if (!coll_is_settled(&a->transfers[r]))
            halay_route_cancel(&a->transfers[r]);
    if (a->group) {
        halay_group_end_destroy(a->group->end, a->world->data, a->is_refused);
        a->group->end = NULL;
    }
    halay_group_free_all(a->group);
    free(a->transfers);
    free(a->offsets);
    free(a->proposals);
    free(a->members);
    free(a);
}

static int count_settled(const struct halay_group_making *a)
{
    int settled = 0;

    for (int r = 0; r < a->size; r++)
        settled += coll_is_settled(&a->transfers[r]);
    return settled;
}

static void send_to(struct halay_group_making *a, int peer, uint32_t what, const void *data, size_t bytes)
{
    halay_route_send(&a->world->route, a->members[peer], halay_tag(HALAY_AGREEMENT_GROUP, 0, what), data, bytes,
                     &a->transfers[peer]);
}

static void send_to_all(struct halay_group_making *a, uint32_t what, const void *data, size_t bytes)
{
    for (int r = 0; r < a->size; r++)
        if (r != a->rank)
            send_to(a, r, what, data, bytes);
}

static void receive_from(struct halay_group_making *a, int peer, uint32_t what, void *data, size_t bytes)
{
    halay_route_recv(&a->world->route, a->members[peer], halay_tag(HALAY_AGREEMENT_GROUP, 0, what), data, bytes,
                     &a->transfers[peer]);
}

/* Makes the decision from all proposals; the leader only. */
static void making_decide(struct halay_group_making *a)
{
    const struct proposal *p = a->proposals;
    enum halay_status status = HALAY_OK;
    int have_areas = 1;

    for (int r = 0; r < a->size; r++) {
        if (status == HALAY_OK)
            status = (enum halay_status)p[r].status;
        if (p[r].number > a->decision.number)
            a->decision.number = p[r].number;
        have_areas &= p[r].offset != HALAY_PRIVATE;
    }
    for (int r = 1; r < a->size; r++)
        if (status == HALAY_OK && p[r].members != p[0].members)
            status = HALAY_ERR_ARGUMENT;
    if (status == HALAY_OK && a->decision.number + 1 >= HALAY_EPOCHS_FIRST)
        status = HALAY_ERR_UNSUPPORTED;
    a->decision.status = (int32_t)status;
    for (int r = 0; r < a->size; r++)
        a->offsets[r] = have_areas ? p[r].offset : HALAY_PRIVATE;
}

static uint64_t hash_of(const int *members, int count)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a over the numbers */

    for (int r = 0; r < count; r++)
        hash = (hash ^ (uint64_t)(unsigned)members[r]) * 1099511628211u;
    return (hash ^ (uint64_t)(unsigned)count) * 1099511628211u;
}

static void making_propose(struct halay_group_making *a)
{
    struct proposal *p = &a->proposals[a->rank];

    *p = (struct proposal){ .members = hash_of(a->members, a->size),
                            .offset = a->group ? a->group->end->offset : HALAY_PRIVATE,
                            .status = (int32_t)a->mine,
                            .number = a->world->next_group };
    if (a->rank != a->leader) {
        send_to(a, a->leader, PROPOSAL, p, sizeof *p);
        return;
    }
    for (int r = 0; r < a->size; r++)
        if (r != a->rank)
            receive_from(a, r, PROPOSAL, &a->proposals[r], sizeof a->proposals[r]);
}

/* From the leader to all. */
static void making_spread(struct halay_group_making *a, enum step what, void *data, size_t bytes)
{
    if (a->rank == a->leader)
        send_to_all(a, what, data, bytes);
    else
        receive_from(a, a->leader, what, data, bytes);
}

static void begin_step(struct halay_group_making *a, enum step step)
{
    a->step = step;
    a->steps++;
    if (step == PROPOSAL) {
        making_propose(a);
    } else if (step == DECISION) {
        if (a->rank == a->leader)
            making_decide(a);
        making_spread(a, DECISION, &a->decision, sizeof a->decision);
    } else {
        making_spread(a, AREAS, a->offsets, (size_t)a->size * sizeof *a->offsets);
    }
}

/* All have the decision. */
static enum halay_status take_decision(struct halay_group_making *a)
{
    enum halay_status status = (enum halay_status)a->decision.status;

    a->is_refused = status != HALAY_OK;
    if (status == HALAY_OK)
        begin_step(a, AREAS);
    else if (status == HALAY_ERR_ARGUMENT)
        halay_error(a->world->log, "no new group: its members gave different lists of ranks");
    else if (status == HALAY_ERR_UNSUPPORTED)
        halay_error(a->world->log, "no more groups: this job has used all 2^30 numbers");
    else if (a->mine == HALAY_OK)
        halay_error(a->world->log, "no new group: another member reports: %s", halay_status_string(status));
    return status == HALAY_OK ? HALAY_IN_PROGRESS : status;
}

/* The group has its number from now on; all other members will have to close it before its areas are free. */
static void making_settle(struct halay_group *group, const struct halay_group_making *a)
{
    struct halay_group_end *end = group->end;

    group->p2p_number = end->number = a->decision.number;
    group->number = end->number + 1;
    a->world->next_group = group->number + 1;
    if (group->memory && a->offsets[0] == HALAY_PRIVATE)
        halay_group_unshare(group);
    for (int r = 0; r < a->size; r++) {
        if (r == a->rank)
            continue;
        if (group->memory && group->shared[r] >= 0) {
            end->sharers++;
            continue;
        }
        end->apart[end->apart_count].rank = r;
        end->apart[end->apart_count++].peer = halay_group_world_rank(group, r);
    }
}

static enum halay_status prepare_mine(struct halay_group_making *a)
{
    struct halay_group *group;

    enum halay_status status = halay_group_make(a->world, a->members, a->size, a->rank, &group);
    if (status == HALAY_OK && (status = halay_group_end_create(a->size, group->memory, &group->end)) != HALAY_OK)
        halay_group_free_all(group);
    if (status == HALAY_OK)
        a->group = group;
    return status;
}

static enum halay_status finish_making(struct halay_group_making *a)
{
    making_settle(a->group, a);
    halay_group_set_deterministic(a->group, a->parent->deterministic);
    return halay_group_enter(a->group, a->offsets);
}

/* Members that have not called it yet, or whose leader waits for another one: reported, and at last given up. */
static enum halay_status look_for_stall(struct halay_group_making *a, int settled)
{
    unsigned char *is_awaited;
    char subject[64], text[512];
    int first = 0;

    enum halay_stall_event event =
        halay_stall_look(&a->stall, &a->world->config, a->steps * (uint64_t)a->size + (uint64_t)settled);
    if (event < HALAY_STALL_REPORT || !(is_awaited = calloc((size_t)a->size, 1)))
        return HALAY_IN_PROGRESS;
    for (int r = a->size - 1; r >= 0; r--)
        if (!coll_is_settled(&a->transfers[r])) {
            is_awaited[r] = 1;
            first = r;
        }
    snprintf(subject, sizeof subject, "a new group of %d ranks", a->size);
    halay_stall_print(&a->stall, subject, is_awaited, a->size, a->members, text, sizeof text);
    free(is_awaited);
    halay_log_write(a->world->log, event == HALAY_STALL_END ? HALAY_LOG_ERROR : HALAY_LOG_WARNING, "%s", text);
    if (event == HALAY_STALL_REPORT)
        return HALAY_IN_PROGRESS;
    halay_group_lost(a->parent, halay_group_rank_of(a->parent, a->members[first]));
    return HALAY_ERR_PEER;
}

/* Check once: HALAY_IN_PROGRESS, or how it has ended. */
static enum halay_status look_once(struct halay_group_making *a)
{
    int failed;
    enum halay_status status = halay_route_progress(&a->world->route, a->members, a->size, &failed);

    int settled = count_settled(a);
    if (settled < a->size) {
        if (status == HALAY_ERR_PEER)
            halay_group_lost(a->parent, halay_group_rank_of(a->parent, a->members[failed]));
        if (status == HALAY_OK)
            status = a->parent->status;
        if (status == HALAY_OK)
            return look_for_stall(a, settled);
        return halay_fail(a->world->log, status, "no new group: %s", halay_status_string(status));
    }
    if (a->step == PROPOSAL)
        begin_step(a, DECISION);
    else if (a->step == DECISION)
        return take_decision(a);
    else
        return finish_making(a);
    return HALAY_IN_PROGRESS;
}

enum halay_status halay_group_making_progress(struct halay_group_making *a, struct halay_group **group)
{
    if (a->status != HALAY_IN_PROGRESS)
        return a->status;
    a->status = look_once(a);
    if (a->status == HALAY_OK) {
        *group = a->group;
        a->group = NULL;
    }
    return a->status;
}

static int is_list(const struct halay_group *parent, const int *ranks, int count)
{
    if (!ranks || count < 1 || count > parent->size)
        return 0;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return 0;
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return 0;
    }
    return 1;
}

/* This rank is number `rank` of those. */
static enum halay_status making_create(struct halay_group *parent, const int *ranks, int count, int rank,
                                       struct halay_group_making **making)
{
    struct halay_group_making *a = calloc(1, sizeof *a);

    enum halay_status status = a ? making_init(a, parent, ranks, count, rank) : HALAY_ERR_NO_MEMORY;
    if (status != HALAY_OK) {
        halay_group_making_end(a);
        halay_group_fail(parent, status, -1); /* the other members would wait for us */
        return status;
    }
    a->mine = prepare_mine(a);
    a->status = HALAY_IN_PROGRESS;
    begin_step(a, PROPOSAL);
    *making = a;
    return HALAY_OK;
}

enum halay_status halay_group_making_start(struct halay_group *parent, const int *ranks, int count,
                                           struct halay_group_making **making)
{
    *making = NULL;
    if (!is_list(parent, ranks, count))
        return halay_fail(parent->world->log, HALAY_ERR_ARGUMENT,
                          "not a list of ranks: give 1 to %d different ones from 0 to %d", parent->size,
                          parent->size - 1);
    if (parent->status != HALAY_OK)
        return parent->status;
    for (int r = 0; r < count; r++)
        if (ranks[r] == parent->rank)
            return making_create(parent, ranks, count, r, making);
    return HALAY_OK;
}

/* Progresses this and all that is under way in the groups. *work counts what has advanced. */
static enum halay_status look_at_all(struct halay_group_making *a, struct halay_group **group, int checks,
                                     unsigned long *work)
{
    enum halay_status status = halay_group_making_progress(a, group);

    if (status != HALAY_IN_PROGRESS)
        return status;
    if (checks)
        halay_group_check_all(a->parent);
    halay_visits_look(a->world);
    halay_world_drive(a->world);
    *work = halay_world_work(a->world) + a->steps * (unsigned long)(a->size + 1) + (unsigned long)count_settled(a);
    return HALAY_IN_PROGRESS;
}

static enum halay_status making_wait(struct halay_group_making *a, struct halay_group **group)
{
    struct halay_bell *bell = &a->world->bell;
    unsigned long before = 0, work = 0;
    enum halay_status status;

    for (unsigned polls = 0; (status = look_at_all(a, group, !(polls % CHECK_EVERY), &work)) == HALAY_IN_PROGRESS;
         polls++) {
        polls = work == before ? polls : 0;
        before = work;
        if (polls < YIELDS) {
            polls < SPINS ? halay_relax() : (void)sched_yield();
            continue;
        }
        uint32_t token = halay_bell_arm(bell);
        status = look_at_all(a, group, 1, &work);
        long armed_us = status == HALAY_IN_PROGRESS && work == before ? halay_world_arm(a->world) : 0;
        if (armed_us)
            halay_bell_sleep(bell, token, armed_us < SLEEP_US ? armed_us : SLEEP_US);
        halay_bell_disarm(bell);
        if (status != HALAY_IN_PROGRESS)
            return status;
    }
    return status;
}

enum halay_status halay_group_subset(struct halay_group *parent, const int *ranks, int count,
                                     struct halay_group **group)
{
    struct halay_group_making *a;

    if (!parent || !group)
        return halay_returns(halay_fail_somewhere(parent ? parent->world->log : NULL, HALAY_ERR_ARGUMENT,
                                                  "halay_group_subset: no %s",
                                                  parent ? "place for the group" : "parent"));
    enum halay_status status = halay_group_check_process(parent);
    if (status != HALAY_OK)
        return status;
    halay_call_enter(parent->world);
    status = halay_group_making_start(parent, ranks, count, &a);
    if (a)
        status = making_wait(a, group);
    else if (status == HALAY_OK)
        *group = NULL;
    halay_group_making_end(a);
    halay_call_leave(parent->world);
    return halay_returns(status);
}
