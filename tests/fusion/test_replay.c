/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay through the engine over the fake transport: a steady step sends nothing, and after any deviation results and
 * errors are those of negotiation. usage: test_replay [SEED]
 */
#include "tests/fusion/random.h"
#include "tests/fusion/ranks.h"
#include "tests/fusion/steps.h"
#include <unistd.h>

enum { STEPS = 60, QUIET = 10, TOO_LONG_S = 300 };

struct setting {
    uint64_t seed;
    int is_mixed, is_late; /* each tensor is a bucket, and one rank is late in each step */
    enum halay_deterministic mode;
    int steps, rarely;
    int degree; /* of the tree along which ranks leave a plan */
};

static void configure(struct halay_config *config, void *arg)
{
    const struct setting *s = arg;

    config->replay = 1;
    if (s->is_late)
        config->fusion_threshold = 1;
    config->deterministic = s->mode;
}

static uint64_t messages(const struct rank_run *run)
{
    return halay_messenger_sent(run->ctx->messenger);
}

static struct steps steps[RANKS_MAX];

static void open_steps(struct rank_run *run)
{
    const struct setting *s = run->arg;

    run->ctx->degree = s->degree; /* no plan begins before all have submitted */
    steps_open(&steps[run->rank], run->ctx, s->is_mixed);
}

/* A steady loop: after the capture no rank sends a message, unless the machine is so busy that a rank leaves the
 * plan. */
static void body_steady(struct rank_run *run)
{
    struct halay_counters c = { .struct_size = sizeof c };
    struct steps *s = &steps[run->rank];
    int quiet = 0, most = 0;

    open_steps(run);
    for (int n = 0; n < STEPS; n++) {
        uint64_t before = messages(run);
        if (n % 5 == 4)
            steps_run_results(s, n);
        else
            steps_run(s, n);
        quiet = messages(run) == before ? quiet + 1 : 0;
        most = quiet > most ? quiet : most;
        if (quiet == QUIET)
            CHECK(steps_have_plan(s), "no plan");
    }
    CHECK(most >= QUIET, "rank %d of %d sent nothing in %d steps at most", run->rank, s->size, most);
    CHECK(halay_counters_read(run->ctx, &c) == HALAY_OK && c.submissions == (uint64_t)STEPS * STEP_TENSORS &&
              c.completions == c.submissions && !c.in_flight,
          "%llu submissions, %llu completions", (unsigned long long)c.submissions, (unsigned long long)c.completions);
}

/* Submits a step's tensors, this one at another address or, if that is NULL, registered anew. */
static void run_changed(struct steps *s, int number, int changed, float *elsewhere)
{
    struct halay_request *requests[STEP_TENSORS] = { NULL };
    char name[32];

    snprintf(name, sizeof name, "gradient %d", changed);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = name,
                                      .collective = HALAY_ALLREDUCE,
                                      .dtype = HALAY_F32,
                                      .reduction = HALAY_SUM,
                                      .shape = { STEP_ELEMENTS },
                                      .dimensions = 1,
                                      .in = elsewhere ? elsewhere : s->data[changed],
                                      .out = elsewhere ? elsewhere : s->data[changed] };
    steps_fill(s, number);
    for (int i = 0; i < STEP_TENSORS; i++) {
        if (elsewhere && i == changed)
            memcpy(elsewhere, s->data[i], sizeof s->data[i]);
        if (!elsewhere && i == changed) {
            REQUIRE(halay_unregister(s->tensors[i]) == HALAY_OK);
            REQUIRE(halay_register(s->ctx, &info, &s->tensors[i]) == HALAY_OK);
        }
        if (elsewhere && i == changed)
            REQUIRE(halay_submit_named(s->ctx, &info, NULL, NULL, &requests[i]) == HALAY_OK);
        else
            steps_submit(s, number, i, &requests[i]);
    }
    for (int i = 0; i < STEP_TENSORS; i++)
        steps_finish(s, requests[i], number, i);
    if (elsewhere)
        memcpy(s->data[changed], elsewhere, sizeof s->data[changed]);
    steps_check(s, number);
}

/* A bucket of a plan keeps its requests from turn to turn, unless a tensor is at another address or registered anew. */
static void body_changed(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    float elsewhere[2][STEP_ELEMENTS];
    int planned = 0; /* steps; a busy machine delays ranks, so that plans are left */

    steps_open(s, run->ctx, 0);
    for (int n = 0; n < 2 * STEPS; n++) {
        if (n < STEPS / 2 || n % 3 == 0)
            steps_run(s, n);
        else
            run_changed(s, n, n % STEP_TENSORS, n % 3 == 1 ? elsewhere[n % 2] : NULL);
        planned += steps_have_plan(s);
    }
    CHECK(planned > 3, "a plan was in force after %d steps", planned);
}

/* Registers a tensor anew, like that of the other steps or as integers. */
static void register_anew(struct steps *s, int i, enum halay_dtype dtype)
{
    struct steps_info d;

    steps_describe(s, i, &d);
    d.info.dtype = dtype;
    REQUIRE(halay_unregister(s->tensors[i]) == HALAY_OK);
    REQUIRE(halay_register(s->ctx, &d.info, &s->tensors[i]) == HALAY_OK);
}

/* While a tensor is in a plan, some ranks register it anew with another type of the same size: the plan does not accept
 * it. is_all: all ranks do, and it is reduced; otherwise only rank 0 does. */
static void run_another(struct steps *s, int number, int i, int is_all)
{
    struct halay_request *requests[STEP_TENSORS];
    int32_t *data = (int32_t *)s->data[i];

    steps_fill(s, number);
    if (is_all || s->rank == 0) {
        register_anew(s, i, HALAY_I32);
        for (int k = 0; k < STEP_ELEMENTS; k++)
            data[k] = s->rank + k - 50;
    }
    for (int k = 0; k < STEP_TENSORS; k++)
        steps_submit(s, number, k, &requests[k]);
    for (int k = 0; k < STEP_TENSORS; k++)
        if (k != i)
            steps_finish(s, requests[k], number, k);
    CHECK(halay_wait(requests[i], STEP_WAIT_MS) == (is_all ? HALAY_OK : HALAY_ERR_MISMATCH));
    for (int k = 0; is_all && k < STEP_ELEMENTS; k++)
        CHECK(data[k] == s->size * (s->size - 1) / 2 + s->size * (k - 50), "step %d element %d: %d", number, k,
              data[k]);
    halay_request_free(requests[i]);
    steps_check(s, number);
    register_anew(s, i, HALAY_F32);
}

static void body_another(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    int planned = 0;

    steps_open(s, run->ctx, 0);
    for (int n = 0; n < 2 * STEPS; n++)
        if (n % 12 < 10) {
            steps_run(s, n);
        } else {
            planned += steps_have_plan(s);
            run_another(s, n, n % STEP_TENSORS, n % 2);
        }
    CHECK(planned, "a plan was never in force");
}

/* The program is linked so that the second step of a steady submission calls this. Some take their time, so that the
 * driver leaves the plan meanwhile. */
struct halay_plan_bucket *__real_halay_steady_commit(struct halay_request *r, const void *in, void *out,
                                                     halay_callback callback, void *arg);
struct halay_plan_bucket *__wrap_halay_steady_commit(struct halay_request *r, const void *in, void *out,
                                                     halay_callback callback, void *arg);

static _Thread_local int is_slow;

struct halay_plan_bucket *__wrap_halay_steady_commit(struct halay_request *r, const void *in, void *out,
                                                     halay_callback callback, void *arg)
{
    if (is_slow)
        poll(NULL, 0, 1);
    return __real_halay_steady_commit(r, in, out, callback, arg);
}

static void *submit_stray(void *arg)
{
    struct steps *s = arg;
    float data = (float)s->rank;

    steps_finish(s, steps_submit_other(s, 0, &data), 0, -1);
    return NULL;
}

/* Each tensor is a bucket. While a thread submits all by one call, another one submits what leaves the plan. Neither
 * the thread nor the driver waits for the other one forever. */
static void body_threads(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    struct halay_request *requests[STEP_TENSORS];
    pthread_t thread;

    open_steps(run);
    for (int n = 0; n < 2 * STEPS; n++) {
        int has_stray = n % 26 == 0; /* later than what delays the next plan */
        steps_fill(s, n);
        if (has_stray)
            REQUIRE(!pthread_create(&thread, NULL, submit_stray, s));
        is_slow = has_stray;
        steps_is_ok(s, halay_submit_many(s->tensors, STEP_TENSORS, NULL, NULL, requests), n, -1);
        is_slow = 0;
        for (int i = 0; i < STEP_TENSORS; i++)
            steps_finish(s, requests[i], n, i);
        if (has_stray)
            pthread_join(thread, NULL);
        steps_check(s, n);
    }
}

static _Atomic int has_left; /* rank 0 has left the plan */

static void configure_slow(struct halay_config *config, void *arg)
{
    configure(config, arg);
    config->stall_check_ms = 400;
}

/* A rank that waits for another one leaves the plan after a quarter of the time to a stall report. */
static void body_slow(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    struct halay_request *requests[STEP_TENSORS];

    open_steps(run);
    int n = 0;
    for (; n < 10 * STEPS && (n < STEPS || !steps_have_plan(s)); n++)
        steps_run(s, n);
    steps_fill(s, n);
    for (int ms = 0; ms < STEP_WAIT_MS && run->rank && !has_left; ms++)
        poll(NULL, 0, 1);
    for (int i = 0; i < STEP_TENSORS; i++)
        steps_submit(s, n, i, &requests[i]);
    for (int ms = 0; ms < STEP_WAIT_MS && !run->rank && steps_have_plan(s); ms++)
        poll(NULL, 0, 1);
    CHECK(!steps_have_plan(s) || run->rank);
    has_left = 1;
    for (int i = 0; i < STEP_TENSORS; i++)
        steps_finish(s, requests[i], n, i);
    steps_check(s, n);
}

/* The program keeps the requests of a step until the next one has ended: they remain those of their step. */
static void body_kept(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    struct halay_request *requests[2][STEP_TENSORS] = { { NULL } };

    open_steps(run);
    for (int n = 0; n < STEPS; n++) {
        struct halay_request **now = requests[n % 2], **before = requests[(n + 1) % 2];
        steps_fill(s, n);
        for (int i = 0; i < STEP_TENSORS; i++) {
            steps_submit(s, n, i, &now[i]);
            CHECK(now[i] != before[i] && (!before[i] || halay_test(before[i]) == HALAY_OK), "step %d tensor %d", n, i);
        }
        for (int i = 0; i < STEP_TENSORS; i++) {
            s->is_complete[i] = CHECK(halay_wait(now[i], STEP_WAIT_MS) == HALAY_OK);
            halay_request_free(before[i]);
        }
        steps_check(s, n);
    }
    for (int i = 0; i < STEP_TENSORS; i++)
        halay_request_free(requests[(STEPS - 1) % 2][i]);
}

/* The requests of a step are canceled after its plan has been left, while the tensors are in flight again: those of the
 * step have ended, and the new ones do not end by it. */
static void body_ended(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    struct halay_request *ended[STEP_TENSORS], *again[STEP_TENSORS];
    int planned = 0;

    open_steps(run);
    for (int n = 0; n < STEPS / 6; n++) {
        float data = (float)s->rank;
        for (int i = 0; i < 26; i++)
            steps_run(s, n);
        planned += steps_have_plan(s);
        for (int i = 0; i < STEP_TENSORS; i++)
            steps_submit(s, n, i, &ended[i]);
        CHECK(halay_wait_all(ended, STEP_TENSORS, STEP_WAIT_MS) == HALAY_OK);
        steps_finish(s, steps_submit_other(s, n, &data), n, -1);
        steps_fill(s, n);
        for (int i = 0; i < STEP_TENSORS && s->rank == 0; i++)
            steps_submit(s, n, i, &again[i]);
        for (int i = 0; i < STEP_TENSORS; i++) {
            CHECK(halay_cancel(ended[i]) == HALAY_OK);
            halay_request_free(ended[i]);
        }
        CHECK(halay_barrier(run->ctx, "go") == HALAY_OK);
        for (int i = 0; i < STEP_TENSORS && s->rank; i++)
            steps_submit(s, n, i, &again[i]);
        for (int i = 0; i < STEP_TENSORS; i++)
            steps_finish(s, again[i], n, i);
        steps_check(s, n);
    }
    CHECK(planned, "a plan was never in force");
}

/* The program is linked so that messages down the tree call this. Rank 2 holds back RESUME, which rank 3 waits for. */
enum halay_status __real_halay_branch_send_down(struct halay_process_set *set, const struct halay_item *item);
enum halay_status __wrap_halay_branch_send_down(struct halay_process_set *set, const struct halay_item *item);

static struct halay_fake_hub *holding_hub; /* NULL: nothing is held back */
static _Atomic int is_held;

enum halay_status __wrap_halay_branch_send_down(struct halay_process_set *set, const struct halay_item *item)
{
    if (holding_hub && set->ctx->rank == 2 && item->kind == HALAY_ITEM_RESUME && !is_held) {
        halay_fake_hub_hold(holding_hub, 2, 3, 1);
        is_held = 1;
    }
    return __real_halay_branch_send_down(set, item);
}

/* Two ranks make a process set, and use it, while RESUME has not reached another rank, to which the coordinator's
 * messages come. */
static void make_set_early(struct rank_run *run)
{
    static const int ranks[] = { 0, 1 };
    struct halay_process_set *set;
    float data = 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "some", .dimensions = 1, .shape = { 1 }, .out = &data
    };

    while (!is_held)
        poll(NULL, 0, 1);
    CHECK(halay_process_set_create(run->ctx, ranks, 2, &set) == HALAY_OK);
    info.set = set;
    CHECK(halay_run(run->ctx, &info, NULL, NULL) == HALAY_OK && data == 2);
    CHECK(halay_process_set_remove(set) == HALAY_OK);
    if (run->rank == 0)
        halay_fake_hub_hold(run->hub, 2, 3, 0);
}

static pthread_barrier_t together; /* of the ranks' threads */
static _Atomic int planned_ranks;
static _Atomic uint64_t collectives[RANKS_MAX]; /* of the set of all ranks, as each rank counts them */

/* Runs steps until all ranks have a plan in force, and arms what holds RESUME back. */
static int run_until_planned(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    int n = 0, are_planned = 0;

    while (!are_planned && n < 10 * STEPS) {
        for (int i = 0; i < 10; i++)
            steps_run(s, n++);
        planned_ranks += steps_have_plan(s);
        pthread_barrier_wait(&together);
        are_planned = planned_ranks == s->size;
        pthread_barrier_wait(&together);
        if (run->rank == 0)
            planned_ranks = 0;
        if (run->rank == 0 && are_planned)
            holding_hub = run->hub;
        pthread_barrier_wait(&together);
    }
    CHECK(are_planned);
    return n;
}

static void body_early(struct rank_run *run)
{
    struct steps *s = &steps[run->rank];
    float data = (float)run->rank;

    open_steps(run);
    int n = run_until_planned(run);
    struct halay_request *other = steps_submit_other(s, n, &data);
    if (run->rank < 2)
        make_set_early(run);
    steps_finish(s, other, n, -1);
    collectives[run->rank] = run->ctx->all.collectives;
    pthread_barrier_wait(&together);
    CHECK(collectives[run->rank] == collectives[0], "rank %d has counted %llu collectives, rank 0 %llu", run->rank,
          (unsigned long long)collectives[run->rank], (unsigned long long)collectives[0]);
    for (int i = 0; i < 10; i++)
        steps_run(s, ++n);
}

/* More buckets than channels. Ranks that wait for a late rank, first for their last tensor, remain in the plan. */
static void run_late(struct rank_run *run, int number)
{
    struct steps *s = &steps[run->rank];
    struct halay_request *requests[STEP_TENSORS];

    steps_fill(s, number);
    if (run->rank == 0)
        poll(NULL, 0, 70);
    steps_is_ok(s, halay_submit_many(s->tensors, STEP_TENSORS, NULL, NULL, requests), number, -1);
    for (int i = STEP_TENSORS - 1; i >= 0; i--)
        steps_finish(s, requests[i], number, i);
    steps_check(s, number);
}

static void body_late(struct rank_run *run)
{
    enum { LATE_STEPS = 20, LATE_QUIET = 5 };
    int quiet = 0, most = 0;

    open_steps(run);
    for (int n = 0; n < LATE_STEPS; n++) {
        uint64_t before = messages(run);
        run_late(run, n);
        quiet = messages(run) == before ? quiet + 1 : 0;
        most = quiet > most ? quiet : most;
    }
    CHECK(most >= LATE_QUIET, "rank %d sent nothing in %d steps at most", run->rank, most);
}

static void body_deviations(struct rank_run *run)
{
    const struct setting *setting = run->arg;

    open_steps(run);
    steps_run_all(&steps[run->rank], setting->seed, setting->steps, setting->rarely);
}

int main(int argc, char **argv)
{
    struct random random = { random_seed(argc, argv) };

    alarm(TOO_LONG_S);
    for (int i = 0; i < 8; i += test_is_brief() ? 3 : 1) {
        int size = 2 + i / 2;
        struct setting s = { .seed = random_next(&random), .is_mixed = i % 2, .degree = 2 + size % 2 };
        ranks_run(size, 0, &(struct rank_run){ .body = body_steady, .arg = &s, .configure = configure }, NULL, NULL);
        ranks_run(size, 0, &(struct rank_run){ .body = body_changed, .arg = &s, .configure = configure }, NULL, NULL);
        ranks_run(size, 0,
                  &(struct rank_run){
                      .body = body_another, .arg = &s, .configure = configure, .expected = "tensor 'gradient" },
                  NULL, NULL);
    }
    struct setting early = { .degree = 2 };
    ranks_run(3, 0, &(struct rank_run){ .body = body_ended, .arg = &early, .configure = configure }, NULL, NULL);
    ranks_run(
        2, 0,
        &(struct rank_run){ .body = body_slow, .arg = &early, .configure = configure_slow, .expected = "stalled" },
        NULL, NULL);
    ranks_run(2, 0, &(struct rank_run){ .body = body_kept, .arg = &early, .configure = configure }, NULL, NULL);
    REQUIRE(!pthread_barrier_init(&together, NULL, 4));
    ranks_run(
        4, 0,
        &(struct rank_run){ .body = body_early, .arg = &early, .configure = configure, .expected = "process set" },
        NULL, NULL);
    pthread_barrier_destroy(&together);
    holding_hub = NULL;
    struct setting late = { .is_late = 1, .degree = 2 };
    ranks_run(3, 0, &(struct rank_run){ .body = body_late, .arg = &late, .configure = configure }, NULL, NULL);
    ranks_run(3, 0, &(struct rank_run){ .body = body_threads, .arg = &late, .configure = configure }, NULL, NULL);
    for (int i = 0; i < 12; i++) {
        struct setting s = { .seed = random_next(&random),
                             .is_mixed = i / 6,
                             .is_late = i % 4 == 3,
                             .steps = test_is_brief() ? 120 : 300,
                             .rarely = 5,
                             .mode = (enum halay_deterministic)(i % 3),
                             .degree = 2 };
        printf("seed %llu mode %d%s\n", (unsigned long long)s.seed, (int)s.mode, s.is_mixed ? " mixed" : "");
        ranks_run(3 + i % 3, i / 3 % 2 ? random_next(&random) : 0,
                  &(struct rank_run){ .body = body_deviations, .arg = &s, .configure = configure }, NULL, NULL);
    }
    return test_end();
}
