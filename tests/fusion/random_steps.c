/* SPDX-License-Identifier: Apache-2.0
 *
 * Random steps: see random_steps.h.
 *
 * Choices common to all ranks are drawn from a seed and the schedule's number, others from these and the rank.
 *
 *     pattern   1 to 10 tensors: operation, type, size, group, priority, registered or by name, in place or not
 *     repeats   3 to 7 unchanged steps, in which a plan is made, and perhaps up to 20 more
 *     deviation one of `deviations`, then again from `repeats`, up to three times
 *
 * Each rank submits in its own way: one by one, several with one call, from two threads; completed by wait, test or
 * callback. A rank notes the end of each tensor of each step; at the end of a schedule these notes have to be equal.
 */
#include "tests/fusion/random_steps.h"
#include "fusion/requests/context.h"
#include "fusion/requests/entry.h"
#include "tests/fusion/random_tensor.h"
#include "tests/test.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { HANG_S = 150 }; /* of a whole schedule */

static int has_failed(void)
{
    return test_failed + random_world_failed();
}

/* ---- a step ---- */

static int has_plan(struct random_world *w)
{
    struct halay_process_set *set = w->set ? w->set : &w->ctx->all;
    const struct random_tensor *t = &w->tensors[0];
    size_t length = strlen(t->name);

    pthread_mutex_lock(&w->ctx->lock);
    const struct halay_entry *e =
        (const struct halay_entry *)halay_table_find(&set->names, t->name, length, halay_table_hash(t->name, length));
    int is_planned = e && e->planned;
    pthread_mutex_unlock(&w->ctx->lock);
    return is_planned;
}

static void step_begin(struct random_world *w)
{
    w->step++;
    w->tally->steps++;
    w->tally->planned += (uint64_t)has_plan(w);
}

static void shuffle(struct random_world *w, size_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = random_below(&w->own, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
}

/* Shuffles the tensors in an order of this rank. */
static void finish_all(struct random_world *w, unsigned allowed)
{
    size_t order[TENSORS], how = random_below(&w->own, 3);

    shuffle(w, order, TENSORS);
    for (size_t i = 0; i < TENSORS; i++) {
        struct random_tensor *t = &w->tensors[how == 0 ? i : how == 1 ? TENSORS - 1 - i : order[i]];
        if (t->is_in_flight)
            random_tensor_finish(w, t, allowed);
    }
}

static void submit_with_one_call(struct random_world *w)
{
    struct halay_tensor *handles[TENSORS];
    struct halay_request *requests[TENSORS];
    size_t places[TENSORS], count = 0;

    for (size_t i = 0; i < w->tensor_count; i++) {
        struct random_tensor *t = &w->tensors[i];
        if (!t->handle) {
            random_tensor_submit(w, t);
            continue;
        }
        random_tensor_prepare(w, t);
        t->by_callback = 0;
        t->calls = 1;
        handles[count] = t->handle;
        places[count++] = i;
    }
    int is_taken = CHECK(halay_submit_many(handles, count, NULL, NULL, requests) == HALAY_OK);
    for (size_t i = 0; i < count; i++) {
        w->tensors[places[i]].request = is_taken ? requests[i] : NULL;
        w->tensors[places[i]].is_in_flight = is_taken;
    }
}

static void *submit_odd(void *arg)
{
    struct random_world *w = arg;

    for (size_t i = 1; i < w->tensor_count; i += 2)
        random_tensor_submit_prepared(w, &w->tensors[i]);
    return NULL;
}

static void submit_by_threads(struct random_world *w)
{
    pthread_t thread;

    for (size_t i = 0; i < w->tensor_count; i++)
        random_tensor_prepare(w, &w->tensors[i]);
    REQUIRE(!pthread_create(&thread, NULL, submit_odd, w));
    for (size_t i = 0; i < w->tensor_count; i += 2)
        random_tensor_submit_prepared(w, &w->tensors[i]);
    pthread_join(thread, NULL);
}

/* An ordinary step. */
static void run_plain(struct random_world *w)
{
    size_t how = random_below(&w->own, 8);

    step_begin(w);
    if (how == 0)
        submit_by_threads(w);
    else if (how < 3)
        submit_with_one_call(w);
    else
        for (size_t i = 0; i < w->tensor_count; i++)
            random_tensor_submit(w, &w->tensors[i]);
    finish_all(w, OK_ONLY);
}

/* ---- deviations ---- */

/* Pauses up to this time, usually far less; sometimes longer than a bucket may be incomplete. */
static void pause_us(struct random_world *w, size_t most)
{
    size_t us = random_below(&w->own, most) / (1 + random_below(&w->own, 20));

    if (us > 1000)
        poll(NULL, 0, (int)(us / 1000));
    for (; us % 1000 > 20; us -= 20)
        sched_yield();
}

static void deviate_in_order(struct random_world *w)
{
    size_t order[TENSORS];

    step_begin(w);
    shuffle(w, order, w->tensor_count);
    for (size_t i = 0; i < w->tensor_count; i++)
        random_tensor_submit(w, &w->tensors[order[i]]);
    finish_all(w, OK_ONLY);
}

/* A rank pauses after a few submissions, and waits for these first. */
static void deviate_in_chunks(struct random_world *w)
{
    int one_by_one = !random_below(&w->common, 2);

    step_begin(w);
    for (size_t i = 0; i < w->tensor_count; i++) {
        random_tensor_submit(w, &w->tensors[i]);
        if (one_by_one || !random_below(&w->own, 3))
            finish_all(w, OK_ONLY);
    }
    finish_all(w, OK_ONLY);
}

/* A rank pauses in the middle of a step. */
static void deviate_late(struct random_world *w)
{
    size_t at = random_below(&w->own, w->tensor_count), most = random_below(&w->common, 50) ? 3000 : 70000;

    step_begin(w);
    for (size_t i = 0; i < w->tensor_count; i++) {
        if (i == at)
            pause_us(w, most);
        random_tensor_submit(w, &w->tensors[i]);
    }
    finish_all(w, OK_ONLY);
}

/* One more tensor in the step, with a name or, if it is an all-reduce, without one. */
static void deviate_more(struct random_world *w)
{
    struct random_tensor *extra = &w->tensors[EXTRA];
    size_t at = random_below(&w->own, w->tensor_count + 1);
    int is_first = random_below(&w->own, 2) != 0;

    random_tensor_draw(w, extra);
    random_tensor_draw_place(w, extra);
    step_begin(w);
    for (size_t i = 0; i <= w->tensor_count; i++) {
        if (i == at)
            random_tensor_submit(w, extra);
        if (i == at && is_first && i == w->tensor_count)
            random_tensor_finish(w, extra, OK_ONLY);
        if (i < w->tensor_count)
            random_tensor_submit(w, &w->tensors[i]);
    }
    finish_all(w, OK_ONLY);
}

/* Collectives without a name match by order. */
static void deviate_unnamed(struct random_world *w)
{
    struct halay_request *request;
    int32_t data = w->me + 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .dtype = HALAY_I32, .dimensions = 1, .shape = { 1 }, .out = &data, .set = w->set
    };
    size_t at = random_below(&w->own, w->tensor_count);

    step_begin(w);
    for (size_t i = 0; i < w->tensor_count; i++) {
        if (i == at)
            CHECK(halay_submit_named(w->ctx, &info, NULL, NULL, &request) == HALAY_OK);
        random_tensor_submit(w, &w->tensors[i]);
    }
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK && data == w->count * (w->count + 1) / 2, "%d", data);
    halay_request_free(request);
    finish_all(w, OK_ONLY);
}

/* One tensor is not submitted, or only when all others have ended. */
static void deviate_missing(struct random_world *w)
{
    size_t missing = random_below(&w->common, w->tensor_count);
    int comes_late = random_below(&w->common, 2) != 0;

    step_begin(w);
    for (size_t i = 0; i < w->tensor_count; i++)
        if (i != missing)
            random_tensor_submit(w, &w->tensors[i]);
    finish_all(w, OK_ONLY);
    if (comes_late)
        random_tensor_submit(w, &w->tensors[missing]);
    finish_all(w, OK_ONLY);
}

/* Steps of only some of the tensors, which may become a pattern of their own. */
static void deviate_fewer(struct random_world *w)
{
    uint64_t chosen = random_next(&w->common);

    for (size_t left = 1 + random_below(&w->common, 8); left; left--) {
        step_begin(w);
        for (size_t i = 0; i < w->tensor_count; i++)
            if (chosen >> i & 1)
                random_tensor_submit(w, &w->tensors[i]);
        finish_all(w, OK_ONLY);
    }
}

/* A tensor is submitted again when it has ended, but others have not. */
static void deviate_ahead(struct random_world *w)
{
    size_t steps = 2 + random_below(&w->common, 5);

    for (size_t s = 0; s < steps; s++) {
        step_begin(w);
        for (size_t i = 0; i < w->tensor_count; i++) {
            struct random_tensor *t = &w->tensors[i];
            if (t->is_in_flight)
                random_tensor_finish(w, t, OK_ONLY);
            random_tensor_submit(w, t);
        }
    }
    finish_all(w, OK_ONLY);
}

/* Changes that other ranks cannot notice: data at another address, a handle of its own. */
static void deviate_elsewhere(struct random_world *w)
{
    for (size_t i = 0; i < w->tensor_count; i++) {
        struct random_tensor *t = &w->tensors[i];
        if (random_below(&w->own, 3))
            continue;
        random_tensor_unregister(t);
        t->bank ^= (int)random_below(&w->own, 2);
        if (random_below(&w->own, 4))
            random_tensor_register(w, t);
    }
    run_plain(w);
}

/* Gives the same name another description: no two of these are equal. */
static void change_meaning(struct random_world *w, struct random_tensor *t, int how)
{
    t->timeout_ms = 0;
    if (t->info.collective == HALAY_BARRIER) {
        t->info.collective = HALAY_ALLREDUCE;
        t->info.reduction = HALAY_SUM;
    } else if (t->is_group) {
        t->members[1].shape[0]++;
        t->elements++;
    } else if (how % 2 && !random_tensor_goes_by_rows(t)) {
        t->elements = t->elements == 3 ? 5 : 3;
    } else {
        t->info.dtype = t->info.dtype == HALAY_F32 ? HALAY_I32 : HALAY_F32;
    }
    random_tensor_draw_place(w, t);
}

/* All ranks use another description of a name, for one step or for enough steps that a plan contains it. */
static void deviate_changed(struct random_world *w)
{
    struct random_tensor *t = &w->tensors[random_below(&w->common, w->tensor_count)], before = *t;
    size_t steps = 1 + random_below(&w->common, 6);
    int how = (int)random_below(&w->common, 2);

    random_tensor_unregister(t);
    change_meaning(w, t, how);
    random_tensor_register(w, t);
    for (; steps; steps--)
        run_plain(w);
    random_tensor_unregister(t);
    if (!random_below(&w->common, 2))
        return;
    before.handle = NULL;
    memcpy(t, &before, sizeof *t);
    random_tensor_register(w, t);
}

/* One rank uses another description: an error on all ranks. */
static void deviate_mismatched(struct random_world *w)
{
    size_t which = random_below(&w->common, w->tensor_count);
    struct random_tensor *t = &w->tensors[which], before;
    int who = (int)random_below(&w->common, (size_t)w->count), how = (int)random_below(&w->common, 2);

    if (who == w->me) {
        random_tensor_unregister(t);
        memcpy(&before, t, sizeof before);
        change_meaning(w, t, how);
        random_tensor_register(w, t);
    }
    step_begin(w);
    for (size_t i = 0; i < w->tensor_count; i++)
        random_tensor_submit(w, &w->tensors[i]);
    random_tensor_finish(w, t, 1 << HALAY_ERR_MISMATCH);
    finish_all(w, OK_ONLY);
    if (who != w->me)
        return;
    random_tensor_unregister(t);
    memcpy(t, &before, sizeof *t);
    random_tensor_register(w, t);
}

/* Ranks cancel a submission; all others may have submitted it already. */
static void deviate_canceled(struct random_world *w)
{
    struct random_tensor *t = &w->tensors[random_below(&w->common, w->tensor_count)];
    int first = (int)random_below(&w->common, (size_t)w->count),
        second = (int)random_below(&w->common, (size_t)w->count);
    int cancels = w->me == first || w->me == second, is_at_once = random_below(&w->own, 2) != 0;

    step_begin(w);
    for (size_t i = 0; i < w->tensor_count; i++) {
        int is_it = t == &w->tensors[i];
        if (is_it && !cancels)
            pause_us(w, 2000);
        if (is_it && cancels)
            random_tensor_submit_kept(w, t);
        else
            random_tensor_submit(w, &w->tensors[i]);
        if (is_it && cancels && is_at_once)
            CHECK(halay_cancel(t->request) == HALAY_OK);
    }
    if (cancels && !is_at_once)
        CHECK(halay_cancel(t->request) == HALAY_OK);
    random_tensor_finish(w, t, OK_ONLY | 1 << HALAY_ERR_CANCELED);
    finish_all(w, OK_ONLY);
}

/* A submission whose time limit may expire before the others submit. */
static void deviate_late_for_one(struct random_world *w)
{
    struct random_tensor *t = &w->tensors[random_below(&w->common, w->tensor_count)];
    int who = (int)random_below(&w->common, (size_t)w->count);

    if (w->me == who) {
        random_tensor_unregister(t);
        t->timeout_ms = 1 + (int)random_below(&w->own, 3);
    }
    step_begin(w);
    for (size_t i = 0; i < w->tensor_count; i++) {
        if (w->me != who && t == &w->tensors[i])
            pause_us(w, 6000);
        random_tensor_submit(w, &w->tensors[i]);
    }
    random_tensor_finish(w, t, OK_ONLY | 1 << HALAY_ERR_TIMEOUT);
    finish_all(w, OK_ONLY);
    t->timeout_ms = 0;
    random_tensor_register(w, t);
}

/* Some ranks join; others have a few more steps of operations that are possible without them. */
static void deviate_joined(struct random_world *w)
{
    size_t steps = 1 + random_below(&w->common, 3);
    int last = -1, next = w->step + (int)steps;

    if (w->count < w->size)
        return;
    for (int r = 0; r < w->count; r++)
        w->has_joined[r] = random_below(&w->common, 2) != 0;
    for (uint64_t notes = w->notes; steps && !w->has_joined[w->me]; steps--) {
        step_begin(w);
        for (size_t i = 0; i < w->tensor_count; i++)
            if (w->tensors[i].info.collective == HALAY_ALLREDUCE || w->tensors[i].info.collective == HALAY_BARRIER)
                random_tensor_submit(w, &w->tensors[i]);
        finish_all(w, OK_ONLY);
        w->notes = notes; /* some ranks have none */
    }
    CHECK(halay_join(w->ctx, &last) == HALAY_OK && last >= 0 && last < w->size);
    memset(w->has_joined, 0, sizeof w->has_joined);
    w->step = next;
    random_world_note(w, 1, (uint64_t)last, 0);
}

/* Makes a set of some ranks for a few sums, in the middle of a step or between two. */
static void deviate_in_set(struct random_world *w)
{
    int ranks[RANKS_MAX], count = 0, is_member = 0, first = (int)random_below(&w->common, (size_t)w->count);
    size_t sums = random_below(&w->common, 8), half = random_below(&w->common, 2) ? w->tensor_count / 2 : 0;
    struct halay_process_set *set;

    for (int r = 0; r < w->count; r++)
        if (r < 2 || random_below(&w->common, 2))
            ranks[count++] = w->members[(first + r) % w->count];
    for (int i = 0; i < count; i++)
        is_member |= ranks[i] == w->rank;
    step_begin(w);
    for (size_t i = 0; i < half; i++)
        random_tensor_submit(w, &w->tensors[i]);
    if (is_member && CHECK(halay_process_set_create(w->ctx, ranks, (size_t)count, &set) == HALAY_OK)) {
        for (; sums; sums--) {
            int32_t data = 1;
            struct halay_tensor_info info = { .struct_size = sizeof info,
                                              .name = "sum of some",
                                              .dtype = HALAY_I32,
                                              .dimensions = 1,
                                              .shape = { 1 },
                                              .out = &data,
                                              .set = set };
            CHECK(halay_run(w->ctx, &info, NULL, NULL) == HALAY_OK && data == count, "%d, not %d", data, count);
        }
        CHECK(halay_process_set_remove(set) == HALAY_OK);
    }
    for (size_t i = half; i < w->tensor_count; i++)
        random_tensor_submit(w, &w->tensors[i]);
    finish_all(w, OK_ONLY);
}

static void meet(struct random_world *w, const char *name)
{
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = name, .collective = HALAY_BARRIER, .dimensions = 1, .set = w->set
    };

    CHECK(halay_run(w->ctx, &info, NULL, NULL) == HALAY_OK, "'%s'", name);
}

/* A rank submits a tensor twice: the second time it is in flight. */
static void deviate_twice(struct random_world *w)
{
    struct random_tensor *t = &w->tensors[random_below(&w->common, w->tensor_count)];
    int who = (int)random_below(&w->common, (size_t)w->count);
    struct halay_request *request = NULL;

    step_begin(w);
    if (w->me == who) {
        random_tensor_submit(w, t);
        int calls = t->calls;
        t->calls = 1; /* no callback */
        CHECK(random_tensor_give(w, t, &request) == HALAY_ERR_DUPLICATE && !request, "'%s'", t->name);
        t->calls = calls;
    }
    meet(w, "go");
    for (size_t i = 0; i < w->tensor_count; i++)
        if (!w->tensors[i].is_in_flight)
            random_tensor_submit(w, &w->tensors[i]);
    finish_all(w, OK_ONLY);
}

/* Sends messages around the ranks, while a step is under way. */
static void deviate_with_messages(struct random_world *w)
{
    int next = w->members[(w->me + 1) % w->count], previous = w->members[(w->me + w->count - 1) % w->count];
    struct halay_request *requests[2];
    int32_t sent = w->rank, received = -1;

    step_begin(w);
    for (size_t i = 0; i < w->tensor_count / 2; i++)
        random_tensor_submit(w, &w->tensors[i]);
    CHECK(halay_send_async(w->ctx, NULL, &sent, 1, HALAY_I32, next, 5, &requests[0]) == HALAY_OK);
    CHECK(halay_receive_async(w->ctx, NULL, &received, 1, HALAY_I32, previous, 5, &requests[1]) == HALAY_OK);
    CHECK(halay_wait_all(requests, 2, WAIT_MS) == HALAY_OK && received == previous);
    halay_request_free(requests[0]);
    halay_request_free(requests[1]);
    for (size_t i = w->tensor_count / 2; i < w->tensor_count; i++)
        random_tensor_submit(w, &w->tensors[i]);
    finish_all(w, OK_ONLY);
}

static void deviate_at_barrier(struct random_world *w)
{
    size_t at = random_below(&w->own, w->tensor_count + 1);

    step_begin(w);
    for (size_t i = 0; i <= w->tensor_count; i++) {
        if (i == at)
            meet(w, "in between");
        if (i < w->tensor_count)
            random_tensor_submit(w, &w->tensors[i]);
    }
    finish_all(w, OK_ONLY);
}

static const struct {
    const char *name;
    void (*run)(struct random_world *w);
} deviations[] = {
    { "in order", deviate_in_order },
    { "in chunks", deviate_in_chunks },
    { "late", deviate_late },
    { "more", deviate_more },
    { "unnamed", deviate_unnamed },
    { "missing", deviate_missing },
    { "fewer", deviate_fewer },
    { "ahead", deviate_ahead },
    { "elsewhere", deviate_elsewhere },
    { "changed", deviate_changed },
    { "mismatched", deviate_mismatched },
    { "canceled", deviate_canceled },
    { "late for one", deviate_late_for_one },
    { "joined", deviate_joined },
    { "in set", deviate_in_set },
    { "twice", deviate_twice },
    { "with messages", deviate_with_messages },
    { "at barrier", deviate_at_barrier },
};

/* ---- schedules ---- */

static void repeat(struct random_world *w)
{
    size_t steps = 3 + random_below(&w->common, 5);

    if (!random_below(&w->common, 3))
        steps += random_below(&w->common, 20);
    for (; steps; steps--)
        run_plain(w);
}

/* Returns nonzero if this rank takes part in it. */
static int begin_schedule(struct random_world *w)
{
    int has_set = random_below(&w->common, 4) != 0, has_all = !has_set || random_below(&w->common, 2);
    int first = (int)random_below(&w->common, (size_t)w->size);

    w->set = NULL;
    w->count = 0;
    w->me = -1;
    for (int r = 0; r < w->size; r++)
        if (has_all || (r - first + w->size) % w->size < 2 || random_below(&w->common, 2)) {
            w->me = r == w->rank ? w->count : w->me;
            w->members[w->count++] = r;
        }
    if (w->me < 0)
        return 0;
    if (has_set)
        REQUIRE(CHECK(halay_process_set_create(w->ctx, w->members, (size_t)w->count, &w->set) == HALAY_OK));
    return 1;
}

/* Checks that each submission has ended in the same way on all ranks. */
static void compare_notes(struct random_world *w)
{
    uint64_t notes[2] = { w->notes >> 1, ~(w->notes >> 1) };
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "notes",
                                      .dtype = HALAY_I64,
                                      .dimensions = 1,
                                      .shape = { 2 },
                                      .reduction = HALAY_MAX,
                                      .out = notes,
                                      .set = w->set };

    CHECK(halay_run(w->ctx, &info, NULL, NULL) == HALAY_OK);
    CHECK(notes[0] == w->notes >> 1 && notes[1] == ~(w->notes >> 1),
          "schedule %llu: submissions have ended differently on other ranks", (unsigned long long)w->schedule);
}

static void run_schedule(struct random_world *w)
{
    w->common.state = w->seed * 1000003 + w->schedule * 7919;
    w->own.state = w->common.state * 31 + (uint64_t)w->rank + 1;
    w->step = 0;
    w->notes = 0;
    w->doing = "none";
    w->tally->schedules++;
    if (!begin_schedule(w))
        return;
    random_pattern_draw(w);
    for (size_t left = 1 + random_below(&w->common, 3); left && !has_failed(); left--) {
        repeat(w);
        int was_planned = has_plan(w);
        size_t which = random_below(&w->common, sizeof deviations / sizeof *deviations);
        w->doing = deviations[which].name;
        deviations[which].run(w);
        w->tally->left += (uint64_t)(was_planned && !has_plan(w));
    }
    for (size_t left = random_below(&w->common, 5); left; left--)
        run_plain(w);
    compare_notes(w);
    for (size_t i = 0; i < TENSORS; i++)
        random_tensor_unregister(&w->tensors[i]);
    if (w->set)
        CHECK(halay_process_set_remove(w->set) == HALAY_OK);
}

/* ---- watching ---- */

static _Atomic uint64_t watched_seed, watched_schedule;

static void die_of_hang(int signal)
{
    char text[120];

    (void)signal;
    int length = snprintf(text, sizeof text, "hangs: seed %llu, schedule %llu or near\n",
                          (unsigned long long)watched_seed, (unsigned long long)watched_schedule);
    if (write(STDERR_FILENO, text, (size_t)length) == length)
        abort();
    abort();
}

static void watch(const struct random_world *w)
{
    watched_seed = w->seed;
    watched_schedule = w->schedule;
    signal(SIGALRM, die_of_hang);
    alarm(HANG_S);
}

int random_steps_run(struct halay_context *ctx, uint64_t seed, uint64_t first, uint64_t count,
                     struct random_steps_tally *tally)
{
    struct random_world *w = calloc(1, sizeof *w);
    struct halay_counters c = { .struct_size = sizeof c };

    REQUIRE(w);
    w->ctx = ctx;
    w->rank = halay_rank(ctx);
    w->size = halay_size(ctx);
    w->seed = seed;
    w->tally = tally;
    REQUIRE(w->size >= 2 && w->size <= RANKS_MAX);
    random_world_init(w);
    for (w->schedule = first; w->schedule < first + count && !has_failed(); w->schedule++) {
        watch(w);
        run_schedule(w);
        if (has_failed())
            printf("rank %d: schedule %llu of seed %llu, step %d, the last deviation: %s\n", w->rank,
                   (unsigned long long)w->schedule, (unsigned long long)seed, w->step, w->doing);
    }
    CHECK(halay_counters_read(ctx, &c) == HALAY_OK && !c.in_flight && c.submissions == c.completions + c.errors,
          "%llu submissions, %llu completions", (unsigned long long)c.submissions, (unsigned long long)c.completions);
    random_world_fini(w);
    free(w);
    return has_failed();
}
