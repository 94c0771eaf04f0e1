/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that end in unusual ways, over the fake transport: their set is removed, or its group cannot be renewed. The
 * program is linked so that plans begin and groups are renewed by the functions here.
 */
#include "collectives/group/epoch.h"
#include "fusion/coordinator/coordinator_state.h"
#include "fusion/engine/negotiate.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/replay.h"
#include "tests/fusion/ranks.h"
#include "tests/fusion/steps.h"
#include <unistd.h>

enum { RANKS = 3, ROUNDS = 8, TOO_LONG_S = 100 };

static void configure(struct halay_config *config, void *arg)
{
    (void)arg;
    config->replay = 1;
}

/* ---- a set is removed while it has a plan ----
 *
 * Ranks 1 and 2 remove their set. Its plan begins when rank 0 has received that, so RESUME never arrives. Rank 1 makes
 * another set in between: that has to wait for the end of the plan, and is made then. What ranks 1 and 2 send about
 * the plan reaches rank 0 after the removal there. */

enum halay_status __real_halay_replay_root_start(struct halay_coordinator *c, int *emitted);
enum halay_status __wrap_halay_replay_root_start(struct halay_coordinator *c, int *emitted);
enum halay_status __real_halay_replay_receive(struct halay_process_set *set, const struct halay_item *item);
enum halay_status __wrap_halay_replay_receive(struct halay_process_set *set, const struct halay_item *item);

static _Atomic int is_planned; /* rank 1 has received PLAN of the set */

enum halay_status __wrap_halay_replay_root_start(struct halay_coordinator *c, int *emitted)
{
    const struct halay_coordinator *parent = c->options.parent;

    if (!parent || parent->runnable.count || parent->fresh.count)
        return __real_halay_replay_root_start(c, emitted);
    halay_coordinator_note(c);
    return HALAY_OK;
}

enum halay_status __wrap_halay_replay_receive(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_context *ctx = set->ctx;
    enum halay_status status = __real_halay_replay_receive(set, item);

    if (item->kind != HALAY_ITEM_PLAN || !set->number || ctx->rank != 1)
        return status;
    is_planned = 1;
    while (!ctx->queue.has_events)
        poll(NULL, 0, 1);
    halay_negotiate_submitted(ctx); /* before the removal, which is in the same message, or in the next one */
    CHECK(set->replay->state == PLAN_BROKEN && ctx->queue.changes.count == 1);
    return status;
}

static void reduce_in(struct rank_run *run, struct halay_process_set *set)
{
    float x = 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "x", .dimensions = 1, .shape = { 1 }, .out = &x, .set = set
    };

    CHECK(halay_run(run->ctx, &info, NULL, NULL) == HALAY_OK && x == 2, "%g", (double)x);
}

static void make_and_remove(struct rank_run *run)
{
    static const int ranks[] = { 1, 2 };
    struct halay_request *removal, *creation;
    struct halay_process_set *set;

    CHECK(halay_process_set_create(run->ctx, ranks, 2, &set) == HALAY_OK);
    for (int i = 0; i < ROUNDS; i++)
        reduce_in(run, set);
    CHECK(halay_process_set_remove_async(set, 0, &removal) == HALAY_OK);
    if (run->rank == 1) {
        while (!is_planned)
            poll(NULL, 0, 1);
        CHECK(halay_process_set_create_async(run->ctx, ranks, 1, 0, &creation) == HALAY_OK);
        CHECK(halay_wait(creation, STEP_WAIT_MS) == HALAY_OK, "%s", halay_request_text(creation));
        halay_request_free(creation);
    }
    CHECK(halay_wait(removal, STEP_WAIT_MS) == HALAY_OK, "%s", halay_request_text(removal));
    halay_request_free(removal);
}

static void body_removed(struct rank_run *run)
{
    if (run->rank)
        make_and_remove(run);
    CHECK(halay_barrier(run->ctx, "end") == HALAY_OK, "%s", halay_error_text());
}

/* ---- the group cannot be renewed ----
 *
 * On rank 1 the group of all ranks fails before it is renewed. RESUME came from rank 0, which is not the cause. */

enum halay_status __real_halay_group_renew(struct halay_group *group, const struct halay_group_epoch *agreed);
enum halay_status __wrap_halay_group_renew(struct halay_group *group, const struct halay_group_epoch *agreed);

static const struct halay_group *_Atomic failing; /* NULL: none */

struct failure {
    enum halay_status status;
    int rank;
    const char *text; /* on rank 1 */
};

static const struct failure *failure;

enum halay_status __wrap_halay_group_renew(struct halay_group *group, const struct halay_group_epoch *agreed)
{
    if (group == failing)
        halay_group_fail(group, failure->status, failure->rank);
    return __real_halay_group_renew(group, agreed);
}

static void body_failed(struct rank_run *run)
{
    enum halay_status status = HALAY_OK;
    char text[HALAY_TEXT_MAX];
    float x = 1;

    if (run->rank == 1)
        failing = run->ctx->all.group;
    for (int i = 0; i < ROUNDS && status == HALAY_OK; i++)
        status = halay_allreduce(run->ctx, "x", NULL, &x, 1, HALAY_F32, HALAY_SUM);
    if (status == HALAY_OK)
        status = halay_allreduce(run->ctx, "y", NULL, &x, 1, HALAY_F32, HALAY_SUM); /* leaves the plan */
    CHECK(status != HALAY_OK);
    halay_context_status(run->ctx, text, sizeof text);
    CHECK(run->rank != 1 || !strcmp(text, failure->text), "'%s', not '%s'", text, failure->text);
}

static void check_failures(void)
{
    static const struct failure failures[] = {
        { HALAY_ERR_UNSUPPORTED, -1, "a plan cannot be left on rank 1: not supported" },
        { HALAY_ERR_PEER, 2, "rank 2 has closed its connection" },
    };

    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        failure = &failures[i];
        ranks_run(RANKS, 0, &(struct rank_run){ .body = body_failed, .configure = configure, .expected = "" }, NULL,
                  NULL);
        failing = NULL;
    }
}

int main(void)
{
    alarm(TOO_LONG_S);
    ranks_run(RANKS, 0, &(struct rank_run){ .body = body_removed, .configure = configure }, NULL, NULL);
    CHECK(is_planned);
    check_failures();
    return test_end();
}
