/* SPDX-License-Identifier: Apache-2.0
 *
 * Submissions of a plan's tensors by their steady requests, over the fake transport: by name and registered, at other
 * addresses, in flight twice, kept after their end, submitted again by callbacks and by two threads, and in process
 * sets that are removed.
 */
#include "fusion/replay/steady.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/tensor.h"
#include "tests/fusion/ranks.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

enum { STEPS = 40, TENSORS = 6, COUNT = 50, WAIT_MS = 60000 };

struct tensor {
    char name[16];
    float data[2][COUNT]; /* alternately */
};

struct job {
    struct rank_run *run;
    struct halay_process_set *set;
    struct tensor tensors[TENSORS];
    int steady; /* submissions that were by a steady request */
};

static void job_open(struct job *j, struct rank_run *run)
{
    memset(j, 0, sizeof *j);
    j->run = run;
    for (int i = 0; i < TENSORS; i++)
        snprintf(j->tensors[i].name, sizeof j->tensors[i].name, "t%d", i);
}

static struct halay_tensor_info describe(const struct job *j, struct tensor *t, int step)
{
    float *data = t->data[step % 2];

    for (int k = 0; k < COUNT; k++)
        data[k] = (float)(step + k + j->run->rank);
    return (struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                       .name = t->name,
                                       .set = j->set,
                                       .collective = HALAY_ALLREDUCE,
                                       .dtype = HALAY_F32,
                                       .reduction = HALAY_SUM,
                                       .dimensions = 1,
                                       .shape = { COUNT },
                                       .out = data };
}

/* Counts what the tensor is submitted by. */
static void note_steady(struct job *j, const struct tensor *t)
{
    struct halay_context *ctx = j->run->ctx;
    struct halay_process_set *set = j->set ? j->set : &ctx->all;
    size_t length = strlen(t->name);

    pthread_mutex_lock(&ctx->lock);
    struct halay_entry *e =
        (struct halay_entry *)halay_table_find(&set->names, t->name, length, halay_table_hash(t->name, length));
    struct halay_request *r = e ? e->steady : NULL;
    j->steady += r && halay_steady_is_in_plan(r);
    pthread_mutex_unlock(&ctx->lock);
}

static struct halay_request *submit(struct job *j, int i, int step)
{
    struct halay_tensor_info info = describe(j, &j->tensors[i], step);
    struct halay_request *request = NULL;

    CHECK(halay_submit_named(j->run->ctx, &info, NULL, NULL, &request) == HALAY_OK);
    note_steady(j, &j->tensors[i]);
    return request;
}

static void check_sums(const struct job *j, const struct tensor *t, int step)
{
    int size = j->run->size, wrong = 0;

    for (int k = 0; k < COUNT; k++)
        wrong += (int)t->data[step % 2][k] != size * (step + k) + size * (size - 1) / 2;
    CHECK(!wrong, "rank %d step %d '%s': %d are wrong", j->run->rank, step, t->name, wrong);
}

static void finish(struct job *j, struct halay_request *request, int i, int step)
{
    CHECK(halay_wait(request, WAIT_MS) == HALAY_OK);
    halay_request_free(request);
    check_sums(j, &j->tensors[i], step);
}

static void run_step(struct job *j, int step)
{
    struct halay_request *requests[TENSORS];

    for (int i = 0; i < TENSORS; i++)
        requests[i] = submit(j, i, step);
    for (int i = 0; i < TENSORS; i++)
        finish(j, requests[i], i, step);
}

/* Each step at other addresses. */
static void body_addresses(struct rank_run *run)
{
    struct job j;

    job_open(&j, run);
    for (int step = 0; step < STEPS; step++)
        run_step(&j, step);
    CHECK(j.steady > STEPS, "%d steady submissions", j.steady);
}

static _Atomic int gate; /* the steps that ranks other than 0 may submit */

/* Rank 0 submits each tensor twice before the others submit anything. */
static void body_twice(struct rank_run *run)
{
    struct halay_request *requests[TENSORS], *again;
    struct job j;

    job_open(&j, run);
    for (int step = 0; step < STEPS; step++) {
        while (run->rank && gate <= step)
            sched_yield();
        for (int i = 0; i < TENSORS; i++)
            requests[i] = submit(&j, i, step);
        for (int i = 0; i < TENSORS && run->rank == 0; i++) {
            struct halay_tensor_info info = describe(&j, &j.tensors[i], step + 1); /* whose data are not in use */
            CHECK(halay_submit_named(run->ctx, &info, NULL, NULL, &again) == HALAY_ERR_DUPLICATE);
        }
        if (run->rank == 0)
            gate = step + 1;
        for (int i = 0; i < TENSORS; i++)
            finish(&j, requests[i], i, step);
    }
    CHECK(j.steady > STEPS, "%d steady submissions", j.steady);
}

/* Requests that are kept through later steps stay complete; to cancel one does nothing to a later submission. Now and
 * then the ranks leave the plan. */
static void body_kept(struct rank_run *run)
{
    enum { KEPT = 3 };
    struct halay_request *kept[KEPT][TENSORS] = { { NULL } };
    struct job j;

    job_open(&j, run);
    for (int step = 0; step < STEPS; step++) {
        struct halay_request **now = kept[step % KEPT];
        if (step % 9 == 8)
            CHECK(halay_barrier(run->ctx, "other") == HALAY_OK);
        for (int i = 0; i < TENSORS; i++) {
            CHECK(!now[i] || halay_test(now[i]) == HALAY_OK);
            halay_request_free(now[i]);
            now[i] = submit(&j, i, step);
        }
        for (int k = 0; k < KEPT; k++)
            for (int i = 0; i < TENSORS && kept[k][i] && k != step % KEPT; i++)
                CHECK(halay_cancel(kept[k][i]) == HALAY_OK);
        for (int i = 0; i < TENSORS; i++) {
            CHECK(halay_wait(now[i], WAIT_MS) == HALAY_OK);
            check_sums(&j, &j.tensors[i], step);
        }
    }
    CHECK(j.steady > STEPS, "%d steady submissions", j.steady);
    for (int k = 0; k < KEPT; k++)
        for (int i = 0; i < TENSORS; i++)
            halay_request_free(kept[k][i]);
}

struct chain {
    struct job *j;
    int step;
    struct halay_request *requests[STEPS];
    sem_t done;
};

/* Submits the tensor again, while the program has the request of the submission that ends. */
static void submit_next(void *arg, enum halay_status status, const char *text)
{
    struct chain *c = arg;
    struct tensor *t = &c->j->tensors[0];

    CHECK(status == HALAY_OK, "%s", text);
    check_sums(c->j, t, c->step);
    if (++c->step == STEPS) {
        sem_post(&c->done);
        return;
    }
    struct halay_tensor_info info = describe(c->j, t, c->step);
    CHECK(halay_submit_named(c->j->run->ctx, &info, submit_next, c, &c->requests[c->step]) == HALAY_OK);
    note_steady(c->j, t);
}

static void body_chain(struct rank_run *run)
{
    struct job j;
    struct chain c = { .j = &j };

    job_open(&j, run);
    REQUIRE(!sem_init(&c.done, 0, 0));
    struct halay_tensor_info info = describe(&j, &j.tensors[0], 0);
    CHECK(halay_submit_named(run->ctx, &info, submit_next, &c, &c.requests[0]) == HALAY_OK);
    while (sem_wait(&c.done))
        continue;
    for (int step = 0; step < STEPS; step++) {
        CHECK(halay_wait(c.requests[step], WAIT_MS) == HALAY_OK, "step %d", step);
        halay_request_free(c.requests[step]);
    }
    CHECK(j.steady > STEPS / 2, "%d steady submissions", j.steady);
    sem_destroy(&c.done);
}

/* The names are registered, submitted either way, and unregistered while a plan has them. */
static void body_registered(struct rank_run *run)
{
    struct halay_tensor *tensors[TENSORS] = { NULL };
    struct halay_request *requests[TENSORS];
    struct job j;

    job_open(&j, run);
    for (int step = 0; step < 3 * STEPS; step++) {
        for (int i = 0; i < TENSORS; i++) {
            struct halay_tensor_info info = describe(&j, &j.tensors[i], step);
            if (step % 16 == 6)
                CHECK(halay_register(run->ctx, &info, &tensors[i]) == HALAY_OK);
            if (tensors[i] && step % 2 == 0) { /* as described then */
                CHECK(halay_submit(tensors[i], NULL, NULL, &requests[i]) == HALAY_OK);
                note_steady(&j, &j.tensors[i]);
            } else {
                requests[i] = submit(&j, i, step);
            }
        }
        for (int i = 0; i < TENSORS; i++) {
            finish(&j, requests[i], i, step);
            if (step % 16 == 12 && tensors[i]) {
                CHECK(halay_unregister(tensors[i]) == HALAY_OK);
                tensors[i] = NULL;
            }
        }
    }
    CHECK(j.steady > STEPS, "%d steady submissions", j.steady);
}

struct part {
    struct job *j;
    int first, step;
    struct halay_request *requests[TENSORS];
};

static void *submit_part(void *arg)
{
    struct part *p = arg;

    for (int i = p->first; i < TENSORS; i += 2) {
        struct halay_tensor_info info = describe(p->j, &p->j->tensors[i], p->step);
        CHECK(halay_submit_named(p->j->run->ctx, &info, NULL, NULL, &p->requests[i]) == HALAY_OK);
    }
    return NULL;
}

static void body_threads(struct rank_run *run)
{
    struct job j;

    job_open(&j, run);
    for (int step = 0; step < STEPS; step++) {
        struct part parts[2] = { { .j = &j, .first = 0, .step = step }, { .j = &j, .first = 1, .step = step } };
        pthread_t thread;
        REQUIRE(!pthread_create(&thread, NULL, submit_part, &parts[1]));
        submit_part(&parts[0]);
        pthread_join(thread, NULL);
        note_steady(&j, &j.tensors[0]);
        for (int i = 0; i < TENSORS; i++)
            finish(&j, parts[i % 2].requests[i], i, step);
    }
    CHECK(j.steady > STEPS / 2, "%d steady submissions", j.steady);
}

/* The set of its tensors is removed while the program has their requests. */
static void body_sets(struct rank_run *run)
{
    struct halay_request *kept[TENSORS];
    struct job j;
    int ranks[] = { 0, 1 };

    job_open(&j, run);
    for (int round = 0; round < 3; round++) {
        REQUIRE(halay_process_set_create(run->ctx, ranks, 2, &j.set) == HALAY_OK);
        for (int step = 0; step < STEPS / 2; step++)
            run_step(&j, step);
        for (int i = 0; i < TENSORS; i++)
            kept[i] = submit(&j, i, 0);
        for (int i = 0; i < TENSORS; i++)
            CHECK(halay_wait(kept[i], WAIT_MS) == HALAY_OK);
        CHECK(halay_process_set_remove(j.set) == HALAY_OK);
        for (int i = 0; i < TENSORS; i++) {
            CHECK(halay_test(kept[i]) == HALAY_OK && halay_cancel(kept[i]) == HALAY_OK);
            halay_request_free(kept[i]);
        }
    }
    CHECK(j.steady > STEPS / 2, "%d steady submissions", j.steady);
}

static void *end_commit(void *arg)
{
    struct halay_request *r = arg;

    usleep(20000);
    atomic_fetch_and(&r->word, ~(uint64_t)HALAY_STEADY_BUSY);
    return NULL;
}

/* The turn of a tensor is over, but the thread that submitted it has not taken BUSY back yet: the next submission waits
 * for that thread. */
static void body_busy(struct rank_run *run)
{
    struct halay_tensor *tensors[TENSORS];
    struct halay_request *requests[TENSORS];
    pthread_t thread;
    struct job j;
    int busy = 0;

    job_open(&j, run);
    for (int i = 0; i < TENSORS; i++) {
        struct halay_tensor_info info = describe(&j, &j.tensors[i], 0);
        CHECK(halay_register(run->ctx, &info, &tensors[i]) == HALAY_OK);
    }
    for (int step = 0; step < STEPS; step++) {
        struct halay_request *r = tensors[1]->entry->steady;
        int is_busy = step % 10 == 9 && r && halay_steady_is_in_plan(r);
        if (is_busy) {
            busy++;
            atomic_fetch_or(&r->word, HALAY_STEADY_BUSY);
            REQUIRE(!pthread_create(&thread, NULL, end_commit, r));
        }
        for (int i = 0; i < TENSORS; i++)
            REQUIRE(halay_submit(tensors[i], NULL, NULL, &requests[i]) == HALAY_OK);
        if (is_busy)
            pthread_join(thread, NULL);
        for (int i = 0; i < TENSORS; i++) {
            CHECK(halay_wait(requests[i], WAIT_MS) == HALAY_OK);
            halay_request_free(requests[i]);
        }
    }
    CHECK(busy);
}

static void configure(struct halay_config *config, void *arg)
{
    (void)arg;
    config->replay = 1;
}

int main(void)
{
    static void (*const bodies[])(struct rank_run * run) = { body_addresses,  body_twice,   body_kept, body_chain,
                                                             body_registered, body_threads, body_sets, body_busy };

    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        printf("body %zu\n", i);
        for (int size = 2; size <= (bodies[i] == body_sets ? 2 : 4); size++, gate = 0)
            ranks_run(size, 0,
                      &(struct rank_run){ .body = bodies[i],
                                          .configure = configure,
                                          .expected = bodies[i] == body_twice ? "in flight already" : NULL },
                      NULL, NULL);
    }
    return test_end();
}
