/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank of a job of processes with an engine, for the scripts of this folder:
 * usage: job [--spawn N [--nodes LAYOUT]] WHAT [SEED]
 *
 * programs: random programs (program.h). deterministic: the same bits for several orders of arrival. die: the last rank
 * is killed with tensors in flight. leave: it leaves early. again: init, work, fini, three times. often: a hundred
 * times, without leaks. two: two contexts at once. fork: the child has no context. memory: it outlives its context.
 * flight: the last rank is killed while the others wait for a tensor 'w' that it never submits. stop: it is stopped
 * instead, and the stall limit ends the job (HALAY_STALL_SHUTDOWN_TIME). observe: counters, a stall report, stragglers.
 * unlike: three ranks that are configured so that they cannot start together. making: the last of four ranks is killed
 * while the group of a process set is made. abort: one rank aborts, and all start again,
 * several times. endless, idle: all-reduces without end, or none, until a peer is lost. steady: steps with replay and
 * with deviations (steps.h), by an odd seed with tensors of every kind, with --spawn twice. broken: the last rank is
 * killed at a random moment of such steps, with --spawn ten times.
 * --spawn N starts N ranks as children, on the nodes that LAYOUT names by a character each (all on one without it),
 * with a store of its own; without it the environment (mpirun, halayrun) defines the rank.
 */
#include "base/clock.h"
#include "fusion/protocol/messenger.h"
#include "fusion/requests/context.h"
#include "fusion/requests/names.h"
#include "fusion/requests/requests.h"
#include "fusion/run/execution.h"
#include "halay_tools.h"
#include "tests/fusion/program.h"
#include "tests/fusion/random.h"
#include "tests/fusion/steps.h"
#include "tests/spawn.h"
#include "tests/test.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { RANKS_MAX = 16, COUNT = 300000, SKIP = 77 };

static int wants_log = 1;

static void to_stdout(void *arg, enum halay_log_level level, const char *line)
{
    (void)level;
    if (*(int *)arg)
        printf("%s\n", line);
}

static enum halay_status job_join(struct halay_context **ctx)
{
    struct halay_options options = { .struct_size = sizeof options, .log = to_stdout, .log_arg = &wants_log };

    return halay_init(&options, ctx);
}

/* Submits tensor i; every other one in process set 1, if that exists. */
static enum halay_status submit_to_lose(struct halay_context *ctx, int i, float *data, struct halay_request **request)
{
    char name[16];

    snprintf(name, sizeof name, "t%d", i);
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = name,
                                      .dimensions = 1,
                                      .shape = { COUNT },
                                      .out = data,
                                      .reduction = HALAY_SUM,
                                      .set = i % 2 ? halay_process_set_find(ctx, 1) : NULL };
    return halay_submit_named(ctx, &info, NULL, NULL, request);
}

/* Checks that the context names the lost rank. */
static void check_lost(struct halay_context *ctx, int victim, int is_killed)
{
    char want[40], text[200];
    float x = 1;

    snprintf(want, sizeof want, "rank %d has %s", victim, is_killed ? "died" : "left");
    CHECK(halay_context_status(ctx, text, sizeof text) == HALAY_ERR_PEER && !strcmp(text, want), "'%s'", text);
    CHECK(halay_allreduce(ctx, "later", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
}

/* The last rank is killed or leaves. The others get an error that names it in bounded time, for later submissions, too.
 * */
static void lose_one(struct halay_context *ctx, int is_killed)
{
    int rank = halay_rank(ctx), victim = halay_size(ctx) - 1;
    static float data[4][COUNT];
    struct halay_request *requests[4];

    CHECK(halay_allreduce(ctx, "first", NULL, data[0], COUNT, HALAY_F32, HALAY_SUM) == HALAY_OK);
    wants_log = 0;
    if (rank == victim && !is_killed)
        return;
    int submitted = 0;
    for (int i = 0; i < 4; i++) {
        enum halay_status status = submit_to_lose(ctx, i, data[i], &requests[submitted]);
        CHECK(status == HALAY_OK || status == HALAY_ERR_PEER);
        submitted += status == HALAY_OK;
        if (rank == victim && i == 2) {
            halay_wait(requests[0], -1);
            raise(SIGKILL);
        }
    }
    int64_t from = halay_now_us();
    int failed = 0;
    for (int i = 0; i < submitted; i++) {
        enum halay_status status = halay_wait(requests[i], 60000);
        CHECK(status == HALAY_OK || status == HALAY_ERR_PEER, "%s", halay_status_string(status));
        failed += status == HALAY_ERR_PEER;
        halay_request_free(requests[i]);
    }
    CHECK(failed || submitted < 4, "the last tensor cannot have completed");
    check_lost(ctx, victim, is_killed);
    printf("rank %d: noticed it after %.2f s\n", rank, (double)(halay_now_us() - from) / 1e6);
}

static void *die_soon(void *arg)
{
    struct timespec t = { .tv_nsec = *(long *)arg * 1000 };

    nanosleep(&t, NULL);
    raise(SIGKILL);
    return NULL;
}

/* Steps of which many break the plan. The last rank is killed at a random moment of one of them. */
static void break_steps(struct halay_context *ctx, uint64_t seed)
{
    enum { STEPS = 40, LATER_US = 2000, RARELY = 3 };
    static struct steps s;

    steps_open(&s, ctx, (int)(seed % 2));
    s.may_break = 1;
    struct steps_random random = steps_seed(&s, seed);
    int victim = s.size - 1, last = (int)random_below(&random.own, STEPS);
    long later_us = (long)random_below(&random.own, LATER_US);
    pthread_t thread;

    wants_log = 0;
    for (int n = 0; !s.is_broken; n++) {
        if (n == last && s.rank == victim)
            REQUIRE(!pthread_create(&thread, NULL, die_soon, &later_us));
        steps_run_any(&s, n, RARELY, &random);
    }
    check_lost(ctx, victim, 1);
}

static void run_steady(struct halay_context *ctx, uint64_t seed)
{
    enum { STEPS = 500, RARELY = 6 };
    static struct steps s;

    steps_open(&s, ctx, (int)(seed % 2));
    steps_run_all(&s, seed, STEPS, RARELY);
}

/* All but the last rank submit 'w', then all ranks submit 'go': so 'w' is submitted before the last rank is killed. */
static void wait_for_one(struct halay_context *ctx, int how)
{
    int is_victim = halay_rank(ctx) == halay_size(ctx) - 1;
    struct halay_request *request = NULL;
    float w = 1, go = 0;

    wants_log = 0;
    if (!is_victim)
        CHECK(halay_allreduce_async(ctx, "w", NULL, &w, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    enum halay_status status = halay_broadcast(ctx, "go", &go, 1, HALAY_F32, 0);
    if (is_victim)
        raise(how);
    CHECK(status == HALAY_OK || status == HALAY_ERR_PEER); /* the victim may die before the others have its data */
    CHECK(halay_wait(request, 60000) == HALAY_ERR_PEER);
    if (how == SIGSTOP) {
        char text[400];
        halay_context_status(ctx, text, sizeof text);
        CHECK(strstr(text, "tensor 'w'") && strstr(text, "missing"), "'%s'", text);
    }
    halay_request_free(request);
}

/* Runs all-reduces, or if is_idle none after the first three, until a peer is lost. Rank 0 prints when they are under
 * way; each rank prints the error. */
static void run_endless(struct halay_context *ctx, int is_idle)
{
    static float data[COUNT];
    enum halay_status status = HALAY_OK;
    char text[200];

    wants_log = 0;
    for (int i = 0; status == HALAY_OK; i++) {
        if (!is_idle || i < 3)
            status = halay_allreduce(ctx, "endless", NULL, data, COUNT, HALAY_F32, HALAY_SUM);
        else
            poll(NULL, 0, 10);
        if (i == 3 && halay_rank(ctx) == 0)
            printf("under way\n");
        if (status == HALAY_OK)
            status = halay_context_status(ctx, NULL, 0);
    }
    CHECK(halay_context_status(ctx, text, sizeof text) == HALAY_ERR_PEER && status == HALAY_ERR_PEER, "%s", text);
    CHECK(halay_allreduce(ctx, "later", NULL, data, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    printf("rank %d: %s\n", halay_rank(ctx), text);
}

static _Atomic int saw_stall;

static void look_for_stall(void *arg, enum halay_log_level level, const char *line)
{
    char last[64], doing[64];

    (void)level;
    snprintf(last, sizeof last, "stalled: rank %d submitted 'go' last", *(int *)arg);
    snprintf(doing, sizeof doing, "its program waits for 'go'");
    if (strstr(line, last) && strstr(line, doing))
        saw_stall = 1;
    else if (!strstr(line, "stalled"))
        printf("%s\n", line);
}

/* HALAY_STALL_CHECK_TIME is short. The last rank always submits 'w' last: the others submit it before the broadcast
 * 'go'. Stragglers are counted in negotiated steps only, so without plans. */
static void run_observe(void)
{
    enum { TIMES = 5 };
    static const char *const settings[] = { "HALAY_REPLAY=0", NULL };
    struct halay_options options = { .struct_size = sizeof options, .log = look_for_stall, .settings = settings };
    struct halay_counters c = { .struct_size = sizeof c };
    struct halay_straggler s = { .struct_size = sizeof s };
    struct halay_request *request = NULL;
    struct halay_context *ctx;
    float w = 0, go = 0;
    int last = -1;

    options.log_arg = &last;
    if (!CHECK(halay_init(&options, &ctx) == HALAY_OK))
        return;
    int rank = halay_rank(ctx);
    last = halay_size(ctx) - 1;
    for (int i = 0; i < TIMES; i++) {
        int is_last = rank == last;
        if (!is_last)
            CHECK(halay_allreduce_async(ctx, "w", NULL, &w, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
        while (rank == 0 && !saw_stall)
            halay_wait(request, 10);
        CHECK(halay_broadcast(ctx, "go", &go, 1, HALAY_F32, 0) == HALAY_OK);
        if (is_last)
            CHECK(halay_allreduce_async(ctx, "w", NULL, &w, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
        CHECK(halay_wait(request, -1) == HALAY_OK);
        halay_request_free(request);
    }
    CHECK(halay_counters_read(ctx, &c) == HALAY_OK && c.submissions == 2 * TIMES && c.completions == 2 * TIMES &&
          !c.errors && !c.in_flight && c.collectives == 2 * TIMES && c.bytes == TIMES * (sizeof w + sizeof go) &&
          c.negotiations == 2 && c.cache_hits == 2 * TIMES - 2 && c.messages_sent && c.messages_received);
    CHECK(halay_stragglers_read(ctx, last, &s) == (rank ? HALAY_ERR_UNSUPPORTED : HALAY_OK));
    if (rank == 0)
        CHECK(s.tensors == 2 * TIMES && s.times_last >= TIMES && s.late_ns >= 1000 * TIMES && s.latest_ns <= s.late_ns);
    halay_fini(ctx);
}

struct unlike {
    const char *variable, *values[3]; /* of each rank; NULL: not set */
    enum halay_status status;
    const char *text; /* in the log of every rank but `speaker`, whose log names the variable */
    int speaker;      /* -1: no rank */
};

static void collect_line(void *arg, enum halay_log_level level, const char *line)
{
    char *text = arg;
    size_t used = strlen(text);

    (void)level;
    snprintf(text + used, 4000 - used, "%s\n", line);
}

static void start_unlike(int rank, const struct unlike *u)
{
    char text[4000] = "";
    struct halay_options options = { .struct_size = sizeof options, .log = collect_line, .log_arg = text };
    struct halay_context *ctx;
    const char *value = u->values[rank], *before = getenv(u->variable);
    char *kept = before ? strdup(before) : NULL;
    int is_unreadable = value && !strcmp(u->variable, "struct_size"); /* so is options.log: it logs to standard error */

    if (is_unreadable)
        options.struct_size = 1;
    else if (value && !strcmp(u->variable, "join_average"))
        options.join_average = value;
    else if (value)
        REQUIRE(!setenv(u->variable, value, 1));
    enum halay_status status = halay_init(&options, &ctx);
    CHECK(status == u->status, "rank %d, %s: %s\n%s", rank, u->variable, halay_status_string(status), text);
    const char *wanted = rank == u->speaker ? u->variable : u->text;
    if (is_unreadable)
        wanted = "";
    CHECK(strstr(text, wanted), "rank %d, %s:\n%s", rank, u->variable, text);
    if (status == HALAY_OK)
        halay_fini(ctx);
    REQUIRE(!(kept ? setenv(u->variable, kept, 1) : unsetenv(u->variable)));
    free(kept);
}

/* No rank waits until HALAY_START_TIMEOUT: each gets an error that names the rank and the cause at once. */
static void run_unlike(void)
{
    static const char sets[] = "HALAY_PROCESS_SETS", says_config[] = "rank 1 cannot continue: ";
    static const struct unlike cases[] = {
        { sets, { "0,1", NULL, NULL }, HALAY_ERR_MISMATCH, "rank 1 makes none, rank 0 makes [0,1]", -1 },
        { sets, { NULL, NULL, "0-2" }, HALAY_ERR_MISMATCH, "rank 2 makes [0,1,2], rank 0 makes none", -1 },
        { sets, { "0,1", "0,1;1,2", "0,1" }, HALAY_ERR_MISMATCH, "rank 1 makes [0,1] [1,2], rank 0 makes [0,1]", -1 },
        { sets, { NULL, "none", NULL }, HALAY_ERR_CONFIG, says_config, 1 },
        { "HALAY_FUSION_THRESHOLD", { NULL, "much", NULL }, HALAY_ERR_CONFIG, says_config, 1 },
        { "HALAY_THREAD_AFFINITY", { NULL, "99999", NULL }, HALAY_ERR_CONFIG, says_config, 1 },
        { "join_average", { NULL, "some", NULL }, HALAY_ERR_CONFIG, says_config, 1 },
        { "struct_size", { NULL, "1", NULL }, HALAY_ERR_ARGUMENT, says_config, 1 },
        { "HALAY_TRANSPORT", { NULL, NULL, "auto" }, HALAY_ERR_MISMATCH, "rank 2 has HALAY_TRANSPORT 'auto'", -1 },
        { sets, { "0,1", "1,0", "0-1" }, HALAY_OK, "", -1 },
    };
    int rank = atoi(getenv("HALAY_RANK"));

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        start_unlike(rank, &cases[i]);
}

/* A thread submits a tensor with a callback, which may lead to halay_fini before the submission has returned. */
struct last {
    struct halay_context *ctx;
    float x;
    _Atomic int has_ended;
};

static void end_last(void *arg, enum halay_status status, const char *text)
{
    CHECK(status == HALAY_OK, "%s", text);
    ((struct last *)arg)->has_ended = 1;
}

static void *submit_last(void *arg)
{
    struct last *last = arg;
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "last",
                                      .dimensions = 1,
                                      .shape = { 1 },
                                      .out = &last->x,
                                      .reduction = HALAY_SUM };

    if (!CHECK(halay_submit_named(last->ctx, &info, end_last, last, NULL) == HALAY_OK))
        last->has_ended = 1;
    return NULL;
}

static void leave_at_last(struct halay_context *ctx)
{
    struct last last = { .ctx = ctx };
    pthread_t thread;

    REQUIRE(!pthread_create(&thread, NULL, submit_last, &last));
    while (!last.has_ended)
        poll(NULL, 0, 1);
    halay_fini(ctx);
    pthread_join(thread, NULL);
}

static void run_again(uint64_t seed)
{
    for (int i = 0; i < 3; i++) {
        struct halay_context *ctx;
        if (!CHECK(job_join(&ctx) == HALAY_OK, "round %d", i))
            return;
        CHECK(program_run(ctx, seed + (uint64_t)i, 2) == 0);
        leave_at_last(ctx);
    }
}

/* One rank aborts while the others wait for it, or are about to; all close their contexts, and start again. */
static void run_abort(void)
{
    for (int i = 0; i < 6; i++) {
        struct halay_context *ctx;
        char want[40], reason[20];
        float x = 1;
        if (!CHECK(job_join(&ctx) == HALAY_OK, "round %d: %s", i, halay_error_text()))
            return;
        int rank = halay_rank(ctx), size = halay_size(ctx);
        snprintf(reason, sizeof reason, "round %d", i);
        snprintf(want, sizeof want, "rank %d aborted: %s", i % size, reason);
        enum halay_status status = halay_allreduce(ctx, "x", NULL, &x, 1, HALAY_F32, HALAY_SUM);
        CHECK(status == HALAY_ERR_PEER || (status == HALAY_OK && x == (float)size));
        if (rank == i % size) {
            CHECK(halay_abort(ctx, reason) == HALAY_OK);
        } else {
            CHECK(halay_barrier(ctx, "y") == HALAY_ERR_PEER);
            CHECK(!strcmp(halay_error_text(), want), "'%s', not '%s'", halay_error_text(), want);
        }
        if ((rank + i) % 3 == 0)
            poll(NULL, 0, 50); /* some ranks are late in the next round */
        halay_fini(ctx);
    }
}

/* Counts of a process's files, threads and mappings. */
struct holdings {
    int files, threads, mappings;
};

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    REQUIRE(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static struct holdings take_stock(void)
{
    struct holdings h = { .files = count_entries("/proc/self/fd"), .threads = count_entries("/proc/self/task") };
    FILE *maps = fopen("/proc/self/maps", "r");

    REQUIRE(maps);
    for (int c; (c = getc(maps)) != EOF;)
        h.mappings += c == '\n';
    fclose(maps);
    return h;
}

enum { BLOCKS = 3, BLOCK = 200000 };

static int is_filled(const float *data, float value)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (data[i] < value || data[i] > value)
            return 0;
    return 1;
}

/* Retains three blocks: the first is released before halay_fini, the second is freed by the program, the third is the
 * program's until halay_fini. Two other blocks between them are not retained. */
static void keep_round(float value, struct halay_memory *kept[BLOCKS], float *data[BLOCKS])
{
    struct halay_context *ctx;
    struct halay_memory *other;
    void *between[2], *ptr;

    REQUIRE(job_join(&ctx) == HALAY_OK);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(halay_alloc(ctx, BLOCK * sizeof(float), &ptr) == HALAY_OK);
        data[i] = ptr;
        CHECK(halay_memory_retain(ctx, ptr, &kept[i]) == HALAY_OK);
        CHECK(halay_memory_retain(ctx, ptr, &other) == HALAY_OK && other == kept[i], "one more");
        halay_memory_release(other);
        if (i)
            CHECK(halay_alloc(ctx, 100000, &between[i - 1]) == HALAY_OK);
        for (size_t k = 0; k < BLOCK; k++)
            data[i][k] = value;
    }
    wants_log = 0;
    CHECK(halay_memory_retain(ctx, data[1] + 1, &other) == HALAY_ERR_ARGUMENT);
    wants_log = 1;
    halay_free(ctx, data[1]);
    CHECK(is_filled(data[1], value), "it is still there");
    halay_free(ctx, data[0]);
    halay_memory_release(kept[0]);
    for (int i = 1; i < BLOCKS; i++)
        CHECK(halay_allreduce(ctx, "x", NULL, data[i], BLOCK, HALAY_F32, HALAY_AVERAGE) == HALAY_OK);
    halay_fini(ctx);
    CHECK(is_filled(data[1], value) && is_filled(data[2], value), "they outlive the context");
    data[2][BLOCK - 1] = -1;
}

/* Memory outlives its context, and is freed without leaks when it is released. */
static void run_memory(void)
{
    enum { ROUNDS = 20, WARM = 5 };
    struct holdings warm = { 0 }, end;
    struct halay_memory *kept[2][BLOCKS];
    float *data[2][BLOCKS];

    halay_memory_release(NULL);
    for (int i = 0; i < ROUNDS; i++) {
        keep_round((float)i, kept[0], data[0]);
        keep_round((float)(i + 1), kept[1], data[1]);
        CHECK(is_filled(data[0][1], (float)i) && data[0][2][BLOCK - 1] < 0, "another context changes nothing");
        for (int k = 1; k < BLOCKS; k++) {
            halay_memory_release(kept[0][k]);
            halay_memory_release(kept[1][k]);
        }
        if (i == WARM)
            warm = take_stock();
    }
    end = take_stock();
    CHECK(end.files == warm.files, "%d files became %d", warm.files, end.files);
    const char *transport = getenv("HALAY_TRANSPORT");
    if (!transport || strcmp(transport, "ucx")) /* which keeps mappings of its own, under sanitizers more of them */
        CHECK(end.mappings < warm.mappings + ROUNDS - WARM, "%d mappings became %d", warm.mappings, end.mappings);
}

static void run_often(void)
{
    enum { ROUNDS = 100, WARM = 10 };
    struct holdings warm = { 0 }, end;

    for (int i = 0; i < ROUNDS; i++) {
        struct halay_context *ctx;
        float x = 1;
        if (!CHECK(job_join(&ctx) == HALAY_OK, "round %d", i))
            return;
        CHECK(halay_allreduce(ctx, "x", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK && x == (float)halay_size(ctx));
        halay_fini(ctx);
        if (i == WARM)
            warm = take_stock();
    }
    end = take_stock();
    CHECK(end.files == warm.files && end.threads == warm.threads, "%d files became %d, %d threads %d", warm.files,
          end.files, warm.threads, end.threads);
    CHECK(end.mappings <= warm.mappings + ROUNDS / 2, "%d mappings became %d", warm.mappings, end.mappings);
}

/* A thread of the program asks for a process set, and gets the set or an error. */
struct asking {
    struct halay_context *ctx;
    struct halay_process_set *set;
    enum halay_status status;
    _Atomic int is_done;
};

static _Atomic int *is_blocked; /* shared by the ranks of spawn: rank 1's engine is blocked */

static void *ask_for_set(void *arg)
{
    static const int ranks[] = { 1, 2, 3 };
    struct asking *a = arg;

    while (halay_rank(a->ctx) == 2 && !*is_blocked) /* so that the set is not made before */
        poll(NULL, 0, 1);
    if (halay_rank(a->ctx))
        a->status = halay_process_set_create(a->ctx, ranks, 3, &a->set);
    a->is_done = 1;
    return NULL;
}

/* Blocks the engine of rank 1, which leads the making of the group, until the victim is dead. */
static void block_until_dead(void *arg, enum halay_status status, const char *text)
{
    int64_t deadline = halay_deadline_us(60000);

    (void)status, (void)text;
    *is_blocked = 1;
    while (!kill((pid_t) * (int *)arg, 0) && !halay_deadline_passed(deadline))
        poll(NULL, 0, 1);
}

/* Kills the last rank once the making of the group has begun. The making cannot end, since the engine of rank 1, which
 * leads it, is blocked. Rank 1 has asked for the set before it blocks, since its events are taken in order. */
static void die_making(struct halay_context *ctx)
{
    int rank = halay_rank(ctx), victim = halay_size(ctx) - 1, pid = (int)getpid();
    struct asking asking = { .ctx = ctx, .status = HALAY_OK };
    struct halay_request *request;
    pthread_t thread;
    float x = 1;
    char text[200];

    REQUIRE(victim == 3);
    CHECK(halay_broadcast(ctx, "pid", &pid, 1, HALAY_I32, victim) == HALAY_OK);
    wants_log = 0;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "block", .dimensions = 1, .shape = { 1 }, .out = &x, .reduction = HALAY_SUM
    };
    REQUIRE(!pthread_create(&thread, NULL, ask_for_set, &asking));
    while (rank == 1 && !atomic_load(&ctx->queue.in_flight))
        sched_yield();
    CHECK(halay_submit_named(ctx, &info, rank == 1 ? block_until_dead : NULL, &pid, &request) == HALAY_OK);
    while (rank == victim) {
        if (__atomic_load_n(&ctx->execution->making, __ATOMIC_RELAXED))
            raise(SIGKILL);
        sched_yield();
    }
    int64_t deadline = halay_deadline_us(120000);
    while (!asking.is_done && !halay_deadline_passed(deadline))
        poll(NULL, 0, 1);
    REQUIRE(asking.is_done);
    pthread_join(thread, NULL);
    halay_request_free(request);
    /* Rank 0 is not a member. The others may notice the death only after their calls have returned: the victim's engine
     * may have done all of its part before its program saw that the making had begun. */
    CHECK(asking.status == HALAY_ERR_PEER || asking.status == HALAY_OK, "rank %d: %s", rank,
          halay_status_string(asking.status));
    CHECK(halay_allreduce(ctx, "later", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    CHECK(halay_context_status(ctx, text, sizeof text) == HALAY_ERR_PEER && !strcmp(text, "rank 3 has died"), "'%s'",
          text);
}

/* The death of a rank leaks nothing. The first count is taken after one context, so that libraries are loaded. */
static void run_making(void)
{
    struct halay_context *ctx;
    struct holdings before, after;

    for (int i = 0; i < 2; i++) {
        if (!CHECK(job_join(&ctx) == HALAY_OK))
            return;
        if (i == 0) {
            halay_fini(ctx);
            before = take_stock();
        }
    }
    die_making(ctx);
    halay_fini(ctx);
    after = take_stock();
    CHECK(after.files == before.files && after.threads == before.threads, "%d files became %d, %d threads %d",
          before.files, after.files, before.threads, after.threads);
}

struct program_of {
    struct halay_context *ctx;
    uint64_t seed;
};

static void *run_program(void *arg)
{
    struct program_of *p = arg;

    CHECK(program_run(p->ctx, p->seed, 3) == 0);
    return NULL;
}

/* Each context has names, thread and groups of its own. */
static void run_two(uint64_t seed)
{
    struct program_of programs[2];
    pthread_t threads[2];

    for (int i = 0; i < 2; i++) {
        programs[i].seed = seed + (uint64_t)i;
        if (!CHECK(job_join(&programs[i].ctx) == HALAY_OK, "context %d", i))
            return;
    }
    for (int i = 0; i < 2; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, run_program, &programs[i]));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    halay_fini(programs[0].ctx);
    float x = 1;
    CHECK(halay_allreduce(programs[1].ctx, "x", NULL, &x, 1, HALAY_F32, HALAY_MAX) == HALAY_OK && x == 1);
    halay_fini(programs[1].ctx);
}

static int be_child(struct halay_context *ctx, struct halay_tensor *tensor, struct halay_request *request)
{
    struct halay_tensor_info info = { .struct_size = sizeof info, .name = "c", .dimensions = 1 };
    struct halay_tensor *other;
    float x = 1;
    void *data;
    int refused = halay_allreduce(ctx, "c", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_UNSUPPORTED &&
                  halay_submit(tensor, NULL, NULL, &request) == HALAY_ERR_UNSUPPORTED &&
                  halay_register(ctx, &info, &other) == HALAY_ERR_UNSUPPORTED &&
                  halay_wait(request, -1) == HALAY_ERR_UNSUPPORTED && halay_test(request) == HALAY_ERR_UNSUPPORTED &&
                  halay_alloc(ctx, 100, &data) == HALAY_ERR_UNSUPPORTED;

    halay_fini(ctx);
    return !refused;
}

/* A forked child inherits memory and descriptors, but has neither the engine's thread nor a rank. */
static void run_fork(struct halay_context *ctx)
{
    float x = 1, y = 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info, .name = "t", .dimensions = 1, .shape = { 1 }, .out = &y
    };
    struct halay_tensor *tensor;
    struct halay_request *request;
    int status;

    REQUIRE(halay_register(ctx, &info, &tensor) == HALAY_OK);
    CHECK(halay_allreduce(ctx, "before", NULL, &x, 1, HALAY_F32, HALAY_MAX) == HALAY_OK);
    CHECK(halay_allreduce_async(ctx, "under way", NULL, &x, 1, HALAY_F32, HALAY_MAX, &request) == HALAY_OK);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (!pid)
        _exit(be_child(ctx, tensor, request));
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %d", status);
    CHECK(halay_wait(request, 60000) == HALAY_OK);
    halay_request_free(request);
    CHECK(halay_submit(tensor, NULL, NULL, &request) == HALAY_OK && halay_wait(request, 60000) == HALAY_OK);
    halay_request_free(request);
    CHECK(y == (float)halay_size(ctx));
}

/* Nodes are numbered in the order in which they appear. */
static void check_place(const struct halay_context *ctx, const char *layout)
{
    int rank = halay_rank(ctx), size = halay_size(ctx), counts[256] = { 0 }, local = 0, nodes = 0, node = -1,
        uneven = 0;

    for (int r = 0; r < size; r++) {
        unsigned char c = (unsigned char)layout[r];
        if (r < rank && c == (unsigned char)layout[rank])
            local++;
        if (c == (unsigned char)layout[rank] && node < 0)
            node = nodes;
        nodes += !counts[c]++;
    }
    for (int c = 0; c < 256; c++)
        uneven |= counts[c] && counts[c] != counts[(unsigned char)layout[0]];
    CHECK(halay_local_rank(ctx) == local && halay_local_size(ctx) == counts[(unsigned char)layout[rank]]);
    CHECK(halay_cross_rank(ctx) == node && halay_cross_size(ctx) == nodes && halay_is_homogeneous(ctx) == !uneven);
}

/* Runs a case that opens its contexts itself. Returns 0 if it is not one of these. */
static int run_by_itself(const char *what, uint64_t seed)
{
    if (!strcmp(what, "again"))
        run_again(seed);
    else if (!strcmp(what, "observe"))
        run_observe();
    else if (!strcmp(what, "abort"))
        run_abort();
    else if (!strcmp(what, "unlike"))
        run_unlike();
    else if (!strcmp(what, "making"))
        run_making();
    else if (!strcmp(what, "often"))
        run_often();
    else if (!strcmp(what, "two"))
        run_two(seed);
    else if (!strcmp(what, "memory"))
        run_memory();
    else
        return 0;
    return 1;
}

static void run_in(struct halay_context *ctx, const char *what, uint64_t seed)
{
    if (!strcmp(what, "programs")) {
        for (uint64_t i = 0; i < 6; i++)
            CHECK(program_run(ctx, seed + i, 4) == 0, "seed %llu", (unsigned long long)(seed + i));
    } else if (!strcmp(what, "deterministic")) {
        uint64_t first = program_bits(ctx, seed, 1, 0);
        CHECK(first);
        for (uint64_t i = 2; i < 6; i++)
            CHECK(program_bits(ctx, seed, i, 0) == first, "seed %llu: other bits", (unsigned long long)seed);
    } else if (!strcmp(what, "steady")) {
        run_steady(ctx, seed);
    } else if (!strcmp(what, "broken")) {
        break_steps(ctx, seed);
    } else if (!strcmp(what, "fork")) {
        run_fork(ctx);
    } else if (!strcmp(what, "endless") || !strcmp(what, "idle")) {
        run_endless(ctx, *what == 'i');
    } else if (!strcmp(what, "flight")) {
        wait_for_one(ctx, SIGKILL);
    } else if (!strcmp(what, "stop")) {
        wait_for_one(ctx, SIGSTOP);
    } else {
        lose_one(ctx, !strcmp(what, "die"));
    }
}

static int be_rank(const char *what, const char *layout, uint64_t seed)
{
    struct halay_context *ctx;

    if (run_by_itself(what, seed))
        return test_failed != 0;
    enum halay_status status = job_join(&ctx);
    if (status == HALAY_ERR_UNSUPPORTED) {
        printf("skipped: this transport is not built in, or not possible here\n");
        return SKIP;
    }
    if (!CHECK(status == HALAY_OK, "%s", halay_status_string(status)))
        return 1;
    int rank = halay_rank(ctx), size = halay_size(ctx);
    if (layout)
        check_place(ctx, layout);
    run_in(ctx, what, seed);
    halay_fini(ctx);
    if (!test_failed)
        printf("rank %d of %d: %s passed\n", rank, size, what);
    return test_failed != 0;
}

/* Returns nonzero if the last rank ends by a signal. */
static int is_last_lost(const char *what)
{
    return !strcmp(what, "die") || !strcmp(what, "broken") || !strcmp(what, "making") || !strcmp(what, "flight") ||
           !strcmp(what, "stop");
}

/* Runs the ranks as child processes. Returns the first failure, else a skip, else 0. A child that kills itself is not a
 * failure; one that has stopped itself is killed when all others have ended. */
static int spawn_job(int n, const char *layout, const char *what, uint64_t seed)
{
    struct spawn s;
    int result = 0, status, rank;

    is_blocked = mmap(NULL, sizeof *is_blocked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(is_blocked != MAP_FAILED);
    spawn_begin(&s, n);
    for (int r = 0; r < n; r++)
        if (!spawn_rank(&s, r)) {
            if (layout)
                spawn_set("HALAY_NODE", layout[r]);
            exit(be_rank(what, layout, seed));
        }
    while ((rank = spawn_wait(&s, &status)) >= 0) {
        int failed = WIFEXITED(status) ? WEXITSTATUS(status)
                                       : WTERMSIG(status) != SIGKILL || !is_last_lost(what) || rank != n - 1;
        if (s.left == 1 && !strcmp(what, "stop"))
            kill(s.pids[n - 1], SIGKILL);
        if (failed && (!result || result == SKIP))
            result = failed;
    }
    spawn_end(&s);
    return result;
}

/* Repeats cases that depend on a random moment; steps run with two seeds, one for tensors of every kind. */
static int spawn_all(int n, const char *layout, const char *what, uint64_t seed)
{
    int times = !strcmp(what, "steady") ? 2 : strcmp(what, "broken") ? 1 : test_is_brief() ? 3 : 10, result = 0;

    for (int i = 0; i < times && !result; i++) {
        result = spawn_job(n, layout, what, seed + (uint64_t)i);
        if (result && result != SKIP && times > 1)
            printf("time %d: seed %llu\n", i, (unsigned long long)(seed + (uint64_t)i));
    }
    return result;
}

int main(int argc, char **argv)
{
    int n = argc > 2 && !strcmp(argv[1], "--spawn") ? atoi(argv[2]) : 0, at = n ? 3 : 1;
    const char *layout = n && argc > 4 && !strcmp(argv[3], "--nodes") ? argv[4] : NULL;

    setvbuf(stdout, NULL, _IOLBF, 0);
    at += layout ? 2 : 0;
    if (argc <= at || n < 0 || n > RANKS_MAX || (layout && strlen(layout) != (size_t)n)) {
        fprintf(stderr, "usage: job [--spawn N [--nodes LAYOUT]] programs | deterministic | die | leave | again | "
                        "often | two | fork | memory | "
                        "steady | broken | flight | stop | observe | unlike | making | abort | endless | idle "
                        "[SEED]\n");
        return 99;
    }
    /* Ranks that mpirun starts are given the seed: they must have the same. */
    uint64_t seed = 1;
    if (n && argc == at + 1)
        seed = random_seed(1, argv);
    else if (argc > at + 1)
        seed = strtoull(argv[at + 1], NULL, 0);
    return n ? spawn_all(n, layout, argv[at], seed) : be_rank(argv[at], NULL, seed);
}
