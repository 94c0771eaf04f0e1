/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic policy: see elastic_policy.h.
 *
 * elastic_next looks for the first thing that is due, marks it as done, and returns it; a caller that acts on it and
 * asks again gets through everything that is due. Nothing here reads a clock.
 *
 * Accusations. A process that leaves a generation because of another rank names that rank. Usually it is dead already.
 * One that is stopped, or that the others cannot reach, has to be killed before its memory is reused. But the first one
 * to notice has left as well, and others may name that one: so an accused process has ACCUSED_US to become ready
 * itself.
 */
#include "launcher/job/elastic_policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_US 5000000
#define ACCUSED_US 5000000
#define LEAVE_US 10000000
#define EARLY_US 1000000

enum { EARLY_MAX = 3 };

int elastic_init(struct elastic *e, const struct elastic_setting *setting)
{
    *e = (struct elastic){ .setting = *setting };
    e->workers = calloc((size_t)setting->most, sizeof *e->workers);
    return e->workers != NULL;
}

void elastic_fini(struct elastic *e)
{
    for (size_t i = 0; i < e->host_count; i++)
        free(e->hosts[i].name);
    free(e->hosts);
    free(e->workers);
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

static int uses_slot(const struct elastic_worker *worker)
{
    return worker->state != WORKER_FREE;
}

static int used_slots(const struct elastic *e, int host)
{
    int n = 0;

    for (int s = 0; s < e->setting.most; s++)
        n += uses_slot(&e->workers[s]) && e->workers[s].host == host;
    return n;
}

/* More processes than slots: those that are starting go first, then the highest ranks. */
static int pick_surplus(const struct elastic *e, int host)
{
    int pick = -1;

    for (int s = 0; s < e->setting.most; s++) {
        const struct elastic_worker *worker = &e->workers[s];
        if (worker->host != host || (worker->state != WORKER_MEMBER && worker->state != WORKER_STARTING))
            continue;
        if (pick < 0 || (worker->state == WORKER_STARTING && e->workers[pick].state == WORKER_MEMBER) ||
            (worker->state == e->workers[pick].state && worker->rank > e->workers[pick].rank))
            pick = s;
    }
    return pick;
}

/* Returns nonzero if it is part of the newest generation. */
static int is_inside(const struct elastic_worker *worker)
{
    return worker->state == WORKER_MEMBER ||
           (worker->state == WORKER_LEAVING && !worker->is_outside && !worker->is_dismissed);
}

static void shed_surplus(struct elastic *e, int host, int64_t now_us)
{
    int staying = 0;

    for (int s = 0; s < e->setting.most; s++)
        staying += e->workers[s].host == host &&
                   (e->workers[s].state == WORKER_MEMBER || e->workers[s].state == WORKER_STARTING);
    for (; staying > e->hosts[host].slots; staying--) {
        struct elastic_worker *worker = &e->workers[pick_surplus(e, host)];
        worker->is_outside = worker->state == WORKER_STARTING;
        worker->since_us = now_us;
        worker->state = WORKER_LEAVING;
    }
}

/* If all members are to go, the first one stays until others have the state. */
static void keep_one_member(struct elastic *e)
{
    struct elastic_worker *first = NULL;

    for (int s = 0; s < e->setting.most; s++) {
        struct elastic_worker *worker = &e->workers[s];
        if (worker->state == WORKER_MEMBER)
            return;
        if (is_inside(worker) && !worker->is_killed && (!first || worker->rank < first->rank))
            first = worker;
    }
    if (first)
        first->state = WORKER_MEMBER;
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
        shed_surplus(e, (int)i, now_us);
    keep_one_member(e);
    return 1;
}

static void host_failed(struct elastic *e, int host, int is_lost, int64_t now_us)
{
    struct elastic_host *h = &e->hosts[host];
    int64_t pause_us = e->setting.cooldown_us;

    if (h->failures && now_us - h->failed_us > e->setting.cooldown_max_us)
        h->failures = 0;
    h->failed_us = now_us;
    h->failures++;
    if (is_lost && h->failures < 2)
        h->failures = 2;
    for (int i = 2; i < h->failures && pause_us < e->setting.cooldown_max_us; i++)
        pause_us *= 2;
    if (pause_us > e->setting.cooldown_max_us)
        pause_us = e->setting.cooldown_max_us;
    if (h->failures >= 2)
        h->until_us = now_us + pause_us;
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

void elastic_worker_taken(struct elastic *e, int worker, int host, int64_t now_us)
{
    e->workers[worker] =
        (struct elastic_worker){ .state = WORKER_STARTING, .host = host, .accuses = -1, .since_us = now_us };
}

static int worker_of_rank(const struct elastic *e, int rank)
{
    for (int s = 0; s < e->setting.most; s++)
        if (is_inside(&e->workers[s]) && e->workers[s].rank == rank)
            return s;
    return -1;
}

void elastic_ready(struct elastic *e, int worker, const struct halay_ready *ready, int64_t now_us)
{
    struct elastic_worker *s = &e->workers[worker];

    if (s->state == WORKER_FREE)
        return;
    int was_inside = is_inside(s);
    s->is_ready = 1;
    s->has_state = ready->has_state;
    e->has_state |= ready->has_state;
    s->accuses = ready->generation == e->generation ? worker_of_rank(e, ready->lost) : -1;
    if (!was_inside)
        return;
    /* It is ready without a CHANGE: a member is lost, or the generation was never complete. */
    if (!e->has_called || s->accuses >= 0)
        e->is_broken = 1;
    if (s->accuses < 0 || e->workers[s->accuses].is_accused)
        return;
    e->workers[s->accuses].is_accused = 1;
    e->workers[s->accuses].since_us = now_us;
}

/* Before the first generation a failure may be a mistake that will repeat itself, and only a process that asks for a
 * place shows that the program is elastic. */
static int is_tried_again(const struct elastic *e)
{
    int ready = 0;

    for (int s = 0; s < e->setting.most; s++)
        ready += e->workers[s].is_ready;
    return ready && !e->is_ending && e->early_failures < EARLY_MAX;
}

static void try_again_later(struct elastic *e, int host, int is_lost, int64_t now_us)
{
    host_failed(e, host, is_lost, now_us);
    if (!is_lost)
        e->hosts[host].until_us = now_us + ((int64_t)EARLY_US << e->early_failures);
    e->early_failures++;
}

int elastic_ended(struct elastic *e, int worker, enum elastic_end how, int64_t now_us)
{
    struct elastic_worker *s = &e->workers[worker];
    enum worker_state was = s->state;
    int host = s->host;

    if (was == WORKER_LEAVING && is_inside(s)) /* before the order to leave has reached it */
        e->is_broken = 1;
    *s = (struct elastic_worker){ .state = WORKER_FREE };
    if (was == WORKER_FREE || was == WORKER_LEAVING)
        return 1;
    if (how == ELASTIC_ENDED_WELL && (was == WORKER_MEMBER || !e->generation)) {
        e->is_ending = 1;
        return 0;
    }
    if (!e->generation && is_tried_again(e)) {
        try_again_later(e, host, how == ELASTIC_HOST_LOST, now_us);
        return 1;
    }
    if (e->is_ending || !e->generation) {
        e->is_ending = 1;
        return 0;
    }
    if (was == WORKER_MEMBER)
        e->is_broken = 1;
    /* A cause that ends one process of a host usually ends all of them. */
    if (was == WORKER_STARTING || e->hosts[host].failed_generation != (int)e->generation)
        host_failed(e, host, how == ELASTIC_HOST_LOST, now_us);
    if (was == WORKER_MEMBER)
        e->hosts[host].failed_generation = (int)e->generation;
    return 1;
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */

static struct elastic_next act_on(enum elastic_act what, int worker)
{
    return (struct elastic_next){ .act = what, .worker = worker };
}

static int count_workers(const struct elastic *e, enum worker_state state, int only_ready)
{
    int n = 0;

    for (int s = 0; s < e->setting.most; s++)
        n += e->workers[s].state == state && (!only_ready || e->workers[s].is_ready);
    return n;
}

/* The first worker in that state that is ready, or is not; -1: none. */
static int find_worker(const struct elastic *e, enum worker_state state, int is_ready)
{
    for (int s = 0; s < e->setting.most; s++)
        if (e->workers[s].state == state && e->workers[s].is_ready == is_ready)
            return s;
    return -1;
}

/* Members that still have to leave: their successors are placed after that. */
static int is_anybody_to_leave(const struct elastic *e)
{
    for (int s = 0; s < e->setting.most; s++)
        if (e->workers[s].state == WORKER_LEAVING && !e->workers[s].is_outside)
            return 1;
    return 0;
}

static void wake_earlier(int64_t at_us, int64_t *wake_us)
{
    if (at_us < *wake_us)
        *wake_us = at_us;
}

static struct elastic_next refuse_all(struct elastic *e)
{
    for (int s = 0; s < e->setting.most; s++)
        if (e->workers[s].state != WORKER_FREE && e->workers[s].is_ready) {
            e->workers[s].is_ready = 0;
            return act_on(ELASTIC_REFUSE, s);
        }
    return (struct elastic_next){ .act = ELASTIC_WAIT, .wake_us = INT64_MAX };
}

static struct elastic_next plan_kill(struct elastic *e, int worker, const char *why)
{
    e->workers[worker].is_killed = 1;
    snprintf(e->why, sizeof e->why, "%s", why);
    return act_on(ELASTIC_KILL, worker);
}

/* How long one that has to go may take. */
static int64_t patience_us(const struct elastic *e, const struct elastic_worker *worker)
{
    if (worker->is_dismissed)
        return LEAVE_US;
    return worker->is_accused ? ACCUSED_US : e->setting.timeout_us;
}

/* Workers that have to leave. */
static int let_leaving_go(struct elastic *e, int64_t now_us, int64_t *wake_us, struct elastic_next *next)
{
    for (int s = 0; s < e->setting.most; s++) {
        struct elastic_worker *worker = &e->workers[s];
        if (worker->state != WORKER_LEAVING || worker->is_killed)
            continue;
        if (worker->is_ready) {
            worker->is_ready = 0;
            worker->since_us = now_us;
            worker->is_dismissed = 1;
            *next = act_on(ELASTIC_DISMISS, s);
            return 1;
        }
        int64_t until_us = worker->since_us + patience_us(e, worker);
        if (worker->is_outside || now_us >= until_us) {
            *next = plan_kill(e, s, "its host has left the job");
            return 1;
        }
        wake_earlier(until_us, wake_us);
    }
    return 0;
}

/* Uses a free slot whose host is not left out. */
static int start_on_free_slot(struct elastic *e, int64_t now_us, int64_t *wake_us, struct elastic_next *next)
{
    int worker = find_worker(e, WORKER_FREE, 0);

    for (size_t h = 0; worker >= 0 && h < e->host_count; h++) {
        const struct elastic_host *host = &e->hosts[h];
        if (used_slots(e, (int)h) >= host->slots)
            continue;
        if (host->until_us > now_us) {
            wake_earlier(host->until_us, wake_us);
            continue;
        }
        elastic_worker_taken(e, worker, (int)h, now_us);
        *next = (struct elastic_next){ .act = ELASTIC_START, .worker = worker, .host = (int)h };
        return 1;
    }
    return 0;
}

/* Members that do not come by themselves. */
static int kill_missing(struct elastic *e, int64_t now_us, int64_t *wake_us, struct elastic_next *next)
{
    for (int s = 0; s < e->setting.most; s++) {
        struct elastic_worker *worker = &e->workers[s];
        if (worker->state != WORKER_MEMBER || worker->is_ready || worker->is_killed)
            continue;
        int64_t late_us = e->gathering_us + e->setting.timeout_us;
        int64_t accused_us = worker->is_accused ? worker->since_us + ACCUSED_US : INT64_MAX;
        if (now_us >= accused_us)
            *next = plan_kill(e, s, "the other ranks have lost it");
        else if (now_us >= late_us)
            *next = plan_kill(e, s, "it did not call halay_elastic_restore or commit in time (--elastic-timeout)");
        else {
            wake_earlier(accused_us < late_us ? accused_us : late_us, wake_us);
            continue;
        }
        return 1;
    }
    return 0;
}

static int order_by_rank(const struct elastic *e, int *order)
{
    int n = 0;

    for (int rank = 0; rank < e->members; rank++) {
        int s = worker_of_rank(e, rank);
        if (s >= 0)
            order[n++] = s;
    }
    for (int s = 0; s < e->setting.most; s++)
        if (e->workers[s].state == WORKER_STARTING && e->workers[s].is_ready)
            order[n++] = s;
    return n;
}

static struct elastic_next end_job(struct elastic *e)
{
    e->is_ending = 1;
    return act_on(ELASTIC_END, -1);
}

static struct elastic_next form_generation(struct elastic *e)
{
    int *order = calloc((size_t)e->setting.most, sizeof *order);

    if (!order) {
        snprintf(e->why, sizeof e->why, "no memory");
        return end_job(e);
    }
    int n = order_by_rank(e, order);
    for (int rank = 0; rank < n; rank++) {
        struct elastic_worker *worker = &e->workers[order[rank]];
        *worker = (struct elastic_worker){ .state = WORKER_MEMBER, .host = worker->host, .rank = rank, .accuses = -1 };
    }
    free(order);
    e->members = n;
    e->generation++;
    e->is_broken = e->has_announced_end = e->has_called = 0;
    e->settled_us = e->gathering_us = 0;
    return act_on(ELASTIC_FORM, -1);
}

/* All members are ready: form the generation now, or wait for more? */
static struct elastic_next form_if_possible(struct elastic *e, int64_t now_us, int64_t wake_us)
{
    int new = count_workers(e, WORKER_STARTING, 1), starting = count_workers(e, WORKER_STARTING, 0) - new;
    int ready = count_workers(e, WORKER_MEMBER, 1) + new;
    int64_t join_us = e->settled_us + (e->generation ? JOIN_US : e->setting.start_us);

    if (e->setting.reset_limit && e->generation > (unsigned)e->setting.reset_limit) {
        snprintf(e->why, sizeof e->why, "it was re-formed %u times, which is the limit (--reset-limit)",
                 e->generation - 1);
        return end_job(e);
    }
    if (ready >= e->setting.least && (!starting || now_us >= join_us))
        return form_generation(e);
    if (ready >= e->setting.least)
        wake_earlier(join_us, &wake_us);
    if (ready < e->setting.least && now_us >= e->settled_us + e->setting.timeout_us) {
        snprintf(e->why, sizeof e->why,
                 "only %d rank%s can continue, --min-np wants %d; waited %g s for more (--elastic-timeout)", ready,
                 ready == 1 ? "" : "s", e->setting.least, (double)e->setting.timeout_us / 1e6);
        return end_job(e);
    }
    wake_earlier(e->settled_us + e->setting.timeout_us, &wake_us);
    return (struct elastic_next){ .act = ELASTIC_WAIT, .wake_us = wake_us };
}

/* Every member has gone or has no state: those left joined and were not given it yet. */
static int is_state_lost(const struct elastic *e)
{
    int inside = 0;

    for (int s = 0; s < e->setting.most; s++) {
        const struct elastic_worker *worker = &e->workers[s];
        if (!is_inside(worker))
            continue;
        if (!worker->is_ready || worker->has_state)
            return 0;
        inside++;
    }
    return e->generation && (e->has_state || !inside);
}

struct elastic_next elastic_next(struct elastic *e, int64_t now_us)
{
    struct elastic_next next;
    int64_t wake_us = INT64_MAX;

    if (e->is_ending)
        return refuse_all(e);
    if (e->is_broken && !e->has_announced_end) {
        e->has_announced_end = 1;
        return act_on(ELASTIC_OVER, -1);
    }
    if (is_state_lost(e)) {
        snprintf(e->why, sizeof e->why, "no rank with the job's state is left");
        return end_job(e);
    }
    if (let_leaving_go(e, now_us, &wake_us, &next) || start_on_free_slot(e, now_us, &wake_us, &next))
        return next;
    int is_wanted = !e->generation || e->is_broken || e->has_called;
    if (!is_wanted && (find_worker(e, WORKER_STARTING, 1) >= 0 || is_anybody_to_leave(e))) {
        e->has_called = 1;
        return act_on(ELASTIC_CALL, -1);
    }
    if (!is_wanted)
        return (struct elastic_next){ .act = ELASTIC_WAIT, .wake_us = wake_us };
    if (!e->gathering_us && (e->is_broken || count_workers(e, WORKER_MEMBER, 1)))
        e->gathering_us = now_us;
    if (e->gathering_us && kill_missing(e, now_us, &wake_us, &next))
        return next;
    if (find_worker(e, WORKER_MEMBER, 0) >= 0 || is_anybody_to_leave(e)) {
        e->settled_us = 0;
        return (struct elastic_next){ .act = ELASTIC_WAIT, .wake_us = wake_us };
    }
    if (!e->settled_us)
        e->settled_us = now_us;
    return form_if_possible(e, now_us, wake_us);
}
