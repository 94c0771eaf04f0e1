/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic: see elastic_policy.h.
 *
 * next looks for the first thing that is due, marks it as done, and says it; so a caller that does what it hears and
 * asks again comes to the end of all that is due. Nothing here has a clock.
 *
 * Accusations. A process that leaves an epoch because of a rank says which. Most often that one is dead already; one
 * that is stopped, or cannot be reached by the others, has to be killed before memory is used anew. But whoever found
 * out first has left, too, and some may name it: so the accused has ACCUSED_US to be ready itself.
 */
#include "launcher/job/elastic_policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_US 5000000
#define ACCUSED_US 5000000
#define LEAVE_US 10000000

int elastic_init(struct elastic *e, const struct elastic_setting *setting)
{
    *e = (struct elastic){ .setting = *setting };
    e->seats = calloc((size_t)setting->most, sizeof *e->seats);
    return e->seats != NULL;
}

void elastic_fini(struct elastic *e)
{
    for (size_t i = 0; i < e->host_count; i++)
        free(e->hosts[i].name);
    free(e->hosts);
    free(e->seats);
    *e = (struct elastic){ 0 };
}

/* ---- hosts ------------------------------------------------------------------------------------------------------- */

int elastic_find_host(const struct elastic *e, const char *name)
{
    int i = (int)e->host_count - 1;

    while (i >= 0 && strcmp(e->hosts[i].name, name) != 0)
        i--;
    return i;
}

static int add_host(struct elastic *e, const char *name)
{
    struct elastic_host *grown = realloc(e->hosts, (e->host_count + 1) * sizeof *grown);

    if (!grown)
        return -1;
    e->hosts = grown;
    char *copy = strdup(name);
    if (!copy)
        return -1;
    e->hosts[e->host_count] = (struct elastic_host){ .name = copy };
    return (int)e->host_count++;
}

static int uses_slot(const struct elastic_seat *seat)
{
    return seat->state != SEAT_FREE;
}

static int used_slots(const struct elastic *e, int host)
{
    int n = 0;

    for (int s = 0; s < e->setting.most; s++)
        n += uses_slot(&e->seats[s]) && e->seats[s].host == host;
    return n;
}

/* More processes than slots: the youngest go first, that is those that are starting, then the highest ranks. */
static int pick_surplus(const struct elastic *e, int host)
{
    int pick = -1;

    for (int s = 0; s < e->setting.most; s++) {
        const struct elastic_seat *seat = &e->seats[s];
        if (seat->host != host || (seat->state != SEAT_MEMBER && seat->state != SEAT_STARTING))
            continue;
        if (pick < 0 || (seat->state == SEAT_STARTING && e->seats[pick].state == SEAT_MEMBER) ||
            (seat->state == e->seats[pick].state && seat->rank > e->seats[pick].rank))
            pick = s;
    }
    return pick;
}

/* Has it a part in the newest epoch? */
static int is_inside(const struct elastic_seat *seat)
{
    return seat->state == SEAT_MEMBER || (seat->state == SEAT_LEAVING && !seat->is_outside && !seat->is_dismissed);
}

static void shed(struct elastic *e, int host, int64_t now_us)
{
    int staying = 0;

    for (int s = 0; s < e->setting.most; s++)
        staying += e->seats[s].host == host && (e->seats[s].state == SEAT_MEMBER || e->seats[s].state == SEAT_STARTING);
    for (; staying > e->hosts[host].slots; staying--) {
        struct elastic_seat *seat = &e->seats[pick_surplus(e, host)];
        seat->is_outside = seat->state == SEAT_STARTING;
        seat->since_us = now_us;
        seat->state = SEAT_LEAVING;
    }
}

/* All members are to go: the first one stays until others have the state. */
static void keep_one(struct elastic *e)
{
    struct elastic_seat *first = NULL;

    for (int s = 0; s < e->setting.most; s++) {
        struct elastic_seat *seat = &e->seats[s];
        if (seat->state == SEAT_MEMBER)
            return;
        if (is_inside(seat) && !seat->is_killed && (!first || seat->rank < first->rank))
            first = seat;
    }
    if (first)
        first->state = SEAT_MEMBER;
}

int elastic_list(struct elastic *e, const struct host_list *hosts, int64_t now_us)
{
    for (size_t i = 0; i < e->host_count; i++)
        e->hosts[i].slots = 0;
    for (size_t i = 0; i < hosts->count; i++) {
        int host = elastic_find_host(e, hosts->at[i].name);
        if (host < 0)
            host = add_host(e, hosts->at[i].name);
        if (host < 0)
            return 0;
        e->hosts[host].slots = hosts->at[i].slots;
    }
    for (size_t i = 0; i < e->host_count; i++)
        shed(e, (int)i, now_us);
    keep_one(e);
    return 1;
}

static void host_failed(struct elastic *e, int host, int is_lost, int64_t now_us)
{
    struct elastic_host *h = &e->hosts[host];
    int64_t pause_us = e->setting.cooldown_us;

    if (h->failures && now_us - h->failed_us > e->setting.cooldown_most_us)
        h->failures = 0;
    h->failed_us = now_us;
    h->failures++;
    if (is_lost && h->failures < 2)
        h->failures = 2;
    for (int i = 2; i < h->failures && pause_us < e->setting.cooldown_most_us; i++)
        pause_us *= 2;
    if (pause_us > e->setting.cooldown_most_us)
        pause_us = e->setting.cooldown_most_us;
    if (h->failures >= 2)
        h->until_us = now_us + pause_us;
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

void elastic_seat_taken(struct elastic *e, int seat, int host, int64_t now_us)
{
    e->seats[seat] = (struct elastic_seat){ .state = SEAT_STARTING, .host = host, .accuses = -1, .since_us = now_us };
}

static int seat_of_rank(const struct elastic *e, int rank)
{
    for (int s = 0; s < e->setting.most; s++)
        if (is_inside(&e->seats[s]) && e->seats[s].rank == rank)
            return s;
    return -1;
}

void elastic_ready(struct elastic *e, int seat, const struct halay_ready *ready, int64_t now_us)
{
    struct elastic_seat *s = &e->seats[seat];

    if (s->state == SEAT_FREE)
        return;
    int was_inside = is_inside(s);
    s->is_ready = 1;
    s->has_state = ready->has_state;
    e->has_state |= ready->has_state;
    s->accuses = ready->epoch == e->epoch ? seat_of_rank(e, ready->lost) : -1;
    if (!was_inside)
        return;
    /* It was not asked to come: somebody is lost, or the epoch was never complete. */
    if (!e->has_called || s->accuses >= 0)
        e->is_broken = 1;
    if (s->accuses < 0 || e->seats[s->accuses].is_accused)
        return;
    e->seats[s->accuses].is_accused = 1;
    e->seats[s->accuses].since_us = now_us;
}

int elastic_ended(struct elastic *e, int seat, enum elastic_end how, int64_t now_us)
{
    struct elastic_seat *s = &e->seats[seat];
    enum seat_state was = s->state;
    int host = s->host;

    if (was == SEAT_LEAVING && is_inside(s)) /* before it was told to */
        e->is_broken = 1;
    *s = (struct elastic_seat){ .state = SEAT_FREE };
    if (was == SEAT_FREE || was == SEAT_LEAVING)
        return 1;
    if (how == ELASTIC_ENDED_WELL && (was == SEAT_MEMBER || !e->epoch)) {
        e->is_ending = 1;
        return 0;
    }
    if (e->is_ending || !e->epoch) {
        e->is_ending = 1;
        return 0;
    }
    if (was == SEAT_MEMBER)
        e->is_broken = 1;
    /* What takes one process of a host most often takes them all. */
    if (was == SEAT_STARTING || e->hosts[host].failed_epoch != (int)e->epoch)
        host_failed(e, host, how == ELASTIC_HOST_LOST, now_us);
    if (was == SEAT_MEMBER)
        e->hosts[host].failed_epoch = (int)e->epoch;
    return 1;
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */

static struct elastic_next act(enum elastic_act what, int seat)
{
    return (struct elastic_next){ .act = what, .seat = seat };
}

static int count(const struct elastic *e, enum seat_state state, int only_ready)
{
    int n = 0;

    for (int s = 0; s < e->setting.most; s++)
        n += e->seats[s].state == state && (!only_ready || e->seats[s].is_ready);
    return n;
}

/* The first seat in that state which is ready, or is not; -1: none. */
static int find(const struct elastic *e, enum seat_state state, int is_ready)
{
    for (int s = 0; s < e->setting.most; s++)
        if (e->seats[s].state == state && e->seats[s].is_ready == is_ready)
            return s;
    return -1;
}

/* Members that are to go and have not gone: whoever takes over what they did comes after them. */
static int is_anybody_to_leave(const struct elastic *e)
{
    for (int s = 0; s < e->setting.most; s++)
        if (e->seats[s].state == SEAT_LEAVING && !e->seats[s].is_outside)
            return 1;
    return 0;
}

static void earlier(int64_t at_us, int64_t *wake_us)
{
    if (at_us < *wake_us)
        *wake_us = at_us;
}

static struct elastic_next refuse_all(struct elastic *e)
{
    for (int s = 0; s < e->setting.most; s++)
        if (e->seats[s].state != SEAT_FREE && e->seats[s].is_ready) {
            e->seats[s].is_ready = 0;
            return act(ELASTIC_REFUSE, s);
        }
    return (struct elastic_next){ .act = ELASTIC_WAIT, .wake_us = INT64_MAX };
}

static struct elastic_next kill_seat(struct elastic *e, int seat, const char *why)
{
    e->seats[seat].is_killed = 1;
    snprintf(e->why, sizeof e->why, "%s", why);
    return act(ELASTIC_KILL, seat);
}

/* Those that are to go. */
static int let_go(struct elastic *e, int64_t now_us, int64_t *wake_us, struct elastic_next *next)
{
    for (int s = 0; s < e->setting.most; s++) {
        struct elastic_seat *seat = &e->seats[s];
        if (seat->state != SEAT_LEAVING || seat->is_killed)
            continue;
        if (seat->is_ready) {
            seat->is_ready = 0;
            seat->since_us = now_us;
            seat->is_dismissed = 1;
            *next = act(ELASTIC_DISMISS, s);
            return 1;
        }
        int64_t until_us = seat->since_us + (seat->is_dismissed ? LEAVE_US
                                             : seat->is_accused ? ACCUSED_US
                                                                : e->setting.timeout_us);
        if (seat->is_outside || now_us >= until_us) {
            *next = kill_seat(e, s, "its host is not part of the job any more");
            return 1;
        }
        earlier(until_us, wake_us);
    }
    return 0;
}

/* A free slot, and the time to use it. */
static int start_one(struct elastic *e, int64_t now_us, int64_t *wake_us, struct elastic_next *next)
{
    int seat = find(e, SEAT_FREE, 0);

    for (size_t h = 0; seat >= 0 && h < e->host_count; h++) {
        const struct elastic_host *host = &e->hosts[h];
        if (used_slots(e, (int)h) >= host->slots)
            continue;
        if (host->until_us > now_us) {
            earlier(host->until_us, wake_us);
            continue;
        }
        elastic_seat_taken(e, seat, (int)h, now_us);
        *next = (struct elastic_next){ .act = ELASTIC_START, .seat = seat, .host = (int)h };
        return 1;
    }
    return 0;
}

/* Members that will not come by themselves. */
static int kill_missing(struct elastic *e, int64_t now_us, int64_t *wake_us, struct elastic_next *next)
{
    for (int s = 0; s < e->setting.most; s++) {
        struct elastic_seat *seat = &e->seats[s];
        if (seat->state != SEAT_MEMBER || seat->is_ready || seat->is_killed)
            continue;
        int64_t late_us = e->gathering_us + e->setting.timeout_us;
        int64_t accused_us = seat->is_accused ? seat->since_us + ACCUSED_US : INT64_MAX;
        if (now_us >= accused_us)
            *next = kill_seat(e, s, "the other ranks have lost it");
        else if (now_us >= late_us)
            *next = kill_seat(e, s, "it has not come to halay_elastic_restore or commit in time (--elastic-timeout)");
        else {
            earlier(accused_us < late_us ? accused_us : late_us, wake_us);
            continue;
        }
        return 1;
    }
    return 0;
}

static int by_rank(const struct elastic *e, int *order)
{
    int n = 0;

    for (int rank = 0; rank < e->members; rank++) {
        int s = seat_of_rank(e, rank);
        if (s >= 0)
            order[n++] = s;
    }
    for (int s = 0; s < e->setting.most; s++)
        if (e->seats[s].state == SEAT_STARTING && e->seats[s].is_ready)
            order[n++] = s;
    return n;
}

static struct elastic_next end(struct elastic *e)
{
    e->is_ending = 1;
    return act(ELASTIC_END, -1);
}

static struct elastic_next form(struct elastic *e)
{
    int *order = calloc((size_t)e->setting.most, sizeof *order);

    if (!order) {
        snprintf(e->why, sizeof e->why, "no memory");
        return end(e);
    }
    int n = by_rank(e, order);
    for (int rank = 0; rank < n; rank++) {
        struct elastic_seat *seat = &e->seats[order[rank]];
        *seat = (struct elastic_seat){ .state = SEAT_MEMBER, .host = seat->host, .rank = rank, .accuses = -1 };
    }
    free(order);
    e->members = n;
    e->epoch++;
    e->is_broken = e->has_said_over = e->has_called = 0;
    e->settled_us = e->gathering_us = 0;
    return act(ELASTIC_FORM, -1);
}

/* All members are ready: is it time? */
static struct elastic_next form_if_possible(struct elastic *e, int64_t now_us, int64_t wake_us)
{
    int new = count(e, SEAT_STARTING, 1), starting = count(e, SEAT_STARTING, 0) - new;
    int ready = count(e, SEAT_MEMBER, 1) + new;
    int64_t join_us = e->settled_us + (e->epoch ? JOIN_US : e->setting.start_us);

    if (e->setting.reset_limit && e->epoch > (unsigned)e->setting.reset_limit) {
        snprintf(e->why, sizeof e->why, "it was re-formed %u times, which is the limit (--reset-limit)", e->epoch - 1);
        return end(e);
    }
    if (ready >= e->setting.least && (!starting || now_us >= join_us))
        return form(e);
    if (ready >= e->setting.least)
        earlier(join_us, &wake_us);
    if (ready < e->setting.least && now_us >= e->settled_us + e->setting.timeout_us) {
        snprintf(e->why, sizeof e->why,
                 "only %d rank%s can go on, --min-np wants %d; waited %g s for more (--elastic-timeout)", ready,
                 ready == 1 ? "" : "s", e->setting.least, (double)e->setting.timeout_us / 1e6);
        return end(e);
    }
    earlier(e->settled_us + e->setting.timeout_us, &wake_us);
    return (struct elastic_next){ .act = ELASTIC_WAIT, .wake_us = wake_us };
}

/* Whoever could have it has gone, or has said that it has not: ranks that joined, and had not been given it yet. */
static int is_state_lost(const struct elastic *e)
{
    int inside = 0;

    for (int s = 0; s < e->setting.most; s++) {
        const struct elastic_seat *seat = &e->seats[s];
        if (!is_inside(seat))
            continue;
        if (!seat->is_ready || seat->has_state)
            return 0;
        inside++;
    }
    return e->epoch && (e->has_state || !inside);
}

struct elastic_next elastic_next(struct elastic *e, int64_t now_us)
{
    struct elastic_next next;
    int64_t wake_us = INT64_MAX;

    if (e->is_ending)
        return refuse_all(e);
    if (e->is_broken && !e->has_said_over) {
        e->has_said_over = 1;
        return act(ELASTIC_OVER, -1);
    }
    if (is_state_lost(e)) {
        snprintf(e->why, sizeof e->why, "no rank is left that has the state");
        return end(e);
    }
    if (let_go(e, now_us, &wake_us, &next) || start_one(e, now_us, &wake_us, &next))
        return next;
    int is_wanted = !e->epoch || e->is_broken || e->has_called;
    if (!is_wanted && (find(e, SEAT_STARTING, 1) >= 0 || is_anybody_to_leave(e))) {
        e->has_called = 1;
        return act(ELASTIC_CALL, -1);
    }
    if (!is_wanted)
        return (struct elastic_next){ .act = ELASTIC_WAIT, .wake_us = wake_us };
    if (!e->gathering_us && (e->is_broken || count(e, SEAT_MEMBER, 1)))
        e->gathering_us = now_us;
    if (e->gathering_us && kill_missing(e, now_us, &wake_us, &next))
        return next;
    if (find(e, SEAT_MEMBER, 0) >= 0 || is_anybody_to_leave(e)) {
        e->settled_us = 0;
        return (struct elastic_next){ .act = ELASTIC_WAIT, .wake_us = wake_us };
    }
    if (!e->settled_us)
        e->settled_us = now_us;
    return form_if_possible(e, now_us, wake_us);
}
