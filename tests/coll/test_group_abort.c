/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that aborts its group, over the fake transport: by the thread that uses the group or by another one, while a
 * call waits, between calls, and at any moment of a loop of calls. The others' collectives, receives and queries end
 * and name the rank. With shared memory the group is that of all ranks, by messages one that is made of it.
 *
 * A call that begins while another thread carries out an abort waits until that is over, whether it starts, drives or
 * ends a collective. A log function may abort other groups, and use them without blocking.
 */
#include "base/clock.h"
#include "collectives/group/area.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/transport/bell.h"
#include "tests/fake/fake.h"
#include "tests/test.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { RANKS = 3, ABORTS = 1, WRITES = 2, LOGS = 2 };
enum { CALL_MS = 20, SETTLES = 100 };

enum how {
    IN_A_CALL, /* by another thread, while this rank waits for a collective */
    BY_ITSELF, /* by the thread that uses the group, between calls */
    BETWEEN,   /* by another thread, between calls */
    STARTING,  /* by another thread, while this rank starts a collective */
    ENDING,    /* by another thread, which waits for a peer's writes while this rank ends a collective */
    LOGGING,   /* by itself; a peer's log function then ends that peer's other group */
    AT_ANY_TIME,
    HOWS
};

struct job {
    struct halay_fake_hub *hub;
    enum how how;
    int is_shared, round;
    _Atomic int is_writing;             /* a peer writes into the aborting rank's memory */
    _Atomic int is_aborting;            /* its log has the abort */
    _Atomic int is_calling, has_called; /* before and after the call that has to wait */
    _Atomic int has_doubts;             /* the abort has not waited to the end of the writes */
    pthread_barrier_t ended;
};

struct rank {
    struct job *job;
    int rank;
    struct halay_group *all, *group;
    _Atomic int is_waiting;
    pthread_t watchdog; /* AT_ANY_TIME */
};

static void await(_Atomic int *flag)
{
    while (!*flag)
        sched_yield();
}

/* Waits for the call, and then long enough for one that does not wait. */
static void hold_up_call(struct job *job)
{
    await(&job->is_calling);
    for (int64_t until_us = halay_deadline_us(CALL_MS); !job->has_called && !halay_deadline_passed(until_us);)
        sched_yield();
}

/* A query of this rank has found that a peer has aborted `group`. */
static void end_all(struct rank *r)
{
    struct halay_coll *coll = NULL;
    int number = 1, sum;

    if (r->job->round / 2 % 2 == 0) {
        CHECK(halay_group_abort(r->all) == HALAY_OK);
        return;
    }
    CHECK(halay_group_allreduce_start(r->all, &number, &sum, 1, HALAY_I32, HALAY_SUM, &coll) == HALAY_OK);
    halay_coll_end(coll);
}

/* The thread that aborts, or finds an abort, is in the middle of it here. */
static void swallow(void *arg, enum halay_log_level level, const char *line)
{
    struct rank *r = arg;
    struct job *job = r->job;

    (void)level;
    if (job->how == LOGGING && r->rank == LOGS && strstr(line, "rank 1 "))
        end_all(r);
    if (strstr(line, "may still write"))
        job->has_doubts = 1;
    if (!strstr(line, "has aborted"))
        return;
    job->is_aborting = 1;
    if (job->how == STARTING)
        hold_up_call(job);
}

static void *abort_group(void *arg)
{
    struct rank *r = arg;

    while (!r->is_waiting)
        sched_yield();
    for (int i = r->job->how == AT_ANY_TIME ? r->job->round * 37 % 400 : 0; i--;)
        sched_yield();
    CHECK(halay_group_abort(r->group) == HALAY_OK);
    return NULL;
}

static void use_until_aborted(struct rank *r)
{
    int number = 1, sum;
    pthread_t thread;
    enum halay_status status;

    REQUIRE(!pthread_create(&thread, NULL, abort_group, r));
    r->is_waiting = 1;
    if (r->job->how == BETWEEN) /* this rank starts nothing until the abort is over */
        pthread_join(thread, NULL);
    while ((status = halay_group_allreduce(r->group, &number, &sum, 1, HALAY_I32, HALAY_SUM)) == HALAY_OK)
        ;
    CHECK(status == HALAY_ERR_CANCELED, "%s", halay_status_string(status));
    if (r->job->how == AT_ANY_TIME)
        r->watchdog = thread; /* which may still be in its call when this rank closes its groups */
    else if (r->job->how != BETWEEN)
        pthread_join(thread, NULL);
}

static void start_during_abort(struct rank *r)
{
    int number = 1, sum;
    struct halay_coll *coll = NULL;
    pthread_t thread;

    r->is_waiting = 1;
    REQUIRE(!pthread_create(&thread, NULL, abort_group, r));
    await(&r->job->is_aborting);
    r->job->is_calling = 1;
    enum halay_status status = halay_group_allreduce_start(r->group, &number, &sum, 1, HALAY_I32, HALAY_SUM, &coll);
    r->job->has_called = 1;
    CHECK(status == HALAY_ERR_CANCELED, "%s", halay_status_string(status));
    pthread_join(thread, NULL);
    halay_coll_end(coll);
}

static enum halay_status end_somehow(struct halay_coll *coll, int way)
{
    enum halay_status status = HALAY_ERR_CANCELED;

    if (way == 0)
        return halay_coll_finish(coll);
    if (way == 1)
        status = halay_coll_progress(coll);
    halay_coll_end(coll);
    return status;
}

/* The buffers are this rank's again when the call returns. */
static void end_during_abort(struct rank *r)
{
    int number = 1, sum;
    struct halay_coll *coll = NULL;
    pthread_t thread;

    await(&r->job->is_writing);
    REQUIRE(halay_group_allreduce_start(r->group, &number, &sum, 1, HALAY_I32, HALAY_SUM, &coll) == HALAY_OK);
    r->is_waiting = 1;
    REQUIRE(!pthread_create(&thread, NULL, abort_group, r));
    while (halay_group_failure(r->group, NULL) == HALAY_OK)
        sched_yield();
    for (int i = 0; i < SETTLES; i++) /* the collective's status follows the group's */
        sched_yield();
    r->job->is_calling = 1;
    enum halay_status status = end_somehow(coll, r->job->round % 3);
    r->job->has_called = 1;
    CHECK(status == HALAY_ERR_CANCELED, "%s", halay_status_string(status));
    pthread_join(thread, NULL);
}

static void be_writer(struct rank *r)
{
    _Atomic uint32_t *busy = &r->group->channels[0].areas[r->rank]->busy;

    *busy = 1;
    r->job->is_writing = 1;
    hold_up_call(r->job);
    CHECK(!r->job->has_called || r->job->has_doubts, "round %d: it has not waited for the writer", r->job->round);
    *busy = 0;
}

static void be_aborter(struct rank *r)
{
    int named = 0;

    if (r->job->how == BY_ITSELF || r->job->how == LOGGING)
        CHECK(halay_group_abort(r->group) == HALAY_OK);
    else if (r->job->how == STARTING)
        start_during_abort(r);
    else if (r->job->how == ENDING)
        end_during_abort(r);
    else
        use_until_aborted(r);
    if (r->job->how == AT_ANY_TIME) /* what follows would wait for the other thread */
        return;
    CHECK(halay_group_abort(r->group) == HALAY_OK, "a second time");
    CHECK(halay_group_status(r->group, &named) == HALAY_ERR_CANCELED && named == -1);
    CHECK(strstr(halay_error_text(), "aborted"), "%s", halay_error_text());
    CHECK(halay_group_barrier(r->group) == HALAY_ERR_CANCELED);
}

/* One waits for collectives, the other one for a message, or looks. */
static void be_peer(struct rank *r)
{
    int number = 1, sum, named = -1;
    enum halay_status status;

    if (r->job->how == ENDING && r->rank == WRITES)
        be_writer(r);
    if (r->job->how == AT_ANY_TIME || r->rank == 0) {
        while ((status = halay_group_allreduce(r->group, &number, &sum, 1, HALAY_I32, HALAY_SUM)) == HALAY_OK)
            ;
    } else if (r->job->round % 2) {
        status = halay_group_receive(r->group, &number, 1, HALAY_I32, 0, 3);
    } else {
        while ((status = halay_group_status(r->group, NULL)) == HALAY_OK)
            sched_yield();
    }
    CHECK(status == HALAY_ERR_PEER, "%s", halay_status_string(status));
    if (r->job->how == LOGGING && r->rank == LOGS)
        CHECK(halay_group_failure(r->all, NULL) == HALAY_ERR_CANCELED, "round %d", r->job->round);
    CHECK(halay_group_status(r->group, &named) == HALAY_ERR_PEER && named == ABORTS, "named %d", named);
    CHECK(r->job->how == LOGGING || strstr(halay_error_text(), "rank 1"), "%s", halay_error_text());
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct halay_world *world;
    const int ranks[RANKS] = { 0, 1, 2 };

    REQUIRE(halay_world_open_fake(r->job->hub, r->rank, &world) == HALAY_OK);
    world->log->write = swallow;
    world->log->arg = r;
    world->visits.has_barrier = r->job->round % 2 && halay_bell_register();
    world->config.spin_us = r->job->round % 3 ? 20 : 1000;
    REQUIRE(halay_group_create(world, &r->all) == HALAY_OK);
    r->group = r->all;
    if (!r->job->is_shared)
        REQUIRE(halay_group_subset(r->all, ranks, RANKS, &r->group) == HALAY_OK);
    CHECK(halay_group_status(r->group, NULL) == HALAY_OK);
    CHECK(halay_group_barrier(r->group) == HALAY_OK);
    if (r->rank == ABORTS)
        be_aborter(r);
    else
        be_peer(r);
    pthread_barrier_wait(&r->job->ended); /* nobody is helped by a group that is closed */
    if (r->group != r->all) {
        if (r->job->how == LOGGING)
            CHECK(halay_group_barrier(r->all) == (r->rank == LOGS ? HALAY_ERR_CANCELED : HALAY_ERR_PEER));
        else
            CHECK(halay_group_barrier(r->all) == HALAY_OK, "its parent lives on");
        halay_group_close(r->group);
    }
    halay_group_close(r->all);
    halay_world_close(world);
    return NULL;
}

static void run(enum how how, int is_shared, int round)
{
    struct job job = { .how = how, .is_shared = is_shared, .round = round };
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];

    REQUIRE(halay_fake_hub_create(RANKS, &job.hub) == HALAY_OK);
    halay_fake_hub_set_shared(job.hub, is_shared);
    pthread_barrier_init(&job.ended, NULL, RANKS);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){ .job = &job, .rank = r };
        REQUIRE(!pthread_create(&threads[r], NULL, run_rank, &ranks[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    if (how == AT_ANY_TIME)
        pthread_join(ranks[ABORTS].watchdog, NULL);
    pthread_barrier_destroy(&job.ended);
    halay_fake_hub_destroy(job.hub);
}

int main(void)
{
    CHECK(halay_group_abort(NULL) == HALAY_ERR_ARGUMENT);
    CHECK(halay_group_status(NULL, NULL) == HALAY_ERR_ARGUMENT);
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        for (int how = 0; how < HOWS; how++)
            for (int round = 0; round < 6; round++)
                if (how != (is_shared ? LOGGING : ENDING)) /* one group, no memory */
                    run((enum how)how, is_shared, round);
        for (int round = 0; round < (test_is_brief() ? 40 : 200); round++)
            run(AT_ANY_TIME, is_shared, round);
    }
    return test_end();
}
