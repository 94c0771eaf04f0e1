/* SPDX-License-Identifier: Apache-2.0
 *
 * When a rank leaves a plan by itself, on plans made for that; and how much a look at a plan of many buckets costs. The
 * program is linked so that the library takes locks by the function here.
 */
#include "collectives/group/world.h"
#include "fusion/observe/recorder.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/reasons.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/request.h"
#include "tests/test.h"

enum { BUCKETS = 1000, NOW_US = 10000000 };

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

static int locks;

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    locks++;
    return __real_pthread_mutex_lock(lock);
}

/* A plan of buckets of one tensor. */
struct fixture {
    struct halay_world world;
    struct halay_context ctx;
    struct halay_recorder recorder; /* takes no records */
    struct halay_replay plan;
    struct halay_plan_bucket buckets[BUCKETS], *list[BUCKETS];
    struct halay_entry entries[BUCKETS], *entry_list[BUCKETS];
    struct halay_request request; /* the program waits for it */
};

static struct fixture f;

/* Makes a plan whose buckets have not changed for age_us. Those below `filling` lack their tensor. */
static void open_plan(int filling, int64_t age_us)
{
    memset(&f, 0, sizeof f);
    REQUIRE(!pthread_mutex_init(&f.ctx.lock, NULL));
    f.ctx.world = &f.world;
    f.ctx.recorder = &f.recorder;
    f.ctx.now_us = NOW_US;
    f.ctx.all.ctx = &f.ctx;
    f.ctx.all.replay = &f.plan;
    f.plan = (struct halay_replay){
        .set = &f.ctx.all, .state = PLAN_PLANNED, .is_active = 1, .buckets = f.list, .count = BUCKETS
    };
    for (int i = 0; i < BUCKETS; i++) {
        struct halay_plan_bucket *b = f.list[i] = &f.buckets[i];
        f.entry_list[i] = &f.entries[i];
        f.entries[i].planned = b;
        b->plan = &f.plan;
        b->entries = &f.entry_list[i];
        b->count = b->seen_missing = 1;
        b->missing = i < filling;
        b->number = (uint64_t)i;
        b->state = i < filling ? HALAY_PLAN_FILLING : HALAY_PLAN_READY;
        b->since_us = NOW_US - age_us;
    }
}

/* The program waits for the tensor of bucket i. */
static void wait_for(int i)
{
    f.request.entry = &f.entries[i];
    f.request.word = HALAY_STEADY_MOVED;
    f.entries[i].request = &f.request;
    f.ctx.waiting.waited = &f.request;
}

/* Returns nonzero if a look ends the plan. */
static int look(void)
{
    CHECK(halay_replay_look(&f.ctx) == HALAY_OK);
    int is_broken = f.plan.state == PLAN_BROKEN;
    CHECK(!is_broken || f.plan.reason == HALAY_BREAK_WAITS, "reason %d", (int)f.plan.reason);
    pthread_mutex_destroy(&f.ctx.lock);
    return is_broken;
}

static void check_reasons(void)
{
    open_plan(0, 60000);
    CHECK(!look(), "all buckets are ready");
    open_plan(3, 60000);
    CHECK(look(), "buckets wait for incomplete ones for 60 ms");
    open_plan(3, 2000);
    CHECK(!look(), "they wait for 2 ms");
    open_plan(3, 2000);
    wait_for(2 + HALAY_CHANNELS);
    CHECK(look(), "the program waits for the data of one that waits");
    open_plan(3, 2000);
    wait_for(3 + HALAY_CHANNELS);
    CHECK(!look(), "it waits for that of one that does not");
    open_plan(3, 2000);
    f.buckets[1].is_on_devices = f.buckets[3].is_on_devices = 1;
    wait_for(3);
    CHECK(look(), "it waits for data on a device, which follow others there");
}

/* Half of the buckets are held up by the other half. */
static void check_cost(void)
{
    open_plan(BUCKETS / 2, 2000);
    locks = 0;
    CHECK(!look());
    CHECK(locks < 10, "a look at %d buckets takes %d locks", BUCKETS, locks);
}

int main(void)
{
    check_reasons();
    check_cost();
    return test_end();
}
