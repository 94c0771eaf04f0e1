/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic contexts: ranks that are killed, that join, that are lost while the job is re-formed. This program is the
 * launcher: it forks processes that train, serves their store, kills some, and assigns places as
 * base/store/elastic_keys.h defines; it checks their reports.
 */
#include "base/clock.h"
#include "base/store/elastic_keys.h"
#include "fusion/requests/queue.h"
#include "fusion/requests/request.h"
#include "halay_elastic.h"
#include "tests/test.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, COUNT = 5000, MINUTE_US = 60000000 };
enum { PIECES = 500, LARGE = PIECES * 1000, UNEVEN_STEP = 5, LACKING_STEP = 20, NONE = -1 };

/* ---- a process that trains --------------------------------------------------------------------------------------- */

struct training {
    struct halay_context *ctx;
    struct halay_tensor *gradient;
    float *values;               /* of halay_alloc, or on some ranks: */
    float *own;                  /* of malloc, registered */
    struct halay_memory *memory; /* holds values beyond halay_fini */
    double *weights;
    /* [LARGE] additional state, so large that a rank can be killed while it sends it to others; NULL: not in this
     * test */
    int64_t *large;
    int64_t step;
    struct halay_tensor *parts,
        *pieces;                    /* a reduce-scatter and an all-to-all with uneven parts, for the present ranks */
    struct halay_tensor *points[2]; /* a send and a receive, for the present ranks, too; NULL: there is one rank */
    float point[2];
    volatile int *ends; /* shared with the launcher, which sets it when it has seen enough */
    int lacks_memory;   /* in test_no_memory */
    float part[WORKERS];
    int is_over; /* all ranks have agreed on it in the newest step */
    int told;    /* write end of a pipe to the launcher */
};

/* Reports a step to the launcher: "s" and the worker. */
static void report_step(struct training *t, char what)
{
    char word[2] = { what, (char)atoi(getenv("HALAY_RANK")) };

    if (write(t->told, word, sizeof word) != (ssize_t)sizeof word)
        _exit(3);
}

/* Every rank contributes (step + 1) / size, so that the weights do not depend on the number of ranks. */
static enum halay_status train_step(struct training *t)
{
    struct halay_request *request;
    float give = (float)(t->step + 1) / (float)halay_size(t->ctx);

    for (size_t i = 0; i < COUNT; i++)
        t->values[i] = give;
    enum halay_status status = halay_submit(t->gradient, NULL, NULL, &request);
    if (status != HALAY_OK)
        return status;
    status = halay_wait(request, -1);
    halay_request_free(request);
    for (size_t i = 0; i < COUNT && status == HALAY_OK; i++)
        t->weights[i] += (double)t->values[i];
    int32_t is_over = *t->ends;
    if (status == HALAY_OK)
        status = halay_allreduce(t->ctx, "is over", &is_over, &is_over, 1, HALAY_I32, HALAY_MAX);
    t->is_over = status == HALAY_OK && is_over;
    return status;
}

static int weights_are_right(const struct training *t)
{
    double sum = (double)t->step * (double)(t->step + 1) / 2;

    for (size_t i = 0; i < COUNT; i++)
        if (t->weights[i] < sum * 0.99999 || t->weights[i] > sum * 1.00001)
            return 0;
    return 1;
}

enum { ROWS_MOST = WORKERS * (WORKERS + 1) / 2 };
static const float ones[ROWS_MOST] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

/* Sends to the next rank, receives from any. */
static int register_points(struct training *t)
{
    int size = halay_size(t->ctx);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .collective = HALAY_SEND,
                                      .in = &t->point[0],
                                      .out = &t->point[1],
                                      .peer = (halay_rank(t->ctx) + 1) % size };

    t->points[0] = t->points[1] = NULL;
    if (size == 1)
        return 1;
    if (halay_register(t->ctx, &info, &t->points[0]) != HALAY_OK)
        return 0;
    info.collective = HALAY_RECEIVE;
    info.peer = HALAY_ANY_RANK;
    return halay_register(t->ctx, &info, &t->points[1]) == HALAY_OK;
}

static enum halay_status pass_on(struct training *t)
{
    struct halay_request *requests[2] = { NULL };
    int size = halay_size(t->ctx), before = (halay_rank(t->ctx) + size - 1) % size;

    t->point[0] = (float)halay_rank(t->ctx);
    if (!t->points[0])
        return HALAY_OK;
    enum halay_status status = halay_submit_many(t->points, 2, NULL, NULL, requests);
    if (status == HALAY_OK)
        status = halay_wait_all(requests, 2, -1);
    halay_request_free(requests[0]);
    halay_request_free(requests[1]);
    return status == HALAY_OK && t->point[1] != (float)before ? HALAY_ERR_FORMAT : status;
}

/* Rank r gets r + 1 rows in the reduce-scatter, and one or two rows of each rank in the all-to-all. */
static int register_uneven(struct training *t)
{
    int size = halay_size(t->ctx), rank = halay_rank(t->ctx);
    size_t parts[WORKERS], pieces[WORKERS], rows = 0;
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "parts",
                                      .collective = HALAY_REDUCE_SCATTER,
                                      .dtype = HALAY_F32,
                                      .dimensions = 1,
                                      .in = ones,
                                      .out = t->part,
                                      .reduction = HALAY_SUM,
                                      .splits = parts };

    for (int r = 0; r < size; r++) {
        parts[r] = (size_t)r + 1;
        pieces[r] = (size_t)(r + rank) % 2 + 1;
        rows += pieces[r];
    }
    info.shape[0] = (size_t)size * (size_t)(size + 1) / 2;
    if (halay_register(t->ctx, &info, &t->parts) != HALAY_OK)
        return 0;
    info.name = "pieces";
    info.collective = HALAY_ALLTOALL;
    info.out = NULL;
    info.splits = pieces;
    info.shape[0] = rows;
    return halay_register(t->ctx, &info, &t->pieces) == HALAY_OK && register_points(t);
}

static enum halay_status exchange_rows(struct training *t)
{
    struct halay_request *parts = NULL, *pieces = NULL;
    struct halay_result result = { .struct_size = sizeof result };
    int rank = halay_rank(t->ctx);

    enum halay_status status = halay_submit(t->parts, NULL, NULL, &parts);
    if (status == HALAY_OK)
        status = halay_submit(t->pieces, NULL, NULL, &pieces);
    if (status == HALAY_OK)
        status = halay_wait(parts, -1);
    if (status == HALAY_OK)
        status = halay_wait(pieces, -1);
    if (status == HALAY_OK)
        status = halay_request_result(pieces, &result);
    for (int r = 0; r < halay_size(t->ctx) && status == HALAY_OK; r++)
        if (result.rows[r] != (size_t)(r + rank) % 2 + 1)
            status = HALAY_ERR_FORMAT;
    for (int i = 0; i <= rank && status == HALAY_OK; i++)
        if (t->part[i] != (float)halay_size(t->ctx))
            status = HALAY_ERR_FORMAT;
    halay_request_free(parts);
    halay_request_free(pieces);
    return status == HALAY_OK ? pass_on(t) : status;
}

/* Tensors of earlier ranks can only be unregistered. */
static int renew_uneven(struct training *t)
{
    struct halay_request *request;

    if (halay_submit(t->parts, NULL, NULL, &request) != HALAY_ERR_ARGUMENT ||
        halay_submit(t->pieces, NULL, NULL, &request) != HALAY_ERR_ARGUMENT)
        return 0;
    for (int i = 0; i < 2 && t->points[0]; i++)
        if (halay_submit(t->points[i], NULL, NULL, &request) != HALAY_ERR_ARGUMENT ||
            halay_unregister(t->points[i]) != HALAY_OK)
            return 0;
    return halay_unregister(t->parts) == HALAY_OK && halay_unregister(t->pieces) == HALAY_OK && register_uneven(t);
}

/* Rank 0 alone makes this commit before rank 3 is lost; the others have the commit before. */
static enum halay_status wait_for_loss(struct training *t)
{
    for (size_t i = 0; i < LARGE; i++)
        t->large[i] = NONE;
    report_step(t, 'w');
    while (halay_context_status(t->ctx, NULL, 0) == HALAY_OK)
        (void)poll(NULL, 0, 1);
    return HALAY_ERR_PEER;
}

static enum halay_status commit_step(struct training *t, struct halay_elastic_change *change)
{
    for (size_t i = 0; t->large && i < LARGE; i++)
        t->large[i] = t->step;
    if (t->large && t->step == UNEVEN_STEP && halay_size(t->ctx) == WORKERS && halay_rank(t->ctx) > 0)
        return wait_for_loss(t);
    return halay_elastic_commit(t->ctx, change);
}

static int large_is_right(const struct training *t)
{
    for (size_t i = 0; t->large && i < LARGE; i++)
        if (t->large[i] != t->step)
            return 0;
    return 1;
}

static int add_large(struct training *t)
{
    for (int i = 0; t->large && i < PIECES; i++)
        if (halay_elastic_add(t->ctx, t->large + (size_t)i * (LARGE / PIECES), LARGE / PIECES * sizeof *t->large))
            return 0;
    return 1;
}

static _Atomic int deferring_fails; /* the next time */

enum halay_status __real_halay_events_append(struct halay_events *list, const struct halay_event *event);
enum halay_status __wrap_halay_events_append(struct halay_events *list, const struct halay_event *event);

enum halay_status __wrap_halay_events_append(struct halay_events *list, const struct halay_event *event)
{
    int is_change = event->kind == HALAY_EVENT_SUBMITTED && event->request->signature.collective >= HALAY_JOIN;

    return is_change && atomic_exchange(&deferring_fails, 0) ? HALAY_ERR_NO_MEMORY
                                                             : __real_halay_events_append(list, event);
}

/* Rank 0 begins a change of process sets while a plan is in force, and cannot defer it: all ranks fail. */
static enum halay_status change_without_memory(struct training *t)
{
    int ranks[1] = { 0 };
    struct halay_process_set *set;
    enum halay_status status = HALAY_OK;

    deferring_fails = halay_rank(t->ctx) == 0;
    if (deferring_fails)
        status = halay_process_set_create(t->ctx, ranks, 1, &set);
    for (int i = 0; i < 1000 && status == HALAY_OK; i++)
        status = train_step(t);
    return status == HALAY_OK || deferring_fails ? HALAY_ERR_FORMAT : status;
}

/* A training's objects, and those that outlive a loss. Returns 0 or an exit code. */
static int prepare_training(struct training *t)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "gradient",
                                      .dtype = HALAY_F32,
                                      .dimensions = 1,
                                      .shape = { COUNT },
                                      .reduction = HALAY_SUM };

    if (halay_init(NULL, &t->ctx) != HALAY_OK)
        return 10;
    void *memory;
    t->weights = calloc(COUNT, sizeof *t->weights);
    if (halay_alloc(t->ctx, COUNT * sizeof *t->values, &memory) != HALAY_OK || !t->weights)
        return 11;
    t->values = memory;
    if (halay_memory_retain(t->ctx, memory, &t->memory) != HALAY_OK)
        return 17;
    halay_free(t->ctx, memory);
    if (atoi(getenv("HALAY_RANK")) % 2) {
        t->own = t->values = malloc(COUNT * sizeof *t->own);
        if (!t->own || halay_memory_register(t->ctx, t->own, COUNT * sizeof *t->own) != HALAY_OK)
            return 18;
    }
    info.out = t->values;
    if (halay_register(t->ctx, &info, &t->gradient) != HALAY_OK ||
        halay_elastic_add(t->ctx, t->weights, COUNT * sizeof *t->weights) != HALAY_OK ||
        halay_elastic_add(t->ctx, &t->step, sizeof t->step) != HALAY_OK || !halay_elastic_is_on(t->ctx) ||
        !add_large(t))
        return 12;
    return 0;
}

/* Checks that retained memory is intact when all else is freed. */
static int leave_training(struct training *t)
{
    for (size_t i = 0; i < COUNT; i++)
        t->values[i] = (float)i;
    halay_fini(t->ctx);
    int is_there = t->values[COUNT - 1] > COUNT - 2;
    halay_memory_release(t->memory);
    free(t->own);
    free(t->weights);
    return is_there;
}

static int run_worker(struct training *t)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };
    int code = prepare_training(t);

    if (code)
        return code;
    enum halay_status status = halay_elastic_begin(t->ctx, &change);
    report_step(t, 'b');
    if (status == HALAY_OK && !register_uneven(t))
        return 15;
    while (status == HALAY_OK && !t->is_over) {
        if (!weights_are_right(t) || !large_is_right(t))
            return 13;
        status = train_step(t);
        if (status == HALAY_OK)
            status = exchange_rows(t);
        if (status == HALAY_OK) {
            t->step++;
            report_step(t, 's');
            status = commit_step(t, &change);
        }
        if (status == HALAY_OK && t->lacks_memory && t->step == LACKING_STEP)
            status = change_without_memory(t);
        if (status == HALAY_ERR_PEER || status == HALAY_ERR_NO_MEMORY) {
            t->lacks_memory = 0;
            status = halay_elastic_restore(t->ctx, &change);
        }
        if (status == HALAY_OK && change.has_reformed && !renew_uneven(t))
            return 16;
        change.has_reformed = 0;
    }
    if (status == HALAY_ERR_CLOSED && halay_size(t->ctx) > 0 && halay_local_size(t->ctx) > 0 && weights_are_right(t)) {
        return leave_training(t) ? 20 : 18;
    }
    if (status != HALAY_OK || !weights_are_right(t)) {
        fprintf(stderr, "step %lld: %s\n", (long long)t->step, halay_status_string(status));
        return 14;
    }
    return leave_training(t) ? 0 : 18;
}

/* ---- the launcher ------------------------------------------------------------------------------------------------ */

struct worker {
    pid_t pid; /* 0: free */
    int start;
    int is_ready, is_member; /* of the newest generation */
    int is_dismissed;
    int code; /* exit status, -1: killed by a signal */
    struct halay_worker waits;
    struct halay_ready said;
};

struct launcher {
    struct halay_log log;
    struct halay_store_server *store;
    unsigned char secret[HALAY_SECRET_BYTES];
    int secret_fd, heard[2];
    struct worker workers[WORKERS];
    int starts, order[WORKERS], members; /* of the newest generation: [rank], its worker */
    unsigned generation;
    int steps, begun, waiting; /* steps reported in all */
    volatile int64_t *large;   /* [WORKERS][LARGE], shared with the processes, whose state it is; NULL: none */
    int kill_when_ready;       /* a worker that is killed as soon as it is ready; -1: none */
    volatile int *ends;        /* nonzero: the processes are to end */
    int holds;                 /* no places are assigned for now */
    int is_keen;               /* turns do not wait for an event */
    int lack_memory;           /* the processes' part in test_no_memory */
};

static void was_set(void *arg, const char *key, const void *value, size_t bytes)
{
    struct launcher *l = arg;
    struct halay_worker who;
    struct halay_ready ready;

    CHECK(halay_elastic_read_key(key, &who) && halay_ready_read(value, bytes, &ready));
    CHECK(who.worker < WORKERS);
    struct worker *worker = &l->workers[who.worker];
    if (worker->start != who.start)
        return;
    worker->is_ready = 1;
    worker->waits = who;
    worker->said = ready;
}

static void *share_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    REQUIRE(memory != MAP_FAILED);
    return memory;
}

static void begin_launcher(struct launcher *l)
{
    memset(l, 0, sizeof *l);
    l->ends = share_memory(sizeof *l->ends);
    l->kill_when_ready = -1;
    halay_log_init(&l->log, HALAY_LOG_WARNING);
    CHECK(halay_store_create_secret(&l->log, l->secret, &l->secret_fd) == HALAY_OK);
    CHECK(halay_store_server_create(&l->log, l->secret, &l->store) == HALAY_OK);
    halay_store_server_watch(l->store, HALAY_ELASTIC_READY, was_set, l);
    CHECK(pipe(l->heard) == 0);
}

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void start_worker(struct launcher *l, int worker)
{
    l->workers[worker] = (struct worker){ .start = l->starts++ };
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        struct training training = { .told = l->heard[1],
                                     .ends = l->ends,
                                     .lacks_memory = l->lack_memory,
                                     .large = l->large ? (int64_t *)l->large + (size_t)worker * LARGE : NULL };
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        set_number("HALAY_RANK", worker);
        set_number("HALAY_SIZE", WORKERS);
        set_number("HALAY_ELASTIC", l->workers[worker].start);
        set_number("HALAY_STORE_SECRET_FD", l->secret_fd);
        setenv("HALAY_STORE_ADDRESS", halay_store_server_address(l->store), 1);
        _exit(run_worker(&training));
    }
    l->workers[worker].pid = pid;
}

static void say_over(struct launcher *l)
{
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_over_key(l->generation, key);
    CHECK(halay_store_server_set(l->store, key, NULL, 0) == HALAY_OK);
}

static void want_change(struct launcher *l)
{
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_change_key(l->generation, key);
    CHECK(halay_store_server_set(l->store, key, NULL, 0) == HALAY_OK);
}

static void answer_worker(struct launcher *l, struct worker *worker, enum halay_verdict verdict, int rank, int size)
{
    struct halay_place place = { verdict, l->generation, rank, size };
    unsigned char bytes[HALAY_PLACE_BYTES];
    char key[HALAY_STORE_KEY_MAX];

    halay_place_write(&place, bytes);
    halay_elastic_place_key(&worker->waits, key);
    CHECK(halay_store_server_set(l->store, key, bytes, sizeof bytes) == HALAY_OK);
    worker->is_ready = 0;
}

/* Forms a generation once all living workers are ready: those that had ranks keep their order, the others follow. */
static void form_generation(struct launcher *l)
{
    int order[WORKERS], n = 0;

    l->generation++;
    for (int r = 0; r < l->members; r++) {
        struct worker *worker = &l->workers[l->order[r]];
        if (worker->pid && worker->is_member && !worker->is_dismissed)
            order[n++] = l->order[r];
        else if (worker->pid && worker->is_dismissed)
            answer_worker(l, worker, HALAY_VERDICT_LEAVE, 0, 0);
    }
    for (int i = 0; i < WORKERS; i++)
        if (l->workers[i].pid && !l->workers[i].is_member) {
            l->workers[i].is_member = 1;
            order[n++] = i;
        }
    memcpy(l->order, order, sizeof order);
    l->members = n;
    for (int r = 0; r < n; r++)
        answer_worker(l, &l->workers[order[r]], HALAY_VERDICT_PLACE, r, n);
}

static int all_are_ready(const struct launcher *l)
{
    int n = 0;

    for (int i = 0; i < WORKERS; i++) {
        if (l->workers[i].pid && !l->workers[i].is_ready)
            return 0;
        n += l->workers[i].pid != 0;
    }
    return n > 0;
}

static void reap_workers(struct launcher *l)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < WORKERS; i++) {
            struct worker *worker = &l->workers[i];
            if (worker->pid != pid)
                continue;
            worker->pid = 0;
            worker->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
            if (worker->is_member && worker->code)
                say_over(l);
            CHECK(!worker->code || worker->code == 20 || worker->code == -1, "worker %d ended with %d", i,
                  worker->code);
        }
}

static void take_turn(struct launcher *l)
{
    struct pollfd fds[] = { { .fd = halay_store_server_fd(l->store), .events = POLLIN },
                            { .fd = l->heard[0], .events = POLLIN } };
    char words[512];

    CHECK(poll(fds, 2, l->is_keen ? 0 : 20) >= 0 || errno == EINTR);
    CHECK(halay_store_server_progress(l->store) == HALAY_OK);
    if (fds[1].revents & POLLIN) {
        ssize_t n = read(l->heard[0], words, sizeof words);
        for (ssize_t i = 0; i + 1 < n; i += 2) {
            l->steps += words[i] == 's';
            l->begun += words[i] == 'b';
            l->waiting += words[i] == 'w';
        }
    }
    if (l->kill_when_ready >= 0 && l->workers[l->kill_when_ready].is_ready) {
        kill(l->workers[l->kill_when_ready].pid, SIGKILL);
        l->kill_when_ready = -1;
    }
    reap_workers(l);
    if (!l->holds && all_are_ready(l))
        form_generation(l);
}

/* Runs turns until done, or for far too long. */
#define UNTIL(l, done)                                   \
    do {                                                 \
        int64_t give_up_us = halay_now_us() + MINUTE_US; \
        while (!(done) && halay_now_us() < give_up_us)   \
            take_turn(l);                                \
        CHECK(done, "in time");                          \
    } while (0)

static int count_living(const struct launcher *l)
{
    int n = 0;

    for (int i = 0; i < WORKERS; i++)
        n += l->workers[i].pid != 0;
    return n;
}

static void end_launcher(struct launcher *l)
{
    *l->ends = 1;
    UNTIL(l, !count_living(l));
    close(l->heard[0]);
    close(l->heard[1]);
    close(l->secret_fd);
    munmap((void *)l->ends, sizeof *l->ends);
    halay_store_server_destroy(l->store);
    halay_log_fini(&l->log);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void run_some_steps(struct launcher *l)
{
    int steps = l->steps;

    UNTIL(l, l->steps > steps + 10);
}

static void kill_worker(struct launcher *l, int worker)
{
    kill(l->workers[worker].pid, SIGKILL);
    UNTIL(l, !l->workers[worker].pid);
}

static void start_all(struct launcher *l, int n)
{
    l->holds = 1;
    for (int i = 0; i < n; i++)
        start_worker(l, i);
    UNTIL(l, all_are_ready(l));
    l->holds = 0;
}

/* Each worker is lost once: in the middle, rank 0, two at once; the last one continues alone. */
static void test_lost(void)
{
    struct launcher l;

    begin_launcher(&l);
    start_all(&l, 4);
    run_some_steps(&l);
    kill_worker(&l, 2);
    UNTIL(&l, l.members == 3);
    run_some_steps(&l);
    kill_worker(&l, 0);
    UNTIL(&l, l.members == 2);
    run_some_steps(&l);
    kill_worker(&l, 1);
    UNTIL(&l, l.members == 1);
    end_launcher(&l);
    CHECK(l.workers[3].code == 0);
}

static void test_two_at_once(void)
{
    struct launcher l;

    begin_launcher(&l);
    start_all(&l, 4);
    run_some_steps(&l);
    kill(l.workers[0].pid, SIGKILL);
    kill(l.workers[3].pid, SIGKILL);
    UNTIL(&l, l.members == 2);
    end_launcher(&l);
    CHECK(l.workers[1].code == 0 && l.workers[2].code == 0);
}

/* A lost process is replaced at once, another one joins at a commit; then one has to leave. */
static void test_join_and_leave(void)
{
    struct launcher l;

    begin_launcher(&l);
    start_all(&l, 2);
    run_some_steps(&l);
    l.holds = 1;
    kill_worker(&l, 0);
    start_worker(&l, 0);
    l.holds = 0;
    UNTIL(&l, l.members == 2 && l.generation == 2);
    CHECK(l.order[0] == 1 && l.order[1] == 0);
    run_some_steps(&l);
    l.holds = 1;
    start_worker(&l, 2);
    UNTIL(&l, l.workers[2].is_ready);
    want_change(&l);
    l.holds = 0;
    UNTIL(&l, l.members == 3);
    run_some_steps(&l);
    l.workers[1].is_dismissed = 1;
    want_change(&l);
    UNTIL(&l, l.members == 2 && !l.workers[1].pid);
    end_launcher(&l);
    CHECK(l.workers[0].code == 0 && l.workers[1].code == 20 && l.workers[2].code == 0);
}

/* One worker is lost, another one while the others wait for places, and then one that has a place and has not
 * arrived. */
static void test_lost_again(void)
{
    struct launcher l;

    begin_launcher(&l);
    start_all(&l, 4);
    run_some_steps(&l);
    l.kill_when_ready = 1;
    l.holds = 1;
    kill_worker(&l, 3);
    UNTIL(&l, !l.workers[1].pid && l.workers[0].is_ready && l.workers[2].is_ready);
    kill(l.workers[2].pid, SIGSTOP); /* gets a place and does not arrive */
    l.holds = 0;
    UNTIL(&l, l.members == 2);
    kill_worker(&l, 2);
    UNTIL(&l, l.members == 1);
    end_launcher(&l);
    CHECK(l.workers[0].code == 0);
}

/* One rank has made one more commit than the others, and is lost while it sends it to them: they discard what they have
 * received. */
static void test_torn(void)
{
    const size_t bytes = WORKERS * (size_t)LARGE * sizeof(int64_t);
    struct launcher l;

    begin_launcher(&l);
    l.large = share_memory(bytes);
    start_all(&l, 4);
    UNTIL(&l, l.waiting == 3);
    (void)poll(NULL, 0, 100); /* rank 0 copies its state; if that takes longer, the test covers less */
    kill_worker(&l, 3);
    UNTIL(&l, l.members == 3);
    l.is_keen = 1;
    UNTIL(&l, l.large[LARGE] != NONE); /* rank 1 has got the first piece, and not all of the others */
    kill_worker(&l, 0);
    end_launcher(&l);
    CHECK(l.workers[1].code == 0 && l.workers[2].code == 0);
    munmap((void *)l.large, bytes);
}

/* A change of process sets fails for want of memory, while all ranks live: the re-formed job continues. */
static void test_no_memory(void)
{
    struct launcher l;

    begin_launcher(&l);
    l.lack_memory = 1;
    start_all(&l, 2);
    UNTIL(&l, l.generation == 2);
    run_some_steps(&l);
    run_some_steps(&l);
    end_launcher(&l);
    CHECK(l.generation == 2 && l.workers[0].code == 0 && l.workers[1].code == 0);
}

int main(void)
{
    test_no_memory();
    test_torn();
    test_lost();
    test_two_at_once();
    test_join_and_leave();
    test_lost_again();
    return test_end();
}
